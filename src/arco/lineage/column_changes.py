"""The differences between an asset's old and new column edges: changes of rows, and facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from arco.lineage.events import Use, UsesChanged
from arco.lineage.tables import COLUMNS, ColumnEdgeRow
from arco.state.fold import Change, Delete, Emit, Put
from arco.state.table import Key

_KEPT = ("masked", "method", "confidence")


def unchanged(
    existing: Iterable[ColumnEdgeRow], columns: Iterable[ColumnEdgeRow]
) -> dict[Key, ColumnEdgeRow]:
    """The columns by their keys. Those that did not change keep their `since`."""
    old = {COLUMNS.key_of(row): row for row in existing}
    now = {COLUMNS.key_of(row): row for row in columns}
    for key in now.keys() & old.keys():
        if all(getattr(old[key], name) == getattr(now[key], name) for name in _KEPT):
            now[key] = msgspec.structs.replace(old[key], said_at=None)
    return now


def replaced(existing: list[ColumnEdgeRow], columns: dict[Key, ColumnEdgeRow]) -> Iterator[Change]:
    old = {COLUMNS.key_of(row): row for row in existing}
    for key in old.keys() - columns.keys():
        yield Delete(COLUMNS, key)
    for row in columns.values():
        yield Put(COLUMNS, row)


def uses_changed(
    target: str,
    existing: Iterable[ColumnEdgeRow],
    columns: Iterable[ColumnEdgeRow],
    before: set[str],
    now: set[str],
) -> Iterator[Emit]:
    """For each source whose use has changed: all that is used now."""
    old, new = _by_source(existing), _by_source(columns)
    for source in sorted({*old, *new, *before, *now}):
        if (source in before) != (source in now) or old.get(source) != new.get(source):
            uses, used = new.get(source, set()), old.get(source, set())
            places = {_place(use) for use in uses}
            yield Emit(
                UsesChanged(
                    source=source,
                    target=target,
                    uses=tuple(sorted(uses)),
                    left=tuple(sorted(use for use in used if _place(use) not in places)),
                    ended=source not in now and source not in new,
                )
            )


def _place(use: Use) -> tuple[str, str, str]:
    return use.column, use.target_column, use.kind


def _by_source(rows: Iterable[ColumnEdgeRow]) -> dict[str, set[Use]]:
    grouped: dict[str, set[Use]] = {}
    for row in rows:
        use = Use(
            column=row.source_column,
            target_column=row.target_column,
            kind=row.kind,
            masked=row.masked,
            method=row.method,
            confidence=row.confidence,
            since=row.since,
            said_at=row.said_at,
        )
        grouped.setdefault(row.source, set()).add(use)
    return grouped
