"""Whether the memory of an orchestrator levels off: its RSS after many runs, over that after few.

Real `servo orchestrator` and `servo worker` processes on a local disk; runs of no-op tasks,
a few at a time, until there have been `--runs` of them. RSS is a median over the runs
just before each mark.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS
from benchmarks.flows import project
from benchmarks.workload import arguments, folder, progress, report

TASKS = 50
WINDOW = 10
"""So many runs before a mark are looked at."""


def source() -> str:
    values = [f"k{i:02d}" for i in range(TASKS)]
    return f"""
from servo import asset, static

@asset(namespace="flow", partitions=static("key", {values!r}))
def nothing() -> None:
    pass
"""


def start(store: Path, *given: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ARCO_STORE": str(store)}
    command = [sys.executable, "-m", "arco.cli", *given]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory")


class Soak:
    def __init__(self, at: Path, concurrent: int) -> None:
        self.store = at / "store"
        self.concurrent = concurrent
        self.workspace = Workspace.open(f"file://{self.store}", "default", "main")
        self.workspace.commands.orchestration.deploy(*project(source()))
        self.open: list[str] = []
        self.done = 0

    def fill(self) -> None:
        while len(self.open) < self.concurrent:
            request = PlanRequest(selection=("*",), force=True)
            self.open.append(self.workspace.commands.orchestration.trigger(request).run_id)

    def reap(self) -> None:
        snapshot = self.workspace.read.snapshot()
        for run_id in list(self.open):
            row = snapshot.get(RUNS, run_id)
            if row is not None and row.finished_at is not None:
                if row.state != "SUCCEEDED":
                    raise RuntimeError(f"run {run_id} ended {row.state}")
                self.open.remove(run_id)
                self.done += 1


def measure(at: Path, runs: int, concurrent: int) -> dict[int, tuple[float, float]]:
    """By the number of runs: the RSS of orchestrator and worker, in MB."""
    soak = Soak(at, concurrent)
    orchestrator = start(soak.store, "orchestrator")
    worker = start(soak.store, "worker", "--slots", "4")
    sizes: dict[int, tuple[float, float]] = {}
    try:
        began = time.perf_counter()
        while soak.done < runs:
            soak.fill()
            time.sleep(0.2)
            before = soak.done
            soak.reap()
            if soak.done > before:
                sizes[soak.done] = (rss_mb(orchestrator.pid), rss_mb(worker.pid))
            if soak.done // 25 > before // 25:
                took = time.perf_counter() - began
                large, small = sizes[soak.done]
                progress(f"{soak.done:,} runs, {took:.0f} s: {large:.0f} MB, worker {small:.0f} MB")
    finally:
        for process in (orchestrator, worker):
            process.terminate()
        for process in (orchestrator, worker):
            process.wait()
    return sizes


def size_at(sizes: dict[int, tuple[float, float]], mark: int, which: int) -> float:
    near = [size[which] for done, size in sizes.items() if mark - WINDOW < done <= mark + WINDOW]
    return statistics.median(near)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="how many runs in all")
    parser.add_argument("--concurrent", type=int, default=4, help="runs at a time")
    args = parser.parse_args()
    runs = 40 if args.quick else args.runs
    early = max(1, runs // 10)
    with folder(args.dir) as at:
        sizes = measure(at, runs, args.concurrent)
    before, after = size_at(sizes, early, 0), size_at(sizes, runs, 0)
    report(
        {
            "rss_1000_over_100": round(after / before, 3),
            "runs": runs,
            "tasks_per_run": TASKS,
            "orchestrator_mb_early": round(before, 1),
            "orchestrator_mb_late": round(after, 1),
            "worker_mb_early": round(size_at(sizes, early, 1), 1),
            "worker_mb_late": round(size_at(sizes, runs, 1), 1),
        }
    )


if __name__ == "__main__":
    main()
