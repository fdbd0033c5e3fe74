"""How workers hear of cancelled runs: by notes, which cost one listing a look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from arco.orchestration.cancel_notes import Cancellations, note_cancelled, noted
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, OrchestratorProcess, deploy, trigger
from tests.kit.latency import LatencyStore
from tests.kit.workspace import make_workspace


class Setting:
    """A run that is under way, and a worker's look at cancellations."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        deploy(self.w, CITY)
        self.run_id = trigger(self.w)
        self.store = LatencyStore(self.memory, 0.0)
        self.snapshots = 0
        self.cancellations = Cancellations(self.store, self._newest)

    def _newest(self) -> Snapshot:
        self.snapshots += 1
        return self.w.read.snapshot()

    def look(self) -> set[str]:
        return self.cancellations.among([self.run_id, "another"])


@pytest.fixture
def at() -> Iterator[Setting]:
    yield Setting()


def test_look_is_one_listing_while_nothing_is_cancelled(at: Setting) -> None:
    for _ in range(10):
        assert at.look() == set()
    assert [(call.op, call.path) for call in at.store.calls] == [("list", paths.CANCELLED)] * 10
    assert at.snapshots == 0


@pytest.mark.parametrize("force", [False, True])
def test_cancelled_run_is_noticed_without_an_orchestrator(at: Setting, force: bool) -> None:
    at.w.commands.orchestration.cancel(at.run_id, force=force)
    for _ in range(5):
        assert at.look() == {at.run_id}
    assert at.snapshots == 1


def test_orchestrator_leaves_the_note_that_a_dead_command_did_not(at: Setting) -> None:
    orchestrator = OrchestratorProcess(at.memory, at.clock, 5)
    orchestrator.step()
    orchestrator.step()
    at.w.commands.orchestration.cancel(at.run_id)
    at.memory.delete(paths.cancelled_run(at.run_id))
    assert at.look() == set()
    orchestrator.step()
    assert at.look() == {at.run_id}


def test_note_of_a_run_that_goes_on_stops_nothing(at: Setting) -> None:
    note_cancelled(at.memory, at.run_id)  # as after a rollback
    for _ in range(5):
        assert at.look() == set()
    assert at.snapshots == 1
    at.clock.sleep(5)
    at.w.commands.orchestration.cancel(at.run_id)
    assert at.look() == {at.run_id}


def test_notes_go_with_the_records_of_liveness(at: Setting) -> None:
    at.w.commands.orchestration.cancel(at.run_id)
    assert noted(at.memory).keys() == {at.run_id}
    at.clock.sleep(40 * 86_400)
    at.w.commands.catalog.create_namespace("later")
    at.w.upkeep.gc(dry_run=False)
    assert noted(at.memory) == {}
