"""Conditions that rows fulfil: what a check requires of one row, in both dialects.

Each is true, or null, of a row that fits; a null value fits every condition but
`not_null`. A NaN lies in no range, and is equal to itself. Zero has no sign. Texts
are compared by their code points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from arco.worker.checks import dialects, values
from arco.worker.checks.dialects import Dialect, comparable
from arco.worker.checks.subject_columns import CheckColumn
from arco.worker.checks.values import Span

Condition: TypeAlias = Callable[[Dialect], str]

FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
"""The years 1 to 9999 in days since 1970."""


def no_nulls(columns: Sequence[CheckColumn]) -> Condition:
    """The condition that none of the columns is null."""
    return lambda sql: " AND ".join(f"{sql.column(each)} IS NOT NULL" for each in columns)


def between(column: CheckColumn, low: str | None, high: str | None) -> Condition:
    match column.family:
        case "float":
            return _between_doubles(column, low, high)
        case "text":
            bounds = ((">=", low), ("<=", high))
            return lambda sql: " AND ".join(
                f"{sql.words(column)} {sign} {sql.text(text)}"
                for sign, text in bounds
                if text is not None
            )
    return _within(column, values.span(column, low, high))


def _between_doubles(column: CheckColumn, low: str | None, high: str | None) -> Condition:
    bounds = [
        f"{sign} {dialects.double(values.double(column, text))}"
        for sign, text in ((">=", low), ("<=", high))
        if text is not None
    ]

    def condition(sql: Dialect) -> str:
        value = _double(sql, column)
        return " AND ".join([f"NOT isnan({value})", *(f"{value} {each}" for each in bounds)])

    return condition


def _within(column: CheckColumn, span: Span) -> Condition:
    least, greatest = _limits(column)
    low, high = span
    if column.family != "date":  # of which files hold more than there are literals for
        low = None if low is None or low <= least else low
        high = None if high is None or high >= greatest else high
    if (low is not None and low > greatest) or (high is not None and high < least):
        return _nothing(column)
    bounds = [
        f"{sign} {dialects.number(bound, column)}"
        for sign, bound in ((">=", low), ("<=", high))
        if bound is not None
    ]

    def condition(sql: Dialect) -> str:
        return " AND ".join(f"{comparable(sql, column)} {each}" for each in bounds) or "TRUE"

    return condition


def one_of(column: CheckColumn, texts: Sequence[str]) -> Condition:
    match column.family:
        case "text":
            return lambda sql: f"{sql.words(column)} IN ({', '.join(map(sql.text, texts))})"
        case "boolean":
            flags = sorted({str(values.boolean(text)).upper() for text in texts})
            return lambda sql: f"{sql.column(column)} IN ({', '.join(flags)})"
        case "float":
            # Not IN: with many values Spark compares bits, which differ for 0 and -0.
            doubles = [dialects.double(values.double(column, text)) for text in texts]
            return lambda sql: " OR ".join(f"{_double(sql, column)} = {each}" for each in doubles)
    least, greatest = _limits(column)
    exact = {values.exactly(column, text) for text in texts}
    held = sorted(each for each in exact if each is not None and least <= each <= greatest)
    if not held:
        return _nothing(column)
    listed = ", ".join(dialects.number(each, column) for each in held)
    return lambda sql: f"{comparable(sql, column)} IN ({listed})"


def like(column: CheckColumn, pattern: str) -> Condition:
    return lambda sql: sql.full_match(column, pattern)


def _nothing(column: CheckColumn) -> Condition:
    return lambda sql: f"{sql.column(column)} IS NULL"


def _double(sql: Dialect, column: CheckColumn) -> str:
    return f"CAST({sql.column(column)} AS DOUBLE)"


def _limits(column: CheckColumn) -> tuple[int, int]:
    """The limits of the column's type."""
    match column.family:
        case "date":
            return FIRST_DAY, LAST_DAY
        case "decimal":
            most = 10 ** column.digits[0] - 1
            return -most, most
        case "timestamp":
            return -(1 << 63), (1 << 63) - 1
    return -(1 << 63), (1 << 64) - 1
