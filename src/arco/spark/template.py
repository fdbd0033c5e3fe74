"""Literals for the text of a query, and the places of errors in it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

_PLAIN: Final = re.compile(r"[^'\\$\x00-\x1f\x7f\ud800-\udfff]*")
_TAB: Final = "    "
_OPERAND: Final = re.compile(
    r"(?:[\w)`'\"}]\s*-|(?<!/)\*(?!/)|[+%]|(?<!\*)/)\s*$|\b(?:select|distinct)\s*$", re.IGNORECASE
)
"""What stands before an operand of arithmetic, or before the first column of a query."""
_NEAR: Final = 80
_OPERATOR: Final = re.compile(r"\s*(?:[+*%]|-(?!-)|/(?!\*)|(?:as|from)\b)", re.IGNORECASE)


class TemplateProblem(NamedTuple):
    """A problem in a text, and its place: `start` to before `stop`."""

    message: str
    start: int
    stop: int


def literal(value: Any) -> str:
    """A value as Spark SQL writes it, of one type whatever the value: integers are BIGINT.

    A list is its items, with commas between them. ValueError for what SQL has no literal for.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST({value} AS BIGINT)"
        case float():
            return _signed(f"{value!r}D")
        case Decimal():
            return _signed(f"{value:f}BD")
        case datetime():
            utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f"TIMESTAMP'{utc.isoformat(' ', 'microseconds')}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            return f"'{value}'" if _PLAIN.fullmatch(value) else _spelled(value)
        case [_, *_] if not any(isinstance(item, list) for item in value):
            return ", ".join(literal(item) for item in value)
    kind = "a list of lists" if value else "an empty list"
    raise ValueError(kind if isinstance(value, list) else "an object")


def config_literal(value: Any, before: str, after: str) -> str:
    """A value of the configuration between two parts of a query.

    An integer is plain digits, as its author would write it: LIMIT, `date_add` and the like take
    nothing else. Where it is a column of its own or an operand of arithmetic it is BIGINT, so
    that neither its type nor an overflow depends on how large it is.
    """
    if type(value) is not int:
        return literal(value)
    wide = _OPERAND.search(before[-_NEAR:]) or _OPERATOR.match(after)
    return _signed(f"{value}L" if wide else str(value))


def _signed(number: str) -> str:
    """A negative number in brackets: two minus signs in a row begin a comment."""
    return f"({number})" if number.startswith("-") else number


def _spelled(value: str) -> str:
    """A text as bytes: the meaning of a backslash, `''` or `${}` depends on settings."""
    return f"CAST(X'{value.encode('utf-8', 'replace').hex().upper()}' AS STRING)"


def marked_line(sql: str, start: int, stop: int) -> str:
    """The line of a place in the text, with marks below it, and its position."""
    line = sql.count("\n", 0, start) + 1
    begin = sql.rfind("\n", 0, start) + 1
    end = sql.find("\n", start)
    content = sql[begin : len(sql) if end < 0 else end].rstrip("\r")
    before = content[: start - begin]
    marks = max(1, min(stop, begin + len(content)) - start)
    gutter = " " * len(str(line))
    pad = "".join("\t" if sign == "\t" else " " for sign in before)
    return (
        f"line {line}, column {start - begin + 1}:\n"
        f"  {line} | {content}\n"
        f"  {gutter} | {pad}{'^' * marks}"
    ).replace("\t", _TAB)
