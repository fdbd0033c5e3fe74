"""Lineage is the same however the log is cut, and looks the same from both ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from arco.lineage.events import (
    DeclaredInput,
    EdgeAdded,
    EdgeRemoved,
    HeldLineageDecided,
    InputsDeclared,
    LineageImported,
    LineageRecorded,
)
from arco.lineage.fold import STAGES
from arco.lineage.tables import COLUMNS, COVERAGE, DEPENDENTS, EDGES, EXECUTIONS, USES, UseRow
from arco.log.envelope import Payload, Recorded, make_event
from arco.state.fold import Chain, fold
from arco.state.table import Key, Table, Versioned
from servo.contract.task import (
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    MaterializationRef,
)

TYPES: list[type[Payload]] = [
    LineageRecorded,
    HeldLineageDecided,
    InputsDeclared,
    EdgeAdded,
    EdgeRemoved,
    LineageImported,
]
CHAIN = Chain(STAGES, TYPES)
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
assets = st.sampled_from(ASSETS)


def output_of(asset: str, **fields: Any) -> LineageRecorded:
    return LineageRecorded(asset=asset, asset_id=asset, **fields)


recorded = st.builds(
    output_of,
    asset=assets,
    materialization_id=outputs,
    run_id=st.sampled_from(["r1", "r2"]),
    task_id=st.just("t"),
    held=st.booleans(),
    lineage=lineages,
)
decided = st.builds(
    HeldLineageDecided,
    asset_id=assets,
    materialization_id=outputs,
    approved=st.booleans(),
)
declared = st.builds(
    InputsDeclared,
    asset_id=assets,
    inputs=st.lists(
        st.builds(DeclaredInput, assets, st.sampled_from(["", "one"]), st.just("") | assets),
        max_size=3,
        unique=True,
    ).map(tuple),
)
column_pairs = st.sampled_from([("", ""), ("x", "p"), ("y", "q"), ("x", "")])


def said(type: Any, source: str, target: str, pair: tuple[str, str]) -> Any:
    return type(source_id=source, target_id=target, source_column=pair[0], target_column=pair[1])


manual = st.builds(said, st.sampled_from([EdgeAdded, EdgeRemoved]), assets, assets, column_pairs)
imported = st.builds(
    LineageImported,
    asset_id=assets,
    inputs=st.lists(assets, max_size=2, unique=True).map(tuple),
    lineage=st.none() | lineages,
)
Event = (
    LineageRecorded
    | HeldLineageDecided
    | InputsDeclared
    | EdgeAdded
    | EdgeRemoved
    | LineageImported
)
events = st.lists(st.one_of(recorded, recorded, decided, declared, manual), max_size=16)
with_imports = st.lists(
    st.one_of(recorded, recorded, decided, declared, manual, imported), max_size=16
)


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


@given(with_imports, st.integers(1, 5))
def test_any_batches_give_the_same_rows(given: list[Event], size: int) -> None:
    whole, parts = folded(given, 1000), folded(given, size)
    for table in CHAIN.tables:
        assert whole.tables.get(table, {}) == parts.tables.get(table, {})


@given(with_imports)
def test_column_edges_are_the_same_from_both_ends(given: list[Event]) -> None:
    kept = folded(given, 1000)
    names = UseRow.__struct_fields__
    forwards, backwards = (
        {tuple(getattr(row, name) for name in names) for row in kept.rows(table)}
        for table in (COLUMNS, USES)
    )
    assert forwards == backwards
    edges = {(r.source, r.target) for r in kept.rows(EDGES)}
    columns = {(r.source, r.target) for r in kept.rows(COLUMNS)}
    assert edges | columns == {(r.source, r.target) for r in kept.rows(DEPENDENTS)}


@given(events)
def test_an_edge_leaves_with_a_deployment_or_a_person_alone(given: list[Event]) -> None:
    before: set[tuple[str, str]] = set()
    manual: set[tuple[str, str]] = set()
    for at, event in enumerate(given, 1):
        kept = folded(given[:at], 1000)
        edges = {(r.target, r.edge_id) for r in kept.rows(EDGES)}
        now_manual = {(r.target, r.edge_id) for r in kept.rows(EDGES) if r.origin == "manual"}
        if isinstance(event, InputsDeclared):
            of_code = {
                (r.source, r.parameter)
                for r in kept.rows(EDGES)
                if r.target == event.asset_id and r.origin != "manual"
            }
            assert of_code == {(each.source, each.parameter) for each in event.inputs}
        elif not isinstance(event, EdgeRemoved):
            assert before <= edges
        if not isinstance(event, EdgeRemoved):
            assert manual <= now_manual
        before, manual = edges, now_manual


@given(events)
def test_columns_of_what_was_read_are_those_of_the_newest_output(given: list[Event]) -> None:
    kept = folded(given, 1000)
    for coverage in kept.rows(COVERAGE):
        newest = given[coverage.position - 1]
        assert isinstance(newest, LineageRecorded) and newest.asset_id == coverage.target
        later = given[coverage.position :]
        if any(isinstance(e, InputsDeclared | EdgeAdded) for e in later):
            continue
        read = {ref.asset for ref in newest.lineage.read}
        rows = [r for r in kept.rows(COLUMNS) if r.target == newest.asset and r.source in read]
        expected = {
            (each.column, s.asset, s.column, s.kind)
            for each in newest.lineage.columns
            for s in each.sources
        } | {("", s.asset, s.column, s.kind) for s in newest.lineage.influences}
        traced = {
            (r.target_column, r.source, r.source_column, r.kind)
            for r in rows
            if r.method != "manual"
        }
        assert traced <= {e for e in expected if e[1] in read}


ONE_KEY_FOR_TWO = [
    output_of(
        "n.a",
        materialization_id="m1",
        run_id="r1",
        task_id="t",
        lineage=Lineage(read=(InputRef(asset="n.a"),), method="plan"),
    ),
    InputsDeclared(
        asset_id="n.a", inputs=(DeclaredInput("n.b", "", "n.a"), DeclaredInput("n.a", "", "n.a"))
    ),
]


@example(ONE_KEY_FOR_TWO)
@given(events)
def test_an_edge_is_counted_once_for_each_output(given: list[Event]) -> None:
    kept = folded(given, 1000)
    counted: dict[tuple[str, str], int] = {}
    for row in kept.rows(EXECUTIONS):
        counted[row.target, row.edge_id] = counted.get((row.target, row.edge_id), 0) + 1
    seen = {
        (row.target, row.edge_id): row.executions
        for table in CHAIN.tables
        if table.name == "asset_edge_metadata"
        for row in kept.rows(table)
    }
    assert _of_targets(seen) == _of_targets(counted)
    # Of an input that older outputs have by its key, what was seen is by its id once code says so.
    declared = [each for e in given if isinstance(e, InputsDeclared) for each in e.inputs]
    if all(each.key in ("", each.source) for each in declared):
        assert seen == counted


def _of_targets(by_edge: dict[tuple[str, str], int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (target, _), count in by_edge.items():
        totals[target] += count
    return totals


@given(events)
def test_the_whole_log_twice_is_the_log_once_where_outputs_read_something_and_count(
    given: list[Event],
) -> None:
    given = [e for e in given if isinstance(e, LineageRecorded) and e.lineage.read and not e.held]
    once, twice = folded(given, 1000), folded([*given, *given], 1000)
    for table in CHAIN.tables:
        assert once.rows(table) == twice.rows(table)
