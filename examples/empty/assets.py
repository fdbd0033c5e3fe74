"""The assets of this project. Every module that imports `servo` is read."""

from __future__ import annotations

from servo import asset

NAMESPACE = "main"


@asset
def hello() -> list[dict[str, object]]:
    """An asset returns a table: rows, a pyarrow, pandas or polars table, or a Spark data frame."""
    return [{"id": 1, "text": "hello"}]
