"""Versions and what is current, for any sequence of reports and decisions.

The model says it the other way round: it keeps what happened, and works out from that
what is good, which number it has, and which is newest.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.events import (
    CostIncurred,
    OutputAccepted,
    OutputHeld,
    OutputMissed,
    OutputRejected,
    QuarantineDecided,
    Version,
    VersionsExpired,
)
from arco.execution.fold import OUTPUTS
from arco.execution.states import HELD, HELD_VERSIONS
from arco.execution.tables import (
    EXPIRATIONS,
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    TASK_COSTS,
)
from arco.log.envelope import Batch, Payload, encode_batch
from arco.state.fold import Fact, FoldFailure, NoRows, Rows, fold_stage
from arco.state.system import OUTCOMES, Decided
from arco.state.table import Key, Row, Table, Versioned
from arco.storage import paths
from servo.contract.task import Cost, ErrorInfo, Materialization, Usage
from tests.kit.clocks import SimClock
from tests.kit.depth import examples
from tests.kit.runs import ANYTHING, Node, World, dags
from tests.kit.workspace import make_workspace

TABLES: tuple[Table[Any], ...] = OUTPUTS.tables
IDS = [f"m{n}" for n in range(8)]


def partition(id: str) -> str:
    return "even" if int(id[1:]) % 2 == 0 else "odd"


def made(id: str) -> Materialization:
    return Materialization(
        materialization_id=id,
        asset="ns.a",
        asset_id="A",
        partition=partition(id),
        run_id="R",
        task_id="T",
        attempt_id="x",
        path=f"data/{id}",
    )


ids = st.sampled_from(IDS)
ERROR = ErrorInfo(category="user_code", code="c", message="m")
outputs = st.one_of(
    ids.map(lambda id: OutputAccepted(materialization=made(id), warnings=int(id[1:]) % 3)),
    st.builds(
        lambda id, status: OutputHeld(materialization=made(id), status=status, reason="r"),
        ids,
        st.sampled_from(sorted(HELD)),
    ),
    ids.map(lambda id: OutputRejected(materialization=made(id), reason="late")),
    ids.map(lambda id: OutputMissed(asset_id="A", partition=partition(id), run_id="", error=ERROR)),
)
decisions = st.one_of(
    st.builds(
        lambda id, yes: QuarantineDecided(asset_id="A", materialization_id=id, approved=yes),
        ids,
        st.booleans(),
    ),
    st.lists(ids, min_size=1, max_size=3).map(
        lambda some: VersionsExpired(asset_id="A", versions=tuple(map(Version, some)))
    ),
)
costs = st.builds(
    lambda n, ms: CostIncurred(
        asset_id="A",
        asset="ns.a",
        partition="even",
        run_id="R",
        task_id="T",
        attempt=1,
        attempt_id=f"a{n}",
        outcome="failed",
        usage=Usage(cpu_ms=ms),
        cost=Cost(cpu=ms),
    ),
    st.integers(0, 2),
    st.integers(0, 9),
)
REPORTS = OutputAccepted | OutputHeld | OutputRejected | CostIncurred
histories = st.lists(st.one_of(outputs, outputs, decisions, decisions, costs), max_size=40)


class Model:
    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.position: dict[str, int] = {}
        self.good: dict[str, list[str]] = {"even": [], "odd": []}
        """In the order in which they became good: their numbers are 1, 2, 3 …"""
        self.costs: dict[str, int] = {}
        self.expired: set[str] = set()

    def tell(self, position: int, payload: Payload) -> str:
        match payload:
            case OutputAccepted(materialization=m):
                if self._new(m.materialization_id, position):
                    self._good(m.materialization_id)
            case OutputHeld(materialization=m, status=status):
                if self._new(m.materialization_id, position):
                    self.status[m.materialization_id] = status
            case OutputRejected(materialization=m):
                if m.materialization_id not in self.status:
                    self.position[m.materialization_id] = position
                    self.status[m.materialization_id] = "LATE"
            case CostIncurred(attempt_id=id, usage=usage):
                self.costs.setdefault(id, usage.cpu_ms)
            case QuarantineDecided(materialization_id=id, approved=approved):
                return self._decide(id, approved)
            case VersionsExpired(versions=versions):
                return self._expire([v.materialization_id for v in versions])
        return ""

    def _new(self, id: str, position: int) -> bool:
        if id in self.expired or self.status.get(id, "LATE") != "LATE":
            return False
        self.position[id] = position
        return True

    def _good(self, id: str) -> None:
        self.status[id] = "GOOD"
        self.good[partition(id)].append(id)

    def _decide(self, id: str, approved: bool) -> str:
        if self.status.get(id) not in HELD:
            return "refused"
        if approved:
            self._good(id)
        else:
            self.status[id] = "REJECTED"
        return "applied"

    def _expire(self, those: list[str]) -> str:
        if any(id in self.current().values() or self.status.get(id) in HELD for id in those):
            return "refused"
        self.expired.update(those)
        return "applied"

    def current(self) -> dict[str, str]:
        """The newest good one by position."""
        found = {}
        for name, those in self.good.items():
            alive = [id for id in those if self.status[id] == "GOOD"]
            if alive:
                found[name] = max(alive, key=lambda id: self.position[id])
        return found

    def numbers(self) -> dict[str, int]:
        return {id: n + 1 for those in self.good.values() for n, id in enumerate(those)}


class Source:
    """Rows that were committed."""

    def __init__(self) -> None:
        self.rows: dict[Table[Any], dict[Key, Versioned[Any]]] = {}

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        return self.rows.get(table, {}).get(key)

    def scan(self, table: Table[Any], shard: Key) -> list[tuple[Key, Versioned[Any]]]:
        return [(k, v) for k, v in self.rows.get(table, {}).items() if k[:1] == shard]


def facts_of(history: Sequence[Payload]) -> list[Fact]:
    start = datetime(2026, 1, 1)
    return [
        Fact(n, start + timedelta(minutes=n), f"E{n}", "", "", payload)
        for n, payload in enumerate(history, 1)
    ]


def step(rows: Rows, fact: Fact) -> str:
    failures: list[FoldFailure] = []
    derived = fold_stage(OUTPUTS, rows, [fact], failures)
    assert failures == []
    return "".join(f.payload.status for f in derived if isinstance(f.payload, Decided))


R = TypeVar("R", bound=Row)


def rows_of(rows: Rows, table: Table[R]) -> list[R]:
    """Those that a fold over nothing has put."""
    return [row for _, row in rows.changes.get(table, {}).values() if row is not None]


def check(model: Model, rows: Rows) -> None:
    found = {row.materialization_id: row for row in rows_of(rows, MATERIALIZATIONS)}
    assert {row.materialization_id for row in rows_of(rows, EXPIRATIONS)} == model.expired
    assert {id: row.status for id, row in found.items()} == model.status
    numbers = model.numbers()
    assert {id: row.version for id, row in found.items()} == {
        id: numbers.get(id, 0) for id in found
    }
    assert {id: row.position for id, row in found.items()} == model.position
    current = {row.partition_key: row for row in rows_of(rows, PARTITIONS)}
    assert {key: row.materialization_id for key, row in current.items()} == model.current()
    for key, row in current.items():
        assert row.version == numbers[row.materialization_id]
        assert row.versions == len(model.good[key])
        assert row.path == found[row.materialization_id].path
    alive = {row.materialization_id for row in current.values()}
    open_ = {id for id, row in found.items() if row.superseded_at is None}
    waiting = {id for id, status in model.status.items() if status in HELD}
    assert open_ == alive | waiting
    check_beside(model, rows, waiting)


def check_beside(model: Model, rows: Rows, waiting: set[str]) -> None:
    held = rows_of(rows, QUARANTINE)
    assert {row.materialization_id for row in held if row.status in HELD} == waiting
    for row in rows_of(rows, PARTITION_STATUS):
        assert row.current == model.current().get(row.partition_key, "")
        assert (row.good_at is None) == (row.current == "")
    assert {row.attempt_id: row.cpu_ms for row in rows_of(rows, TASK_COSTS)} == model.costs


@given(histories)
@settings(max_examples=examples(200))
def test_every_step_is_what_the_model_says(history: list[Payload]) -> None:
    model, rows = Model(), Rows(NoRows())
    for fact in facts_of(history):
        assert step(rows, fact) == model.tell(fact.position, fact.payload)
        check(model, rows)


@given(histories, st.data())
@settings(max_examples=examples(50))
def test_any_split_into_batches_gives_the_same_rows(
    history: list[Payload], data: st.DataObject
) -> None:
    whole = Rows(NoRows())
    for fact in facts_of(history):
        step(whole, fact)
    source = Source()
    for part in cut(data, facts_of(history)):
        rows = Rows(source)
        for fact in part:
            step(rows, fact)
        for table, changed in rows.changes.items():
            source.rows.setdefault(table, {}).update(changed)
    assert source.rows == whole.changes


@given(histories, st.randoms(use_true_random=False))
@settings(max_examples=examples(50))
def test_reports_that_come_again_change_nothing(
    history: list[Payload], chance: random.Random
) -> None:
    """Decisions are admitted once, by the stage of commands; failures once, by that of runs."""
    rows = Rows(NoRows())
    facts = facts_of(history)
    for fact in facts:
        step(rows, fact)
    reports = [f for f in facts if isinstance(f.payload, REPORTS)]
    before = {table: dict(changed) for table, changed in rows.changes.items()}
    for fact in chance.sample(reports, len(reports)):
        step(rows, fact)
    assert rows.changes == before


def cut(data: st.DataObject, items: list[Any]) -> list[list[Any]]:
    borders = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    edges = [0, *sorted(set(borders)), len(items)]
    return [items[a:b] for a, b in itertools.pairwise(edges) if a < b]


# -- with runs in front, on files -----------------------------------------------------------


def commands(world: World, rng: random.Random) -> list[Payload]:
    """Decisions about what a run has put out, some of them hopeless."""
    rows = world.folding.all(MATERIALIZATIONS)
    decided: list[Payload] = [
        QuarantineDecided(
            asset_id=row.asset_id,
            materialization_id=row.materialization_id,
            approved=rng.random() < 0.7,
        )
        for row in rows
        if row.status in HELD_VERSIONS or rng.random() < 0.2
    ]
    expired: list[Payload] = [
        VersionsExpired(asset_id=row.asset_id, versions=(Version(row.materialization_id, "r"),))
        for row in rows
        if rng.random() < 0.5
    ]
    return decided + expired + decided


@given(dags(6), st.integers(0, 10_000), st.data())
@settings(max_examples=examples(15))
def test_a_rebuild_gives_the_rows_of_many_commits(dag: Any, seed: int, data: st.DataObject) -> None:
    world = World(dag, seed, fates=ANYTHING, chaos=True, pace="still")
    world.played()
    rng = random.Random(seed)
    for payload in commands(world, rng):
        f = world.folding
        f.fold([f.record(payload, key=f"k{f.position}", actor="ana")])
    w = make_workspace(clock=SimClock())
    events = [recorded.event for recorded in world.folding.log]
    for number, part in enumerate(cut(data, events)):
        name = f"b{number}"
        w.store.put(paths.inbox(name), encode_batch(Batch(batch=name, events=part)))
        w.committer.commit()
        if data.draw(st.booleans()):
            w.upkeep.merger.merge(everything=True)
    for table in TABLES:
        live = {table.key_of(row): row for row in w.read.snapshot().all(table)}
        wanted = {table.key_of(row): row for row in world.folding.all(table)}
        assert live.keys() == wanted.keys()
        for key, row in wanted.items():
            assert getattr(live[key], "status", "") == getattr(row, "status", "")
    rebuilt = w.upkeep.rebuild(publish=False)
    assert rebuilt.same, [d for d in rebuilt.differences if not d.same]
    assert not rebuilt.failures


@pytest.mark.parametrize("seed", range(3))
def test_decisions_about_runs_are_worth_something(seed: int) -> None:
    found: set[str] = set()
    statuses: set[str] = set()
    expired = 0
    for n in range(40):
        world = World((Node(),) * 4, seed * 100 + n, fates=ANYTHING, chaos=True)
        world.played()
        for payload in commands(world, random.Random(n)):
            f = world.folding
            f.fold([f.record(payload, key=f"k{f.position}")])
        found |= {row.code or row.status for row in world.folding.all(OUTCOMES)}
        statuses |= {row.status for row in world.folding.all(MATERIALIZATIONS)}
        expired += len(world.folding.all(EXPIRATIONS))
    assert {"applied", "decided_already", "not_held", "version_is_current"} <= found
    assert {"GOOD", "REJECTED"} <= statuses and expired
