"""All golden cases."""

from __future__ import annotations

from tests.golden.lineage.case import Case
from tests.golden.lineage.cases import combining, frames, nesting, queries, rows, values

CASES: tuple[Case, ...] = (
    *values.CASES,
    *rows.CASES,
    *combining.CASES,
    *frames.CASES,
    *queries.CASES,
    *nesting.CASES,
)
