"""Assets on a real Spark, from a trigger to what the catalog knows afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arco.execution.tables import PARTITION_STATUS, QUARANTINE, TASK_COSTS
from arco.spark.driver import JvmDriver
from arco.spark.host import SparkHost
from arco.spark.read import read_frame
from arco.storage.local import LocalStore
from arco.storage.scoped import ScopedStore
from servo.contract.task import InputRef, MaterializationRef, TaskResult
from tests.kit.bench import Bench, problem, version
from tests.kit.spark_project import SparkProject

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path) -> SparkProject:
    return SparkProject(tmp_path)


def until(holds: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what} in vain"
        time.sleep(0.05)


PIPELINE = """
    @asset(partitions=DAYS)
    def orders(ctx: AssetContext):
        day = ctx.partition_value("date").day
        return ctx.spark.range(day * 10).selectExpr("id", "id % 3 AS sku", "id * 2 AS amount")

    @asset(partitions=DAYS)
    def trend(orders: AssetIn["orders", window(-1, 0)]):
        return orders.read().groupBy("date", "sku").agg(F.sum("amount").alias("amount"))

    @asset
    def everything(orders: AssetIn["orders", all_upstream]):
        import pyarrow as pa
        return pa.table({"rows": [orders.arrow().num_rows], "frames": [orders.read().count()]})

    totals = sql_asset("totals", '''
        SELECT date, count(*) AS n, sum(amount) AS amount, {{ partition("date") }} AS day
        FROM {{ ref("orders") }} GROUP BY date
    ''', partitions=DAYS)
"""
TWO_DAYS = ("date=2025-01-01..2025-01-02",)


def test_frames_queries_windows_and_tables_go_together(shop: SparkProject) -> None:
    shop.deploy(PIPELINE)
    run = shop.run(partitions=TWO_DAYS)
    assert run.state == "SUCCEEDED", shop.task(run, "orders")
    assert shop.rows("orders", "SELECT count(*), sum(amount) FROM data") == [(30, 470)]
    assert shop.rows("everything") == [(30, 30)]
    assert [(n, amount, str(day)) for _, n, amount, day in shop.rows("totals")] == [
        (10, 90, "2025-01-01"),
        (20, 380, "2025-01-02"),
    ]
    dates = shop.rows("trend", "SELECT DISTINCT date FROM data ORDER BY 1")
    assert [str(date) for (date,) in dates] == ["2025-01-01", "2025-01-02"]
    again = shop.run(partitions=TWO_DAYS)
    assert (again.tasks_reused, again.tasks_succeeded) == (again.tasks_total, 0)


def test_lineage_says_where_columns_come_from(shop: SparkProject) -> None:
    shop.deploy(PIPELINE)
    shop.run(partitions=("date=2025-01-02",))
    reader = shop.workspace.read.lineage()
    found = {
        (row.target_column, row.source, row.source_column, row.kind)
        for row in reader.columns("shop.trend")
    }
    assert ("amount", "shop.orders", "amount", "aggregation") in found
    assert ("sku", "shop.orders", "sku", "identity") in found


def test_usage_and_cost_are_those_of_the_task(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset
        def small(ctx: AssetContext):
            return ctx.spark.range(10)
        @asset
        def large(ctx: AssetContext):
            return ctx.spark.range(3_000_000).selectExpr("id", "sha2(string(id), 256) AS h")
        """
    )
    shop.run()
    costs = {row.asset_key: row for row in shop.workspace.read.snapshot().all(TASK_COSTS)}
    small, large = costs["shop.small"], costs["shop.large"]
    assert large.executor_cpu_ms > 5 * max(small.executor_cpu_ms, 1)
    assert large.bytes_written > 100 * small.bytes_written > 0
    assert large.total_cost > small.total_cost > 0
    assert large.total_cost == large.cpu_cost + large.memory_cost + large.storage_cost


