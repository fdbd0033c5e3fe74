"""A real standalone cluster that loses a worker in the middle of a shuffle and a write, and then
its master.

`spark_cluster_runs.py` does the first to a whole run; this is the job alone, with its metrics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from arco.orchestration.events import TaskFinished
from arco.spark.host import SparkHost
from arco.state.replay import read_log
from tests.kit.spark_cluster import Cluster, spark_cluster
from tests.kit.spark_project import SparkProject, wait_for_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 2_000
GROUPS = 40


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_a_job_in_flight_survives_the_loss_of_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    host = SparkHost(cluster.settings())
    killed = threading.Event()

    try:
        with host.task("shuffled", "loses a worker") as task:
            session = task.session
            session.conf.set("spark.sql.shuffle.partitions", "4")
            slow = F.udf(slow_identity(), "long")
            frame = session.range(ROWS, numPartitions=16).withColumn("slow", slow("id"))
            frame = frame.groupBy((F.col("id") % GROUPS).alias("g")).agg(
                F.sum("slow").alias("total"), F.count("*").alias("n")
            )

            def kill() -> None:
                # Some map tasks are done by then: their output goes with the worker.
                while not ((seen := task.progress()) and seen.done >= 4):
                    time.sleep(0.05)
                cluster.kill_worker()
                killed.set()

            threading.Thread(target=kill, daemon=True).start()
            frame.write.parquet(f"file://{tmp_path}/out")
            usage = task.usage()
    finally:
        host.stop()

    assert killed.is_set()
    assert cluster.alive_workers() <= 2  # the master notices later
    written = sorted(pq.read_table(tmp_path / "out").to_pylist(), key=lambda row: row["g"])
    assert written == [
        {"g": g, "total": sum(range(g, ROWS, GROUPS)), "n": ROWS // GROUPS} for g in range(GROUPS)
    ]
    assert usage.tasks >= 16  # those of the worker that is gone were done again


SLOW = """
    def slowly(x):
        time.sleep(0.05)
        return x

    @asset(retry=Retry(max_attempts=3, delay="1s"))
    def numbers(ctx: AssetContext):
        pause = F.udf(slowly, "long")
        count = 4000 if ctx.attempt == 1 else 40
        return ctx.spark.range(0, count, 1, 40).select(pause("id").alias("id"))
"""


def test_a_lost_cluster_fails_the_attempt_and_the_retry_gets_a_new_session(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The last one here: the master that comes back knows no application."""
    shop = SparkProject(tmp_path, replace(cluster.settings(), executor_loss_s=8)).deploy(SLOW)
    with shop.engine() as engine:
        run = shop.trigger()
        wait_for_jobs(engine)
        cluster.restart_master()
        row = engine.wait(run)
    workspace = shop.workspace
    workspace.runtime.spark().end()
    results = [
        each.payload.result
        for each in read_log(workspace.read.snapshot(), workspace.core.types)
        if isinstance(each.payload, TaskFinished)
    ]
    assert row.state == "SUCCEEDED"
    assert [(r.outcome, r.error and (r.error.category, r.error.code)) for r in results] == [
        ("failed", ("infrastructure", "spark.cluster_lost")),
        ("succeeded", None),
    ]
    assert shop.rows("numbers", "SELECT count(*) FROM data") == [(40,)]


def slow_identity() -> Any:
    """A function that Spark sends as code: its workers cannot import this module."""

    def slow(value: int) -> int:
        time.sleep(0.004)
        return value

    return slow
