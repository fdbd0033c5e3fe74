"""What the footers of an output say about its columns: types, nulls, bounds.

A bound is given only where it is exact and covers every value:

- A writer may truncate the bounds of long texts. pyarrow and Spark omit them instead; bounds of
  other writers are not used.
- A writer that meets NaN leaves it out of the bounds (pyarrow), or makes it one
  (Spark). What we write with pyarrow says in its metadata which columns have NaN;
  without that, its floats have no bounds.
- Columns that are made of others have no bounds of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from arco.columns import types
from arco.columns.arrow import ROW_METADATA, arrow_fields, file_fields
from arco.columns.schema_columns import shape_of, text_hash
from arco.storage.footers import NAN_METADATA
from arco.storage.footers import Footer as Footer
from arco.storage.footers import read_footers as read_footers
from servo.contract.task import ColumnInfo

MAX_STATISTIC_CHARS: Final = 256

_EXACT_WRITERS: Final = ("parquet-cpp-arrow ", "parquet-mr ")
_FLOATING: Final = ("FLOAT", "DOUBLE")


class Statistics(NamedTuple):
    """Of a column over all files. None is "not known"; `least` and `greatest` are exact."""

    rows: int
    nulls: int | None = None
    least: Any = None
    greatest: Any = None


def columns_of(
    footers: Sequence[Footer],
    schema: pa.Schema | None,
    redact: Callable[[str], str],
    pii: Collection[str] = (),
) -> tuple[ColumnInfo, ...]:
    """The columns with Spark's type texts and what is known of their values.

    `schema` is the writer's; without one, that of the first file. No bound has a secret,
    or is a value of the columns in `pii`, which are in lower case.
    """
    if schema is None and not footers:
        return ()
    arrow = footers[0].metadata.schema.to_arrow_schema() if schema is None else schema
    fields = file_fields(footers[0].metadata) if footers else arrow_fields(arrow)
    statistics = {
        name: column_statistics._replace(least=None, greatest=None)
        if name.lower() in pii
        else column_statistics
        for name, column_statistics in statistics_of(footers, arrow).items()
    }
    by_spark = bool(footers) and ROW_METADATA in (footers[0].metadata.metadata or {})
    return tuple(
        _column(each, column, by_spark, statistics, redact)
        for each, column in zip(fields, arrow, strict=True)
    )


def schema_hash(columns: Iterable[ColumnInfo]) -> str:
    return text_hash((each.name, each.type) for each in columns)


def _column(
    field: types.SparkField,
    column: pa.Field,
    by_spark: bool,
    by_name: Mapping[str, Statistics],
    redact: Callable[[str], str],
) -> ColumnInfo:
    """Spark's nullability of nested types describes a plan and is no guarantee: it is left out."""
    statistics = by_name.get(field["name"]) or Statistics(0)
    id = (column.metadata or {}).get(b"PARQUET:field_id")
    return ColumnInfo(
        name=field["name"],
        type=types.text(field["type"]),
        nullable=column.nullable,
        field_id=None if id is None else int(id),
        shape=shape_of(types.nullable(field["type"]) if by_spark else field["type"]),
        nulls=statistics.nulls,
        min=_bound_text(statistics.least, redact),
        max=_bound_text(statistics.greatest, redact),
    )


# -- statistics ---------------------------------------------------------------------------


def statistics_of(
    footers: Sequence[Footer], schema: pa.Schema | None = None
) -> dict[str, Statistics]:
    """By column, for those that are not made of others. Bounds are Python's own values."""
    if schema is None:
        if not footers:
            return {}
        schema = footers[0].metadata.schema.to_arrow_schema()
    rows = sum(footer.metadata.num_rows for footer in footers)
    by_column, leaf = {}, 0
    for column in schema:
        if not pa.types.is_nested(column.type):
            chunks = [chunk for footer in footers for chunk in _chunks(footer.metadata, leaf)]
            silent = any(_hides_nan(footer.metadata, leaf, column.name) for footer in footers)
            by_column[column.name] = _merged(rows, chunks, silent)
        leaf += _leaves(column.type)
    return by_column


def _leaves(type: pa.DataType) -> int:
    """How many columns a field has in the file."""
    if not pa.types.is_nested(type):
        return 1
    if pa.types.is_map(type):
        return _leaves(type.key_type) + _leaves(type.item_type)
    return sum(_leaves(type.field(i).type) for i in range(type.num_fields))


def _chunks(metadata: Any, leaf: int) -> list[Any]:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return [group.column(leaf).statistics for group in groups if group.num_rows]


def _hides_nan(metadata: Any, leaf: int, name: str) -> bool:
    """Whether bounds of this column may leave NaN out, or are cut short."""
    writer = metadata.created_by or ""
    if metadata.schema.column(leaf).physical_type not in _FLOATING:
        return not writer.startswith(_EXACT_WRITERS)
    if writer.startswith("parquet-mr "):
        return False
    listed = (metadata.metadata or {}).get(NAN_METADATA.encode())
    return listed is None or name in msgspec.json.decode(listed)


def _merged(rows: int, chunks: Sequence[Any], silent: bool) -> Statistics:
    if any(chunk is None for chunk in chunks):
        return Statistics(rows)
    has_null_counts = all(chunk.has_null_count for chunk in chunks)
    nulls = sum(chunk.null_count for chunk in chunks) if has_null_counts else None
    filled = [chunk for chunk in chunks if chunk.num_values]
    if silent or not filled or not all(chunk.has_min_max for chunk in filled):
        return Statistics(rows, nulls)
    try:
        least, greatest = min(c.min for c in filled), max(c.max for c in filled)
    except (ValueError, OverflowError, TypeError, pa.ArrowException):
        return Statistics(rows, nulls)  # a date that Python does not have
    if any(isinstance(b, float) and math.isnan(b) for c in filled for b in (c.min, c.max)):
        return Statistics(rows, nulls)
    return Statistics(rows, nulls, least, greatest)


def _bound_text(value: object, redact: Callable[[str], str]) -> str | None:
    """A bound as text; empty if it would be truncated or masked."""
    match value:
        case bool():
            text = "true" if value else "false"
        case float():
            text = repr(value)
        case datetime() | date():
            text = value.isoformat()
        case int() | Decimal() | str():
            text = str(value)
        case _:
            return None
    return text if len(text) <= MAX_STATISTIC_CHARS and redact(text) == text else None
