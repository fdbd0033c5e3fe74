"""The same events give the same rows: however they are batched, committed, repeated, merged.

Time stands still in these tests, so a batch's receipt time does not depend on
when it was put. Then rows are compared whole, with their versions and times.
Where positions move (a repeated batch takes positions of its own) a version is
compared as the id of the event at that position.
"""

from __future__ import annotations

import io
import itertools
import random
from datetime import timedelta
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.app import Workspace
from arco.log.commit import Committed
from arco.log.envelope import Batch, Event, encode_batch
from arco.state import warm as warm_module
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import examples
from tests.kit.histories import Draw, Step, draws, history, random_draw
from tests.kit.invariants import check_snapshot
from tests.kit.model import State, check_against_model, read_log, state_of
from tests.kit.workspace import make_workspace, seeded_ulids, to_events

histories = st.lists(draws, min_size=1, max_size=40)
EXAMPLES = examples(25)


def planned(w: Workspace, drawn: list[Draw], seed: int = 7) -> list[Event]:
    ids = seeded_ulids(w.clock, seed)
    steps: list[Step] = history(drawn, ids)
    return to_events(w, steps, ids)


def put_batch(w: Workspace, name: str, events: list[Event]) -> None:
    w.store.put(paths.inbox(name), encode_batch(Batch(batch=name, events=events)))


class StillClock(SimClock):
    """Time stands still, also while a committer that lost a race waits."""

    def sleep(self, seconds: float) -> None:
        pass


def drain(w: Workspace) -> None:
    while isinstance(w.committer.commit(), Committed):
        pass


def in_one_commit(drawn: list[Draw]) -> State:
    w = make_workspace()
    put_batch(w, "all", planned(w, drawn))
    drain(w)
    return state_of(w)


def cut(data: st.DataObject, items: list[Any], label: str) -> list[list[Any]]:
    """Any way to cut a list into consecutive parts."""
    borders = data.draw(st.lists(st.integers(0, len(items)), max_size=6), label=label)
    edges = [0, *sorted(set(borders)), len(items)]
    return [items[a:b] for a, b in itertools.pairwise(edges) if a < b]


@given(histories)
@settings(max_examples=EXAMPLES)
def test_one_commit_gives_what_the_model_gives(drawn: list[Draw]) -> None:
    w = make_workspace()
    put_batch(w, "all", planned(w, drawn))
    drain(w)
    check_snapshot(w.read.snapshot())
    check_against_model(w)


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_split_into_batches_and_commits_changes_no_row(
    drawn: list[Draw], data: st.DataObject
) -> None:
    w = make_workspace()
    for number, part in enumerate(cut(data, planned(w, drawn), "commits")):
        batches = list(enumerate(cut(data, part, "batches")))
        # The order of arrival, and of names, is another one than that of the events.
        for i, events in data.draw(st.permutations(batches), label="arrival"):
            put_batch(w, f"{data.draw(st.integers(0, 99))}-{number}-{i}", events)
        drain(w)
    assert state_of(w) == in_one_commit(drawn)


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_events_that_come_late_or_out_of_order_give_what_the_model_gives(
    drawn: list[Draw], data: st.DataObject
) -> None:
    w = make_workspace()
    clock = w.clock
    assert isinstance(clock, SimClock)
    shuffled = data.draw(st.permutations(planned(w, drawn)), label="events")
    for number, part in enumerate(cut(data, shuffled, "commits")):
        put_batch(w, f"b{number}", part)
        drain(w)
        # Up to two days: some idempotency keys are forgotten on the way.
        clock.advance(timedelta(hours=data.draw(st.integers(0, 48), label="hours")))
        if data.draw(st.booleans(), label="merge"):
            w.upkeep.merger.merge(everything=True)
        check_snapshot(w.read.snapshot())
    check_against_model(w)


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_batches_put_again_after_they_were_consumed_change_no_row(
    drawn: list[Draw], data: st.DataObject
) -> None:
    w = make_workspace()
    put: dict[str, list[Event]] = {}
    for number, part in enumerate(cut(data, planned(w, drawn), "commits")):
        put[f"b{number}"] = part
        put_batch(w, f"b{number}", part)
        for name in data.draw(st.lists(st.sampled_from(sorted(put)), unique=True), label="again"):
            if name != f"b{number}":
                put_batch(w, name, put[name])
        drain(w)
        # One more look at the inbox, and the names leave `pending_cleanup`.
        w.committer.commit()
    assert by_event(w, state_of(w)) == by_event_of_first_run(drawn)


def by_event(w: Workspace, state: State) -> dict[str, dict[tuple[Any, ...], Any]]:
    """Rows with the id of the event that last changed them, in the place of its position."""
    ids = {entry.position: entry.id for entry in read_log(w)}
    return {
        table: {key: (ids[version], row) for key, (version, row) in rows.items()}
        for table, rows in state.items()
    }


