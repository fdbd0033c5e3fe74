"""SQL in two dialects: the same values and functions, as DuckDB and as Spark write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from arco.worker.checks.columns import Column
from arco.worker.checks.regex import for_re2
from arco.worker.checks.values import EPOCH


class CannotSay(Exception):
    """The dialect has no words for this; the other one has."""


class Dialect(Protocol):
    def column(self, column: Column) -> str: ...

    def moment(self, column: Column) -> str:
        """A timestamp as microseconds since 1970; a date as those of its midnight."""

    def text(self, value: str) -> str: ...

    def full_match(self, column: Column, pattern: str) -> str: ...


class DuckSql:
    def column(self, column: Column) -> str:
        found = quoted(column.top)
        for field in column.path[1:]:
            found = f"struct_extract({found}, {self.text(field)})"
        return found

    def moment(self, column: Column) -> str:
        value = self.column(column)
        if column.family == "date":
            value = f"CAST({value} AS TIMESTAMP)"
        return f"epoch_us({value})"

    def text(self, value: str) -> str:
        if "\0" in value:  # which would end the statement
            data = "".join(f"\\x{byte:02X}" for byte in value.encode())
            return f"decode('{data}'::BLOB)"
        return "'" + value.replace("'", "''") + "'"

    def full_match(self, column: Column, pattern: str) -> str:
        translated = for_re2(pattern)
        if translated is None:
            raise CannotSay(pattern)
        return f"regexp_full_match({self.column(column)}, {self.text(translated)})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class SparkSql:
    """Texts are spelled as bytes: what a backslash means depends on a session's settings."""

    def __init__(self, type_of: Callable[[str], str]) -> None:
        """`type_of` tells the type of an expression."""
        self._type_of = type_of

    def column(self, column: Column) -> str:
        return ".".join(backticked(name) for name in column.path)

    def moment(self, column: Column) -> str:
        value = self.column(column)
        if column.family == "date":
            return f"(CAST(date_diff({value}, DATE'1970-01-01') AS BIGINT) * 86400000000)"
        if self._type_of(value) == "timestamp_ntz":
            epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
            return f"timestampdiff(MICROSECOND, {epoch}, {value})"
        return f"unix_micros({value})"

    def text(self, value: str) -> str:
        return f"CAST(X'{value.encode().hex()}' AS STRING)"

    def full_match(self, column: Column, pattern: str) -> str:
        return f"rlike({self.column(column)}, {self.text(whole(pattern))})"


def backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def whole(pattern: str) -> str:
    """A pattern of Java's for the whole of a value."""
    return f"\\A(?:{pattern})\\z"


# -- literals that both write alike -------------------------------------------------------


def number(value: int, column: Column) -> str:
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
