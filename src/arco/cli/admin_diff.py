"""`servo admin diff`: what changed between two generations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.options import command
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.state.diff import RowDiff

SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def register(app: typer.Typer) -> None:
    command(
        app,
        "diff",
        example="servo admin diff 41\nservo admin diff 41 44 --json",
    )(diff)


def diff(
    session: Session,
    before: Annotated[int, typer.Argument(min=0, help="The older generation.")],
    after: Annotated[
        int | None, typer.Argument(min=0, help="The newer one; else the newest.")
    ] = None,
) -> None:
    """Show the rows that differ between two generations, and how."""
    from arco.cli import render
    from arco.state.snapshot import Generation

    workspace = session.open()
    newer = workspace.snapshot(None if after is None else Generation(after)).generation
    found = workspace.diff(Generation(before), Generation(newer))
    if session.json:
        tables = [_document(table) for table in found]
        render.document({"before": before, "after": newer, "tables": tables})
        return
    for table in found:
        _show(table)
    if not found:
        render.say(f"generations {before} and {newer} have the same rows")


def _document(found: RowDiff) -> dict[str, Any]:
    rows = [
        {
            "change": what,
            "key": key,
            "before": _row(found.before, key),
            "after": _row(found.after, key),
        }
        for what, key in _changes(found)
    ]
    return {"table": str(found.table), "rows": rows}


def _row(rows: dict[Any, Any], key: Any) -> object:
    return rows[key][1] if key in rows else None


def _changes(found: RowDiff) -> Iterator[tuple[str, Any]]:
    for what in SIGNS:
        for key in getattr(found, what):
            yield what, key


def _show(found: RowDiff) -> None:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.failures import visible

    counts = [f"{len(getattr(found, what)):,} {what}" for what in SIGNS if getattr(found, what)]
    render.show(render.title(f"{found.table}: {', '.join(counts)}"))
    for what, key in _changes(found):
        sign, style = SIGNS[what]
        text = Text(f"{sign} {visible(_label(found, key))}", style)
        if what == "changed":
            text.append(f"  {visible('; '.join(_fields(found, key)))}", "default")
        render.out(text)


def _label(found: RowDiff, key: Any) -> str:
    """A row by its key, and by its name where that says more."""
    row: Any = _row(found.after, key) or _row(found.before, key)
    rest = [
        n for n in ("namespace", "name") if n in found.table.columns and n not in found.table.key
    ]
    name = ".".join(getattr(row, part) for part in rest)
    return " ".join(map(str, key)) + (f" ({name})" if name else "")


def _fields(found: RowDiff, key: Any) -> Iterator[str]:
    old, new = found.before[key][1], found.after[key][1]
    for name in found.table.columns:
        was, now = getattr(old, name), getattr(new, name)
        if was != now and not name.startswith("updated_"):
            yield f"{name}: {_text(was)} → {_text(now)}"


def _text(value: object) -> str:
    from arco.cli.events import brief

    return brief(value)
