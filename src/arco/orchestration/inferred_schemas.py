"""The columns of a query's result, before it has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.errors import SqlglotError

from arco.columns.schema_columns import SchemaColumn
from arco.columns.types import ColumnType
from arco.lineage.sql import analyze
from servo.contract.manifest import Asset

InputColumns = Callable[[str], Sequence[SchemaColumn] | None]
"""The columns of an asset by its key; None where they are not known."""


def inferred_columns(asset: Asset, columns_of: InputColumns) -> tuple[SchemaColumn, ...] | None:
    """None if the text does not show all of them.

    A column that comes from one column as it is has its type; of others the type is not known.
    """
    refs = {each.parameter: each.asset for each in asset.inputs if each.parameter}
    inputs = {key: columns_of(key) for key in set(refs.values())}
    if None in inputs.values() and "*" in asset.sql:
        return None
    names = {key: [each.name for each in columns or ()] for key, columns in inputs.items()}
    try:
        traced = analyze(asset.sql, names, refs)
    except (SqlglotError, RecursionError):
        return None
    types: dict[tuple[str, str], ColumnType] = {
        (key, each.name.lower()): each.type
        for key, columns in inputs.items()
        for each in columns or ()
    }
    sources = {each.column: each.sources for each in traced.columns if each.confidence == "high"}

    def type_of(name: str) -> ColumnType:
        direct = sources.get(name, ())
        if len(direct) != 1 or direct[0].kind != "identity":
            return ""
        return types.get((direct[0].asset, direct[0].column.lower()), "")

    columns = [SchemaColumn(name=n, type=type_of(n), nullable=None) for n in traced.names]
    return tuple(columns) or None
