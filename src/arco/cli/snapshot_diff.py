"""`servo diff`: what changed between two moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Limit, argument, command

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.shapes import place
    from arco.answers.snapshot_diff import PartitionDifference, SnapshotDiff, snapshot_diff
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.failures import visible
    from arco.cli.log_entries import brief
    from arco.cli.session import Session
    from arco.orchestration.reader import as_of_run
    from arco.state.snapshot import AsOf, At, Generation
    from arco.times import parse_time

MOMENT = "A generation, a time (2026-01-31T12:00Z, or 15m, 2h, 3d ago), or run:ID"
STYLES = {"+": "green", "-": "red", "~": "yellow"}


def register(app: typer.Typer) -> None:
    command(
        app, "diff", example="servo diff 41 44\nservo diff 1d\nservo diff run:01K9ZQ3F7M --json"
    )(diff)


def diff(
    session: Session,
    before: Annotated[str, argument("A", f"{MOMENT}: its end.")],
    after: Annotated[str, argument("B", "The later one; default: now.")] = "",
    limit: Limit = 100,
) -> None:
    """Show what changed between two generations, times or runs.

    Assets, partitions, schemas and lineage are compared. --limit applies to each kind of change;
    --json shows all. `servo admin diff` shows rows.
    """
    workspace = session.open()
    older = workspace.read.snapshot(_moment(workspace, before))
    newer = workspace.read.snapshot(_moment(workspace, after) if after else None)
    difference = snapshot_diff(older, newer)
    if session.json:
        render.document(difference)
        return
    render.say(
        f"from generation {difference.from_snapshot} ({render.cell(difference.from_time)}) "
        f"to {difference.to_snapshot} ({render.cell(difference.to_time)})"
    )
    if difference.same:
        render.say("no asset, partition, schema or lineage changed")
        return
    for title, lines in _sections(difference):
        _show(title, lines, limit)


def _moment(workspace: Workspace, text: str) -> At:
    if text.isdecimal():
        return Generation(int(text))
    if text.startswith("run:"):
        row = workspace.read.orchestration().find_run(text.removeprefix("run:"))
        return as_of_run(row.run_id)
    return AsOf(parse_time(text, workspace.clock.now()))


def _sections(d: SnapshotDiff) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    yield (
        "assets",
        [
            *(("+", asset) for asset in d.added_assets),
            *(("-", asset) for asset in d.removed_assets),
            *(
                ("~", f"{each.asset}  {'; '.join(_field(*item) for item in each.changes.items())}")
                for each in d.modified_assets
            ),
        ],
    )
    yield (
        "schemas",
        [
            (
                {"added": "+", "removed": "-"}.get(each.change, "~"),
                f"{each.asset}.{each.column} ({each.source})  {_types(each.before, each.after)}",
            )
            for each in d.schema_changes
        ],
    )
    yield (
        "lineage",
        [
            ("+" if each.change == "added" else "-", f"{each.source} → {each.target} ({each.kind})")
            for each in d.lineage_changes
        ],
    )
    yield (
        "partitions",
        [
            *(("+", _partition(each)) for each in d.added_partitions),
            *(("-", _partition(each)) for each in d.removed_partitions),
            *(("~", _partition(each)) for each in d.modified_partitions),
        ],
    )


def _field(name: str, values: Sequence[object]) -> str:
    if name == "code":
        return "code changed"
    return f"{name}: {brief(values[0])} → {brief(values[1])}"


def _types(before: str | None, after: str | None) -> str:
    return " → ".join(text for text in (before, after) if text)


def _partition(difference: PartitionDifference) -> str:
    rows = f"{difference.rows:,} rows"
    if difference.rows_before is not None:
        rows = f"{difference.rows_before:,} → {rows}"
    return f"{place(difference.asset, difference.partition)}  version {difference.version}, {rows}"


def _show(title: str, lines: Sequence[tuple[str, str]], limit: int) -> None:
    if not lines:
        return
    render.show_title(f"{title}: {render.count(len(lines), 'change')}")
    for sign, text in lines[:limit]:
        render.out(Text(f"{sign} {visible(text)}", STYLES[sign]))
    if len(lines) > limit:
        render.say(f"  … and {len(lines) - limit:,} more; see --limit", "dim")
