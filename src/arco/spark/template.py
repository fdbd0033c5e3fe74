"""The text of an SQL asset: what stands between `{{` and `}}`, and how positions map back.

    {{ ref("namespace.name") }}    a table
    {{ partition("date") }}        a literal: this task's value of a dimension
    {{ config("threshold") }}      a literal: a value of the asset's config

Spark is given the text with these replaced. It counts in that text; people look at
theirs, so every place that it names is mapped back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Final, NamedTuple

from servo.contract.partition import Scalar

_TEMPLATE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_CALL: Final = re.compile(r"""\s*(\w+)\(\s*(?:"([^"]*)"|'([^']*)')\s*\)\s*""")
_PLAIN: Final = re.compile(r"[^'\\$\x00-\x1f\x7f\ud800-\udfff]*")
_TAB: Final = "    "


class Call(NamedTuple):
    """One `{{ function("argument") }}`; `function` is empty where it is something else."""

    function: str
    argument: str
    start: int
    stop: int
    """Past its end."""


class Problem(NamedTuple):
    """What is wrong with a text, and where: `start` to before `stop`."""

    message: str
    start: int
    stop: int


class Rendered(NamedTuple):
    source: str
    text: str
    pieces: tuple[tuple[int, int, int, int], ...]
    """What was replaced: from and to in the source, from and to in the text."""

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The part of the source that `text[start:stop]` comes from."""
        return self._place(start, 0), max(self._place(stop, 1), self._place(start, 0))

    def _place(self, offset: int, end: int) -> int:
        shift = 0
        for source_start, source_stop, text_start, text_stop in self.pieces:
            if offset < text_start + end:
                break
            if offset < text_stop + end:
                return source_stop if end else source_start
            shift = source_stop - text_stop
        return min(offset + shift, len(self.source))


def calls(sql: str) -> Iterator[Call]:
    for found in _TEMPLATE.finditer(sql):
        call = _CALL.fullmatch(found[1])
        name, argument = (call[1], call[2] or call[3] or "") if call else ("", "")
        yield Call(name, argument, found.start(), found.end())


def render(sql: str, replace: Callable[[Call], str]) -> Rendered:
    text, at, pieces = "", 0, []
    for call in calls(sql):
        text += sql[at : call.start]
        new = replace(call)
        pieces.append((call.start, call.stop, len(text), len(text) + len(new)))
        text += new
        at = call.stop
    return Rendered(sql, text + sql[at:], tuple(pieces))


def literal(value: Scalar) -> str:
    """A value as Spark SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST({value} AS BIGINT)"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(' ', 'microseconds')}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            return f"'{value}'" if _PLAIN.fullmatch(value) else _spelled(value)


def _spelled(value: str) -> str:
    """A text by its bytes: what a backslash, `''` or `${}` means is a matter of settings."""
    return f"CAST(X'{value.encode('utf-8', 'replace').hex().upper()}' AS STRING)"


def shown(sql: str, start: int, stop: int) -> str:
    """The line of the text that a place is in, with marks below it, and where that is."""
    line = sql.count("\n", 0, start) + 1
    begin = sql.rfind("\n", 0, start) + 1
    end = sql.find("\n", start)
    whole = sql[begin : len(sql) if end < 0 else end].rstrip("\r")
    before = whole[: start - begin]
    marks = max(1, min(stop, begin + len(whole)) - start)
    gutter = " " * len(str(line))
    pad = "".join("\t" if sign == "\t" else " " for sign in before)
    return (
        f"line {line}, column {start - begin + 1}:\n"
        f"  {line} | {whole}\n"
        f"  {gutter} | {pad}{'^' * marks}"
    ).replace("\t", _TAB)
