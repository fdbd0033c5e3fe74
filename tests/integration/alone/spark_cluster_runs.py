"""Runs on a real standalone cluster that loses a worker, and then its master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from arco.engine import LocalEngine
from arco.orchestration.events import TaskFinished
from arco.spark.settings import SparkSettings
from arco.state.replay import read_log
from tests.kit.spark_cluster import Cluster, spark_cluster
from tests.kit.spark_project import SparkProject

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PIPELINE = """
    def slowly(x):
        time.sleep(0.005)
        return x

    @asset(partitions=DAYS, checks=[row_count(min=1), unique("id")])
    def orders(ctx: AssetContext):
        slow = F.udf(slowly, "long")
        day = ctx.partition_value("date").day
        frame = ctx.spark.range(0, 600, 1, 8).select(slow("id").alias("id"))
        return frame.selectExpr("id", "id % 5 AS sku", f"id * {day} AS amount")

    @asset(partitions=DAYS)
    def totals(orders: AssetIn["orders"]):
        found = orders.read().repartition(4, "sku").groupBy("sku")
        return found.agg(F.sum("amount").alias("amount"), F.count("*").alias("n"))

    everything = sql_asset("everything", '''
        SELECT sku, sum(amount) AS amount, sum(n) AS n FROM {{ ref("totals") }} GROUP BY sku
    ''', inputs={"totals": all_upstream})
"""


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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def settings(cluster: Cluster) -> SparkSettings:
    """The same for all tests, so that they share one driver."""
    return replace(cluster.settings({"spark.sql.shuffle.partitions": "4"}), executor_loss_s=8)


def test_a_run_ends_right_although_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    shop = SparkProject(tmp_path, settings(cluster)).deploy(PIPELINE)
    with shop.engine() as engine:
        run = shop.trigger(partitions=("date=2025-01-01..2025-01-02",))
        wait_for_jobs(engine)
        cluster.kill_worker()
        row = engine.wait(run)
    tasks = shop.workspace.read.orchestration().tasks(run)
    assert row.state == "SUCCEEDED", [task.error_message for task in tasks]
    expected = [(sku, 3 * sum(range(sku, 600, 5)), 240) for sku in range(5)]
    assert shop.rows("everything") == expected
    assert shop.rows("orders", "SELECT count(*), count(DISTINCT id) FROM data") == [(1200, 600)]


def test_a_lost_cluster_fails_the_attempt_and_the_retry_gets_a_new_session(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The last one here: the master that comes back knows no application."""
    shop = SparkProject(tmp_path, settings(cluster)).deploy(SLOW)
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


def wait_for_jobs(engine: LocalEngine, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not any(p.message for p in engine.worker.progress().values()):
        assert time.monotonic() < deadline, "no job was seen"
        time.sleep(0.05)
