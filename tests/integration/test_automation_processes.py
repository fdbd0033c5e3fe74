"""Real orchestrators that are killed while schedules fire and a backfill goes on.

Two of them serve one workspace; one after the other is killed and replaced, all the time. A file
moves the clock of all processes. Each tick fires once, each request becomes one run, each
partition of the backfill gets one version, and nothing is stuck.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from arco.automation.backfill_commands import BackfillDraft
from arco.automation.backfill_states import BackfillState, ChunkState
from arco.automation.tables import SCHEDULE_TICKS, TickState
from arco.clock import SystemClock
from arco.execution.tables import MATERIALIZATIONS
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RequestState, RunState
from arco.orchestration.tables import RUN_REQUESTS, RUNS
from tests.integration.flow_crew import PATIENT, FlowCrew, Process
from tests.kit.depth import KILL_SEED, scaled
from tests.kit.flows import check_store

pytestmark = pytest.mark.xdist_group("processes")

ASSETS = """
from servo import daily, schedule

@asset(namespace="flow")
def alone() -> None: ...

@asset(namespace="flow", partitions=daily("date", start="2026-01-01"))
def days(ctx: AssetContext) -> None:
    if "02-03" in str(ctx.partition) and (FOLDER / "broken").exists():
        raise ValueError("no way")

often = schedule("often", cron="{cron}", timezone="Europe/Berlin", selection=[alone])
"""
BEFORE_CHANGE = datetime(2026, 10, 25, 0, 21)
"""In UTC: 02:21 in Berlin, for the first time on this day."""
TICKS = {
    "2026-10-25T02:30": "00:30",
    "2026-10-25T02:00/2": "01:00",
    "2026-10-25T02:30/2": "01:30",
}
PAUSED_UNTIL = "02:10"
LATER_TICKS = {
    "2026-10-25T03:15#2": "02:15",
    "2026-10-25T03:30#2": "02:30",
    "2026-10-25T03:45#2": "02:45",
}
"""By name, when each is due in UTC."""
DAYS = scaled(9, 28)


class Clock:
    """The file that moves the clock of all processes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(BEFORE_CHANGE)

    def set(self, time: datetime) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(str((time - SystemClock().now()).total_seconds()))
        new.replace(self.file)

    def reach(self, time: str) -> None:
        """Some seconds past a time of that day."""
        hour, minute = map(int, time.split(":"))
        self.set(BEFORE_CHANGE.replace(hour=hour, minute=minute, second=5))


