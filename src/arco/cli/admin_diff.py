"""`servo admin diff`: what changed between two generations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import argument, command

if deferral.LOADED:
    import msgspec
    from rich.text import Text

    from arco.cli import render
    from arco.cli.failures import visible
    from arco.cli.log_entries import brief
    from arco.cli.session import Session
    from arco.state.diff import RowDiff
    from arco.state.snapshot import Generation
    from arco.tasks.input_failures import partition_text

SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def register(app: typer.Typer) -> None:
    command(app, "diff", example="servo admin diff 41\nservo admin diff 41 44 --json")(diff)


def diff(
    session: Session,
    before: Annotated[int, argument("BEFORE", "The older generation.", min=0)],
    after: Annotated[
        int | None, argument("AFTER", "The newer generation; default: the newest.", min=0)
    ] = None,
) -> None:
    """Show the rows and fields that differ between two generations."""
    workspace = session.open()
    newer = workspace.read.snapshot(None if after is None else Generation(after)).generation
    diffs = workspace.read.diff(Generation(before), Generation(newer))
    if session.json:
        tables = [_document(table) for table in diffs]
        render.document({"before": before, "after": newer, "tables": tables})
        return
    for table in diffs:
        _show(table)
    if not diffs:
        render.say(f"generations {before} and {newer} have the same rows")


def _document(diff: RowDiff) -> dict[str, Any]:
    rows = [
        {
            "change": what,
            "key": key,
            "before": _columns(diff.before, key),
            "after": _columns(diff.after, key),
        }
        for what, key in _changes(diff)
    ]
    return {"table": str(diff.table), "rows": rows}


def _row(rows: dict[Any, Any], key: Any) -> object:
    return rows[key][1] if key in rows else None


def _columns(rows: dict[Any, Any], key: Any) -> dict[str, Any] | None:
    """A row with the names of the table's columns."""
    return msgspec.structs.asdict(rows[key][1]) if key in rows else None


def _changes(diff: RowDiff) -> Iterator[tuple[str, Any]]:
    for what in SIGNS:
        for key in getattr(diff, what):
            yield what, key


def _show(diff: RowDiff) -> None:
    counts = [f"{len(getattr(diff, what)):,} {what}" for what in SIGNS if getattr(diff, what)]
    render.show_title(f"{diff.table}: {', '.join(counts)}")
    for what, key in _changes(diff):
        sign, style = SIGNS[what]
        text = Text(f"{sign} {visible(_label(diff, key))}", style)
        if what == "changed":
            text.append(f"  {visible('; '.join(_fields(diff, key)))}", "default")
        render.out(text)


def _label(diff: RowDiff, key: Any) -> str:
    """A row's key, and its name if it has one."""
    row: Any = _row(diff.after, key) or _row(diff.before, key)
    rest = [n for n in ("namespace", "name") if n in diff.table.columns and n not in diff.table.key]
    name = ".".join(getattr(row, part) for part in rest)
    parts = (
        partition_text(part) if column == "partition_key" else str(part)
        for column, part in zip(diff.table.key, key, strict=True)
    )
    return " ".join(parts) + (f" ({name})" if name else "")


def _fields(diff: RowDiff, key: Any) -> Iterator[str]:
    old, new = diff.before[key][1], diff.after[key][1]
    for name in diff.table.columns:
        was, now = getattr(old, name), getattr(new, name)
        if was != now and not name.startswith("updated_"):
            yield f"{name}: {_text(name, was)} → {_text(name, now)}"


def _text(column: str, value: object) -> str:
    if column == "partition_key" and isinstance(value, str):
        return partition_text(value)
    return brief(value)
