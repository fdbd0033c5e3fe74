"""Spark SQL predicates that DuckDB understands in the same way.

Most expressions of checks compare columns with each other or with a constant. Where both engines
are known to give the same result, DuckDB evaluates them: comparisons of values of one kind, `AND`,
`OR`, `NOT`, `IN`, `BETWEEN`, `IS NULL`. No arithmetic, no functions, no conversions: those are
Spark's own.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError

from arco.worker.checks.dialects import DuckSql
from arco.worker.checks.subject_columns import CheckColumn, Columns

_SQL: Final = DuckSql()
_COMPARED: Final = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_JOINED: Final = {"And": "AND", "Or": "OR"}
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGITS: Final = 38
_INTEGER_DIGITS: Final = 19


class _SparkOnly(Exception):
    """The expression has something that only Spark supports."""


class _Operand(NamedTuple):
    sql: str
    kind: str
    """What it can be compared with."""
    whole: int = 0
    scale: int = 0
    """Digits before and after the point, of an exact number."""


def for_duckdb(sql: str, columns: Columns) -> str | None:
    """The same predicate for DuckDB, or None."""
    if "\\" in sql or '"' in sql:  # what these mean depends on a session's settings
        return None
    try:
        tree = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        return None
    try:
        return _PredicateReader(columns).predicate(tree)
    except (_SparkOnly, RecursionError):
        return None


class _PredicateReader:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def predicate(self, node: Any) -> str:
        kind = type(node).__name__
        if kind in _JOINED:
            left, right = self.predicate(node.left), self.predicate(node.right)
            return f"({left} {_JOINED[kind]} {right})"
        if kind in _COMPARED:
            return self._compared(node.left, _COMPARED[kind], node.right)
        match kind:
            case "Paren":
                return self.predicate(node.this)
            case "Not":
                return f"(NOT {self.predicate(node.this)})"
            case "Boolean":
                return "TRUE" if node.this else "FALSE"
            case "Is" if type(node.expression).__name__ == "Null":
                return f"({self._column(node.this).sql} IS NULL)"
            case "Between" if set(_given(node)) == {"this", "low", "high"}:
                low = self._compared(node.this, ">=", node.args["low"])
                high = self._compared(node.this, "<=", node.args["high"])
                return f"({low} AND {high})"
            case "In" if set(_given(node)) == {"this", "expressions"}:
                equal = [self._compared(node.this, "=", each) for each in node.expressions]
                return f"({' OR '.join(equal)})"
            case "Column":
                operand = self._column(node)
                if operand.kind == "boolean":
                    return operand.sql
        raise _SparkOnly

    def _compared(self, left: Any, sign: str, right: Any) -> str:
        first, second = self._operand(left), self._operand(right)
        number = {first.kind, second.kind}
        exact = max(first.whole, second.whole) + max(first.scale, second.scale) <= _DIGITS
        alike = first.kind == second.kind and exact
        if not alike and number != {"double", "constant"} and number != {"number", "constant"}:
            raise _SparkOnly
        if number == {"constant"} or not exact:
            raise _SparkOnly
        return f"({first.sql} {sign} {second.sql})"

    def _operand(self, node: Any) -> _Operand:
        match type(node).__name__:
            case "Column":
                return self._column(node)
            case "Paren":
                return self._operand(node.this)
            case "Neg":
                inner = self._operand(node.this)
                if inner.kind == "constant":
                    return inner._replace(sql=f"(-{inner.sql})")
            case "Literal":
                return _literal(node)
            case "Cast" if str(node.to.this.name) == "DATE":
                if type(node.this).__name__ == "Literal" and _DAY.fullmatch(node.this.name):
                    return _Operand(f"DATE '{node.this.name}'", "date")
            case "Boolean":
                return _Operand("TRUE" if node.this else "FALSE", "boolean")
        raise _SparkOnly

    def _column(self, node: Any) -> _Operand:
        if type(node).__name__ != "Column":
            raise _SparkOnly
        column = self._columns.at([part.name for part in node.parts])
        if column is None or column.collated:
            raise _SparkOnly
        return _operand(column)


def _given(node: Any) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _literal(node: Any) -> _Operand:
    text = str(node.name)
    if node.is_string:
        if "'" in text:  # two quotes are one, or none, by a setting
            raise _SparkOnly
        return _Operand(_SQL.text(text), "text")
    if _NUMBER.fullmatch(text) is None:
        raise _SparkOnly
    whole, _, fraction = text.partition(".")
    return _Operand(text, "constant", len(whole), len(fraction))


def _operand(column: CheckColumn) -> _Operand:
    sql, type = _SQL.column(column), column.type
    match column.family:
        case "integer" if pa.types.is_signed_integer(type):
            return _Operand(sql, "number", _INTEGER_DIGITS)
        case "decimal":
            return _Operand(sql, "number", type.precision - type.scale, type.scale)
        case "float" if pa.types.is_float64(type):
            return _Operand(sql, "double")
        case "timestamp":
            return _Operand(_SQL.moment(column), "local" if type.tz is None else "instant")
        case "text" | "date" | "boolean":
            return _Operand(sql, column.family)
    return _Operand(sql, "other", _DIGITS + 1)
