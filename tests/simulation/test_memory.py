"""What an orchestrator keeps in memory follows what goes on, not what went on.

Many runs, hours apart by the simulated clock, so that tables are merged and rows leave for
history. After them every structure that names a run is empty, and the caches are as large
as they were after the first few.
"""

from __future__ import annotations

import pytest

from arco.orchestration.limits import Timing
from arco.state import warm as warm_module
from arco.state.parquet import real_bytes
from arco.storage.memory import MemoryStore
from arco.transport.queues.objectstore import ObjectStoreQueue
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.flows import CITY, OrchestratorProcess, WorkerProcess, deploy, end_of, trigger

BUDGET = 2 << 20
RUNS = scaled(28, 36)


class LongLife:
    """One orchestrator and one worker, and run after run."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        timing = Timing(linger_s=0.0)
        self.orchestrator = OrchestratorProcess(
            self.store, self.clock, 2, timing=timing, cache_budget_bytes=BUDGET
        )
        self.worker = WorkerProcess(self.store, self.clock, 3, timing=timing)
        self.client = self.orchestrator.workspace  # whose own commits are kept at hand
        deploy(self.client, CITY)

    def live(self, runs: int) -> None:
        for _ in range(runs):
            run_id = trigger(self.client, "city.alone", "city.after", "city.flaky")
            while end_of(self.client, run_id) is None:
                self.step()
            self.step()
            self.clock.sleep(3 * 3600)

    def step(self) -> None:
        self.orchestrator.step()
        self.worker.step()
        self.orchestrator.workspace.upkeep.merger.merge()
        self.clock.sleep(2.0)

    def named(self) -> dict[str, int]:
        """How much is kept that names a run, a task or an attempt."""
        o, board = self.orchestrator.orchestrator, self.orchestrator.board
        worker, queue = self.worker.worker, self.worker.queue
        assert isinstance(queue, ObjectStoreQueue)
        return {
            "runs": len(board.runs) + len(board.others),
            "tasks": len(board.tasks) + len(board.ready) + len(board.in_flight),
            "tenants": len(board.in_flight_of),
            "kinds": len(board.ready_of) + len(o.sender.weight_of),
            "timers": len(board.timers),
            "sent": len(o.sender.sent) + len(o.sender.unsent),
            "first seen": len(o.lookout.first_seen) + len(o.adopted),
            "commits": len(o.commits),
            "ahead": len(o.ahead),
            "reports": self.orchestrator.reports.waiting + self.worker.reports.waiting,
            "working": len(worker.unreported()),
            "claims": len(queue.own_claims) + len(queue.candidates),
        }

    def rows(self) -> int:
        """Rows that the committer has at hand, as Python objects."""
        warm = self.orchestrator.workspace.projector.warm
        return sum(len(bucket.changed) for bucket in warm.buckets.values())


def test_finished_runs_leave_every_structure_of_an_orchestrator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_module, "SWEEP", 32)
    monkeypatch.setattr(warm_module, "SETTLED", 5)
    life = LongLife()
    rows = []
    for _ in range(RUNS):
        life.live(1)
        assert set(life.named().values()) == {0}, life.named()
        rows.append(life.rows())
    assert max(rows[-12:]) <= 1.2 * max(rows[:-12])
    files = life.orchestrator.workspace.core.files
    assert files.used_bytes == sum(map(real_bytes, files.cache.values())) <= BUDGET
    assert len(life.orchestrator.orchestrator.performer.reported_at) <= 1_000


def test_a_run_that_was_adopted_is_forgotten_when_it_has_ended() -> None:
    life = LongLife()
    run_id = trigger(life.client, "city.alone", engine_id="local-x")
    life.orchestrator.orchestrator.adopt(run_id)
    while end_of(life.client, run_id) is None:
        life.step()
    life.step()
    assert set(life.named().values()) == {0}, life.named()
