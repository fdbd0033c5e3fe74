"""Prints answers: one JSON document for programs, tables and lines for people.

Text from the workspace is never interpreted as markup, and its control characters are
escaped, so that stored text cannot control a terminal.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from arco.cli.failures import visible
from arco.cli.times import iso, short

GAP = 2
"""Between the columns of a table."""
FOLDED = 10
"""The minimum width of a column that may wrap."""


class _Table(Table):
    least = 0
    """The width below which columns that must not wrap would be cut."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(*, stderr: bool, width: int | None = None) -> Console:
    plain = bool(os.environ.get("NO_COLOR"))
    return _Console(
        stderr=stderr,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if plain else "auto",  # not even bold
    )


@cache
def console() -> Console:
    return _console(stderr=False)


@cache
def errors() -> Console:
    return _console(stderr=True)


def document(value: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def line(value: object) -> None:
    """One line of JSON, at once."""
    print(json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")), flush=True)


def plain(value: object) -> Any:
    """`value` as JSON knows it. Times are UTC, with a Z."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return iso(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case msgspec.Raw():
            return json.loads(bytes(value))
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
        case _:
            return str(value)


def show(*renderables: RenderableType) -> None:
    """Print to stdout, without blanks at the ends of lines."""
    out = console()
    least = max((each.least for each in renderables if isinstance(each, _Table)), default=0)
    if least > out.width:  # lines that the terminal breaks still have all that is in them
        out = _console(stderr=False, width=least)
    with out.capture() as captured:
        for renderable in renderables:
            out.print(renderable)
    text = captured.get()
    sys.stdout.write("\n".join(part.rstrip(" ") for part in text.split("\n")))


def say(text: str, style: str = "") -> None:
    """One line for a person; it wraps only where the terminal does."""
    console().print(Text(visible(text), style), soft_wrap=True)


def out(text: Text) -> None:
    """One line, at once: cut to a terminal's width, whole everywhere else."""
    if console().is_terminal:
        console().print(text, no_wrap=True, overflow="ellipsis")
    else:
        console().print(text, soft_wrap=True)
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark, on stderr."""
    errors().print(Text("note: ", "bold yellow") + Text(visible(text)), soft_wrap=True)


def cell(value: object) -> Text:
    match value:
        case Text():
            return value
        case None:
            return Text("–", "dim")
        case bool():
            return Text("yes" if value else "no")
        case int():
            return Text(f"{value:,}")
        case datetime():
            return Text(short(value))
        case _:
            return Text(visible(str(value)))


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """Columns under headers. `right` are right-aligned; `whole` never wrap."""
    table_ = _Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    cells = [[cell(value) for value in row] for row in rows]
    for at, name in enumerate(headers):
        is_whole = name in whole or name in right
        width = max(map(_width, (Text(name), *(row[at] for row in cells))))
        table_.least += GAP + (width if is_whole else min(width, FOLDED))
        table_.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=is_whole,
            overflow="fold",
        )
    for row in cells:
        table_.add_row(*row)
    return table_


def _width(text: Text) -> int:
    return max(line.cell_len for line in text.split(allow_blank=True))


def columns(rows: Iterable[Sequence[object]]) -> Table:
    """Columns without headers."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*map(cell, row))
    return grid


def fields(values: Mapping[str, object]) -> Table:
    """A name and a value to a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(Text(name), cell(value))
    return grid


def title(text: str) -> Text:
    return Text(f"\n{visible(text)}", "bold cyan")


def pairs(values: Mapping[str, str]) -> str | None:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or None


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
