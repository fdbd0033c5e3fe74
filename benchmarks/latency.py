"""What a store costs that waits 30 ms for each call, as one behind a network does.

- `task_over_round_trip`: seconds for each task of a fan-out of no-op partitions, on `servo
  orchestrator` and two `servo worker` of eight slots, each a process of its own, in round
  trips of the store. Measured from the trigger to the run's end.
- `commit_round_trips`: the calls that a commit makes one after the other, from a batch that
  lies in the inbox to the generation that shows it, in a process that committed before.
- `tier1_round_trips`: the same of one catalog command, from the call to its answer.

Calls that run at the same time count as one round trip.
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kit.latency import LatencyStore, round_trips

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS
from arco.storage.local import LocalStore
from arco.storage.scoped import ScopedStore
from benchmarks.flows import partitioned, project
from benchmarks.workload import arguments, folder, progress, report
from servo.contract.keys import AssetKey

ROOT = Path(__file__).resolve().parents[1]
LATENCY_S = 0.03
WORKERS, SLOTS = 2, 8


def start(store: Path, calls: Path, *given: str) -> subprocess.Popen[bytes]:
    """A `servo` command in a process of its own, on a store that waits."""
    env = {**os.environ, "ARCO_STORE": str(store), "LATENCY_CALLS": str(calls)}
    command = [sys.executable, "-m", "tests.kit.latency", str(LATENCY_S * 1e3), *given]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL)


def per_task(at: Path, n: int, rounds: int) -> list[float]:
    """Seconds for each task, of each round but the first, which fetches and imports the code."""
    store, calls = at / "store", at / "calls"
    workspace = Workspace.open(f"file://{store}", "default", "main")
    workspace.commands.orchestration.deploy(*project(partitioned(n)))
    crew = [start(store, calls, "orchestrator")]
    crew += [start(store, calls, "worker", "--slots", str(SLOTS)) for _ in range(WORKERS)]
    try:
        time.sleep(5)  # they start, and wait for work
        seconds = []
        for number in range(rounds + 1):
            took = _run(workspace)
            progress(f"{n} tasks in {took:.2f} s: {took / n / LATENCY_S:.2f} round trips each")
            if number:
                seconds.append(took / n)
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.wait()
        progress(calls.read_text() if calls.exists() else "")
    return seconds


def _run(workspace: Workspace) -> float:
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


def sequential_calls(at: Path, rounds: int) -> dict[str, int]:
    """Round trips of a commit, and of a catalog command, in a process that did both before."""
    store = LatencyStore(LocalStore(at / "catalog"), LATENCY_S)
    workspace = Workspace(ScopedStore(store, "bench", "work"), "bench", "work")
    workspace.writer.publisher.cleanup.start()  # as every `servo` process does
    workspace.commands.catalog.create_namespace("warm")
    workspace.commands.catalog.create_asset("warm.first")
    asset_id = workspace.read.catalog().asset_id(AssetKey("warm", "first"))

    def counted(act: Callable[[], object]) -> int:
        time.sleep(0.5)  # what goes on beside, such as deletes, has ended
        began = time.monotonic()
        act()
        return round_trips([c for c in store.since(began) if c.ended <= time.monotonic()])

    commits, commands = [], []
    for number in range(rounds):
        fact = AssetObserved(asset_id=asset_id, row_count=number, size_bytes=0)
        workspace.ledger.append([fact], notify=False)
        commits.append(counted(workspace.committer.commit))
        create = functools.partial(workspace.commands.catalog.create_namespace, f"n{number}")
        commands.append(counted(create))
    progress(f"commits: {commits}; commands: {commands}")
    return {
        "commit_round_trips": round(statistics.median(commits)),
        "tier1_round_trips": round(statistics.median(commands)),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    n, rounds = (60, 1) if args.quick else (args.tasks, args.rounds)
    with folder(args.dir) as at:
        trips = sequential_calls(at, 3 if args.quick else 7)
        seconds = statistics.median(per_task(at, n, rounds))
    report(
        {
            "task_over_round_trip": round(seconds / LATENCY_S, 3),
            **trips,
            "task_ms": round(seconds * 1e3, 1),
            "tasks": n,
        }
    )


if __name__ == "__main__":
    main()
