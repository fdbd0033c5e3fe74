"""The need of a check: a proven finding, rows to count, or code to run."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from arco.worker.checks.conditions import Condition
from arco.worker.checks.subject import Subject
from arco.worker.checks.subject_columns import CheckColumn
from servo.contract.manifest import Check, Code
from servo.contract.task import CheckMethod, CheckStatus


class Finding(NamedTuple):
    """The outcome of a check."""

    status: CheckStatus
    expected: str = ""
    actual: str = ""
    message: str = ""
    failing: int | None = None
    method: CheckMethod = ""
    wall_ms: int = 0
    sample: tuple[str, ...] = ()


class ProvenFinding(NamedTuple):
    """Proven by the footers or by the catalog."""

    finding: Finding


class FailingRows(NamedTuple):
    """Rows of which a condition is false; `counted` if the footers have the number."""

    condition: Condition
    expected: str
    counted: int | None = None


class FalseRows(NamedTuple):
    """Rows of which Spark SQL is not true."""

    sql: str
    for_duckdb: str | None = None
    """The same for DuckDB, if it can express it."""


class NewestValue(NamedTuple):
    """The greatest value of a column: microseconds since 1970, or days of a date."""

    column: CheckColumn
    max_age_s: int


class DuplicateRows(NamedTuple):
    """Rows with the key of an earlier row. Rows with a null in the key do not count."""

    columns: tuple[CheckColumn, ...]
    dense: tuple[int, int] | None = None
    """The range of integer keys that are dense enough for a bitmap."""


class OrphanRows(NamedTuple):
    """Rows with a value that is missing in a column of another asset."""

    column: CheckColumn
    target: Subject
    target_column: CheckColumn


class PythonCall(NamedTuple):
    code: Code


Need: TypeAlias = (
    ProvenFinding | FailingRows | FalseRows | NewestValue | DuplicateRows | OrphanRows | PythonCall
)


class Prepared(NamedTuple):
    at: int
    """Its place among the checks."""
    check: Check
    columns: tuple[CheckColumn, ...]
    need: Need
