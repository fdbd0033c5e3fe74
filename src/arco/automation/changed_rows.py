"""Changed rows, for parts that follow the commits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from arco.execution.tables import PARTITION_STATUS, PARTITIONS
from arco.orchestration import states
from arco.orchestration.tables import TASKS
from arco.state.table import Row, Table

R = TypeVar("R", bound=Row)
AssetPartition = tuple[str, str]
"""An asset's id and a partition."""


class TableRows(Protocol):
    """The rows of a table to take in."""

    def __call__(self, table: Table[R], /) -> Iterable[R]: ...


def places(rows_of: TableRows) -> set[AssetPartition]:
    """The partitions that got a version, failed, were held or released, or whose task ended."""
    changed = {(row.asset_id, row.partition_key) for row in rows_of(PARTITIONS)}
    changed |= {(row.asset_id, row.partition_key) for row in rows_of(PARTITION_STATUS)}
    tasks = (row for row in rows_of(TASKS) if row.state in states.TERMINAL)
    return changed | {(row.asset_id, row.partition_key) for row in tasks}
