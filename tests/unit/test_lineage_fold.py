"""The rows of lineage, and walks through them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from arco.lineage.events import HeldLineageDecided, LineageRecorded
from arco.lineage.fold import STAGES
from arco.lineage.reader import Impact, LineageReader, Link, Node
from arco.lineage.tables import (
    COLUMNS,
    COVERAGE,
    DEPENDENTS,
    EDGE_METADATA,
    EDGES,
    EXECUTIONS,
    HELD,
    USES,
    EdgeMetadataRow,
    EdgeRow,
    ExecutionRow,
)
from arco.log.envelope import Recorded, make_event
from arco.orchestration.derived import FROM_NOTHING
from arco.state.fold import Chain, NoRows, fold
from arco.state.table import Row, Table
from servo.contract.identity import edge_id
from servo.contract.task import (
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    MaterializationRef,
)

START = datetime(2026, 1, 1)
CHAIN = Chain(STAGES, [LineageRecorded, HeldLineageDecided])


class Folded:
    """Rows that readers can ask, as a snapshot is asked."""

    generation = 1

    def __init__(self, events: Sequence[LineageRecorded | HeldLineageDecided]) -> None:
        recorded = [
            Recorded(
                position=at,
                received_at=START + timedelta(hours=at),
                event=make_event(
                    event, id=str(at), time=START, source="t", tenant="t", workspace="w"
                ),
                payload=event,
            )
            for at, event in enumerate(events, 1)
        ]
        found = fold(CHAIN, NoRows(), recorded)
        assert found.failures == []
        self._changes = found.changes

    def all(self, table: Table[Any]) -> list[Any]:
        rows = sorted(self._changes.get(table, {}).items())
        return [row for _, (_, row) in rows if row is not None]

    def rows(self, table: Table[Any], *shard: Any) -> list[Any]:
        return [row for row in self.all(table) if table.key_of(row)[: len(shard)] == shard]

    def get(self, table: Table[Any], *key: Any) -> Row | None:
        found = self._changes.get(table, {}).get(key)
        return None if found is None else found[1]


def reader(*events: LineageRecorded | HeldLineageDecided) -> LineageReader:
    return LineageReader(Folded(events))  # type: ignore[arg-type]


def recorded(
    target: str,
    columns: dict[str, list[ColumnSource]],
    influences: Sequence[ColumnSource] = (),
    *,
    version: str = "m1",
    run: str = "r1",
) -> LineageRecorded:
    sources = {s.asset for each in columns.values() for s in each} | {s.asset for s in influences}
    read = [
        InputRef(
            asset=asset,
            parameter="x",
            materializations=(
                MaterializationRef(partition="", materialization_id=f"{asset}@1", path="p", rows=5),
            ),
        )
        for asset in sorted(sources)
    ]
    lineage = Lineage(
        read=tuple(read),
        columns=tuple(ColumnLineage(column=c, sources=tuple(s)) for c, s in columns.items()),
        influences=tuple(influences),
        method="plan",
        confidence="high",
        coverage_percent=100,
    )
    return LineageRecorded(
        asset=target,
        asset_id="id",
        materialization_id=version,
        run_id=run,
        task_id="t1",
        rows=3,
        bytes=30,
        lineage=lineage,
    )


def src(asset: str, column: str, kind: Any = "identity", masked: bool = False) -> ColumnSource:
    return ColumnSource(asset, column, kind, masked)


def test_an_output_leaves_rows_in_three_layers() -> None:
    folded = Folded([recorded("a.b", {"x": [src("a.a", "y")]})])
    id = edge_id("a.a", "a.b", "x")
    at = START + timedelta(hours=1)
    assert folded.all(EDGES) == [EdgeRow("a.b", id, "a.a", "x", "id")]
    assert folded.all(EDGE_METADATA) == [
        EdgeMetadataRow("a.b", id, "r1", at, "r1", at, executions=1, transform="")
    ]
    assert folded.all(EXECUTIONS) == [
        ExecutionRow("a.b", "m1", id, "a.a", "", "r1", "t1", ["a.a@1"], [""], 5, 3, 30, at)
    ]


def test_an_output_reported_twice_is_counted_once() -> None:
    event = recorded("a.b", {"x": [src("a.a", "y")]})
    once, twice = Folded([event]), Folded([event, event])
    for table in CHAIN.tables:
        assert once.all(table) == twice.all(table)


def test_the_next_output_is_counted_and_changes_no_column() -> None:
    columns = {"x": [src("a.a", "y")]}
    one = recorded("a.b", columns)
    two = recorded("a.b", columns, version="m2", run="r2")
    before, after = Folded([one]), Folded([one, two])
    (seen,) = after.all(EDGE_METADATA)
    assert (seen.first_seen_run, seen.last_seen_run, seen.executions) == ("r1", "r2", 2)
    for table in (EDGES, COLUMNS, USES, DEPENDENTS):
        assert before.all(table) == after.all(table)
    (was,), (now,) = before.all(COVERAGE), after.all(COVERAGE)
    assert (was.position, now.position) == (1, 2)
    assert msgspec.structs.replace(was, position=2) == now


def test_a_newer_output_replaces_columns_on_both_ends() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y"), src("a.z", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "w", "transformation")]}, version="m2")
    found = reader(one, two)
    assert [(r.source, r.source_column) for r in found.columns("a.b")] == [("a.a", "w")]
    assert [(r.source_column, r.kind) for r in found.uses("a.a")] == [("w", "transformation")]
    assert found.uses("a.z") == []


def test_what_is_not_read_any_more_is_no_edge_but_was_seen() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y"), src("a.z", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "y")]}, version="m2")
    found = reader(one, two)
    assert [r.source for r in found.edges("a.b")] == ["a.a"]
    assert found.dependents("a.z") == []
    assert [str(link.source) for link in found.upstream("a.b")] == ["a.a"]
    seen = found.edge_metadata("a.b")
    assert seen[edge_id("a.a", "a.b", "x")].executions == 2
    assert seen[edge_id("a.z", "a.b", "x")].executions == 1
    again = reader(one, two, msgspec.structs.replace(one, materialization_id="m3"))
    assert [d.target for d in again.dependents("a.z")] == ["a.b"]


# -- held back ------------------------------------------------------------------------------


def held(event: LineageRecorded) -> LineageRecorded:
    return msgspec.structs.replace(event, held=True)


def decided(version: str, approved: bool) -> HeldLineageDecided:
    return HeldLineageDecided(asset="a.b", materialization_id=version, approved=approved)


GOOD = recorded("a.b", {"x": [src("a.a", "y")]})
BAD = held(recorded("a.b", {"x": [src("a.z", "y")]}, version="m2", run="r2"))


def test_the_lineage_of_an_output_that_is_held_back_waits() -> None:
    without, folded = Folded([GOOD]), Folded([GOOD, BAD, BAD])
    for table in CHAIN.tables:
        if table is not HELD:
            assert without.all(table) == folded.all(table)
    assert reader(GOOD, BAD).held("a.b") == {"m2": BAD}


def test_an_approved_output_has_its_lineage() -> None:
    approved = Folded([GOOD, BAD, decided("m2", True), decided("m2", True)])
    assert approved.all(HELD) == []
    assert [(e.source, e.target) for e in approved.all(EDGES)] == [("a.z", "a.b")]
    assert [(c.source, c.target) for c in approved.all(COLUMNS)] == [("a.z", "a.b")]
    assert [d.source for d in approved.all(DEPENDENTS)] == ["a.z"]
    assert {(e.materialization_id, e.run_id) for e in approved.all(EXECUTIONS)} == {
        ("m1", "r1"),
        ("m2", "r2"),
    }


def test_an_output_that_is_approved_late_replaces_nothing_newer() -> None:
    newer = recorded("a.b", {"x": [src("a.a", "y")]}, version="m3", run="r3")
    old = held(recorded("a.b", {"x": [src("a.a", "w"), src("a.z", "y")]}, version="m2", run="r2"))
    before, after = Folded([old, newer]), Folded([old, newer, decided("m2", True)])
    for table in (EDGES, COLUMNS, COVERAGE, USES, DEPENDENTS):
        assert before.all(table) == after.all(table)
    seen = {row.edge_id: row for row in after.all(EDGE_METADATA)}
    known = seen[edge_id("a.a", "a.b", "x")]
    assert (known.first_seen_run, known.last_seen_run, known.executions) == ("r3", "r3", 2)
    assert seen[edge_id("a.z", "a.b", "x")].executions == 1


def test_a_rejected_output_leaves_no_lineage() -> None:
    without, rejected = Folded([GOOD]), Folded([GOOD, BAD, decided("m2", False)])
    for table in CHAIN.tables:
        assert without.all(table) == rejected.all(table)


def test_an_asset_that_is_made_from_nothing_any_more_forgets_its_sources() -> None:
    nothing = msgspec.structs.replace(recorded("a.b", {}, version="m2"), lineage=FROM_NOTHING)
    found = reader(GOOD, nothing)
    assert not found.edges("a.b") and not found.columns("a.b")
    assert not found.uses("a.a") and not found.dependents("a.a")
    coverage = found.coverage("a.b")
    assert coverage is not None and coverage.reason == FROM_NOTHING.reason
    rows = found.snapshot.rows(EXECUTIONS, "a.b")
    assert [row.materialization_id for row in rows] == ["m1"]


def test_an_asset_that_never_came_from_anywhere_has_no_rows() -> None:
    nothing = msgspec.structs.replace(recorded("a.b", {}), lineage=FROM_NOTHING)
    assert all(not Folded([nothing]).all(table) for table in CHAIN.tables)


def test_a_walk_reads_the_edges_of_its_columns_alone() -> None:
    wide = recorded("s.wide", {f"c{n}": [src("s.raw", f"r{n}")] for n in range(50)})
    top = recorded("s.top", {"t": [src("s.wide", "c7")]})
    found = reader(wide, top)
    snapshot: Any = found.snapshot
    read: list[Any] = []
    rows = snapshot.rows

    def noted(*asked: Any) -> list[Any]:
        part: list[Any] = rows(*asked)
        read.extend(part)
        return part

    snapshot.rows = noted
    assert [str(link.source) for link in found.upstream("s.top", "t")] == ["s.wide.c7", "s.raw.r7"]
    assert [str(link.target) for link in found.downstream("s.raw", "r7")] == [
        "s.wide.c7",
        "s.top.t",
    ]
    assert len(read) == 4


CHAINED = (
    recorded("s.clean", {"email": [src("s.raw", "mail")], "n": [src("s.raw", "n")]}),
    recorded(
        "s.mart",
        {"hash": [src("s.clean", "email", "transformation", True)]},
        [src("s.clean", "n", "filter")],
    ),
    recorded("s.top", {"hash": [src("s.mart", "hash")]}),
)


def test_a_column_is_followed_up_and_down() -> None:
    found = reader(*CHAINED)
    assert [(link.distance, str(link.source)) for link in found.upstream("s.top", "hash")] == [
        (1, "s.mart.hash"),
        (2, "s.clean.email"),
        (3, "s.raw.mail"),
    ]
    assert found.upstream("s.top", "hash", depth=1) == [
        Link(1, Node("s.mart", "hash"), Node("s.top", "hash"), "identity", False, "plan", "high")
    ]
    assert [str(link.target) for link in found.downstream("s.raw", "mail")] == [
        "s.clean.email",
        "s.mart.hash",
        "s.top.hash",
    ]
    assert [str(link.source) for link in found.upstream("s.top")] == ["s.mart", "s.clean", "s.raw"]


def test_impact_says_what_flows_what_decides_and_what_is_masked() -> None:
    found = reader(*CHAINED)
    assert found.impact("s.raw", "mail") == [
        Impact(1, Node("s.clean", "email"), True, False),
        Impact(2, Node("s.mart", "hash"), True, True),
        Impact(3, Node("s.top", "hash"), True, True),
    ]
    assert found.impact("s.raw", "n") == [
        Impact(1, Node("s.clean", "n"), True, False),
        Impact(2, Node("s.mart"), False, False),
        Impact(3, Node("s.top"), False, False),
    ]


def test_an_asset_that_reads_its_own_past_ends() -> None:
    found = reader(recorded("a.a", {"x": [src("a.a", "x", "aggregation")]}))
    assert len(found.upstream("a.a", "x")) == 1
    assert len(found.downstream("a.a")) == 1
    assert found.impact("a.a", "x") == []
