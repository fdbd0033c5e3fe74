"""A run on a real standalone cluster that loses a worker.

One test: the others of clusters are in `spark_cluster.py`, which takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.spark_cluster import Cluster, spark_cluster
from tests.kit.spark_project import SparkProject, wait_for_jobs

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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_a_run_ends_right_although_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": "4"}
    shop = SparkProject(tmp_path, cluster.settings(conf)).deploy(PIPELINE)
    with shop.engine() as engine:
        run = shop.trigger(partitions=("date=2025-01-01..2025-01-02",))
        wait_for_jobs(engine)
        cluster.kill_worker()
        row = engine.wait(run)
    tasks = shop.workspace.read.orchestration().tasks(run)
    shop.workspace.runtime.spark().end()
    assert row.state == "SUCCEEDED", [task.error_message for task in tasks]
    expected = [(sku, 3 * sum(range(sku, 600, 5)), 240) for sku in range(5)]
    assert shop.rows("everything") == expected
    assert shop.rows("orders", "SELECT count(*), count(DISTINCT id) FROM data") == [(1200, 600)]
