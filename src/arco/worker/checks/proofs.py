"""What the footers of Parquet files prove without reading data.

Counts of rows and nulls are exact. The least and the greatest value are bounds: a
writer may have cut long texts, outwards. They prove that all values are in a range,
never that one is not. Those of floats prove nothing, for they leave NaN out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from arco.worker.checks import values
from arco.worker.checks.subject import File, Subject
from arco.worker.checks.subject_columns import CheckColumn


class NoStatistics(Exception):
    """The footers have no statistics of the column."""


class Bounds(NamedTuple):
    low: Any
    high: Any


def nulls(subject: Subject, column: CheckColumn) -> int | None:
    """How many rows have none in this column."""
    try:
        return sum(_nulls(file, column) for file in subject.files)
    except NoStatistics:
        return None


def _nulls(file: File, column: CheckColumn) -> int:
    rows: int = file.footer.metadata.num_rows
    if column.top not in file.names:
        return rows if file.added.get(column.top) is None else 0
    total = 0
    for statistics in _statistics(file, column):
        if not statistics.has_null_count:
            raise NoStatistics
        total += statistics.null_count
    return total


def bounds(subject: Subject, column: CheckColumn) -> Bounds | None:
    """The bounds of all values but null, as integers for exact columns; None if all are null.

    Raises NoStatistics.
    """
    ranges = [each for file in subject.files for each in _bounds(file, column)]
    if not ranges:
        return None
    return Bounds(min(each.low for each in ranges), max(each.high for each in ranges))


def _bounds(file: File, column: CheckColumn) -> Iterator[Bounds]:
    if column.top not in file.names:
        constant = file.added.get(column.top)
        if constant is not None:
            value = _value(column, constant)
            yield Bounds(value, value)
        return
    for statistics in _statistics(file, column):
        if statistics.num_values:
            if not statistics.has_min_max:
                raise NoStatistics
            yield _of_group(column, statistics)


def _of_group(column: CheckColumn, statistics: Any) -> Bounds:
    try:
        return Bounds(_value(column, statistics.min), _value(column, statistics.max))
    except (ValueError, ArithmeticError, TypeError, pa.ArrowException):
        raise NoStatistics from None  # a day or a moment, maybe, that Python has no value for


def _value(column: CheckColumn, value: object) -> Any:
    if column.family == "text":
        if isinstance(value, str):
            return value
    elif column.family in values.EXACT and str(column.type) != "uint64":
        unit = values.unit(column, value)
        if unit is not None:
            return unit
    raise NoStatistics


def _statistics(file: File, column: CheckColumn) -> Iterator[Any]:
    """Of each row group. Only for a plain value: what is in lists has no rows of its own."""
    metadata = file.footer.metadata
    if column.family in ("nested", "other") or any("." in name for name in column.path):
        raise NoStatistics
    leaves = file.leaves.get(column.name.lower(), [])
    if len(leaves) != 1 or metadata.schema.column(leaves[0]).max_repetition_level:
        raise NoStatistics
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(leaves[0]).statistics
        if statistics is None:
            raise NoStatistics
        yield statistics
