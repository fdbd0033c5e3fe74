"""How long a small run's tasks wait behind a large one's.

`servo orchestrator` and two `servo worker` of four slots are processes of their own. A large
run has thousands of ready tasks; then a small one is triggered. Measured for each task of the
small one: from ready to started, in lengths of a task. First between two tenants, then between
two runs that have no tenant.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS, RunRow
from benchmarks.flows import project
from benchmarks.workers import start
from benchmarks.workload import arguments, folder, progress, report

SLEEP_S = 0.5
WORKERS, SLOTS = 2, 4


def source(large: int) -> str:
    return f"""
import time
from servo import AssetIn, asset, static, tenant

KEYS = [f"k{{i:05d}}" for i in range({large})]
FEW = KEYS[:5]
TENANTS = tenant("tenant", ["large", "small"])

@asset(namespace="shared", partitions=TENANTS * static("key", KEYS))
def many() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="shared", partitions=TENANTS * static("key", FEW))
def first() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="shared", partitions=TENANTS * static("key", FEW), deps=["shared.first"])
def second() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="plain", partitions=static("key", KEYS))
def many_() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="plain", partitions=static("key", FEW))
def first_() -> None:
    time.sleep({SLEEP_S})

@asset(namespace="plain", partitions=static("key", FEW), deps=["plain.first_"])
def second_() -> None:
    time.sleep({SLEEP_S})
"""


TENANTS = (("shared.many", "tenant=large"), ("shared.first,shared.second", "tenant=small"))
RUNS_ALONE = (("plain.many_", ""), ("plain.first_,plain.second_", ""))
Choice = tuple[str, str]


class Scene:
    def __init__(self, store: Path) -> None:
        self._workspace = Workspace.open(f"file://{store}", "default", "main")

    def deploy(self, large: int) -> None:
        self._workspace.commands.orchestration.deploy(*project(source(large)))

    def waits(self, large: Choice, small: Choice, settle_s: float) -> list[float]:
        """From ready to started, in seconds, of each task of the small run."""
        behind = self._trigger(large)
        time.sleep(settle_s)  # the workers are busy with the large one
        run_id = self._trigger(small)
        self._ended(run_id)
        done = self._row(behind).tasks_succeeded
        tasks = self._workspace.read.orchestration().tasks(run_id)
        self._workspace.commands.orchestration.cancel(behind)
        self._ended(behind)
        waits = [
            (task.started_at - task.ready_at).total_seconds()
            for task in tasks
            if task.started_at is not None and task.ready_at is not None
        ]
        progress(
            f"{small[0]}: waits {min(waits):.2f} to {max(waits):.2f} s, "
            f"median {statistics.median(waits):.2f} s; the large run has {done:,} done"
        )
        return waits

    def _trigger(self, choice: Choice) -> str:
        selection, partitions = choice
        request = PlanRequest(
            selection=tuple(selection.split(",")),
            partitions=(partitions,) if partitions else (),
            force=True,
            max_tasks=50_000,
        )
        return self._workspace.commands.orchestration.trigger(request).run_id

    def _row(self, run_id: str) -> RunRow:
        row = self._workspace.read.snapshot().get(RUNS, run_id)
        assert row is not None
        return row

    def _ended(self, run_id: str) -> None:
        while self._row(run_id).finished_at is None:
            time.sleep(0.2)


def measure(at: Path, large: int, rounds: int) -> dict[str, list[float]]:
    store = at / "store"
    scene = Scene(store)
    scene.deploy(large)
    crew = [start(store, "orchestrator")]
    crew += [start(store, "worker", "--slots", str(SLOTS)) for _ in range(WORKERS)]
    waits: dict[str, list[float]] = {"tenants": [], "runs": []}
    try:
        for _ in range(rounds):
            waits["tenants"] += scene.waits(*TENANTS, settle_s=8.0)
            waits["runs"] += scene.waits(*RUNS_ALONE, settle_s=8.0)
        return waits
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.wait()


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        waits = measure(at, 500 if args.quick else 5_000, 1 if args.quick else 3)
    medians = {name: statistics.median(of) for name, of in waits.items()}
    report(
        {
            "small_wait_over_task": round(medians["tenants"] / SLEEP_S, 3),
            "small_run_wait_over_task": round(medians["runs"] / SLEEP_S, 3),
            "longest_wait_s": round(max(map(max, waits.values())), 2),
            "task_s": SLEEP_S,
        }
    )


if __name__ == "__main__":
    main()
