"""Four worker processes on the queue in the store: how busy they are kept.

Tasks sleep; with four workers of one slot each, the ideal is their sleep divided by
four. Measured from the trigger to the run's end, planning and commits included.
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

SLEEP_S = 0.2


def source(n: int) -> str:
    values = [f"k{i:04d}" for i in range(n)]
    return f"""
import time
from servo import asset, static

@asset(namespace="flow", partitions=static("key", {values!r}))
def nap() -> None:
    time.sleep({SLEEP_S})
"""


def start(store: Path, *given: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ARCO_STORE": str(store)}
    command = [sys.executable, "-m", "arco.cli", *given]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)


def measure(at: Path, workers: int, n: int, rounds: int) -> list[float]:
    store = at / "store"
    workspace = Workspace.open(f"file://{store}", "default", "main")
    workspace.commands.orchestration.deploy(*project(source(n)))
    crew = [start(store, "orchestrator")]
    crew += [start(store, "worker", "--slots", "1") for _ in range(workers)]
    try:
        time.sleep(5)  # they start, and wait for work
        ideal = n * SLEEP_S / workers
        shares = []
        for number in range(rounds + 1):
            took = once(workspace)
            progress(f"{n} tasks in {took:.2f} s; ideal {ideal:.2f} s: {ideal / took:.3f}")
            if number:  # the first one fetches and imports the code
                shares.append(ideal / took)
        return shares
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.wait()


def once(workspace: Workspace) -> float:
    request = PlanRequest(selection=("*",), force=True)
    began = time.perf_counter()
    run_id = workspace.commands.orchestration.trigger(request).run_id
    while True:
        row = workspace.read.snapshot().get(RUNS, run_id)
        if row is not None and row.finished_at is not None:
            if row.state != "SUCCEEDED":
                raise RuntimeError(f"run {run_id} ended {row.state}")
            return time.perf_counter() - began
        time.sleep(0.05)


def main() -> None:
    args = arguments(__doc__).parse_args()
    n, rounds = (40, 1) if args.quick else (200, 3)
    with folder(args.dir) as at:
        shares = measure(at, 4, n, rounds)
    report({"ideal_over_measured": round(statistics.median(shares), 3), "tasks": n})


if __name__ == "__main__":
    main()
