"""What one input costs a task that reads very many of them.

One asset has hourly partitions, which another reads all at once. The partitions are made
without running anything: real files, a real run, and the reports that a worker would have
sent. Then the reader runs in the engine: plan, request, envelope, reading, result, lineage.
The seconds from the trigger to the end of the run, for each input, must be the same for
1,000 inputs and for 100,000.
"""

from __future__ import annotations

import io
import resource
import statistics
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.events import TaskFinished
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import TASKS, TaskRow
from arco.storage import paths
from benchmarks.flows import project
from benchmarks.workload import arguments, drain, folder, progress, report, timed
from servo.contract.keys import AssetKey
from servo.contract.partition import PartitionKey, path_segment
from servo.contract.task import Materialization, TaskResult

START = datetime(2010, 1, 1)
SLICE = 10_000
"""Tasks of one of the runs that make the partitions."""
PROJECT = """
import pyarrow as pa
from servo import AssetIn, all_upstream, asset, hourly

@asset(namespace="city", partitions=hourly("hour", start="2010-01-01"))
def source() -> pa.Table:
    return pa.table({"n": [1]})

@asset(namespace="city")
def total(source: AssetIn["city.source", all_upstream]) -> pa.Table:
    return pa.table({"n": [source.arrow().num_rows]})
"""
KEY = AssetKey.parse("city.source")


class Measured(NamedTuple):
    inputs: int
    seconds: float

    @property
    def us_per_input(self) -> float:
        return self.seconds / self.inputs * 1e6


def materialize(workspace: Workspace, store: Path, count: int) -> None:
    """`count` partitions of the source, as if a run had made them."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), sink)
    for start in range(0, count, SLICE):
        first = START + timedelta(hours=start)
        last = START + timedelta(hours=min(start + SLICE, count) - 1)
        wanted = f"hour={first:%Y-%m-%dT%H}..{last:%Y-%m-%dT%H}"
        request = PlanRequest(selection=("city.source",), partitions=(wanted,), max_tasks=SLICE)
        triggered = workspace.commands.orchestration.trigger(request)
        planned = workspace.library.plan(triggered.plan_id).spec.tasks
        facts = [
            _finished(workspace, store, task, planned[task.index].fingerprint, sink.getvalue())
            for task in workspace.read.snapshot().rows(TASKS, triggered.run_id)
        ]
        for at in range(0, len(facts), 2_000):
            workspace.ledger.append(facts[at : at + 2_000])
            drain(workspace)
    workspace.upkeep.merger.merge(everything=True)


def _finished(
    workspace: Workspace, store: Path, task: TaskRow, fingerprint: str, data: bytes
) -> TaskFinished:
    segment = path_segment(PartitionKey.parse(task.partition_key))
    id = workspace.ids()
    path = f"{paths.partition_folder(KEY.namespace, KEY.name, segment)}/{id}"
    (store / path).mkdir(parents=True)
    (store / path / "part-00000.parquet").write_bytes(data)
    made = Materialization(
        materialization_id=id,
        asset=task.asset_key,
        asset_id=task.asset_id,
        partition=task.partition_key,
        run_id=task.run_id,
        task_id=task.task_id,
        attempt_id=task.attempt_id,
        path=path,
        files=("part-00000.parquet",),
        rows=1,
        bytes=len(data),
        fingerprint=fingerprint,
    )
    return TaskFinished(
        result=TaskResult(
            run_id=task.run_id,
            task_id=task.task_id,
            attempt=task.attempt,
            attempt_id=task.attempt_id,
            worker_id="w1",
            outcome="succeeded",
            materialization=made,
        )
    )


def prepared(at: Path, count: int) -> Workspace:
    workspace = Workspace.open(f"file://{at}/store", "bench", "main")
    workspace.commands.orchestration.deploy(*project(PROJECT))
    seconds, _ = timed(materialize, workspace, at / "store/bench/main", count)
    progress(f"{count:,} partitions are there after {seconds:.1f} s")
    return workspace


def read_all(engine: LocalEngine, inputs: int) -> Measured:
    """A run of the reader; its row must have counted all, and its lineage too."""
    request = PlanRequest(selection=("city.total",), force=True)
    workspace = engine.workspace
    seconds, row = timed(
        lambda: engine.wait(workspace.commands.orchestration.trigger(request).run_id)
    )
    if row.state != "SUCCEEDED":
        raise RuntimeError(f"run {row.run_id} ended {row.state}")
    seen = lineage_reader(workspace.read.snapshot()).executions("city.total")[-1]
    count = seen.source_count or len(seen.source_materializations)
    assert (count, seen.rows_read) == (inputs, inputs), (count, seen.rows_read)
    progress(f"{inputs:,} inputs in {seconds:.2f} s: {seconds / inputs * 1e6:.0f} µs each")
    return Measured(inputs, seconds)


def measure(
    at: Path, *, small: int = 1_000, large: int = 100_000, rounds: int = 3
) -> dict[str, object]:
    """The seconds for each input of a task with `large` inputs over one with `small`."""
    got: dict[int, list[float]] = {small: [], large: []}
    engines = {n: LocalEngine(prepared(at / str(n), n)) for n in (small, large)}
    with engines[small].running(), engines[large].running():
        for n, engine in engines.items():
            read_all(engine, n)
        for _ in range(rounds):
            for n, repeat in ((small, 5), (large, 1)):
                runs = [read_all(engines[n], n).us_per_input for _ in range(repeat)]
                got[n].append(statistics.median(runs))
    few, many = statistics.median(got[small]), statistics.median(got[large])
    return {
        "per_task_100k_inputs_over_1k_inputs": round(many / few, 3),
        "us_per_input_1k": round(few, 1),
        "us_per_input_100k": round(many, 1),
        "inputs_peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        large, rounds = (5_000, 1) if args.quick else (100_000, 3)
        report(measure(at, large=large, rounds=rounds))


if __name__ == "__main__":
    main()
