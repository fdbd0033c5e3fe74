"""What it takes to answer a check: something known, something counted, or code to run."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from arco.worker.checks.columns import Column
from arco.worker.checks.conditions import Condition
from arco.worker.checks.subject import Subject
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


class Known(NamedTuple):
    """The footers, or the catalog, have told."""

    finding: Finding


class Misfits(NamedTuple):
    """Rows of which a condition is false; `known` if the footers have counted them."""

    condition: Condition
    expected: str
    known: int | None = None


class Untrue(NamedTuple):
    """Rows of which Spark SQL is not true."""

    sql: str
    for_duckdb: str | None = None
    """The same in DuckDB's words, if it has them."""


class Newest(NamedTuple):
    """The greatest moment of a column, in microseconds since 1970."""

    column: Column
    max_age_s: int


class Repeated(NamedTuple):
    """Rows whose key another row before has; those with a null in the key have none."""

    columns: tuple[Column, ...]
    dense: tuple[int, int] | None = None
    """Whole numbers between which all keys lie, if these are few enough for a bit each."""


class Orphans(NamedTuple):
    """Rows with a value that a column of another asset has not."""

    column: Column
    target: Subject
    target_column: Column


class Call(NamedTuple):
    code: Code


Need: TypeAlias = Known | Misfits | Untrue | Newest | Repeated | Orphans | Call


class Prepared(NamedTuple):
    at: int
    """Its place among the checks."""
    check: Check
    columns: tuple[Column, ...]
    need: Need
