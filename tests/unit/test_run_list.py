"""The list of runs of some namespaces: the same runs as all runs have that are of these."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from arco.log.commit import Committed
from arco.orchestration import run_index
from arco.orchestration import runs as fold_of_runs
from arco.orchestration.events import RunCancelRequested
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.tables import RUN_NAMESPACES, RUNS, TASKS, RunRow
from arco.state.snapshot import Generation
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.runs import RUN, Attempt, Folding, Node, chain_of, plan, triggered
from tests.kit.workspace import make_workspace

NAMESPACES = ("a", "b", "c", "rare")
DAYS = scaled(25, 40)


def planned(run_id: str, namespaces: list[str], **more: Any) -> list[Any]:
    """A run with a task in each of the namespaces."""
    (slice_,) = plan(tuple(Node() for _ in namespaces), run_id, **more)
    assets = tuple(
        replace(asset, key=f"{namespace}.{asset.key.partition('.')[2]}")
        for asset, namespace in zip(slice_.assets, namespaces, strict=True)
    )
    return [triggered(len(namespaces), run_id), replace(slice_, assets=assets)]


class History:
    """Days of runs of some namespaces; those of the first days were planned by a program
    that did not name them. One is of more namespaces than a row names, some end days later, and
    the last is being planned."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        self.w = make_workspace(self.store, 1, clock=self.clock)
        rng = random.Random(5)
        late: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fold_of_runs, "RUN_NAMESPACES", -1)
            for day in range(DAYS):
                if day == 10:
                    patch.undo()
                    self.early = self.w.read.snapshot().generation
                for _ in range(4):
                    chosen = rng.sample(NAMESPACES[:3], rng.choice((1, 1, 2)))
                    chosen += ["rare"] if rng.random() < 0.03 else []
                    run_id = self.begin(chosen)
                    if rng.random() < 0.1:
                        late.append(run_id)
                    else:
                        self.end(run_id, len(chosen), well=rng.random() < 0.8)
                    self.clock.advance(timedelta(hours=5))
                if day == 20:
                    many = [f"many_{number}" for number in range(RUN_NAMESPACES)]
                    self.end(self.begin(["rare", *many]), RUN_NAMESPACES + 1)
                if day % 5 == 4:
                    for run_id in late:
                        self.end(run_id, 2)
                    late.clear()
                self.clock.advance(timedelta(hours=4))
                self.w.upkeep.merger.merge(everything=True)
        self._append(triggered(2, self.w.ids()))

    def begin(self, namespaces: list[str]) -> str:
        self.clock.advance(timedelta(milliseconds=1))
        run_id: str = self.w.ids()
        self._append(*planned(run_id, namespaces))
        return run_id

    def end(self, run_id: str, tasks: int, *, well: bool = True) -> None:
        attempts = [Attempt(f"t{number:02d}", 1, run_id) for number in range(tasks)]
        self._append(*[a.succeeded() if well else a.failed("user_code") for a in attempts])

    def _append(self, *payloads: Any) -> None:
        self.w.ledger.append(list(payloads))
        while isinstance(self.w.committer.commit(), Committed):
            pass


@pytest.fixture(scope="module")
def history() -> History:
    return History()


def of_namespaces(reader: OrchestrationReader, row: RunRow) -> set[str]:
    tasks = reader.snapshot.rows(TASKS, row.run_id)
    return {task.asset_key.partition(".")[0] for task in tasks}


def pages(
    reader: OrchestrationReader, size: int, namespaces: set[str], **filters: Any
) -> Iterator[RunRow]:
    kept: dict[Any, Any] = {}

    def keep(name: Any, make: Any) -> Any:
        if name not in kept:
            kept[name] = make()
        return kept[name]

    after = None
    while True:
        page = reader.runs(
            limit=size,
            after=after,
            namespaces=namespaces,
            matches=lambda row: bool(of_namespaces(reader, row) & namespaces),
            keep=keep,
            **filters,
        )
        yield from page.rows
        if page.is_complete:
            return
        after = page.rows[-1].created_at, page.rows[-1].run_id


