"""Names and texts inside of SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name in DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def backticked(name: str) -> str:
    """A name in Spark."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in DuckDB, which does not know escapes."""
    return "'" + text.replace("'", "''") + "'"
