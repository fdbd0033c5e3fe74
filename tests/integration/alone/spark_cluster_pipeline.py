"""A pipeline through Servo on a real standalone cluster, one of whose workers is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from arco.engine import Engine
from tests.kit.spark_cluster import spark_cluster
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
        frame = ctx.spark.range(0, 1200, 1, 8).select(slow("id").alias("id"))
        return frame.selectExpr("id", "id % 5 AS sku", f"id * {day} AS amount")

    @asset(partitions=DAYS)
    def totals(orders: AssetIn["orders"]):
        found = orders.read().repartition(4, "sku").groupBy("sku")
        return found.agg(F.sum("amount").alias("amount"), F.count("*").alias("n"))

    everything = sql_asset("everything", '''
        SELECT sku, sum(amount) AS amount, sum(n) AS n FROM {{ ref("totals") }} GROUP BY sku
    ''', inputs={"totals": all_upstream})
"""


def test_a_run_ends_right_although_a_worker_is_killed(tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "cluster") as cluster:
        conf = {"spark.sql.shuffle.partitions": "4"}
        shop = SparkProject(tmp_path, cluster.settings(conf)).deploy(PIPELINE)
        with shop.engine() as engine:
            run = shop.trigger(partitions=("date=2025-01-01..2025-01-02",))
            wait_for_jobs(engine)
            cluster.kill_worker()
            row = engine.wait(run)
        tasks = shop.workspace.read_orchestration().tasks(run)
        shop.workspace.spark().stop()
    assert row.state == "SUCCEEDED", [task.error_message for task in tasks]
    expected = [(sku, 3 * sum(range(sku, 1200, 5)), 480) for sku in range(5)]
    assert shop.rows("everything") == expected
    assert shop.rows("orders", "SELECT count(*), count(DISTINCT id) FROM data") == [(2400, 1200)]


def wait_for_jobs(engine: Engine, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not any(p.message for p in engine.worker.progress().values()):
        assert time.monotonic() < deadline, "no job was seen"
        time.sleep(0.05)
