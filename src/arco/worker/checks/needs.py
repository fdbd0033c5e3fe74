"""What it takes to answer a check: something known, something counted, or code to run."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from arco.worker.checks.conditions import Condition
from arco.worker.checks.subject import Subject
from arco.worker.checks.subject_columns import CheckColumn
from servo.contract.manifest import Check, Code
from servo.contract.task import CheckMethod, CheckStatus


class Finding(NamedTuple):
    """What became of a check."""

    status: CheckStatus
    expected: str = ""
    actual: str = ""
    message: str = ""
    failing: int | None = None
    method: CheckMethod = ""
    wall_ms: int = 0
    sample: tuple[str, ...] = ()


class ProvenFinding(NamedTuple):
    """The footers, or the catalog, have told."""

    finding: Finding


class FailingRows(NamedTuple):
    """Rows of which a condition is false; `counted` if the footers know the number."""

    condition: Condition
    expected: str
    counted: int | None = None


class FalseRows(NamedTuple):
    """Rows of which Spark SQL is not true."""

    sql: str
    for_duckdb: str | None = None
    """The same in DuckDB's words, if it has them."""


class NewestValue(NamedTuple):
    """The greatest value of a column: microseconds since 1970, or days of a date."""

    column: CheckColumn
    max_age_s: int


class DuplicateRows(NamedTuple):
    """Rows whose key another row before has; those with a null in the key have none."""

    columns: tuple[CheckColumn, ...]
    dense: tuple[int, int] | None = None
    """Whole numbers between which all keys lie, if these are few enough for a bit each."""


class OrphanRows(NamedTuple):
    """Rows with a value that a column of another asset has not."""

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
