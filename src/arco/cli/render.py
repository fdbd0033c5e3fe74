"""Prints answers: one JSON document for programs, tables and lines for people.

A table that is too wide for its terminal wraps the columns that may wrap; where that is not
enough, each row becomes a block of lines. Nothing is cut. Where there is no terminal, or with
`--wide`, lines are as long as they need to be.

Text from the workspace is never interpreted as markup, and its control characters are
escaped, so that stored text cannot control a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from arco.cli.failures import visible
from arco.plain_json import document_name as document_name
from arco.plain_json import picked as picked
from arco.plain_json import plain as plain
from arco.times import short

GAP = 2
"""Between the columns of a table."""
FOLDED = 7
"""The minimum width of a column that may wrap."""
WORD = 24
SHORT_WORD = 16
"""Up to this length, a word in such a column is not broken; the second where the first fails."""
UNLIMITED = 1_000_000
"""The width of what is not a terminal."""

_wide = False


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


def print_wide(wide: bool) -> None:
    """Whether to print lines of any length from now on, also to a terminal."""
    global _wide
    _wide = wide


def width() -> int:
    """The number of characters that a line may have, by the environment of this call."""
    out = _console(stderr=False)  # a console keeps the COLUMNS that it was created with
    limited = out.is_terminal or bool(os.environ.get("COLUMNS"))
    return out.width if limited and not _wide else UNLIMITED


@cache
def errors() -> Console:
    return _console(stderr=True)


def document(value: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def line(value: object) -> None:
    """One line of JSON, at once."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    print(f"{text}\n", end="", flush=True)  # one write: lines of two threads do not mix


def show(*renderables: RenderableType) -> None:
    """Print to stdout, without blanks at the ends of lines."""
    out = _console(stderr=False, width=width())
    with out.capture() as captured:
        for renderable in renderables:
            out.print(renderable)
    text = captured.get()
    sys.stdout.write("\n".join(part.rstrip(" ") for part in text.split("\n")))


def say(text: str, style: str = "") -> None:
    """One line for a person; it wraps only where the terminal does."""
    console().print(Text(visible(text), style), soft_wrap=True)


def out(text: Text) -> None:
    """One line, flushed at once: cut to a terminal's width (…), complete everywhere else."""
    if console().is_terminal and not _wide:
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


def lines(texts: Iterable[str]) -> Text:
    """A cell with a line for each text."""
    return Text("\n".join(visible(text) for text in texts))


def _one_line(value: object) -> object:
    """Stored text cannot look like other rows of a table."""
    return value.replace("\n", "\\n") if isinstance(value, str) else value


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> FittingTable:
    """Columns under headers. `right` are right-aligned; `whole` never wrap."""
    values = [list(row) for row in rows]
    cells = [[cell(_one_line(value)) for value in row] for row in values]
    times = {n for row in values for n, v in zip(headers, row, strict=True) if type(v) is datetime}
    fixed = frozenset({*right, *whole})
    return FittingTable(headers, cells, frozenset(right), fixed, fixed - times)


def show_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    **alignment: Sequence[str],
) -> None:
    if title:
        show_title(title)
    show(table(headers, rows, **alignment))


class FittingTable:
    """A table that fits itself to the width that it is printed with."""

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[Text]],
        right: frozenset[str],
        whole: frozenset[str],
        always_whole: frozenset[str],
    ) -> None:
        """Of the `whole` ones, those that are not `always_whole` wrap before rows become blocks."""
        self._headers = headers
        self._rows = rows
        self._right = right
        self._attempts = ((WORD, whole), (SHORT_WORD, whole), (SHORT_WORD, always_whole))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        for word, whole in self._attempts:
            widths = self._widths(options.max_width, word, whole)
            if widths is not None:
                yield self._columns(widths)
                return
        yield from self._blocks()

    def _widths(self, room: int, word: int, whole: frozenset[str]) -> list[int] | None:
        """Of the columns; None if there is not enough room for them."""
        columns = [[Text(n), *cells] for n, cells in zip(self._headers, self._cells, strict=True)]
        natural = [max(map(_width, column)) for column in columns]
        least = [
            wide if name in whole else min(wide, max(FOLDED, _longest_word(column, word)))
            for name, wide, column in zip(self._headers, natural, columns, strict=True)
        ]
        left = room - GAP * (len(natural) - 1)
        if sum(least) > left:
            return None
        widths = list(natural)
        while sum(widths) > left:
            above = [wide - low for wide, low in zip(widths, least, strict=True)]
            at = max(range(len(widths)), key=lambda i: (above[i] > 0, widths[i]))
            widths[at] -= 1
        return widths

    @property
    def _cells(self) -> Iterator[Sequence[Text]]:
        """By column."""
        return ([row[at] for row in self._rows] for at in range(len(self._headers)))

    def _columns(self, widths: Sequence[int]) -> Table:
        table_ = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for name, wide in zip(self._headers, widths, strict=True):
            justify: Literal["left", "right"] = "right" if name in self._right else "left"
            table_.add_column(name, justify=justify, width=wide, overflow="fold")
        for row in self._rows:
            table_.add_row(*(_broken(text, wide) for text, wide in zip(row, widths, strict=True)))
        return table_

    def _blocks(self) -> Iterator[Table | Text]:
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            named = zip(self._headers, row, strict=True)
            yield _pairs([(name, value) for name, value in named if name or value.plain != "–"])


def _width(text: Text) -> int:
    return max(line.cell_len for line in text.split(allow_blank=True))


def _longest_word(texts: Iterable[Text], limit: int) -> int:
    words = (word for text in texts for word in re.split(r"\s+|(?<=,)", text.plain))
    return min(limit, max(map(cell_len, words), default=0))


def _broken(text: Text, wide: int) -> Text:
    """Without blanks, `date=2025-01-01,region=eu` is broken after a comma."""
    if text.cell_len <= wide or " " in text.plain or "," not in text.plain:
        return text
    lines = [""]
    for part in re.split(r"(?<=,)", text.plain):
        if lines[-1] and cell_len(lines[-1] + part) > wide:
            lines.append(part)
        else:
            lines[-1] += part
    return Text("\n".join(lines), text.style)


def columns(rows: Iterable[Sequence[object]]) -> Table:
    """Columns without headers."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for row in rows:
        if not grid.columns:
            for _ in row:
                grid.add_column(overflow="fold")
        grid.add_row(*map(cell, row))
    return grid


def fields(values: Mapping[str, object]) -> Table:
    """A name and a value to a line."""
    return _pairs([(name, cell(value)) for name, value in values.items()])


def show_fields(values: Mapping[str, object]) -> None:
    show(fields(values))


def _pairs(values: Iterable[tuple[str, Text]]) -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values:
        grid.add_row(Text(name), value)
    return grid


def show_title(text: str) -> None:
    show(Text(f"\n{visible(text)}", "bold cyan"))


def pairs(values: Mapping[str, str]) -> str | None:
    return ", ".join(f"{key}={value}" if value else key for key, value in values.items()) or None


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