def test_quarantine_keeps_the_good_version_until_somebody_approves(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset(checks=[expression("amount >= 0")], gating=Gating(preset="quarantine"))
        def orders(ctx: AssetContext):
            return ctx.spark.range(5).selectExpr("id", f"{ctx.config.get('sign', 1)} AS amount")
        @asset
        def total(orders: AssetIn["orders"]):
            return orders.read().groupBy().agg(F.sum("amount").alias("amount"))
        """
    )
    assert shop.run().state == "SUCCEEDED"
    run = shop.run(config={"sign": -1})
    assert (run.state, run.tasks_held) == ("SUCCEEDED", 1)
    assert shop.rows("total") == [(5,)]  # of the version before
    (held,) = shop.workspace.read.snapshot().all(QUARANTINE)
    assert held.status == "QUARANTINED" and "5 of 5" in held.reason
    (status,) = [
        row
        for row in shop.workspace.read.snapshot().all(PARTITION_STATUS)
        if row.asset_id == held.asset_id
    ]
    assert (status.status, status.last) == ("QUARANTINED", held.materialization_id)
    assert status.current == shop.versions("orders")[0].materialization_id
    shop.workspace.commands.execution.decide(held, approved=True, reason="a refund day")
    assert [(v.status, v.version) for v in shop.versions("orders")] == [("GOOD", 1), ("GOOD", 2)]
    shop.run("total")
    assert shop.rows("total") == [(-5,)]


def test_blocked_outputs_keep_what_is_below_from_running(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset(checks=[unique("k")])
        def orders(ctx: AssetContext):
            return ctx.spark.range(6).selectExpr("id % 2 AS k")
        @asset
        def below(orders: AssetIn["orders"]):
            return orders.read()
        @asset
        def beside(ctx: AssetContext):
            return ctx.spark.range(1)
        """
    )
    run = shop.run()
    assert (run.state, run.tasks_held, run.tasks_skipped) == ("SUCCEEDED", 1, 1)
    assert shop.task(run, "below").state == "SKIPPED"
    assert shop.task(run, "beside").state == "SUCCEEDED"
    assert shop.rows("orders") == []


def test_a_critical_check_ends_the_run(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset(checks=[row_count(min=100, severity="critical")])
        def orders(ctx: AssetContext):
            return ctx.spark.range(6)
        @asset
        def slow(ctx: AssetContext, orders: AssetIn["orders"]):
            return orders.read()
        """
    )
    run = shop.run()
    assert (run.state, run.tasks_failed) == ("FAILED", 1)
    assert shop.task(run, "orders").error_code == "checks.failed"


# -- errors ---------------------------------------------------------------------------------

BAD = {
    "misspelt": ("return up.read().select('amuont')", "amount", "spark."),
    "twice": ("return up.read().select('id', 'id')", "'id'", "output.columns"),
    "cases": ("return up.read().selectExpr('id', 'id AS ID')", "case", "output.columns"),
    "nothing": ("up.read()", "returned nothing", "output.none"),
    "number": ("return 42", "int", "output.type"),
    "path": (
        "return up.read().sparkSession.read.csv('/no/such/file')",
        "/no/such/file",
        "spark.path_not_found",
    ),
    "void": ("return up.read().selectExpr('NULL AS x')", "'x'", "output."),
}


def test_bad_code_is_told_what_is_wrong_and_where(shop: SparkProject) -> None:
    functions = "\n".join(
        f"@asset\ndef {name}(up: AssetIn['up']):\n    {body}\n"
        for name, (body, _, _) in BAD.items()
    )
    udf = (
        "@asset\ndef udf(up: AssetIn['up']):\n"
        "    broken = F.udf(lambda x: 1 // (x - x), 'int')\n"
        "    return up.read().select(broken('id').alias('y'))\n"
    )
    sql = "query = sql_asset('query', '''SELECT id,\n  amuont FROM {{ ref(\"up\") }}''')\n"
    broken_sql = "broken = sql_asset('broken', 'SELEC id FROM {{ ref(\"up\") }}')\n"
    up = (
        "@asset\ndef up(ctx: AssetContext):\n"
        "    return ctx.spark.range(3).selectExpr('id', 'id AS amount')\n"
    )
    shop.deploy(f"{up}{functions}{udf}{sql}{broken_sql}")
    run = shop.run()
    assert run.tasks_failed == len(BAD) + 3
    for name, (_, said, code) in BAD.items():
        task = shop.task(run, name)
        assert said in task.error_message + task.error_hint, task
        assert task.error_code.startswith(code), task
        assert "java" not in task.error_message and "\tat " not in task.error_message
    assert "ZeroDivisionError" in shop.task(run, "udf").error_message
    query = shop.task(run, "query")
    assert "amuont" in query.error_message and "line 2" in query.error_message, query
    assert "^" in query.error_message
    assert "SELEC" in shop.task(run, "broken").error_message


def test_functions_of_the_project_are_shipped_whoever_asks_for_spark(shop: SparkProject) -> None:
    shop.deploy(
        """
        def double(value: int) -> int:
            return value * 2

        def doubled(data):
            return data.read().select(F.udf(double, "long")("id").alias("id"))

        @check()
        def is_even(data: AssetIn):
            return doubled(data).where("id % 4 <> 0").count() == 0

        @asset(checks=[is_even])
        def plain():
            import pyarrow as pa
            return pa.table({"id": [2, 4]})

        @asset
        def below(plain: AssetIn["plain"]):
            return doubled(plain)
        """
    )
    run = shop.run("plain")
    assert (run.state, run.tasks_held) == ("SUCCEEDED", 0), shop.task(run, "plain")
    run = shop.run("below")
    assert run.state == "SUCCEEDED", shop.task(run, "below").error_message
    assert shop.rows("below") == [(4,), (8,)]


def test_a_task_that_stops_spark_stops_it_for_nobody(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset
        def stops(ctx: AssetContext):
            from pyspark import SparkContext
            from pyspark.sql import SparkSession

            assert SparkSession.builder.getOrCreate() is SparkSession.active() is ctx.spark
            ctx.spark.newSession().stop()
            ctx.spark.stop()
            SparkContext.getOrCreate().stop()
            return ctx.spark.range(3)

        @asset(retry=Retry(max_attempts=1))
        def killed(ctx: AssetContext, stops: AssetIn["stops"]):
            import os
            stops.read().count()
            os._exit(3)

        @asset(deps=["stops"])
        def after(ctx: AssetContext):
            return ctx.spark.range(4)
        """
    )
    driver = shop.workspace.runtime.spark().driver()
    run = shop.run()
    ends = {name: shop.task(run, name).state for name in ("stops", "killed", "after")}
    assert ends == {"stops": "SUCCEEDED", "killed": "FAILED", "after": "SUCCEEDED"}
    assert shop.task(run, "killed").error_code == "process.exit"
    assert shop.workspace.runtime.spark().driver() is driver


