"""SQL in two dialects: the same values and functions, as DuckDB and as Spark write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from arco.columns.quoting import backticked, literal, quoted
from arco.epoch import EPOCH
from arco.worker.checks.regex import for_re2
from arco.worker.checks.subject_columns import CheckColumn
from arco.worker.checks.values import MAX_US


class NotTranslatable(Exception):
    """This dialect cannot express it; the other one can."""


class Dialect(Protocol):
    def column(self, column: CheckColumn) -> str: ...

    def moment(self, column: CheckColumn) -> str:
        """A timestamp as microseconds since 1970; a date as days since then."""

    def words(self, column: CheckColumn) -> str:
        """A column of texts, to compare. Raises NotTranslatable where it knows no collations."""

    def text(self, value: str) -> str: ...

    def full_match(self, column: CheckColumn, pattern: str) -> str: ...


class DuckSql:
    def column(self, column: CheckColumn) -> str:
        sql = quoted(column.top)
        for field in column.path[1:]:
            sql = f"struct_extract({sql}, {self.text(field)})"
        return sql

    def moment(self, column: CheckColumn) -> str:
        value = self.column(column)
        if column.family == "date":
            return f"({value} - DATE '1970-01-01')"
        # The greatest and the least moment are infinities, of which epoch_us is null.
        epoch = "CAST('epoch' AS TIMESTAMP)"
        infinite = f"WHEN {value} > {epoch} THEN {MAX_US} WHEN {value} < {epoch} THEN -{MAX_US}"
        return f"coalesce(epoch_us({value}), CASE {infinite} END)"

    def words(self, column: CheckColumn) -> str:
        if column.collated:
            raise NotTranslatable(column.name)
        return self.column(column)

    def text(self, value: str) -> str:
        if "\0" in value:  # which would end the statement
            data = "".join(f"\\x{byte:02X}" for byte in value.encode())
            return f"decode('{data}'::BLOB)"
        return literal(value)

    def full_match(self, column: CheckColumn, pattern: str) -> str:
        translated = for_re2(pattern)
        if translated is None:
            raise NotTranslatable(pattern)
        return f"regexp_full_match({self.words(column)}, {self.text(translated)})"


class SparkSql:
    """Texts are written as bytes: the meaning of a backslash depends on the session's settings."""

    def __init__(self, type_of: Callable[[str], str]) -> None:
        """`type_of` tells the type of an expression."""
        self._type_of = type_of

    def column(self, column: CheckColumn) -> str:
        return ".".join(backticked(name) for name in column.path)

    def moment(self, column: CheckColumn) -> str:
        value = self.column(column)
        if column.family == "date":
            return f"date_diff({value}, DATE'1970-01-01')"
        if self._type_of(value) == "timestamp_ntz":
            epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
            return f"timestampdiff(MICROSECOND, {epoch}, {value})"
        return f"unix_micros({value})"

    def words(self, column: CheckColumn) -> str:
        return self.column(column)

    def text(self, value: str) -> str:
        return f"CAST(X'{value.encode().hex()}' AS STRING)"

    def full_match(self, column: CheckColumn, pattern: str) -> str:
        return f"rlike({self.column(column)}, {self.text(whole(pattern))})"


def comparable(sql: Dialect, column: CheckColumn) -> str:
    """A column's values, such that equal ones are the same moment in all time zones."""
    return sql.moment(column) if column.family == "timestamp" else sql.column(column)


def whole(pattern: str) -> str:
    """A pattern of Java's for the whole of a value."""
    return f"\\A(?:{pattern})\\z"


# -- literals that are equal in both ------------------------------------------------------


def number(value: int, column: CheckColumn) -> str:
    """A value of an exact column, as something to compare the column with."""
    match column.family:
        case "date":
            return f"DATE '{(EPOCH + timedelta(days=value)).date().isoformat()}'"
        case "decimal":
            precision, scale = column.digits
            return f"CAST('{_scaled(value, scale)}' AS DECIMAL({precision},{scale}))"
    return f"({value})"


def double(value: float) -> str:
    if math.isnan(value):
        return "CAST('NaN' AS DOUBLE)"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"CAST('{value!r}' AS DOUBLE)"


def _scaled(value: int, scale: int) -> str:
    digits = f"{abs(value):0{scale + 1}d}"
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if value < 0 else text
