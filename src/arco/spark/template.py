"""Values and places in the text of a query, as Spark SQL and its readers want them."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Final, NamedTuple

from servo.contract.partition import Scalar

_PLAIN: Final = re.compile(r"[^'\\$\x00-\x1f\x7f\ud800-\udfff]*")
_TAB: Final = "    "


class TemplateProblem(NamedTuple):
    """What is wrong with a text, and where: `start` to before `stop`."""

    message: str
    start: int
    stop: int


def literal(value: Scalar) -> str:
    """A value as Spark SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST({value} AS BIGINT)"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(' ', 'microseconds')}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            return f"'{value}'" if _PLAIN.fullmatch(value) else _spelled(value)


def _spelled(value: str) -> str:
    """A text by its bytes: what a backslash, `''` or `${}` means is a matter of settings."""
    return f"CAST(X'{value.encode('utf-8', 'replace').hex().upper()}' AS STRING)"


def shown(sql: str, start: int, stop: int) -> str:
    """The line of the text that a place is in, with marks below it, and where that is."""
    line = sql.count("\n", 0, start) + 1
    begin = sql.rfind("\n", 0, start) + 1
    end = sql.find("\n", start)
    whole = sql[begin : len(sql) if end < 0 else end].rstrip("\r")
    before = whole[: start - begin]
    marks = max(1, min(stop, begin + len(whole)) - start)
    gutter = " " * len(str(line))
    pad = "".join("\t" if sign == "\t" else " " for sign in before)
    return (
        f"line {line}, column {start - begin + 1}:\n"
        f"  {line} | {whole}\n"
        f"  {gutter} | {pad}{'^' * marks}"
    ).replace("\t", _TAB)
