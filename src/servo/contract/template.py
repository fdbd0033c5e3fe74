"""The text of an SQL asset: what stands between `{{` and `}}`, and how positions map back.

    {{ ref("namespace.name") }}    a table
    {{ partition("date") }}        a literal: this task's value of a dimension
    {{ config("threshold") }}      a literal: a value of the asset's config

Engines get the text with these replaced. Positions in their errors are mapped back to the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_TEMPLATE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_CALL: Final = re.compile(r"""\s*(\w+)\(\s*(?:"([^"]*)"|'([^']*)')\s*\)\s*""")


class Call(NamedTuple):
    """One `{{ function("argument") }}`; `function` is empty where it is something else."""

    function: str
    argument: str
    start: int
    stop: int
    """Past its end."""


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
    for match in _TEMPLATE.finditer(sql):
        call = _CALL.fullmatch(match[1])
        name, argument = (call[1], call[2] or call[3] or "") if call else ("", "")
        yield Call(name, argument, match.start(), match.end())


def render(sql: str, replace: Callable[[Call], str]) -> Rendered:
    text, at, pieces = "", 0, []
    for call in calls(sql):
        text += sql[at : call.start]
        new = replace(call)
        pieces.append((call.start, call.stop, len(text), len(text) + len(new)))
        text += new
        at = call.stop
    return Rendered(sql, text + sql[at:], tuple(pieces))