def test_files_of_an_input_that_go_away_are_a_matter_of_the_input(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset
        def up(ctx: AssetContext):
            return ctx.spark.range(3)
        @asset
        def below(up: AssetIn["up"]):
            import pathlib
            frame = up.read()
            (file,) = frame.inputFiles()
            pathlib.Path(file.removeprefix("file://")).unlink()
            return frame
        """
    )
    task = shop.task(shop.run(), "below")
    assert (task.error_category, task.error_code) == ("input", "input.missing")


# -- stopping -------------------------------------------------------------------------------

SLOW = """
    @asset
    def slow(ctx: AssetContext):
        nap = F.udf(lambda x: (time.sleep(0.05), x)[1], "long")
        return ctx.spark.range(0, 4000, 1, 4).select(nap("id").alias("id"))
    @asset
    def steady(ctx: AssetContext):
        nap = F.udf(lambda x: (time.sleep(0.05), x)[1], "long")
        return ctx.spark.range(0, 160, 1, 2).select(nap("id").alias("id"))
"""


def running(shop: SparkProject, run: str, *assets: str) -> Callable[[], bool]:
    return lambda: all(shop.task(run, asset).state == "RUNNING" for asset in assets)


def test_a_cancelled_run_stops_its_jobs_and_no_others(shop: SparkProject) -> None:
    shop.deploy(SLOW)
    with shop.engine() as engine:
        slow, steady = shop.trigger("slow"), shop.trigger("steady")
        until(running(shop, slow, "slow"), "a start")
        until(lambda: any(p.message for p in engine.worker.progress().values()), "progress")
        said = [p.message for p in engine.worker.progress().values() if p.message]
        assert any("task" in text for text in said)
        shop.workspace.commands.orchestration.cancel(slow)
        assert engine.wait(slow).state == "CANCELLED"
        assert engine.wait(steady).state == "SUCCEEDED"
    assert shop.rows("slow") == [] and len(shop.rows("steady")) == 160
    left = list((shop.folder / "store/acme/main/data/shop/slow").rglob("*.parquet"))
    assert left == []


def test_a_time_out_stops_the_jobs(shop: SparkProject) -> None:
    shop.deploy(
        SLOW.replace(
            "@asset\n    def slow", "@asset(timeout=3, retry=Retry(max_attempts=1))\n    def slow"
        )
    )
    run = shop.run("slow")
    assert (run.state, shop.task(run, "slow").error_code) == ("FAILED", "timeout.task")


def test_what_is_stopped_has_its_usage(tmp_path: Path) -> None:
    """With its jobs, or by an exception in the middle of Python."""
    store = ScopedStore(LocalStore(tmp_path / "store"), "acme", "prod")
    spark = SparkProject(tmp_path).workspace.runtime.spark()
    bench = Bench(tmp_path, store, spark=spark).deploy("""
        @asset
        def f(ctx: AssetContext):
            ctx.spark.range(100_000).selectExpr("max(sha2(string(id), 256))").collect()
            while True:
                pass
        @asset
        def endless(ctx: AssetContext):
            ctx.spark.range(10**13).selectExpr("max(id)").collect()
    """)
    for name in ("f", "endless"):
        result = bench.run(name, timeout_s=4)
        assert problem(result) == ("failed", "timeout", "timeout.task")
        assert result.usage.spark_jobs >= 1 and result.usage.executor_run_ms > 0


def test_a_driver_that_dies_fails_the_task_and_the_retry_succeeds(shop: SparkProject) -> None:
    shop.deploy(
        SLOW.replace("@asset\n    def steady", "@asset(retry=Retry(delay=1))\n    def steady")
    )
    with shop.engine() as engine:
        run = shop.trigger("steady")
        until(running(shop, run, "steady"), "a start")
        until(lambda: any(p.message for p in engine.worker.progress().values()), "jobs")
        kill_jvm(shop.workspace.runtime.spark())
        row = engine.wait(run)
    task = shop.task(run, "steady")
    assert (row.state, row.retries, task.attempt) == ("SUCCEEDED", 1, 2), task.error_message
    assert len(shop.rows("steady")) == 160


def kill_jvm(host: SparkHost) -> None:
    driver = host.driver()
    assert isinstance(driver, JvmDriver) and driver.pid is not None
    os.kill(driver.pid, signal.SIGKILL)


def test_two_attempts_that_write_at_once_make_one_output(tmp_path: Path) -> None:
    """Two workers are given the same task; readers see the files of one of them."""
    store = ScopedStore(LocalStore(tmp_path / "store"), "acme", "prod")
    host = SparkProject(tmp_path).workspace.runtime.spark()
    bench = Bench(tmp_path, store, spark=host).deploy("""
        @asset
        def f(ctx: AssetContext):
            return ctx.spark.range(0, 1000, 1, 4).selectExpr("id", "uuid() AS who")
    """)
    barrier = threading.Barrier(2)

    def work(_: int) -> TaskResult:
        barrier.wait()
        return bench.run()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, range(2)))
    versions = [version(result) for result in results]
    assert versions[0] == versions[1]
    assert sorted(result.adopted for result in results) == [False, True]
    folders = {path.split("/")[4] for path in bench.listed("data/") if path.endswith(".parquet")}
    assert len(folders) == 2 and versions[0].materialization_id in folders
    ref = MaterializationRef(
        partition="", materialization_id=versions[0].materialization_id, path=versions[0].path
    )
    with host.task("reader") as task:
        inputs = InputRef(asset="sales.f", parameter="f", materializations=(ref,))
        assert read_frame(task, store, inputs).count() == versions[0].rows == 1000


def test_values_are_looked_up_in_what_the_same_run_has_made(shop: SparkProject) -> None:
    shop.deploy(
        """
        @asset(checks=[references("sku", "shop.products.sku")])
        def orders(ctx: AssetContext):
            return ctx.spark.range(6).selectExpr("id", "id % 3 AS sku")
        @asset
        def products(ctx: AssetContext):
            return ctx.spark.range(3).selectExpr("id AS sku")
        """
    )
    run = shop.run()
    assert (run.state, run.tasks_held) == ("SUCCEEDED", 0)
    assert len(shop.rows("orders")) == 6
