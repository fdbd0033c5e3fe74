"""What a partition of a backfill costs, and how much memory an orchestrator has meanwhile.

Each size is a process of its own: an engine on a local disk, which does all that an
orchestrator does, and no-op tasks in slots. Small ones run before and after each large one, and
medians are compared, of wall time and of CPU time. Other work on the machine changes wall time
more than anything here does. So the large ones are also compared with themselves: what the
last quarter of their partitions cost, over the first quarter.
`python -m benchmarks.backfills PARTITIONS DIR` is one of these processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

from arco.cli.allocator import CACHED_BYTES, use_little_memory

ROOT = Path(__file__).resolve().parents[1]
FIRST = datetime(2000, 1, 1)
SOURCE = f"""
from servo import asset, hourly

@asset(namespace="flow", partitions=hourly("hour", start="{FIRST:%Y-%m-%dT%H:%M}"))
def hours() -> None:
    pass
"""


class Cost(NamedTuple):
    partitions: int
    wall_s: float
    cpu_s: float
    """Of the engine's process: without the slots, in which the tasks run."""
    peak_mib: float
    late_over_early: float
    """CPU time of the last quarter of the partitions over that of the first."""

    @property
    def wall_ms(self) -> float:
        return self.wall_s / self.partitions * 1e3

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s / self.partitions * 1e3


def measure(partitions: int, at: Path) -> Cost:
    """Backfill so many partitions in a new workspace, in a new process."""
    command = [sys.executable, "-m", "benchmarks.backfills", str(partitions), str(at)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def compare(at: Path, large: int, small: int, rounds: int) -> dict[str, object]:
    """Each round is three small ones, a large one, and three small ones again."""
    costs: dict[int, list[Cost]] = {small: [], large: []}
    for number in range(rounds):
        for size in (small, small, small, large, small, small, small):
            place = at / f"backfill{number}-{size}-{len(costs[size])}"
            cost = measure(size, place)
            shutil.rmtree(place)
            costs[size].append(cost)
            _say(
                f"{size:,} partitions: {cost.wall_ms:.2f} ms each, {cost.cpu_ms:.2f} ms of CPU, "
                f"{cost.peak_mib:.0f} MiB"
            )
    wall, cpu, peak = (
        {size: median(getattr(cost, name) for cost in of) for size, of in costs.items()}
        for name in ("wall_ms", "cpu_ms", "peak_mib")
    )
    late = median(cost.late_over_early for cost in costs[large])
    return {
        "backfill_partitions": [small, large],
        "backfill_partition_ms": [round(wall[small], 3), round(wall[large], 3)],
        "backfill_partition_cpu_ms": [round(cpu[small], 3), round(cpu[large], 3)],
        "backfill_peak_mib": [round(peak[small]), round(peak[large])],
        "backfill_per_partition_100k_over_1k": round(wall[large] / wall[small], 3),
        "backfill_cpu_100k_over_1k": round(cpu[large] / cpu[small], 3),
        "backfill_cpu_late_over_early": round(late, 3),
        "backfill_rss_100k_over_1k": round(peak[large] / peak[small], 3),
    }


def run(partitions: int, at: Path) -> Cost:
    """Backfill so many partitions here."""
    from arco.automation.backfill_commands import BackfillDraft
    from arco.automation.backfill_states import BackfillState
    from arco.automation.tables import BACKFILL_PROGRESS, BACKFILLS
    from arco.orchestration.plan import PlanRequest
    from benchmarks.flows import engine
    from benchmarks.workload import peak_rss_mib

    last = FIRST + timedelta(hours=partitions - 1)
    hours = f"hour={FIRST:%Y-%m-%dT%H}..{last:%Y-%m-%dT%H}"
    request = PlanRequest(selection=("flow.hours",), partitions=(hours,))
    # As `servo orchestrator` has it, whose memory this is about.
    with engine(at, SOURCE, cache_budget_bytes=CACHED_BYTES) as running:
        workspace = running.workspace
        began, used = time.perf_counter(), time.process_time()
        id = workspace.commands.backfills.create(BackfillDraft(request=request)).row.backfill_id
        curve = [(0, used)]
        while True:
            time.sleep(0.05 if partitions < 10_000 else 0.5)
            snapshot = workspace.read.snapshot()
            row = snapshot.get(BACKFILLS, id)
            assert row is not None
            if (progress := snapshot.get(BACKFILL_PROGRESS, id)) is not None:
                curve.append((progress.succeeded, time.process_time()))
            if row.finished_at is not None:
                break
        wall, cpu = time.perf_counter() - began, time.process_time() - used
    if row.state != BackfillState.SUCCEEDED:
        raise RuntimeError(f"the backfill ended {row.state}: {row.reason}")
    return Cost(partitions, wall, cpu, peak_rss_mib(), _late_over_early(curve, partitions))


def _late_over_early(curve: list[tuple[int, float]], partitions: int) -> float:
    """Of CPU seconds by the number of partitions that were done."""

    def each(first: float, last: float) -> float:
        ends = [
            next(point for point in curve if point[0] >= share * partitions)
            for share in (first, last)
        ]
        (low, began), (high, ended) = ends
        return (ended - began) / max(1, high - low)

    return each(0.75, 1) / each(0, 0.25)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    use_little_memory()  # as `servo orchestrator` does, before Arrow is imported
    print(json.dumps(run(int(sys.argv[1]), Path(sys.argv[2]))))
