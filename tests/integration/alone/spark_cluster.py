"""A real standalone cluster that loses a worker in the middle of a shuffle and a write.

`spark_cluster_runs.py` does the same to a whole run; this is the job alone, with its metrics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from arco.spark.host import SparkHost
from tests.kit.spark_cluster import Cluster, spark_cluster

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


def slow_identity() -> Any:
    """A function that Spark sends as code: its workers cannot import this module."""

    def slow(value: int) -> int:
        time.sleep(0.004)
        return value

    return slow