def by_event_of_first_run(drawn: list[Draw]) -> dict[str, dict[tuple[Any, ...], Any]]:
    w = make_workspace()
    put_batch(w, "all", planned(w, drawn))
    drain(w)
    return by_event(w, state_of(w))


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_merges_at_any_point_change_nothing_visible(drawn: list[Draw], data: st.DataObject) -> None:
    w = make_workspace()
    for number, part in enumerate(cut(data, planned(w, drawn), "commits")):
        put_batch(w, f"b{number}", part)
        drain(w)
        before = state_of(w)
        if data.draw(st.booleans(), label="merge"):
            # Another process merges: the committer's warm state is not told.
            other = make_workspace(w.store, seed=number + 100, clock=w.clock)
            other.upkeep.merger.merge(everything=True)
            assert state_of(w) == before
    assert state_of(w) == in_one_commit(drawn)


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_two_committers_taking_turns_give_the_same_rows(
    drawn: list[Draw], data: st.DataObject
) -> None:
    clock = StillClock()
    store = MemoryStore(clock)
    budgets = st.sampled_from([0, 2_000, 1 << 20])
    crew = [
        make_workspace(store, seed, clock=clock, warm_budget_bytes=data.draw(budgets))
        for seed in (1, 2)
    ]
    w = crew[0]
    for number, part in enumerate(cut(data, planned(w, drawn), "commits")):
        put_batch(w, f"b{number}", part)
        drain(crew[data.draw(st.integers(0, 1), label="committer")])
        if data.draw(st.booleans(), label="merge"):
            crew[data.draw(st.integers(0, 1), label="merger")].upkeep.merger.merge(everything=True)
    assert state_of(w) == in_one_commit(drawn)
    check_against_model(w)


@given(histories, st.data())
@settings(max_examples=EXAMPLES)
def test_warm_state_equals_the_files_after_every_commit(
    drawn: list[Draw], data: st.DataObject
) -> None:
    budget = data.draw(st.sampled_from([0, 3_000, 1 << 20]), label="budget")
    w = make_workspace(warm_budget_bytes=budget, cache_budget_bytes=budget)
    other = make_workspace(w.store, seed=9, clock=w.clock)
    forgetful = data.draw(st.booleans(), label="forgetful")
    swept: dict[str, Any] = {"SWEEP": 128}
    if forgetful:
        swept = {"SWEEP": 2, "LARGE": 0, "SETTLED": 0, "LOOKS": 10**6}
    with mock.patch.multiple(warm_module, **swept):
        for number, part in enumerate(cut(data, planned(w, drawn), "commits")):
            put_batch(w, f"b{number}", part)
            drain(data.draw(st.sampled_from([w, other]), label="committer"))
            if data.draw(st.booleans(), label="merge"):
                other.upkeep.merger.merge(everything=True)
            check_warm(w)


def check_warm(w: Workspace) -> None:
    """Every row that a fold would look at is the row that a reader sees, and no others."""
    projector: Any = w.projector
    s = w.read.snapshot()
    projector.catch_up(s.head)
    warm = projector.warm
    for table in w.chain.tables:
        expected = table.versioned(s.scan(table))
        keys = {*expected, *(key for key in everything_ever(w, table))}
        for key in keys:
            found = warm.get(table, key)
            alive = found if found is not None and found[1] is not None else None
            assert alive == expected.get(key), (str(table), key)
        for shard in {key[: table.shard] for key in keys}:
            scanned = {k: v for k, v in warm.scan(table, shard) if v[1] is not None}
            assert scanned == {k: v for k, v in expected.items() if k[: table.shard] == shard}


def everything_ever(w: Workspace, table: Any) -> set[tuple[Any, ...]]:
    """Keys of all rows that any kept file has, deleted ones too."""
    found: set[tuple[Any, ...]] = set()
    for meta in list(w.store.list(f"{paths.STATE}{table.domain}/{table.name}/")):
        rows = pq.read_table(io.BytesIO(w.store.get(meta.path).data))
        found |= set(zip(*(rows.column(c).to_pylist() for c in table.key), strict=True))
    return found


@given(histories, st.data())
@settings(max_examples=examples(20))
def test_rebuild_of_the_log_finds_no_difference(drawn: list[Draw], data: st.DataObject) -> None:
    w = make_workspace()
    clock = w.clock
    assert isinstance(clock, SimClock)
    shuffled = data.draw(st.permutations(planned(w, drawn)), label="events")
    for number, part in enumerate(cut(data, shuffled, "commits")):
        put_batch(w, f"b{number}", part)
        drain(w)
        clock.advance(timedelta(hours=data.draw(st.integers(0, 30), label="hours")))
        if data.draw(st.booleans(), label="merge"):
            w.upkeep.merger.merge(everything=True)
        if number and data.draw(st.integers(0, 5), label="roll back") == 0:
            w.upkeep.rollback(
                data.draw(st.integers(1, w.read.snapshot().generation - 1)), reason="test"
            )
    rebuilt = w.upkeep.rebuild(publish=False)
    assert rebuilt.same, [d for d in rebuilt.differences if not d.same]
    assert not rebuilt.failures


def test_histories_are_worth_something() -> None:
    """Random histories apply and refuse commands of every kind; else they prove little."""
    rng = random.Random(3)
    applied: set[str] = set()
    refused: set[str] = set()
    for _ in range(30):
        w = make_workspace()
        put_batch(w, "all", planned(w, [random_draw(rng) for _ in range(60)]))
        drain(w)
        for _, row in state_of(w)["log.outcomes"].values():
            (applied if row["status"] == "applied" else refused).add(row["type"])
    assert len(applied) == len(refused) == 10
