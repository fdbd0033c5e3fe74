"""How long a run goes on after its cancellation, for a large run and for a small one.

An orchestrator and a worker are processes of their own, and tasks are being sent all the
time. The command is given by a workspace that has read nothing yet, as a command line has
not; the start of Python is left out. Measured from the command's start until it is committed
and the last task was sent, whichever is later; large and small runs take turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.orchestration.events import DispatchEnqueued
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS, RunRow
from arco.state.replay import read_log
from benchmarks.flows import project
from benchmarks.workers import start
from benchmarks.workload import arguments, folder, progress, report

SLEEP_S = 0.2
SLOTS = 4


def source(large: int, small: int) -> str:
    return f"""
import time
from servo import asset, static

@asset(namespace="flow", partitions=static("key", [f"k{{i:05d}}" for i in range({large})]))
def large() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="flow", partitions=static("key", [f"k{{i:05d}}" for i in range({small})]))
def small() -> None:
    time.sleep({SLEEP_S})
"""


def opened(store: Path) -> Workspace:
    return Workspace.open(f"file://{store}", "default", "main")


class Cancelled:
    """One run, from its trigger to its end."""

    def __init__(self, store: Path, asset: str, tasks: int, done_first: int) -> None:
        self._store = store
        workspace = opened(store)
        self._position = workspace.read.snapshot().position
        request = PlanRequest(selection=(f"flow.{asset}",), force=True, max_tasks=tasks)
        self.run_id = workspace.commands.orchestration.trigger(request).run_id
        self._until(lambda row: row.tasks_succeeded >= done_first)
        began, now = time.perf_counter(), datetime.now(UTC)
        cold = opened(store)
        generation = cold.commands.orchestration.cancel(self.run_id).generation
        self.command_s = time.perf_counter() - began
        committed = cold.manifests.read(generation).manifest.published_at.replace(tzinfo=UTC)
        row = self._until(lambda row: row.finished_at is not None)
        self.end_s = time.perf_counter() - began
        if row.state != "CANCELLED":
            raise RuntimeError(f"run {self.run_id} ended {row.state}")
        self.sent_s = (max(self._last_sent(), committed) - now).total_seconds()

    def _until(self, reached: object) -> RunRow:
        assert callable(reached)
        workspace = opened(self._store)
        while True:
            row = workspace.read.snapshot().get(RUNS, self.run_id)
            if row is not None and reached(row):
                return row
            time.sleep(0.02)

    def _last_sent(self) -> datetime:
        """By the clock of whoever sent it, which is this machine's."""
        workspace = opened(self._store)
        times = [
            recorded.event.time
            for recorded in read_log(
                workspace.read.snapshot(), workspace.core.types, first=self._position
            )
            if isinstance(recorded.payload, DispatchEnqueued)
            and recorded.payload.run_id == self.run_id
        ]
        return max(times)


def measure(at: Path, sizes: dict[str, int], rounds: int) -> dict[str, list[Cancelled]]:
    store = at / "store"
    opened(store).commands.orchestration.deploy(*project(source(sizes["large"], sizes["small"])))
    crew = [start(store, "orchestrator"), start(store, "worker", "--slots", str(SLOTS))]
    results: dict[str, list[Cancelled]] = {name: [] for name in sizes}
    try:
        time.sleep(3)
        for number in range(rounds + 1):
            for name, tasks in sizes.items():
                cancelled = Cancelled(store, name, tasks, done_first=min(40, tasks // 10))
                progress(
                    f"{tasks:,} tasks: stopped after {cancelled.sent_s:.3f} s, "
                    f"command {cancelled.command_s:.3f} s, run ended after {cancelled.end_s:.2f} s"
                )
                if number:  # the first one fetches and imports the code
                    results[name].append(cancelled)
        return results
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.wait()


def main() -> None:
    args = arguments(__doc__).parse_args()
    sizes = {"small": 50, "large": 1_000 if args.quick else 50_000}
    with folder(args.dir) as at:
        results = measure(at, sizes, 1 if args.quick else 3)
    sent = {name: statistics.median(r.sent_s for r in of) for name, of in results.items()}
    command = {name: statistics.median(r.command_s for r in of) for name, of in results.items()}
    report(
        {
            "cancel_50k_over_50": round(sent["large"] / sent["small"], 3),
            "command_50k_over_50": round(command["large"] / command["small"], 3),
            "sent_large_s": round(sent["large"], 3),
            "sent_small_s": round(sent["small"], 3),
            "command_large_s": round(command["large"], 3),
            "command_small_s": round(command["small"], 3),
            "end_large_s": round(statistics.median(r.end_s for r in results["large"]), 2),
        }
    )


if __name__ == "__main__":
    main()
