"""What automation costs: how late ticks fire when many are due, what they cost while few are, and
what a partition of a large backfill costs (`backfills.py`).

Time is simulated, files are real: the clock jumps to the minute in which ticks are due, and an
orchestrator without workers ticks until the last of their runs is triggered.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import time
from datetime import datetime
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kit.clocks import SimClock
from tests.kit.flows import OrchestratorProcess
from tests.kit.stores import DatedStore
from tests.kit.workspace import make_workspace

from arco.app import Workspace
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RUN_REQUESTS
from arco.storage.local import LocalStore
from benchmarks import backfills
from benchmarks.workload import arguments, folder, progress, report
from servo.contract.manifest import Asset, Code, Manifest, Schedule

START = datetime(2026, 1, 5, 8, 0, 30)
CODE = Code(module="flow", name="a")


class Site:
    """Schedules of which the first `due` are due each minute, and the others once a year."""

    def __init__(self, path: Path, schedules: int, due: int) -> None:
        self.clock = SimClock(START)
        self._store = DatedStore(LocalStore(path), self.clock)
        self._due = due
        self.workspace = make_workspace(self._store, 1, clock=self.clock)
        artifact = b"nothing"
        manifest = Manifest(
            artifact=hashlib.sha256(artifact).hexdigest(),
            assets=(Asset(key="n.a", code=CODE),),
            schedules=tuple(
                Schedule(
                    name=f"s{n:05d}",
                    cron="* * * * *" if n < due else "0 0 1 1 *",
                    selection=("n.a",),
                    code=CODE,
                )
                for n in range(schedules)
            ),
        )
        self.workspace.commands.orchestration.deploy(manifest, artifact)
        self.orchestrator = OrchestratorProcess(self._store, self.clock, 2)
        self.orchestrator.step()

    def minute(self) -> list[float]:
        """Seconds from the due time until each tick's run is triggered, the earliest first."""
        self.clock.sleep(60)
        delays: list[float] = []
        began = time.perf_counter()
        while len(delays) < self._due:
            self.orchestrator.step()
            self.clock.sleep(0.01)
            passed = time.perf_counter() - began
            minute = self.clock.now().replace(second=0, microsecond=0)
            rows = self.workspace.read.snapshot().hot(RUN_REQUESTS)
            triggered = sum(
                row.state == RequestState.TRIGGERED and row.until == minute for row in rows
            )
            delays += [passed] * (triggered - len(delays))
            began += time.perf_counter() - began - passed  # looking is not part of it
        return delays

    def idle_commit_s(self) -> float:
        w: Workspace = self.workspace
        begin = time.perf_counter()
        w.commands.orchestration.change_partition_keys("k", add=[str(time.perf_counter())])
        return time.perf_counter() - begin


def many_at_once(path: Path, count: int, minutes: int) -> dict[str, object]:
    site = Site(path, count, count)
    commit = statistics.median(site.idle_commit_s() for _ in range(20))
    delays = [delay for _ in range(minutes) for delay in site.minute()]
    each = statistics.median(delays) / count
    return {
        "idle_commit_ms": round(commit * 1e3, 3),
        "due_tick_delay_ms_p95": round(sorted(delays)[int(len(delays) * 0.95)] * 1e3, 3),
        "due_tick_ms_each": round(each * 1e3, 3),
        "tick_delay_over_commit": round(each / commit, 3),
    }


def few_among(path: Path, schedules: int, minutes: int) -> float:
    site = Site(path, schedules, 1)
    return statistics.median(site.minute()[0] for _ in range(minutes))


def schedules(root: Path, *, quick: bool) -> dict[str, object]:
    count, large = (200, 1_000) if quick else (1_000, 10_000)
    progress(f"{count:,} schedules due in the same minute")
    results = many_at_once(root / "many", count, 3)
    progress(f"1 of {large:,} schedules due, and 1 of 100")
    small = few_among(root / "small", 100, 15)
    big = few_among(root / "large", large, 15)
    return results | {
        "tick_100_ms": round(small * 1e3, 3),
        "tick_large_ms": round(big * 1e3, 3),
        "schedules_10k_over_100": round(big / small, 3),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=["schedules", "backfills"])
    given = parser.parse_args()
    results: dict[str, object] = {}
    with folder(given.dir) as root:
        if given.only in (None, "schedules"):
            results |= schedules(root, quick=given.quick)
        if given.only in (None, "backfills"):
            results |= backfills.compare(root, 10_000 if given.quick else 100_000, 1_000, 1)
    report(results)


if __name__ == "__main__":
    main()
