"""Rows from events: fields with the same name are copied, others are passed.

So a field that an event and a row share is written in two places, not in three.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from msgspec import Struct

from arco.state.table import Row

R = TypeVar("R", bound=Row)


def row_from(row: type[R], *sources: Struct, **fields: Any) -> R:
    """A row with these fields; the others are those of the first source that has the name.

    Rows have lists where events have tuples.
    """
    for name, at in _shared(row, tuple(map(type, sources)), tuple(fields)):
        value = getattr(sources[at], name)
        fields[name] = list(value) if isinstance(value, tuple) else value
    return row(**fields)


@functools.cache
def _shared(
    row: type[Row], sources: tuple[type[Struct], ...], given: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    """Fields that are copied, and which source each comes from."""
    return tuple(
        (name, next(at for at, source in enumerate(sources) if name in source.__struct_fields__))
        for name in row.__struct_fields__
        if name not in given and any(name in source.__struct_fields__ for source in sources)
    )
