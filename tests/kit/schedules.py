"""Schedules in a simulated store, with orchestrators that come and go."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from arco.app import Workspace
from arco.automation.reader import TickEntry
from arco.automation.tables import TickState
from arco.orchestration.tables import RUNS, RunRow
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from tests.kit.clocks import SimClock
from tests.kit.flows import Crowd, deploy
from tests.kit.workspace import make_workspace

START = datetime(2026, 1, 5, 8, 1)


def project(cron: str = "*/10 * * * *", *more: str, **settings: Any) -> str:
    """A project with one asset, one schedule `often`, and what else is written."""
    given = "".join(f", {name}={value!r}" for name, value in settings.items())
    lines = [
        "from servo import asset, daily, schedule",
        "@asset(namespace='city')",
        "def alone() -> None: ...",
        f"often = schedule('often', cron={cron!r}, selection=[alone]{given})",
        *more,
    ]
    return "\n".join(lines)


class Town:
    """A workspace with a schedule, and processes that serve it."""

    def __init__(self, text: str = "", start: datetime = START, crowd: Crowd | None = None) -> None:
        self.clock = SimClock(start)
        self.store: Store = MemoryStore(self.clock)
        self.w = make_workspace(self.store, 1, clock=self.clock)
        deploy(self.w, text or project())
        self.crowd = crowd or Crowd(self.store, self.clock, "")

    def copied(self) -> Self:
        """What there is now, on a store and a clock of its own, and without processes."""
        assert isinstance(self.store, MemoryStore)
        town = copy.copy(self)
        town.clock = copy.copy(self.clock)
        store = MemoryStore(town.clock)
        store.objects.update(self.store.objects)
        store.names.extend(self.store.names)
        town.store = store
        town.crowd = self.crowd.without_processes(store, town.clock)
        town.w = town.fresh()
        return town

    def deploy(self, text: str) -> None:
        deploy(self.fresh(), text)

    def until(self, time: datetime, *, step_s: float = 20.0) -> None:
        """Let the processes go on until a time."""
        while self.clock.now() < time:
            self.crowd.step()
            self.clock.sleep(step_s)
        self.settle()

    def settle(self) -> None:
        """Until nobody has anything to do."""
        for _ in range(60):
            if not self.crowd.step() and not self.pending():
                return
        raise AssertionError("it does not settle")

    def pending(self) -> list[str]:
        rows, _ = self.fresh().read.orchestration().run_requests(limit=100, in_states=["PENDING"])
        return [row.request_key for row in rows]

    def fresh(self) -> Workspace:
        return self.crowd.fresh()

    def ticks(self, name: str = "often") -> list[TickEntry]:
        """The oldest first."""
        reader = self.fresh().read.automation()
        return reader.ticks(reader.schedule(name), 1_000)[::-1]

    def states(self, name: str = "often") -> list[tuple[str, TickState]]:
        return [(entry.row.tick.partition("T")[2], entry.state) for entry in self.ticks(name)]

    def runs(self) -> list[RunRow]:
        rows = self.fresh().read.snapshot().all(RUNS)
        return sorted(rows, key=lambda row: row.reference)


def fired(*times: str) -> list[tuple[str, TickState]]:
    return [(time, TickState.FIRED) for time in times]


def every(minutes: int, since: datetime, until: datetime) -> Sequence[str]:
    """The wall times of a schedule in UTC."""
    step = timedelta(minutes=minutes)
    at = since.replace(minute=since.minute // minutes * minutes, second=0) + step
    times = []
    while at <= until:
        times.append(f"{at:%H:%M}")
        at += step
    return times
