"""`servo admin fsck`, `rebuild` and `gc`: check, repair and clean up a workspace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import command, days, flag, option

if deferral.LOADED:
    from rich.text import Text

    from arco.app import chain
    from arco.cli import render
    from arco.cli.data_gc import summed
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.progress import progress
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.execution.data_check import DataReport, Depth
    from arco.spark.rebuild import SparkRebuildEngine
    from arco.spark.session import open_session
    from arco.state.fsck import FsckReport
    from arco.state.gc import GcReport, GenerationRetention
    from arco.state.rebuild import Rebuild, RebuildEngine


class EngineName(StrEnum):
    embedded = "embedded"
    spark = "spark"


def register(app: typer.Typer) -> None:
    command(app, "fsck", example="servo admin fsck --quick\nservo admin fsck --data --whole")(fsck)
    command(
        app, "rebuild", example="servo admin rebuild --check\nservo admin rebuild --engine spark"
    )(rebuild)
    command(app, "gc", example="servo admin gc\nservo admin gc --apply --keep-days 30")(gc)


def fsck(
    session: Session,
    quick: Annotated[bool, flag("--quick", "Compare sizes only; do not read the files.")] = False,
    data: Annotated[
        bool, flag("--data", "Check the files of current versions too: sizes and footers.")
    ] = False,
    whole: Annotated[
        bool, flag("--whole", "With --data: read the files and compare checksums.")
    ] = False,
    record: Annotated[
        bool,
        flag("--record", "With --data: record damage, so that plans run these partitions again."),
    ] = False,
) -> None:
    """Check that all files exist, are undamaged and consistent.

    Without --data only the log and the tables are checked, not the data of assets.
    Changes nothing, unless --record is given. Exit code 1 means that problems were found.
    """
    if (whole or record) and not data:
        raise Invalid(f"{'--whole' if whole else '--record'} needs --data")
    if whole and quick:
        raise Invalid("--whole and --quick are mutually exclusive")
    workspace = session.open()
    depth: Depth = "quick" if quick else "whole" if whole else "footers"
    with progress() as report:
        result = workspace.upkeep.fsck(deep=not quick, progress=report)
        checked = (
            workspace.upkeep.check_data(depth, record=record, progress=report) if data else None
        )
    clean = result.clean and not (checked and checked.findings)
    if session.json:
        document = {"clean": clean, "deep": not quick} | render.plain(result)
        render.document(document | ({"data": render.plain(checked)} if checked else {}))
    else:
        _show_findings(result, quick)
        if checked is not None:
            _show_data(checked)
    if not clean:
        raise typer.Exit(DIFFERENT)


def _show_data(report: DataReport) -> None:
    for finding in report.findings:
        render.say(finding.message, "bold red")
    checked = (
        f"{render.count(report.versions, 'current version')}, "
        f"{render.count(report.files, 'file')}, {render.size(report.bytes)}"
    )
    if report.findings:
        count = render.count(len(report.findings), "damaged version")
        render.say(f"data not clean: {count} in {checked}", "bold red")
    else:
        render.say(f"data clean: {checked}", "green")


_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def _show_findings(result: FsckReport, quick: bool) -> None:
    if result.findings:
        rows = [
            (
                Text(f.severity, _STYLES.get(f.severity, "")),
                f.code,
                render.lines([f.message, f.path]),
            )
            for f in result.findings
        ]
        render.show_table(("severity", "code", "finding"), rows, whole=["severity", "code"])
    checked = (
        f"{render.count(result.generations, 'generation')}, {render.count(result.files, 'file')}, "
        f"{render.size(result.bytes)}, log up to position {result.position}"
    )
    if result.clean:
        render.say(f"clean: {checked}", "green")
    else:
        errors = sum(f.severity == "error" for f in result.findings)
        render.say(f"not clean: {render.count(errors, 'error')} in {checked}", "bold red")
    if quick:
        render.say("only sizes were compared; run without --quick to verify checksums")


def rebuild(
    session: Session,
    engine: Annotated[
        EngineName, typer.Option(help="The rebuild engine: this process, or Spark.")
    ] = EngineName.embedded,
    master: Annotated[str, option("URL", "Spark's master URL, with --engine spark.")] = "local[*]",
    check: Annotated[
        bool, flag("--check", "Only compare; exit code 1 if anything differs.")
    ] = False,
) -> None:
    """Fold the log again, and compare with the live tables.

    Differences are published as one new generation, unless --check is given.
    """
    workspace = session.open()
    with folding(engine, master) as chosen, progress() as report:
        result = workspace.upkeep.rebuild(chosen, publish=not check, progress=report)
    if session.json:
        tables = [render.plain(d) | {"same": d.same} for d in result.differences]
        document = {"same": result.same} | render.plain(result) | {"differences": tables}
        render.document(document)
    else:
        _show_rebuild(result, check)
    if check and not result.same:
        raise typer.Exit(DIFFERENT)


@contextlib.contextmanager
def folding(engine: EngineName, master: str) -> Iterator[RebuildEngine | None]:
    """The rebuild engine; None for the embedded one."""
    if engine is EngineName.embedded:
        yield None
        return
    session = open_session(master)
    try:
        yield SparkRebuildEngine(chain, session)
    finally:
        session.stop()


def _show_rebuild(result: Rebuild, check: bool) -> None:
    headers = ("table", "rows", "missing", "extra", "changed", "")
    rows = [
        (
            d.table,
            d.rows,
            d.missing,
            d.extra,
            d.changed,
            Text("same", "green") if d.same else Text("different", "bold red"),
        )
        for d in result.differences
    ]
    render.show_table(headers, rows, right=headers[1:5])
    for sample in [f"{d.table}: {s}" for d in result.differences for s in d.samples]:
        render.say(f"  {sample}")
    for failure in result.failures:
        render.say(f"could not be folded: {failure}", "yellow")
    events = f"{render.count(result.events, 'event')} folded up to generation {result.generation}"
    if result.same:
        render.say(f"all rows are equal: {events}", "green")
    elif result.published is not None:
        render.say(f"published the rebuilt state as generation {result.published}: {events}")
    else:
        advice = "; run it without --check to publish the rebuilt state" if check else ""
        render.say(f"different: {events}{advice}", "bold red")


def gc(
    session: Session,
    apply: Annotated[
        bool, flag("--apply", "Delete; without it, only show what would be deleted.")
    ] = False,
    keep_days: Annotated[float, days("Keep every generation for this many days.")] = 1.0,
    hourly_days: Annotated[float, days("Keep one generation per hour for this many days.")] = 3.0,
    daily_days: Annotated[float, days("Keep one generation per day for this many days.")] = 30.0,
    keep_at_least: Annotated[
        int, option("N", "Minimum number of generations to keep.", min=1)
    ] = 10,
) -> None:
    """Delete files that no kept generation refers to. The log is never deleted.

    Generations are thinned with age: all, then one per hour, then one per day. Pinned
    generations, and files younger than a day, are kept. Liveness records of workers
    that have ended, and queue messages older than a week, are deleted too. Data,
    logs and plans are deleted by `servo gc`.
    """
    retention = GenerationRetention.of_days(keep_days, hourly_days, daily_days, keep_at_least)
    workspace = session.open()
    with progress() as report:
        result = workspace.upkeep.gc(retention, dry_run=not apply, progress=report)
    if session.json:
        first = render.picked(result, "dry_run", "floor", "head", "kept_generations")
        rest = render.picked(result, "bytes", "failed") | {"objects": result.deletable}
        render.document({**first, "kinds": _by_kind(result), **rest})
    else:
        _show_garbage(result)
    if result.failed:
        raise typer.Exit(DIFFERENT)


def _by_kind(result: GcReport) -> list[dict[str, Any]]:
    sums = summed((each.why, each.bytes) for each in result.deletable)
    return [{"kind": why, "count": count, "bytes": size} for why, (count, size) in sums.items()]


def _show_garbage(result: GcReport) -> None:
    summary = f"{render.count(result.kept_generations, 'generation')} kept"
    summary += f" (all of {result.floor}–{result.head})"
    if not result.deletable:
        render.say(f"nothing to remove; {summary}", "green")
        return
    rows = [(k["kind"], k["count"], render.size(k["bytes"])) for k in _by_kind(result)]
    render.show_table(("kind", "count", "bytes"), rows, right=("count", "bytes"))
    total = f"{render.count(len(result.deletable), 'object')}, {render.size(result.bytes)}"
    if result.dry_run:
        render.say(f"would remove {total}; {summary}")
        render.say("this was a dry run; run with --apply to delete them")
    else:
        render.say(f"removed {total}; {summary}")
    if result.failed:
        render.say(f"{render.count(result.failed, 'delete')} failed; run it again", "bold red")
