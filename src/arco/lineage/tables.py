"""Lineage's tables: three layers of edges between assets, and edges between columns.

Assets go by their ids; columns by the names that outputs have them under, and the time of that
output, which tells which column had the name then. Tables for upstream traversals are sharded by
the target, those for downstream by the source. Edges are those of deployed code and of people;
metadata of other edges stays. Executions move to history.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from arco.state.table import LOOKED_UP_GROUP, History, Row, Table
from servo.contract.task import Confidence, Influence, LineageMethod

KEPT_HOT = timedelta(days=7)
SPREAD = 32
"""Of the outputs of an asset over buckets; see `arco.state.table`."""


EdgeOrigin = Literal["code", "output", "manual", "dbt", "openlineage"]
ImportOrigin = Literal["dbt", "openlineage"]
IMPORTED_FROM: Final[tuple[ImportOrigin, ...]] = get_args(ImportOrigin)


class EdgeRow(Row, frozen=True):
    """Layer 1, the topology: that an asset reads another, through one of its inputs."""

    target: str
    edge_id: str
    source: str
    parameter: str
    origin: EdgeOrigin = "output"
    """Its source: deployed code; an output, if no code has declared its inputs; a person; an import
    from dbt; a report of others."""
    since: datetime | None = None
    owner: str = ""
    description: str = ""
    added_by: str = ""
    """Of a manual edge: who has added it."""


class EdgeSourceRow(Row, frozen=True):
    """An edge without what else is said of it."""

    target: str
    edge_id: str
    source: str


class TopologyRow(Row, frozen=True):
    """Code has declared the inputs of an asset: outputs do not change its edges."""

    target: str
    declared_at: datetime


class EdgeMetadataRow(Row, frozen=True):
    """Layer 2: when an edge was seen."""

    target: str
    edge_id: str
    first_seen_run: str
    first_seen_at: datetime
    last_seen_run: str
    last_seen_at: datetime
    executions: int
    transform: str


class ExecutionRow(Row, frozen=True):
    """Layer 3: one output, and what of one input went into it."""

    target: str
    materialization_id: str
    edge_id: str
    source: str
    partition_key: str
    run_id: str
    task_id: str
    source_materializations: list[str]
    source_partitions: list[str]
    rows_read: int
    rows_written: int
    bytes_written: int
    recorded_at: datetime
    source_count: int = 0
    """How many versions went into it where the lists hold only the first; 0 where they hold all."""
    source_fingerprint: str = ""
    """Given with the count: SHA-256 of the sorted ids of all of them, one to a line."""
    source_list: str = ""
    """The object that lists all of them, by its digest: Parquet, as long as the run's versions."""


class ReadVersionsRow(Row, frozen=True):
    """Of an output, which versions of one input went into it."""

    target: str
    materialization_id: str
    edge_id: str
    source: str
    source_materializations: list[str]
    source_partitions: list[str]
    rows_read: int


class ColumnEdgeRow(Row, frozen=True):
    """One source of a column, by the newest output of its asset."""

    target: str
    target_column: str
    """Empty for what decides about the rows as a whole."""
    source: str
    source_column: str
    kind: Influence
    masked: bool
    method: LineageMethod
    confidence: Confidence
    since: datetime
    said_at: datetime | None = None
    """The time of the column names, if the edge comes from an earlier output than the newest."""


class CoverageRow(Row, frozen=True):
    """How much is known about the newest output of an asset."""

    target: str
    method: LineageMethod
    confidence: Confidence
    coverage_percent: int
    reason: str
    columns: list[str]
    """Those whose sources are known; some may have none."""
    unmapped: list[str]
    since: datetime
    position: int = 0
    """Of the report of that output: what newest means."""
    observed_at: datetime | None = None
    """Since when that output counts: when it was reported, or approved. Unlike `since`, it also
    moves with outputs that change nothing."""
    materialization_id: str = ""
    """That output."""
    named_at: datetime | None = None
    """When it was reported, if it was held and approved later."""
    state_position: int = 0
    """The position of the `ColumnStateRow` that holds; 0 in rows from before this was kept."""
    outputs: int = 0
    """The number of outputs that count with this coverage."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether all of its outputs were withdrawn."""
        return bool(self.state_position) and not self.outputs

    @property
    def names_of(self) -> datetime | None:
        """The time of the names in it."""
        return self.named_at or self.observed_at


class ColumnStateRow(Row, frozen=True):
    """The columns of an asset from an output on, until another output changed them.

    The last few are kept: after a version is withdrawn, the state before it holds again.
    """

    target: str
    position: int
    """Of the report of that output."""
    materialization_id: str
    """That output."""
    partition_key: str
    columns: str
    """All `ColumnEdgeRow`s that outputs have said, as JSON."""
    coverage: str
    """`CoverageRow`, as JSON."""
    since: datetime
    outputs: int | None = None
    """How many outputs that count have said it, while another state holds; None: some."""


class HeldRow(Row, frozen=True):
    """The lineage of a held output, until a decision."""

    target: str
    materialization_id: str
    recorded: str
    """`LineageRecorded`, as JSON."""
    held_at: datetime
    position: int


class UseRow(Row, frozen=True):
    """A column edge, found from its source."""

    source: str
    source_column: str
    target: str
    target_column: str
    kind: Influence
    masked: bool
    method: LineageMethod
    confidence: Confidence
    since: datetime | None = None
    said_at: datetime | None = None


class DependentRow(Row, frozen=True):
    """An edge, found from its source."""

    source: str
    target: str
    since: datetime


EDGES = Table(
    "lineage", "asset_edges", EdgeRow, key=["target", "edge_id"], group_rows=LOOKED_UP_GROUP
)
EDGE_SOURCES = EDGES.view(EdgeSourceRow)
TOPOLOGIES = Table("lineage", "topologies", TopologyRow, key=["target"], group_rows=LOOKED_UP_GROUP)
EDGE_METADATA = Table("lineage", "asset_edge_metadata", EdgeMetadataRow, key=["target", "edge_id"])
EXECUTIONS = Table(
    "lineage",
    "edge_executions",
    ExecutionRow,
    key=["target", "materialization_id", "edge_id"],
    spread=SPREAD,
    history=History("recorded_at", KEPT_HOT),
    group_rows=LOOKED_UP_GROUP,
)
READ_VERSIONS = EXECUTIONS.view(ReadVersionsRow)
COLUMNS = Table(
    "lineage",
    "column_edges",
    ColumnEdgeRow,
    key=["target", "target_column", "source", "source_column", "kind"],
    group_rows=LOOKED_UP_GROUP,
)
COVERAGE = Table(
    "lineage", "column_coverage", CoverageRow, key=["target"], group_rows=LOOKED_UP_GROUP
)
COLUMN_STATES = Table(
    "lineage",
    "column_states",
    ColumnStateRow,
    key=["target", "position"],
    group_rows=LOOKED_UP_GROUP,
)
HELD = Table("lineage", "held_outputs", HeldRow, key=["target", "materialization_id"])
USES = Table(
    "lineage",
    "column_uses",
    UseRow,
    key=["source", "source_column", "target", "target_column", "kind"],
    group_rows=LOOKED_UP_GROUP,
)
DEPENDENTS = Table(
    "lineage",
    "asset_dependents",
    DependentRow,
    key=["source", "target"],
    group_rows=LOOKED_UP_GROUP,
)

BY_NAMES = "lineage.coverage"
"""A table of earlier versions, which had lineage by the names of assets. Nothing reads or writes
those any more: a rebuild makes the tables above from the log."""
