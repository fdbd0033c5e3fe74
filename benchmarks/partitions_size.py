"""Whether the memory of a compactor follows what changes, not how large an asset is.

An asset has very many partitions, all of them made on one day, each with a check, lineage and
costs. A fresh process then commits one new version of one partition, and merges what is due,
as `servo compact` does. Its peak memory is compared with that of the same on a small asset.

What a report of a task derives is appended as it is: planning a million tasks first would
take most of the time, and is measured elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco import app
from arco.app import Workspace
from arco.cli.allocator import use_little_memory
from arco.execution.events import CostIncurred, OutputAccepted
from arco.lineage.events import LineageRecorded
from arco.log.envelope import Payload
from arco.quality.events import ChecksEvaluated
from benchmarks.workload import (
    arguments,
    asset_ids,
    drain,
    folder,
    open_workspace,
    peak_rss_mib,
    progress,
    report,
)
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    Cost,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    Usage,
)
from servo.contract.ulid import system_ulids

LARGE, SMALL = 1_000_000, 10_000
BATCH = 2_500
"""Partitions in one batch of events."""
ASSET, SOURCE = "bench.partitioned", "bench.source"
DERIVED: tuple[type[Payload], ...] = (
    OutputAccepted,
    ChecksEvaluated,
    CostIncurred,
    LineageRecorded,
)

spawn = multiprocessing.get_context("spawn")


def measured(at: Path, *, large: int, small: int, rounds: int) -> dict[str, object]:
    """Peak memory of a compactor that adds one version to a large asset, over that to a small."""
    peaks: dict[int, list[float]] = {small: [], large: []}
    for count in (small, large):
        _in_process(_fill, at / str(count), count)
    for _ in range(rounds):
        for count in (small, large):
            peak = _in_process(_add_one, at / str(count), count)
            peaks[count].append(peak)
            progress(f"one version among {count:,} partitions: {peak:.1f} MiB")
    big, little = statistics.median(peaks[large]), statistics.median(peaks[small])
    return {
        "rss_1m_partitions_over_10k": round(big / little, 3),
        "rss_large_mib": round(big, 1),
        "rss_small_mib": round(little, 1),
    }


def _in_process(target: Any, at: Path, count: int) -> float:
    """What a fresh process answers."""
    at.mkdir(exist_ok=True)
    near, far = spawn.Pipe()
    process = spawn.Process(target=target, args=(at, count, far))
    with mock.patch.dict(os.environ, ARROW_DEFAULT_MEMORY_POOL="system"):
        process.start()  # Arrow is imported there before anything else, and heeds this
    far.close()
    answer: float = near.recv()
    process.join()
    return answer


def _open(at: Path) -> Workspace:
    """A workspace whose log may hold what is otherwise derived."""
    with mock.patch.object(app, "EVENTS", (*app.EVENTS, *DERIVED)):
        return open_workspace(at)


def _fill(at: Path, count: int, answer: Any) -> None:
    began, workspace, rng = time.perf_counter(), _open(at), random.Random(1)
    order = rng.sample(range(count), count)
    for start in range(0, count, BATCH):
        part = order[start : start + BATCH]
        workspace.ledger.append([fact for number in part for fact in _output(number)])
        drain(workspace)
        workspace.upkeep.merger.merge()
        if start % (20 * BATCH) == 0:
            progress(f"{start:,} of {count:,}: {time.perf_counter() - began:.0f} s")
    workspace.upkeep.merger.merge(everything=True)
    progress(f"{count:,} partitions in {time.perf_counter() - began:.0f} s")
    answer.send(0.0)


def _add_one(at: Path, count: int, answer: Any) -> None:
    use_little_memory()
    workspace = _open(at)
    workspace.ledger.append(list(_output(random.randrange(count))))
    drain(workspace)
    workspace.upkeep.merger.merge(everything=True)
    answer.send(peak_rss_mib())


_ids = system_ulids()
_ASSET_ID, _ = asset_ids(2)


def _output(number: int) -> Iterator[Payload]:
    """What the report of one task derives."""
    partition = f"customer=s:{number:08d}"
    run, attempt, version, task = _ids(), _ids(), _ids(), _ids()
    made = Materialization(
        materialization_id=version,
        asset=ASSET,
        asset_id=_ASSET_ID,
        partition=partition,
        run_id=run,
        task_id=task,
        attempt_id=attempt,
        path=f"data/bench/partitioned/{partition}/{version}",
        files=("part-0.parquet",),
        rows=number,
        bytes=number * 100,
        schema=(ColumnInfo(name="id", type="long"), ColumnInfo(name="amount", type="double")),
        schema_hash="3f786850e387550fdab836ed7e6dc881",
        fingerprint="89e6c98d92887913cadf06b2adb97f26",
    )
    yield OutputAccepted(materialization=made)
    yield CostIncurred(
        asset_id=_ASSET_ID,
        asset=ASSET,
        partition=partition,
        run_id=run,
        task_id=task,
        attempt=1,
        attempt_id=attempt,
        outcome="succeeded",
        usage=Usage(wall_ms=number, cpu_ms=number),
        cost=Cost(currency="EUR", cpu=number),
    )
    yield ChecksEvaluated(
        asset_id=_ASSET_ID,
        asset=ASSET,
        partition=partition,
        run_id=run,
        task_id=task,
        attempt_id=attempt,
        materialization_id=version,
        results=(CheckResult(name="unique(id)", kind="unique", passed=True, rows=number),),
    )
    read = MaterializationRef(
        partition=partition, materialization_id=run, path=made.path, rows=number, bytes=number
    )
    yield LineageRecorded(
        asset=ASSET,
        asset_id=_ASSET_ID,
        partition=partition,
        materialization_id=version,
        run_id=run,
        task_id=task,
        transform="",
        rows=number,
        bytes=number,
        lineage=Lineage(
            read=(InputRef(asset=SOURCE, parameter="source", materializations=(read,)),)
        ),
    )


def main() -> None:
    args = arguments(__doc__).parse_args()
    large = 50_000 if args.quick else LARGE
    with folder(args.dir) as at:
        report(measured(at, large=large, small=SMALL, rounds=1 if args.quick else 3))


if __name__ == "__main__":
    main()
