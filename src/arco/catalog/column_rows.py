"""The rows of an asset's columns: declared, actual, and the difference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from arco.catalog.events import Column
from arco.catalog.governance_fold import AssetStatements
from arco.catalog.schema_tables import (
    SchemaRegistryRow,
    SchemaVersionRow,
)
from arco.catalog.tables import COLUMNS, ColumnRow, DeclaredBy
from arco.columns.schema_columns import (
    declared_type,
)
from arco.columns.types import text
from arco.state.fold import Change, Delete, Fact, Put, Rows

replace = msgspec.structs.replace
INACTIVE_KEPT = 1_000


def column_id(event_id: str, ordinal: int) -> str:
    """A permanent id: it survives renames, and is never reused."""
    return "col_" + hashlib.sha256(f"{event_id}:{ordinal}".encode()).hexdigest()[:16]


def show_actual(
    rows: Rows,
    fact: Fact,
    registry: SchemaRegistryRow,
    version: SchemaVersionRow,
) -> Iterator[Change]:
    """Update the rows of columns to a version, instead of the registry's current one."""
    asset_id, number, columns = registry.asset_id, version.version, version.decoded_columns()
    remaining = {row.column_id: row for row in rows.scan(COLUMNS, asset_id)}
    ids = set(remaining)
    for ordinal, each in enumerate(columns):
        row = remaining.pop(each.column_id, None) or new_column(
            fact, (asset_id, each.column_id), Column(name=each.name, type=""), ordinal, "", UNSAID
        )
        actual = replace(
            row,
            name=row.name if row.declared_by == "code" else each.name,
            ordinal=ordinal,
            actual_type=each.type_text,
            actual_nullable=each.nullable is not False,
            status="Active",
            first_version=row.first_version or number,
            last_version=0,
            field_id=each.field_id,
            renaming_to="" if row.renaming_to == each.name else row.renaming_to,
            lacking_version=0,
        )
        yield from put_column(fact, row, actual, touch=row.column_id not in ids)
    names = [each.name for each in columns]
    yield from _forget_oldest(rows, fact, asset_id, remaining.values())
    for row in remaining.values():
        lacks = bool(row.declared_by) and not is_inside(row.name, names)
        inactive = replace(
            row,
            actual_type="",
            last_version=registry.current if row.actual_type else row.last_version,
            lacking_version=number if lacks else 0,
            status="Active" if row.declared_by else "Inactive",
        )
        yield from put_column(fact, row, inactive)


def _forget_oldest(
    rows: Rows, fact: Fact, asset_id: str, columns: Iterable[ColumnRow]
) -> Iterator[Change]:
    """Delete the oldest inactive columns of an asset with very many."""
    inactive = [row for row in columns if row.status == "Inactive"]
    if len(inactive) <= INACTIVE_KEPT:
        return
    oldest = sorted(inactive, key=lambda row: row.last_version)[:-INACTIVE_KEPT]
    statements = AssetStatements(rows, fact, asset_id)
    statements.forget_columns({row.column_id for row in oldest})
    for row in oldest:
        yield Delete(COLUMNS, (asset_id, row.column_id))
    yield from statements.changes()


def is_inside(name: str, columns: Sequence[str]) -> bool:
    """Whether what is declared is a field of a column: `address.city`."""
    return "." in name and name.partition(".")[0] in columns


def put_column(
    fact: Fact, before: ColumnRow, after: ColumnRow, *, touch: bool = False
) -> Iterator[Change]:
    """Put a column with its computed fields, if it changed."""
    if not after.declared_by and after.actual_type:
        after = replace(after, type=after.actual_type, nullable=after.actual_nullable)
    after = replace(after, difference=_difference(after))
    if touch or after != before:
        yield Put(COLUMNS, replace(after, updated_at=fact.received_at))


def _difference(row: ColumnRow) -> str:
    """The difference between the declared and the actual column."""
    if row.status == "Inactive":
        return ""
    if not row.declared_by:
        return "undeclared"
    if row.lacking_version:
        return "missing"
    if row.declared_by == "dbt":
        return ""  # types of another engine are not compared
    if row.actual_type and row.type and text(declared_type(row.type)) != row.actual_type:
        return "type"
    return ""


UNSAID: Mapping[str, Any] = {"description": "", "pii": "", "sensitivity": ""}


def new_column(
    fact: Fact,
    key: tuple[str, str],
    column: Column,
    ordinal: int,
    declared_by: DeclaredBy,
    governed: Mapping[str, Any],
) -> ColumnRow:
    """A new row of a column."""
    return ColumnRow(
        asset_id=key[0],
        column_id=key[1],
        name=column.name,
        type=column.type,
        ordinal=ordinal,
        nullable=column.nullable,
        created_at=fact.received_at,
        updated_at=fact.received_at,
        declared_by=declared_by,
        **governed,
    )
