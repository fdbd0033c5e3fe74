"""Orchestrators that die at any call of the store during a backfill.

Every chunk is asked for once, every partition runs once, and nothing is stuck: also across a
pause, a failure that is retried, and a cancellation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from arco.automation.backfill_states import BackfillState, ChunkState
from arco.orchestration.states import RequestState, RunState
from arco.orchestration.tables import RUNS
from arco.storage.port import Store
from tests.kit.backfills import BackfillTown
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.simulated_run import die_everywhere, noted

S = BackfillState
JANUARY = "date=2025-01-01..2025-01-05"
DAYS = {("city.days", f"date=d:2025-01-{day:02}"): 1 for day in range(1, 6)}


def make_town(dying: Callable[[Store], Store], *, both: bool = True) -> BackfillTown:
    town = BackfillTown()
    town.crowd.orchestrator(dying(town.store))
    if both:
        town.crowd.orchestrator()
    town.crowd.worker(script=town.tasks)
    return town


def check(town: BackfillTown, id: str, requests: int, *, thorough: bool) -> None:
    assert town.tasks.ran == DAYS
    assert town.counts(id) == {"completed": 5}
    assert {chunk.state for chunk in town.chunks(id)} == {ChunkState.SUCCEEDED}
    rows, _ = town.fresh().read.orchestration().run_requests(limit=100)
    assert Counter(row.state for row in rows) == {RequestState.TRIGGERED: requests}
    assert len(town.fresh().read.snapshot().all(RUNS)) == requests
    if thorough:
        check_store(town.fresh())


@pytest.mark.parametrize("both", [False, True])
def test_an_orchestrator_may_die_at_any_call_of_a_backfill(both: bool) -> None:
    every = scaled(32, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = make_town(dying, both=both)
        id = town.create(JANUARY, chunk_size=2, max_concurrent_runs=2)
        with noted(where):
            town.until_state(id, S.SUCCEEDED)
            check(town, id, 3, thorough=not count % 16)

    assert die_everywhere(story) > 20


def test_a_backfill_goes_on_through_a_pause_and_a_retry_whoever_dies() -> None:
    every = scaled(32, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = make_town(dying)
        town.tasks.bad = {"-02"}
        id = town.create(JANUARY, chunk_size=2, max_concurrent_runs=1)
        with noted(where):
            town.crowd.step()
            town.fresh().commands.backfills.pause(id)
            town.crowd.step()
            town.fresh().commands.backfills.resume(id)
            town.until_state(id, S.FAILED)
            town.tasks.bad = set()
            town.fresh().commands.backfills.retry(id)
            town.until_state(id, S.SUCCEEDED)
            check(town, id, 4, thorough=not count % 48)

    assert die_everywhere(story) > 20


def test_a_cancelled_backfill_leaves_no_run_whoever_dies() -> None:
    every = scaled(48, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        town = BackfillTown()
        town.crowd.orchestrator(dying(town.store))
        town.crowd.orchestrator()
        id = town.create(JANUARY, chunk_size=2, max_concurrent_runs=2)
        with noted(where):
            town.crowd.until(lambda: town.runs() or town.pending())
            town.fresh().commands.backfills.cancel(id)
            town.crowd.until(lambda: not town.backfill(id).active_runs)
            assert {run.state for run in town.runs()} <= {RunState.CANCELLED}
            assert town.counts(id) == {"cancelled": 4, "pending": 1}
            town.crowd.worker(script=town.tasks)
            town.settle()
            assert town.tasks.ran == {}
            town.fresh().commands.backfills.retry(id)
            town.until_state(id, S.SUCCEEDED)
            assert town.tasks.ran == DAYS

    assert die_everywhere(story) > 20
