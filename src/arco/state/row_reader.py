"""Reads single rows from columns, with a function that is generated for the columns of a table.

A commit reads thousands of rows, each in another place of a large bucket. A loop over the columns
takes longer than everything else in a lookup, so the expressions that read them are in one
function, as in the constructor of a dataclass. Its text depends on the kinds of the columns only,
never on names or values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from arco.epoch import MOMENTS

T = TypeVar("T")

_KINDS = {
    "value": "{0}[i]",
    "text": "str({0}[{1}[i]:{1}[i + 1]], 'utf-8')",
    "member": "{2}[str({0}[{1}[i]:{1}[i + 1]], 'utf-8')]",
    "moment": "MOMENTS[{0}[i]]",
    "call": "{0}(i)",
}


class _Nothing:
    """Used for a deleted row: it has no value in any column."""

    def __getattr__(self, column: str) -> None:
        return None


NOTHING = _Nothing()


class Cell(NamedTuple):
    """How the values of a column are read: the kind of expression, and what it refers to."""

    kind: str
    values: tuple[Any, ...]


def row_reader(row: Callable[..., T], cells: Sequence[Cell]) -> Callable[[int, Any], T]:
    """A function of an index and a key, which creates the row from the key and the cells."""
    make = _compiled(tuple((cell.kind, len(cell.values)) for cell in cells))
    read: Callable[[int, Any], T] = make(row, *(v for cell in cells for v in cell.values))
    return read


@functools.cache
def _compiled(kinds: tuple[tuple[str, int], ...]) -> Any:
    names: list[str] = []
    expressions: list[str] = []
    for kind, width in kinds:
        own = [f"v{len(names) + n}" for n in range(width)]
        expressions.append(_KINDS[kind].format(*own))
        names += own
    parameters, values = ", ".join(["row", *names]), ", ".join(["*key", *expressions])
    source = f"lambda {parameters}: lambda i, key: row({values})"
    return eval(source, {"MOMENTS": MOMENTS, "str": str})
