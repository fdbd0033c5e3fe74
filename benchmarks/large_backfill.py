"""A backfill of half a million partitions, carried out to its end while things happen to it.

It is created, paused and resumed; the process with its orchestrator and worker is killed with -9
in the middle, and another one takes over; the partitions that failed are retried. In the end each
partition has one version, and the figures say what it took: time, the memory of the processes, the
bytes of the log, and the largest object that is neither log nor table.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.automation.backfill_commands import BackfillDraft
from arco.automation.backfill_states import BackfillState
from arco.automation.reader import Backfill
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.plan import PlanRequest
from arco.storage import paths
from benchmarks.engine_process import NAME, TENANT, EngineProcess, store_url
from benchmarks.flows import project
from benchmarks.workload import arguments, folder, progress, report

FIRST = datetime(1968, 1, 1)
SOURCE = """
from pathlib import Path
from servo import AssetContext, asset, hourly

@asset(namespace="flow", partitions=hourly("hour", start="{first:%Y-%m-%dT%H:%M}"))
def hours(ctx: AssetContext) -> None:
    if "-03T07:" in str(ctx.partition) and not Path({mended!r}).exists():
        raise ValueError("not yet")
"""
SAID_S = 30.0


class LargeBackfill:
    def __init__(self, at: Path, partitions: int) -> None:
        self._at = at
        self._partitions = partitions
        self._mended = at / "mended"
        self._workspace = Workspace.open(store_url(at), TENANT, NAME)
        source = SOURCE.format(first=FIRST, mended=str(self._mended))
        self._workspace.commands.orchestration.deploy(*project(source))
        self._commands = self._workspace.commands.backfills
        self.engines = [EngineProcess(at)]
        self._began = time.perf_counter()

    def carry_out(self) -> dict[str, object]:
        last = FIRST + timedelta(hours=self._partitions - 1)
        hours = f"hour={FIRST:%Y-%m-%dT%H}..{last:%Y-%m-%dT%H}"
        request = PlanRequest(selection=("flow.hours",), partitions=(hours,))
        self._id = self._commands.create(BackfillDraft(request=request)).row.backfill_id
        self._until(lambda: self._ended() >= self._partitions // 4)
        self._pause_and_resume()
        self._until(lambda: self._ended() >= self._partitions // 2)
        self.engines[-1].end(signal.SIGKILL)
        self._say("killed; another engine takes over")
        self.engines.append(EngineProcess(self._at))
        self._until(lambda: self._backfill().row.state == BackfillState.FAILED)
        failed = self._backfill().failed
        self._say(f"{failed:,} partitions failed, and are retried")
        self._mended.touch()
        self._commands.retry(self._id)
        self._until(lambda: self._backfill().row.state == BackfillState.SUCCEEDED)
        wall_s = time.perf_counter() - self._began
        self.engines[-1].end(signal.SIGTERM)
        return {
            "partitions": self._partitions,
            "failed_and_retried": failed,
            "wall_s": round(wall_s),
            "partition_ms": round(wall_s / self._partitions * 1e3, 3),
            "peak_mib": [round(engine.peak_mib) for engine in self.engines],
            **self._checked(),
        }

    def _pause_and_resume(self) -> None:
        self._commands.pause(self._id)
        self._until(lambda: not self._backfill().active_runs)
        ended = self._ended()
        time.sleep(2.0)
        if self._ended() != ended:
            raise RuntimeError("it goes on although it is paused")
        self._say(f"paused at {ended:,} partitions, and resumed")
        self._commands.resume(self._id)

    def _checked(self) -> dict[str, object]:
        """Whether each partition was made once, and how large what is stored has become."""
        snapshot = self._workspace.read.snapshot()
        versions = Counter(row.versions for row in snapshot.all(PARTITIONS))
        good = sum(row.status == "GOOD" for row in snapshot.all(MATERIALIZATIONS))
        if versions != {1: self._partitions} or good != self._partitions:
            raise RuntimeError(f"not every partition was made once: {versions}, {good} versions")
        store = self._workspace.store
        log = sum(meta.size for meta in store.list(paths.SEGMENTS))
        tables = (paths.SEGMENTS, paths.STATE, paths.MANIFESTS)
        others = [meta.size for meta in store.list("") if not meta.path.startswith(tables)]
        return {
            "log_bytes_per_partition": round(log / self._partitions),
            "largest_other_object_bytes": max(others),
        }

    def _backfill(self) -> Backfill:
        return self._workspace.read.automation().backfill(self._id)

    def _ended(self) -> int:
        entry = self._backfill()
        return entry.completed + entry.failed

    def _until(self, reached: Callable[[], bool]) -> None:
        said = time.perf_counter()
        while not reached():
            time.sleep(0.5)
            self.engines[-1].look()
            if time.perf_counter() - said > SAID_S:
                said = time.perf_counter()
                self._say(f"{self._ended():,} partitions, {self.engines[-1].peak_mib:.0f} MiB")

    def _say(self, text: str) -> None:
        progress(f"{time.perf_counter() - self._began:6.0f} s  {text}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--partitions", type=int, default=500_000)
    given = parser.parse_args()
    with folder(given.dir) as at:
        backfill = LargeBackfill(at, 2_000 if given.quick else given.partitions)
        try:
            report(backfill.carry_out())
        finally:
            backfill.engines[-1].stop()


if __name__ == "__main__":
    main()
