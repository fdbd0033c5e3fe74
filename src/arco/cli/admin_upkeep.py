"""`servo admin fsck`, `rebuild` and `gc`: keeping a workspace whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.failures import DIFFERENT
from arco.cli.options import command
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.state.fsck import FsckReport
    from arco.state.gc import GcReport
    from arco.state.rebuild import Engine, Rebuild


class EngineName(StrEnum):
    embedded = "embedded"
    spark = "spark"


def register(app: typer.Typer) -> None:
    command(app, "fsck", example="servo admin fsck --quick")(fsck)
    command(
        app,
        "rebuild",
        example="servo admin rebuild --check\nservo admin rebuild --engine spark",
    )(rebuild)
    command(app, "gc", example="servo admin gc\nservo admin gc --apply --keep-days 30")(gc)


def fsck(
    session: Session,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at sizes only; do not read the bytes.")
    ] = False,
) -> None:
    """Check that everything is there, whole and consistent. Changes nothing.

    Exit code 1 means that something is wrong.
    """
    from arco.cli import render
    from arco.cli.progress import progress

    workspace = session.open()
    with progress() as report:
        found = workspace.fsck(deep=not quick, progress=report)
    if session.json:
        render.document({"clean": found.clean, "deep": not quick} | render.plain(found))
    else:
        _show_findings(found, quick)
    if not found.clean:
        raise typer.Exit(DIFFERENT)


_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def _show_findings(found: FsckReport, quick: bool) -> None:
    from rich.text import Text

    from arco.cli import render

    if found.findings:
        rows = [
            (Text(f.severity, _STYLES.get(f.severity, "")), f.code, f"{f.message}\n{f.path}")
            for f in found.findings
        ]
        render.show(render.table(("severity", "code", "finding"), rows, whole=["severity", "code"]))
    checked = (
        f"{render.count(found.generations, 'generation')}, {render.count(found.files, 'file')}, "
        f"{render.size(found.bytes)}, log up to position {found.position}"
    )
    if found.clean:
        render.say(f"clean: {checked}", "green")
    else:
        errors = sum(f.severity == "error" for f in found.findings)
        render.say(f"not clean: {render.count(errors, 'error')} in {checked}", "bold red")
    if quick:
        render.say("only sizes were compared; without --quick, all bytes are")


def rebuild(
    session: Session,
    engine: Annotated[
        EngineName, typer.Option(help="What folds the log: this process, or Spark.")
    ] = EngineName.embedded,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Where Spark runs, with --engine spark.")
    ] = "local[*]",
    check: Annotated[
        bool, typer.Option("--check", help="Compare only; exit code 1 if anything differs.")
    ] = False,
) -> None:
    """Fold the whole log again, and compare that with the live tables.

    What differs is published as one new generation, unless --check.
    """
    from arco.cli import render
    from arco.cli.progress import progress

    workspace = session.open()
    with folding(engine, master) as chosen, progress() as report:
        found = workspace.rebuild(chosen, publish=not check, progress=report)
    if session.json:
        tables = [render.plain(d) | {"same": d.same} for d in found.differences]
        shown = {"same": found.same} | render.plain(found) | {"differences": tables}
        render.document(shown)
    else:
        _show_rebuild(found, check)
    if check and not found.same:
        raise typer.Exit(DIFFERENT)


@contextlib.contextmanager
def folding(engine: EngineName, master: str) -> Iterator[Engine | None]:
    """The engine to fold with; None is the embedded one."""
    if engine is EngineName.embedded:
        yield None
        return
    from arco.app import chain
    from arco.spark.rebuild import SparkEngine
    from arco.spark.session import open_session

    session = open_session(master)
    try:
        yield SparkEngine(chain, session)
    finally:
        session.stop()


def _show_rebuild(found: Rebuild, check: bool) -> None:
    from rich.text import Text

    from arco.cli import render

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
        for d in found.differences
    ]
    render.show(render.table(headers, rows, right=headers[1:5]))
    for sample in [f"{d.table}: {s}" for d in found.differences for s in d.samples]:
        render.say(f"  {sample}")
    for failure in found.failures:
        render.say(f"could not be folded: {failure}", "yellow")
    events = f"{render.count(found.events, 'event')} folded up to generation {found.generation}"
    if found.same:
        render.say(f"the same, row for row: {events}", "green")
    elif found.published is not None:
        render.say(f"published the rebuilt state as generation {found.published}: {events}")
    else:
        advice = "; run it without --check to publish the rebuilt state" if check else ""
        render.say(f"different: {events}{advice}", "bold red")


def gc(
    session: Session,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete; without it, only show what would go.")
    ] = False,
    keep_days: Annotated[
        float,
        typer.Option(min=0, max=36_500, metavar="DAYS", help="Keep generations of the last days."),
    ] = 7.0,
    keep_at_least: Annotated[
        int, typer.Option(min=1, metavar="N", help="Keep so many, however old.")
    ] = 10,
) -> None:
    """Remove what no kept generation refers to. The log is never removed.

    Nothing that is younger than a day goes, and no generation that is pinned.
    Records of workers that are gone, and what nobody took from the queue for a
    week, go too. Data, logs and plans are for `servo gc`.
    """
    from arco.cli import render
    from arco.cli.progress import progress
    from arco.state.gc import Retention

    retention = Retention(timedelta(days=keep_days), keep_at_least)
    workspace = session.open()
    with progress() as report:
        found = workspace.gc(retention, dry_run=not apply, progress=report)
    if session.json:
        render.document(
            {
                "dry_run": found.dry_run,
                "floor": found.floor,
                "head": found.head,
                "kept_generations": found.kept_generations,
                "kinds": by_kind(found),
                "bytes": found.bytes,
                "failed": found.failed,
                "objects": found.doomed,
            }
        )
    else:
        _show_garbage(found)
    if found.failed:
        raise typer.Exit(DIFFERENT)


def by_kind(found: GcReport) -> list[dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {}
    for doomed in found.doomed:
        kind = kinds.setdefault(doomed.why, {"kind": doomed.why, "count": 0, "bytes": 0})
        kind["count"] += 1
        kind["bytes"] += doomed.bytes
    return list(kinds.values())


def _show_garbage(found: GcReport) -> None:
    from arco.cli import render

    kept = f"{render.count(found.kept_generations, 'generation')} kept ({found.floor}–{found.head})"
    if not found.doomed:
        render.say(f"nothing to remove; {kept}", "green")
        return
    rows = [(k["kind"], k["count"], render.size(k["bytes"])) for k in by_kind(found)]
    render.show(render.table(("kind", "count", "bytes"), rows, right=("count", "bytes")))
    total = f"{render.count(len(found.doomed), 'object')}, {render.size(found.bytes)}"
    if found.dry_run:
        render.say(f"would remove {total}; {kept}")
        render.say("this was a dry run; --apply removes them")
    else:
        render.say(f"removed {total}; {kept}")
    if found.failed:
        render.say(f"{render.count(found.failed, 'delete')} failed; run it again", "bold red")
