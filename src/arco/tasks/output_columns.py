"""Columns that an output may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from arco.columns import types
from arco.tasks.failure import TaskFailed, failed


def check_columns(columns: Sequence[types.SparkField]) -> None:
    """Raises TaskFailed if Parquet cannot hold these columns, or their names are ambiguous."""
    if not columns:
        raise _refused("the output has no columns", "select at least one column")
    _check_names([field["name"] for field in columns], "")
    for field in columns:
        _check_type(field["name"], field["type"])


def _check_names(names: Sequence[str], within: str) -> None:
    flaw = types.ambiguous(names)
    if flaw:
        raise _refused(f"{within}{flaw}", "rename one of them, or leave it out")
    if "" in names:
        raise _refused(f"{within}a column has no name", "give it one")


def _check_type(path: str, type: types.ColumnType) -> None:
    if isinstance(type, str):
        hint = _UNHELD.get(type.partition("(")[0])
        if hint is not None:
            raise _refused(f"column {path!r} is of type {types.text(type)}", hint)
        return
    match type["type"]:
        case "array":
            _check_type(f"{path}[]", type["elementType"])
        case "map":
            _check_type(f"{path}.key", type["keyType"])
            _check_type(f"{path}.value", type["valueType"])
        case "struct":
            if not type["fields"]:
                raise _refused(f"column {path!r} is a struct without fields", "leave it out")
            _check_names([field["name"] for field in type["fields"]], f"in column {path!r}, ")
            for field in type["fields"]:
                _check_type(f"{path}.{field['name']}", field["type"])


_UNHELD: Final = {
    "void": "it has only nulls: give it the type that it should have, e.g. CAST(x AS STRING) "
    "in SQL, .astype('string') in pandas, or a schema in Arrow",
    "interval": "Parquet cannot hold it: use INTERVAL YEAR TO MONTH or DAY TO SECOND, or a number",
    "geometry": "Parquet cannot hold it: use ST_AsBinary, or the coordinates",
    "geography": "Parquet cannot hold it: use ST_AsBinary, or the coordinates",
}


def _refused(what: str, hint: str) -> TaskFailed:
    return failed("user_code", "output.columns", what, hint)
