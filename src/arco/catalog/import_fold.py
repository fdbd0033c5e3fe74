"""The fold of an import's columns.

An import adds columns that do not exist, and describes existing ones. It does not change types and
names of columns from code, people or outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from arco.catalog.column_rows import UNSAID, column_id, new_column, put_column
from arco.catalog.events import Column
from arco.catalog.governance import column_of
from arco.catalog.governance_fold import AssetStatements
from arco.catalog.tables import COLUMNS, ColumnRow, ColumnStatus
from arco.state.fold import Change, Fact, Rows

replace = msgspec.structs.replace


def import_columns(
    rows: Rows, fact: Fact, asset_id: str, columns: Sequence[Column], statements: AssetStatements
) -> list[Change]:
    """The rows of all columns after an import; updates the `statements`."""
    existing = rows.scan(COLUMNS, asset_id)
    by_name = {row.name: row for row in sorted(existing, key=lambda row: row.status == "Active")}
    imported: list[tuple[ColumnRow | None, ColumnRow, Column]] = []
    new = 1 + max((row.ordinal for row in existing), default=-1)
    for ordinal, column in enumerate(columns):
        row = before = by_name.get(column.name)
        if row is None:
            key = asset_id, column_id(fact.id, new)
            row = new_column(fact, key, column, ordinal, "dbt", UNSAID)
            new += 1
        elif row.declared_by == "dbt" or (not row.declared_by and not row.actual_type):
            row = replace(
                row, type=column.type, ordinal=ordinal, status="Active", declared_by="dbt"
            )
        imported.append((before, row, column))
    ids = {row.column_id: column for _, row, column in imported}
    _say(statements, ids)
    changes: list[Change] = []
    for before, row, _ in imported:
        after = replace(row, **statements.effective(row.column_id))
        changes += put_column(fact, before or after, after, touch=before is None)
    removed = [row for row in existing if row.column_id not in ids]
    return changes + _without(fact, removed, statements)


def end_import(rows: Rows, fact: Fact, asset_id: str, statements: AssetStatements) -> list[Change]:
    """The columns of an asset that is not imported any more."""
    statements.say("dbt", {})
    return _without(fact, rows.scan(COLUMNS, asset_id), statements)


def _say(statements: AssetStatements, columns: dict[str, Column]) -> None:
    """Replace the values of all columns."""
    values = statements.values("dbt")
    statements.say("dbt", {p: v for p, v in values.items() if column_of(p) in ("", *columns)})
    statements.set_columns("dbt", columns)


def _without(fact: Fact, rows: Sequence[ColumnRow], statements: AssetStatements) -> list[Change]:
    """Columns that an import does not have: those that only it had become inactive."""
    changes: list[Change] = []
    for row in rows:
        after = replace(row, **statements.effective(row.column_id))
        if row.declared_by == "dbt":
            status: ColumnStatus = "Active" if row.actual_type else "Inactive"
            after = replace(after, declared_by="", lacking_version=0, status=status)
        changes += put_column(fact, row, after)
    return changes