@pytest.mark.parametrize(("few", "size"), [(0, 1), (0, 500), (3, 7), (64, 7)])
@pytest.mark.parametrize("chosen", [{"a"}, {"b", "c"}, {"rare"}, {"many_3", "rare"}, {"x"}, set()])
def test_pages_have_the_runs_that_have_a_task_in_a_namespace(
    history: History,
    chosen: set[str],
    size: int,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_index, "FEW", few)  # of a stretch, which an index goes without
    reader = history.w.read.orchestration()
    rows = reader.runs(limit=1_000).rows
    assert {row.namespaces is None for row in rows} == {True, False}
    expected = [row for row in rows if of_namespaces(reader, row) & chosen]
    assert list(pages(reader, size, chosen)) == expected
    failed = [row for row in expected if row.state == "FAILED"]
    assert list(pages(reader, size, chosen, in_states=["FAILED"])) == failed
    since = rows[len(rows) // 3].created_at
    recent = [row for row in expected if row.created_at >= since]
    assert list(pages(reader, size, chosen, since=since)) == recent


def test_pages_of_an_older_generation_have_what_was_there(history: History) -> None:
    reader = OrchestrationReader(history.w.read.snapshot(Generation(history.early)))
    rows = reader.runs(limit=1_000).rows
    assert rows and all(row.namespaces is None for row in rows)
    expected = [row for row in rows if "a" in of_namespaces(reader, row)]
    assert list(pages(reader, 3, {"a"})) == expected


def test_rows_of_other_namespaces_are_not_read(history: History) -> None:
    reader = make_workspace(history.store, 2, clock=history.clock).read.orchestration()
    rows_read: list[Any] = []

    def keep(name: Any, make: Any) -> Any:
        if name[1] != "namespaces":
            rows_read.append(name)
        return make()

    def named(row: RunRow) -> bool:
        return row.namespaces is not None and "rare" in row.namespaces

    since = history.clock.now() - timedelta(days=DAYS - 12)
    listed = reader.runs(limit=100, namespaces={"rare"}, since=since, matches=named, keep=keep)
    assert 0 < len(rows_read) <= len(listed.rows) + 1  # and that of many namespaces


def test_a_rebuild_names_the_namespaces_of_runs_that_did_not(history: History) -> None:
    store = MemoryStore(history.clock)
    for meta in history.store.list(""):
        store.put(meta.path, history.store.get(meta.path).data)
    w = make_workspace(store, 3, clock=history.clock)
    before = {row.run_id: row for row in w.read.snapshot().all(RUNS)}
    w.upkeep.rebuild()
    reader = w.read.orchestration()
    after = {row.run_id: row for row in reader.snapshot.all(RUNS)}
    assert before.keys() == after.keys()
    for run_id, row in after.items():
        names = sorted(of_namespaces(reader, row))
        is_named = row.state != "PLANNING" and len(names) <= RUN_NAMESPACES
        assert row.namespaces == (names if is_named else None)
        assert replace(before[run_id], namespaces=row.namespaces) == row


def test_a_run_names_its_namespaces_when_all_of_its_tasks_are_planned() -> None:
    folding = Folding()
    trigger, slice_ = planned(RUN, ["b", "a", "b"])
    folding.add(trigger)
    assert folding.run().namespaces is None
    folding.add(slice_)
    assert folding.run().namespaces == ["a", "b"]


def test_a_run_that_is_cancelled_while_it_is_planned_names_none() -> None:
    folding = Folding()
    first, second = plan(chain_of(4), RUN, chunks=2)
    folding.add(triggered(4), first)
    folding.add(RunCancelRequested(run_id=RUN, reason="no"), second)
    assert folding.run().namespaces is None
