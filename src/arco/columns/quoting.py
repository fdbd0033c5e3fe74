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


def unglobbed(path: str) -> str:
    """A path without patterns: escapes characters that DuckDB treats as patterns."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in path)
