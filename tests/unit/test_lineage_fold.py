"""The rows of lineage, and walks through them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from arco.lineage.events import (
    DeclaredInput,
    EdgeAdded,
    EdgeRemoved,
    HeldLineageDecided,
    InputsDeclared,
    LineageRecorded,
)
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
from arco.log.envelope import Payload, Recorded, make_event
from arco.orchestration.derived import FROM_NOTHING
from arco.state.fold import Chain, NoRows, fold
from arco.state.system import OUTCOME_STAGE, OUTCOMES
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
Event = LineageRecorded | HeldLineageDecided | InputsDeclared | EdgeAdded | EdgeRemoved
TYPES: list[type[Payload]] = [
    LineageRecorded,
    HeldLineageDecided,
    InputsDeclared,
    EdgeAdded,
    EdgeRemoved,
]
CHAIN = Chain((*STAGES, OUTCOME_STAGE), TYPES)


class NamesAsIds:
    """Where there is no catalog: names are ids."""

    def id(self, key: str) -> str:
        return key

    def key(self, id: str) -> str:
        return id

    def former_keys(self, id: str) -> Sequence[str]:
        return ()

    def has_renames(self, id: str) -> bool:
        return False

    def column(self, id: str, name: str, at: datetime | None) -> str:
        return name

    def column_names(self, id: str, name: str) -> Sequence[str]:
        return (name,)

    def made_at(self, id: str, versions: Sequence[str]) -> datetime | None:
        return None


class Folded:
    """Rows that readers can ask, as a snapshot is asked."""

    generation = 1

    def __init__(self, events: Sequence[Event]) -> None:
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


def reader(*events: Event) -> LineageReader:
    return LineageReader(Folded(events), NamesAsIds())  # type: ignore[arg-type]


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
        asset_id=target,
        materialization_id=version,
        run_id=run,
        task_id="t1",
        rows=3,
        bytes=30,
        lineage=lineage,
    )


def src(asset: str, column: str, kind: Any = "identity", masked: bool = False) -> ColumnSource:
    return ColumnSource(asset, column, kind, masked)


GOOD = recorded("a.b", {"x": [src("a.a", "y")]})


def test_an_output_leaves_rows_in_three_layers() -> None:
    folded = Folded([recorded("a.b", {"x": [src("a.a", "y")]})])
    id = edge_id("a.a", "a.b", "x")
    at = START + timedelta(hours=1)
    assert folded.all(EDGES) == [EdgeRow("a.b", id, "a.a", "x", "output", at)]
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
    assert now.observed_at is not None
    moved = {"position": 2, "observed_at": now.observed_at, "materialization_id": "m2"}
    assert msgspec.structs.replace(was, **moved, outputs=2) == now


def test_a_newer_output_replaces_columns_on_both_ends() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "w", "transformation")]}, version="m2")
    found = reader(one, two)
    assert [(r.source, r.source_column) for r in found.columns("a.b")] == [("a.a", "w")]
    assert [(r.source_column, r.kind) for r in found.uses("a.a")] == [("w", "transformation")]


def declares(target: str, *sources: str) -> InputsDeclared:
    return InputsDeclared(
        asset_id=target, inputs=tuple(DeclaredInput(each, "x") for each in sources)
    )


def test_an_input_that_one_output_did_not_read_keeps_its_edge_and_columns() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y")], "z": [src("a.z", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "w")], "z": []}, version="m2")
    histories: list[list[Event]] = [[one, two], [declares("a.b", "a.a", "a.z"), one, two]]
    for events in histories:
        found = reader(*events)
        assert {r.source for r in found.edges("a.b")} == {"a.a", "a.z"}
        assert [(r.source, r.source_column) for r in found.columns("a.b")] == [
            ("a.a", "w"),
            ("a.z", "y"),
        ]
        assert [d.target for d in found.dependents("a.z")] == ["a.b"]


def test_a_column_that_the_newest_output_does_not_have_comes_from_nowhere() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y")], "z": [src("a.z", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "y")]}, version="m2")
    assert [r.target_column for r in reader(one, two).columns("a.b")] == ["x"]


def test_code_has_edges_before_it_runs() -> None:
    found = reader(declares("a.b", "a.a"))
    assert [(r.source, r.origin) for r in found.edges("a.b")] == [("a.a", "code")]
    assert [str(link.target) for link in found.downstream("a.a")] == ["a.b"]


def test_what_outputs_have_by_the_key_of_an_input_is_by_its_id_once_code_declares_it() -> None:
    old = recorded("B", {"x": [src("a.a", "y")], "z": [src("a.gone", "y")]}, [src("a.a", "w")])
    new = InputsDeclared(asset_id="B", inputs=(DeclaredInput("A", "x", "a.a"),))
    before, after = Folded([old]), Folded([old, new])
    by_key = {row.source: row for row in before.all(EDGES)}["a.a"]
    id = edge_id("A", "B", "x")
    assert after.all(EDGES) == [EdgeRow("B", id, "A", "x", "code", by_key.since)]
    columns = [row for row in before.all(COLUMNS) if row.source == "a.a"]
    assert after.all(COLUMNS) == [msgspec.structs.replace(row, source="A") for row in columns]
    metadata = {row.edge_id: row for row in before.all(EDGE_METADATA)}
    moved = msgspec.structs.replace(metadata.pop(by_key.edge_id), edge_id=id)
    assert after.all(EDGE_METADATA) == sorted([moved, *metadata.values()], key=lambda r: r.edge_id)
    assert {(row.source, row.source_column) for row in after.all(USES)} == {("A", "y"), ("A", "w")}
    assert [row.source for row in after.all(DEPENDENTS)] == ["A"]
    late = Folded([new, old, msgspec.structs.replace(new, inputs=(*new.inputs, *new.inputs))])
    assert {row.source for row in late.all(COLUMNS)} == {"A", "a.gone"}


def test_an_output_of_older_code_does_not_bring_an_edge_back() -> None:
    late = recorded("a.b", {"x": [src("a.a", "y"), src("a.z", "y")]})
    found = reader(declares("a.b", "a.a"), late)
    assert [r.source for r in found.edges("a.b")] == ["a.a"]
    assert found.edge_metadata("a.b")[edge_id("a.z", "a.b", "x")].executions == 1


# -- what people say ----------------------------------------------------------------------


def said(source: str, target: str, pair: tuple[str, str] = ("", ""), **more: Any) -> EdgeAdded:
    return EdgeAdded(
        source_id=source, target_id=target, source_column=pair[0], target_column=pair[1], **more
    )


def test_a_manual_edge_survives_outputs_and_deployments_until_it_is_removed() -> None:
    added = said("a.crm", "a.b", ("mail", "x"), owner="ops", description="export")
    events: list[Event] = [
        GOOD,
        added,
        declares("a.b"),
        msgspec.structs.replace(GOOD, materialization_id="m9"),
    ]
    found = reader(*events)
    assert [(r.source, r.origin, r.owner, r.description) for r in found.edges("a.b")] == [
        ("a.crm", "manual", "ops", "export")
    ]
    assert ("a.crm", "mail", "manual") in [
        (r.source, r.source_column, r.method) for r in found.columns("a.b")
    ]
    assert [u.target for u in found.uses("a.crm")] == ["a.b"]
    gone = reader(*events, EdgeRemoved(source_id="a.crm", target_id="a.b"))
    assert not gone.edges("a.b") and not gone.uses("a.crm") and not gone.dependents("a.crm")


def test_an_edge_that_means_nothing_or_is_not_there_is_refused() -> None:
    refused = Folded(
        [
            said("a.a", "a.a"),
            said("a.a", "a.b", ("x", "")),
            EdgeRemoved(source_id="a.a", target_id="a.b"),
        ]
    )
    assert [row.code for row in refused.all(OUTCOMES)] == [
        "edge_to_itself",
        "invalid_edge",
        "edge_not_found",
    ]
    assert not refused.all(EDGES)


def test_what_code_does_not_read_any_more_is_no_edge_but_was_seen() -> None:
    one = recorded("a.b", {"x": [src("a.a", "y"), src("a.z", "y")]})
    two = recorded("a.b", {"x": [src("a.a", "y")]}, version="m2")
    found = reader(one, declares("a.b", "a.a"), two)
    assert found.uses("a.z") == []
    assert [r.source for r in found.edges("a.b")] == ["a.a"]
    assert found.dependents("a.z") == []
    assert [str(link.source) for link in found.upstream("a.b")] == ["a.a"]
    seen = found.edge_metadata("a.b")
    assert seen[edge_id("a.a", "a.b", "x")].executions == 2
    assert seen[edge_id("a.z", "a.b", "x")].executions == 1


# -- held back ------------------------------------------------------------------------------


def held(event: LineageRecorded) -> LineageRecorded:
    return msgspec.structs.replace(event, held=True)


def decided(version: str, approved: bool) -> HeldLineageDecided:
    return HeldLineageDecided(asset_id="a.b", materialization_id=version, approved=approved)


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
    assert {(e.source, e.target) for e in approved.all(EDGES)} == {("a.a", "a.b"), ("a.z", "a.b")}
    assert {c.source for c in approved.all(COLUMNS)} == {"a.a", "a.z"}
    assert {d.source for d in approved.all(DEPENDENTS)} == {"a.a", "a.z"}
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
    silent = reader(GOOD, nothing)
    assert [row.source for row in silent.columns("a.b")] == ["a.a"]
    found = reader(GOOD, declares("a.b"), nothing)
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
