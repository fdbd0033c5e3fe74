"""Queries over the tables `{t}` and `{u}` that Spark parses, and whose names it all finds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCHEMAS: Final = {
    "t": "a int, b int, xs array<int>, m map<string,int>, s struct<f:struct<g:int>>, d date",
    "u": "a int, k int",
}
COLUMNS: Final = {"t": ["a", "b", "xs", "m", "s", "d"], "u": ["a", "k"]}
_FILE: Final = Path(__file__).parents[1] / "golden" / "sql" / "accepted.sql"
ACCEPTED: Final = tuple(_FILE.read_text().rstrip("\n").split("\n\n"))


def with_tables(text: str, t: str, u: str) -> str:
    return text.replace("{t}", t).replace("{u}", u)
