"""A standalone cluster whose master is killed and started again while a task runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from arco.orchestration.events import TaskFinished
from arco.state.replay import read_log
from tests.integration.alone.spark_cluster_pipeline import wait_for_jobs
from tests.kit.spark_cluster import spark_cluster
from tests.kit.spark_project import SparkProject

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

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


def test_a_lost_cluster_fails_the_attempt_and_the_retry_gets_a_new_session(tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "cluster", workers=1) as cluster:
        settings = replace(cluster.settings(), executor_loss_s=8)
        shop = SparkProject(tmp_path, settings).deploy(SLOW)
        with shop.engine() as engine:
            run = shop.trigger()
            wait_for_jobs(engine)
            cluster.restart_master()
            row = engine.wait(run)
        workspace = shop.workspace
        workspace.spark().end()
        results = [
            each.payload.result
            for each in read_log(workspace.snapshot(), workspace.types)
            if isinstance(each.payload, TaskFinished)
        ]
    assert row.state == "SUCCEEDED"
    assert [(r.outcome, r.error and (r.error.category, r.error.code)) for r in results] == [
        ("failed", ("infrastructure", "spark.cluster_lost")),
        ("succeeded", None),
    ]
    assert shop.rows("numbers", "SELECT count(*) FROM data") == [(40,)]
