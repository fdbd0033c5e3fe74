"""Lineage is the same however the log is cut, and looks the same from both ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arco.lineage.events import HeldLineageDecided, LineageRecorded
from arco.lineage.fold import STAGES
from arco.lineage.tables import COLUMNS, COVERAGE, DEPENDENTS, EDGES, EXECUTIONS, USES
from arco.log.envelope import Recorded, make_event
from arco.state.fold import Chain, fold
from arco.state.table import Key, Table, Versioned
from servo.contract.task import (
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    MaterializationRef,
)

CHAIN = Chain(STAGES, [LineageRecorded, HeldLineageDecided])
START = datetime(2026, 1, 1)
ASSETS = ["n.a", "n.b", "n.c"]
KINDS = ["identity", "aggregation", "filter", "conditional"]

sources = st.builds(
    ColumnSource,
    st.sampled_from(ASSETS),
    st.sampled_from("xy"),
    st.sampled_from(KINDS),
    st.booleans(),
)
columns = st.builds(
    ColumnLineage,
    column=st.sampled_from("pq"),
    sources=st.lists(sources, max_size=3, unique_by=lambda s: (s.asset, s.column, s.kind)).map(
        lambda found: tuple(sorted(found))
    ),
    confidence=st.sampled_from(["high", "low"]),
)
versions = st.builds(
    MaterializationRef,
    partition=st.just(""),
    materialization_id=st.sampled_from(["v1", "v2"]),
    path=st.just("p"),
)
reads = st.builds(
    InputRef,
    asset=st.sampled_from(ASSETS),
    parameter=st.sampled_from(["", "one"]),
    materializations=st.lists(versions, max_size=2).map(tuple),
)
lineages = st.builds(
    Lineage,
    read=st.lists(reads, max_size=3).map(tuple),
    columns=st.lists(columns, max_size=2, unique_by=lambda c: c.column).map(tuple),
    influences=st.lists(sources, max_size=2, unique_by=lambda s: (s.asset, s.column, s.kind)).map(
        tuple
    ),
    method=st.just("plan"),
)
outputs = st.sampled_from(["m1", "m2", "m3", "m4"])
recorded = st.builds(
    LineageRecorded,
    asset=st.sampled_from(ASSETS),
    asset_id=st.just("id"),
    materialization_id=outputs,
    run_id=st.sampled_from(["r1", "r2"]),
    task_id=st.just("t"),
    held=st.booleans(),
    lineage=lineages,
)
decided = st.builds(
    HeldLineageDecided,
    asset=st.sampled_from(ASSETS),
    materialization_id=outputs,
    approved=st.booleans(),
)
Event = LineageRecorded | HeldLineageDecided
events = st.lists(st.one_of(recorded, recorded, decided), max_size=16)


class Kept:
    """Committed rows, between batches."""

    def __init__(self) -> None:
        self.tables: dict[Table[Any], dict[Key, Versioned[Any]]] = {}

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        return self.tables.get(table, {}).get(key)

    def scan(self, table: Table[Any], shard: Key) -> list[tuple[Key, Versioned[Any]]]:
        rows = self.tables.get(table, {}).items()
        return [(key, row) for key, row in rows if key[: len(shard)] == shard]

    def rows(self, table: Table[Any]) -> list[Any]:
        found = sorted(self.tables.get(table, {}).items())
        return [row for _, (_, row) in found if row is not None]


def folded(given: Sequence[Event], size: int) -> Kept:
    recorded = [
        Recorded(
            position=at,
            received_at=START + timedelta(minutes=at),
            event=make_event(e, id=str(at), time=START, source="t", tenant="t", workspace="w"),
            payload=e,
        )
        for at, e in enumerate(given, 1)
    ]
    kept = Kept()
    for first in range(0, len(recorded), size):
        found = fold(CHAIN, kept, recorded[first : first + size])
        assert found.failures == []
        for table, changes in found.changes.items():
            kept.tables.setdefault(table, {}).update(changes)
    return kept


@given(events, st.integers(1, 5))
def test_any_batches_give_the_same_rows(given: list[Event], size: int) -> None:
    whole, parts = folded(given, 1000), folded(given, size)
    for table in CHAIN.tables:
        assert whole.tables.get(table, {}) == parts.tables.get(table, {})


@given(events)
def test_column_edges_are_the_same_from_both_ends(given: list[Event]) -> None:
    kept = folded(given, 1000)
    forwards = {
        (r.target, r.target_column, r.source, r.source_column, r.kind, r.masked, r.confidence)
        for r in kept.rows(COLUMNS)
    }
    backwards = {
        (r.target, r.target_column, r.source, r.source_column, r.kind, r.masked, r.confidence)
        for r in kept.rows(USES)
    }
    assert forwards == backwards
    edges = {(r.source, r.target) for r in kept.rows(EDGES)}
    columns = {(r.source, r.target) for r in kept.rows(COLUMNS)}
    assert edges | columns == {(r.source, r.target) for r in kept.rows(DEPENDENTS)}


@given(events)
def test_edges_are_those_of_the_newest_output_that_counts(given: list[Event]) -> None:
    kept = folded(given, 1000)
    for coverage in kept.rows(COVERAGE):
        newest = given[coverage.position - 1]
        assert isinstance(newest, LineageRecorded) and newest.asset == coverage.target
        assert {(r.source, r.parameter) for r in kept.rows(EDGES) if r.target == newest.asset} == {
            (ref.asset, ref.parameter) for ref in newest.lineage.read
        }


@given(events)
def test_an_edge_is_counted_once_for_each_output(given: list[Event]) -> None:
    kept = folded(given, 1000)
    counted: dict[tuple[str, str], int] = {}
    for row in kept.rows(EXECUTIONS):
        counted[row.target, row.edge_id] = counted.get((row.target, row.edge_id), 0) + 1
    seen = {
        (row.target, row.edge_id): row.executions
        for table in CHAIN.tables
        if table.name == "edge_metadata"
        for row in kept.rows(table)
    }
    assert seen == counted


@given(events)
def test_the_whole_log_twice_is_the_log_once_where_outputs_read_something_and_count(
    given: list[Event],
) -> None:
    given = [e for e in given if isinstance(e, LineageRecorded) and e.lineage.read and not e.held]
    once, twice = folded(given, 1000), folded([*given, *given], 1000)
    for table in CHAIN.tables:
        assert once.rows(table) == twice.rows(table)