class Killer:
    """Keeps two orchestrators, and kills one after the other."""

    def __init__(self, crew: FlowCrew, rng: random.Random) -> None:
        self._crew = crew
        self._rng = rng
        self._stop = threading.Event()
        self.kills = 0

    def _start(self) -> Process:
        process = self._crew.start("orchestrator", PATIENT)
        self._crew.drop(process)  # it may be dead when the others are looked at
        return process

    def run(self) -> None:
        serving = [self._start(), self._start()]
        while not self._stop.is_set():
            victim = serving.pop(0)
            while not (victim.ready or self._stop.wait(0.02)):
                victim.check_alive()
            self._stop.wait(self._rng.uniform(0.0, 1.2))
            victim.check_alive()
            victim.kill()
            self.kills += 1
            serving.append(self._start())
        self._crew.processes += serving

    def until(self, kills: int) -> None:
        self._crew.until(lambda: self.kills >= kills, f"{kills} kills")

    @contextmanager
    def killing(self) -> Iterator[None]:
        """At the end the two that are left go on."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                self.run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run, name="killer")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        if failures:
            raise failures[0]


class Story:
    def __init__(self, crew: FlowCrew, clock: Clock) -> None:
        self.crew = crew
        self.clock = clock
        self.asked: set[str] = set()

    def ticks(self) -> dict[str, TickState]:
        rows = self.crew.open().read.snapshot().all(SCHEDULE_TICKS)
        return {row.tick: row.state for row in rows}

    def tick(self, tick: str, due: str) -> None:
        """Let a tick fall due, with a request of somebody at the same time."""
        self.clock.reach(due)
        key = f"by hand at {due}"
        request = PlanRequest(selection=("flow.alone",), force=True)
        for _ in range(2):  # whoever asks again has asked once
            self.crew.open().commands.orchestration.request(request, run_key=key)
        self.asked.add(key)
        self.crew.until(lambda: tick in self.ticks(), f"tick {tick}")

    def backfill(self) -> str:
        last = f"2026-02-{DAYS:02}" if DAYS < 28 else "2026-02-28"
        draft = BackfillDraft(
            request=PlanRequest(selection=("flow.days",), partitions=(f"date=2026-02-01..{last}",)),
            chunk_size=3,
            max_concurrent_runs=2,
        )
        return self.crew.open().commands.backfills.create(draft).row.backfill_id

    def until_backfill(self, id: str, state: BackfillState) -> None:
        reader = self.crew.open().read
        self.crew.until(
            lambda: reader.automation().backfill(id).row.state == state, f"a backfill {state}"
        )


def test_ticks_requests_and_a_backfill_survive_orchestrators_that_are_killed(
    tmp_path: Path,
) -> None:
    clock = Clock(tmp_path / "clock")
    (tmp_path / "broken").touch()
    rng = random.Random(KILL_SEED)
    print(f"replay with ARCO_KILL_SEED={KILL_SEED}")
    with FlowCrew(tmp_path, ASSETS.format(cron="*/30 * * * *"), clock=clock.file) as crew:
        story, killer = Story(crew, clock), Killer(crew, rng)
        with killer.killing():
            id = story.backfill()
            for tick, due in TICKS.items():
                story.tick(tick, due)
            killer.until(1)
            crew.open().commands.automation.pause("often")
            clock.reach(PAUSED_UNTIL)
            crew.open().commands.automation.resume("often")
            crew.deploy(ASSETS.format(cron="*/15 * * * *"))
            for tick, due in LATER_TICKS.items():
                story.tick(tick, due)
            killer.until(2)
            crew.start("worker", PATIENT)
            crew.open().commands.backfills.pause(id)
            crew.open().commands.backfills.resume(id)
            story.until_backfill(id, BackfillState.FAILED)
            (tmp_path / "broken").unlink()
            crew.open().commands.backfills.retry(id)
            killer.until(3)
            story.until_backfill(id, BackfillState.SUCCEEDED)
        crew.until(lambda: not active(crew), "the end of all runs")
        check(story, id)


def active(crew: FlowCrew) -> list[str]:
    rows = crew.open().read.snapshot().all(RUNS)
    return [row.run_id for row in rows if row.finished_at is None]


def check(story: Story, id: str) -> None:
    w = story.crew.open()
    snapshot = w.read.snapshot()
    assert story.ticks() == dict.fromkeys([*TICKS, *LATER_TICKS], TickState.FIRED)
    requests = snapshot.all(RUN_REQUESTS)
    assert {row.state for row in requests} == {RequestState.TRIGGERED}
    by_kind = Counter(row.kind for row in requests)
    chunks = -(-DAYS // 3)
    assert by_kind == {
        "schedule": len(TICKS) + len(LATER_TICKS),
        "manual": len(story.asked),
        "backfill": chunks + 1,  # one of them twice
    }
    runs = snapshot.all(RUNS)
    assert sorted(row.run_key for row in runs) == sorted(row.request_key for row in requests)
    states = Counter(row.state for row in runs)
    assert states == {RunState.SUCCEEDED: len(runs) - 1, RunState.FAILED: 1}
    versions = Counter(
        row.partition_key for row in snapshot.all(MATERIALIZATIONS) if row.partition_key
    )
    assert set(versions.values()) == {1} and len(versions) == DAYS
    entry = w.read.automation().backfill(id)
    assert (entry.completed, entry.pending, entry.failed) == (DAYS, 0, 0)
    assert {row.state for row in w.read.automation().backfill_runs(id)} == {ChunkState.SUCCEEDED}
    check_store(w)
