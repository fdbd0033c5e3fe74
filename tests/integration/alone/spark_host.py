"""Tasks that share one Spark, on threads, with a real JVM: they must not notice each other."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from arco.spark.driver import JvmDriver
from arco.spark.host import SparkHost, SparkTask
from arco.spark.metrics import SparkUsage, StageProgress
from arco.spark.settings import SparkSettings
from arco.spark.shipping import ship_as_code
from servo.contract.task import InputRef, MaterializationRef
from servo.errors import Cancelled

pytestmark = [pytest.mark.spark]

ENDLESS = 10**13


@pytest.fixture(scope="module")
def host() -> Iterator[SparkHost]:
    made = SparkHost(SparkSettings(master="local[2]", fast_start=True))
    made.warm()
    yield made
    made.stop()


def sleepy() -> Callable[[int], int]:
    def sleep(value: int) -> int:
        time.sleep(0.25)
        return value

    return sleep


def endless(kind: str, task: SparkTask, folder: Path) -> None:
    """Work that nobody will see the end of."""
    from pyspark.sql import functions as F

    frame = task.session.range(ENDLESS, numPartitions=50)
    if kind == "query":
        frame.select(F.max("id")).collect()
    elif kind == "write":
        frame.write.parquet(f"file://{folder}/{kind}")
    else:
        task.session.range(2000, numPartitions=2).select(F.udf(sleepy(), "long")("id")).collect()


def until(ready: Callable[[], Any], timeout_s: float = 120) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
    return found


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start it, and return what waits for its result."""
    future = ThreadPoolExecutor(1).submit(work)
    return lambda: future.result(timeout=200)


# -- what each task has for itself --------------------------------------------------------


def test_tasks_on_many_threads_have_their_own_views_and_settings(host: SparkHost) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> tuple[int, str | None, int]:
        with host.task(f"own-{number}", input_bytes=number * (64 << 20)) as task:
            session = task.session
            session.range(number).createOrReplaceTempView("mine")
            session.conf.set("spark.sql.session.timeZone", f"+0{number}:00")
            barrier.wait(timeout=100)
            rows = session.sql("SELECT count(*) AS n FROM mine").collect()[0]["n"]
            zone = session.sql("SELECT current_timezone() AS z").collect()[0]["z"]
            return rows, zone, task.usage().jobs

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert [(rows, zone) for rows, zone, _ in found] == [(n, f"+0{n}:00") for n in range(4)]
    assert all(jobs >= 1 for _, _, jobs in found[1:])


def test_user_code_that_asks_spark_for_a_session_gets_the_tasks(host: SparkHost) -> None:
    from pyspark.sql import SparkSession

    with host.task("active") as task:
        session = task.session
        assert SparkSession.active() is session
        builder = SparkSession.builder.master("local[7]").config("spark.sql.caseSensitive", "true")
        assert builder.getOrCreate() is task.session
        assert task.session.conf.get("spark.sql.caseSensitive") == "true"
        task.session.stop()
        assert task.session.range(3).count() == 3
    with host.task("next") as task:
        assert task.session.conf.get("spark.sql.caseSensitive") == "false"


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_task_cached_goes_with_it_while_others_work(host: SparkHost, fails: bool) -> None:
    with host.task("works") as other:
        kept = other.session.range(7).cache()
        assert kept.count() == 7
        with contextlib.suppress(ZeroDivisionError), host.task("caches") as task:
            frames = [task.session.range(n).persist() for n in (100, 200)]
            assert [frame.count() for frame in frames] == [100, 200]
            assert cached_frames(other) == 3
            frames[0].unpersist()
            assert cached_frames(other) == 2
            if fails:
                raise ZeroDivisionError
        assert cached_frames(other) == 1
        assert kept.storageLevel.useMemory and kept.count() == 7
    with host.task("after") as task:
        assert cached_frames(task) == 0


def cached_frames(task: SparkTask) -> int:
    session: Any = task.session
    return int(session._jsparkSession.sharedState().cacheManager().numCachedEntries())


def test_a_task_that_does_not_ask_starts_nothing() -> None:
    idle = SparkHost(SparkSettings(master="spark://127.0.0.1:1"))
    with idle.task("idle") as task:
        task.cancel()
        assert not task.started
        assert (task.progress(), task.usage()) == (None, SparkUsage())
        assert not task.hurt(ValueError("not Spark's"))
    idle.stop()


def test_nothing_of_a_task_stays_on_its_thread(host: SparkHost) -> None:
    with host.task("first", "the first") as task:
        context = task.session.sparkContext
        context.addJobTag("of-the-user")
        assert context.getLocalProperty("spark.scheduler.pool") == "slot-0"
    assert not list(context.getJobTags())
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
        assert context.getLocalProperty(name) is None
    with pytest.raises(ZeroDivisionError), host.task("second") as task:
        assert task.session.range(1).count() == 1
        raise ZeroDivisionError
    assert not list(context.getJobTags())


def test_functions_of_a_module_that_workers_cannot_import_are_shipped(host: SparkHost) -> None:
    from pyspark.sql import functions as F

    module = ModuleType("_only_here")
    sys.modules["_only_here"] = module
    exec("OFFSET = 5\ndef shift(value):\n    return value + OFFSET", module.__dict__)
    try:
        ship_as_code(["_only_here"])
        with host.task("shipped") as task:
            shift = F.udf(module.shift, "long")
            assert [r[0] for r in task.session.range(2).select(shift("id")).collect()] == [5, 6]
    finally:
        del sys.modules["_only_here"]


def test_spark_writes_nothing_but_data_files(host: SparkHost, tmp_path: Path) -> None:
    with host.task("clean", input_bytes=0) as task:
        task.session.range(10).write.parquet(f"file://{tmp_path}/out")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".parquet"}
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith((".", "_"))]


# -- cancellation -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["query", "write", "udf"])
def test_cancelling_one_task_leaves_the_others(kind: str, host: SparkHost, tmp_path: Path) -> None:
    tasks: dict[str, SparkTask] = {}

    def work(name: str, what: Callable[[SparkTask], Any]) -> Any:
        with host.task(name) as task:
            task.session  # noqa: B018
            tasks[name] = task
            try:
                return what(task)
            except Exception as error:
                return task.failure(error)

    doomed = in_thread(lambda: work("doomed", lambda task: endless(kind, task, tmp_path)))
    other = in_thread(lambda: work("other", lambda task: endless("query", task, tmp_path)))
    until(lambda: len(tasks) == 2)
    until(lambda: tasks["doomed"].progress() and tasks["other"].progress())
    tasks["doomed"].cancel()
    failure = doomed()
    assert (failure.category, failure.code) == ("cancelled", "cancelled.spark")
    assert tasks["other"].progress() is not None
    tasks["other"].cancel()
    assert other().category == "cancelled"


def test_a_task_cancelled_between_jobs_gets_no_further(host: SparkHost) -> None:
    with host.task("between") as task:
        assert task.session.range(3).repartition(2).count() == 3
        task.cancel()
        task.cancel()
        with pytest.raises(Exception, match="cancelled") as raised:
            task.session.range(3).repartition(2).collect()
        failure = task.failure(raised.value)
        assert failure is not None and failure.category == "cancelled"
    with host.task("between") as task:  # the same attempt, asked for again
        assert task.session.range(3).count() == 3


def test_a_task_cancelled_before_it_uses_spark_gets_no_session(host: SparkHost) -> None:
    with host.task("before") as task:
        task.cancel()
        with pytest.raises(Cancelled):
            task.session  # noqa: B018


def test_a_query_from_a_thread_of_the_users_own_is_cancelled_too(host: SparkHost) -> None:
    with host.task("threads") as task:
        session = task.session

        def work() -> Any:
            try:
                return session.range(ENDLESS, numPartitions=8).selectExpr("max(id)").collect()
            except Exception as error:
                return task.failure(error)

        waiting = in_thread(work)
        until(task.progress)
        task.cancel()
        assert waiting().category == "cancelled"


# -- what is known about a task -----------------------------------------------------------


def test_usage_is_that_of_the_task_alone(host: SparkHost, tmp_path: Path) -> None:
    barrier = threading.Barrier(2)

    def work(name: str, rows: int) -> SparkUsage:
        with host.task(name, input_bytes=0) as task:
            frame = task.session.range(rows, numPartitions=2).repartition(3, "id")
            frame.write.parquet(f"file://{tmp_path}/{name}")
            barrier.wait(timeout=100)
            return task.usage()

    with ThreadPoolExecutor(2) as pool:
        small, large = pool.map(work, ("small", "large"), (10, 200_000))
    for name, usage in (("small", small), ("large", large)):
        written = sum(path.stat().st_size for path in (tmp_path / name).iterdir())
        assert usage.bytes_written == written
        assert (usage.jobs, usage.stages, usage.tasks) == (1, 2, 5)
        assert usage.executor_run_ms > 0
    assert large.shuffle_bytes > 100 * small.shuffle_bytes > 0
    with host.task("after") as task:
        task.session.read.schema("id long").parquet(f"file://{tmp_path}/large").collect()
        assert task.usage().bytes_read > 0
        assert task.usage().bytes_written == 0


def test_progress_counts_stages_and_tasks(host: SparkHost) -> None:
    from pyspark.sql import functions as F

    with host.task("progress") as task:
        session = task.session
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", "3")
        seen: list[StageProgress] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                if found := task.progress():
                    seen.append(found)

        waiting = in_thread(watch)
        frame = session.range(12, numPartitions=6).select(F.udf(sleepy(), "long")("id").alias("x"))
        frame.groupBy("x").count().collect()
        done.set()
        waiting()
        until(lambda: task.progress() is None)  # Spark says later that the job has ended
    assert {(found.total, found.stages) for found in seen} == {(9, 2)}
    assert [found.percent for found in seen] == sorted(found.percent for found in seen)
    first = {f"stage 1 of 2, {n} of 9 tasks" for n in range(7)}
    second = {f"stage 2 of 2, {n} of 9 tasks" for n in range(6, 10)}
    texts = {found.text for found in seen}
    assert texts <= first | second and len(texts & first) > 1, texts


# -- errors, with all that the JVM says ---------------------------------------------------


def fail(host: SparkHost, work: Callable[[Any], Any], *versions: str) -> Any:
    with host.task("fails") as task:
        with pytest.raises(Exception) as raised:
            work(task.session)
        refs = [MaterializationRef(partition="", materialization_id=v, path=v) for v in versions]
        inputs = [InputRef(asset="sales.up", materializations=tuple(refs))]
        failure = task.failure(raised.value, inputs)
    assert failure is not None
    everything = f"{failure.message}\n{failure.hint}\n{failure.details}"
    assert "\tat " not in everything and "Project [" not in everything
    assert len(everything.splitlines()) <= 15
    return failure


def test_a_column_that_is_not_there(host: SparkHost) -> None:
    failure = fail(host, lambda session: session.range(3).select("idd"))
    assert (failure.category, failure.condition) == (
        "user_code",
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    )
    assert "`idd` cannot be resolved" in failure.message
    assert (failure.hint, failure.sqlstate) == ("did you mean id?", "42703")


def test_an_error_in_sql_has_its_place(host: SparkHost) -> None:
    text = "SELECT id,\n foo FROM range(3)"
    failure = fail(host, lambda session: session.sql(text))
    assert text[failure.start : failure.stop + 1] == "foo"
    assert (failure.sql_line, failure.sql_column) == (2, 1)
    parse = fail(host, lambda session: session.sql("SELECT id\nFRON range(3) WHER x"))
    assert (parse.code, parse.sql_line) == ("spark.parse_syntax_error", 2)
    assert parse.message.startswith("Syntax error at or near")


def test_an_exception_in_a_udf_is_the_users_with_file_and_line(host: SparkHost) -> None:
    from pyspark.sql import functions as F

    def breaks(value: int) -> int:
        raise ValueError(f"cannot use {value}")

    failure = fail(
        host, lambda session: session.range(1).select(F.udf(breaks, "long")("id")).collect()
    )
    assert (failure.code, failure.exception) == ("user_code.ValueError", "ValueError")
    assert failure.message == "ValueError: cannot use 0"
    assert failure.file == __file__
    assert failure.line == breaks.__code__.co_firstlineno + 1


def test_a_value_that_does_not_fit_points_to_the_expression(host: SparkHost) -> None:
    from pyspark.sql import functions as F

    failure = fail(host, lambda session: session.range(1).select(F.lit(1) / F.col("id")).collect())
    assert (failure.code, failure.file) == ("spark.divide_by_zero", __file__)
    assert failure.message.startswith("Division by zero")


def test_files_that_are_gone_are_a_matter_of_the_input(host: SparkHost, tmp_path: Path) -> None:
    where = f"file://{tmp_path}/gone"
    failure = fail(host, lambda session: session.read.parquet(where), "gone")
    assert (failure.category, failure.code) == ("input", "input.missing")

    def read_late(session: Any) -> None:
        session.range(3).write.parquet(where)
        frame = session.read.parquet(where)
        for path in (tmp_path / "gone").iterdir():
            path.unlink()
        frame.collect()

    failure = fail(host, read_late, "gone")
    assert (failure.category, failure.code) == ("input", "input.missing")
    (tmp_path / "bad.parquet").write_text("no parquet")
    bad = session_read(f"file://{tmp_path}/bad.parquet")
    assert fail(host, bad).code == "input.unreadable"


def test_a_path_of_the_codes_own_that_is_not_there_is_named(
    host: SparkHost, tmp_path: Path
) -> None:
    where = f"file://{tmp_path}/typo"
    for work in (lambda session: session.read.csv(where), session_read(where)):
        failure = fail(host, work, "01J00000000000000000000000")
        assert (failure.category, failure.code) == ("user_code", "spark.path_not_found")
        assert "/typo" in failure.message and "path" in failure.hint


def session_read(where: str) -> Callable[[Any], Any]:
    return lambda session: session.read.schema("id long").parquet(where).collect()


def test_a_connector_that_is_missing_is_a_matter_of_configuration(host: SparkHost) -> None:
    failure = fail(host, lambda session: session.read.parquet("s3a://bucket/x"))
    assert (failure.category, failure.code) == ("configuration", "spark.package")
    assert "packages" in failure.hint


# -- the driver dies (last: the others would start a new one) -----------------------------


def test_a_driver_killed_in_the_middle_hurts_its_tasks_and_no_later_one(
    host: SparkHost, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    plus = F.udf(lambda value: value + 1, "long")  # kept by a module, as user code does
    with host.task("lives") as task:
        assert task.session.range(1).select(plus("id")).collect()[0][0] == 1
    driver = host.driver()
    assert isinstance(driver, JvmDriver) and driver.pid is not None
    tasks: dict[str, SparkTask] = {}

    def work(kind: str) -> tuple[bool, str, str]:
        with host.task(f"dies-{kind}") as task:
            task.session  # noqa: B018
            tasks[kind] = task
            try:
                endless(kind, task, tmp_path)
            except Exception as error:
                failure = task.failure(error)
                assert failure is not None
                task.cancel()
                assert task.usage() == SparkUsage() and task.progress() is None
                return task.hurt(error), failure.category, failure.code
        return False, "", ""

    waiting = [in_thread(lambda kind=kind: work(kind)) for kind in ("query", "write", "udf")]  # type: ignore[misc]
    until(lambda: len(tasks) == 3)
    until(lambda: all(task.progress() for task in tasks.values()))
    os.kill(driver.pid, signal.SIGKILL)
    assert [wait() for wait in waiting] == [(True, "infrastructure", "spark.driver_lost")] * 3

    with host.task("after") as task:
        assert task.session.range(1).select(plus("id")).collect()[0][0] == 1
        assert task.usage().jobs == 1
    found = host.driver()
    assert isinstance(found, JvmDriver) and found.pid != driver.pid


def test_an_idle_driver_that_died_is_replaced_without_a_failure(host: SparkHost) -> None:
    driver = host.driver()
    assert isinstance(driver, JvmDriver) and driver.pid is not None
    os.kill(driver.pid, signal.SIGKILL)
    with host.task("again") as task:
        assert task.session.range(3).count() == 3


def test_a_user_error_on_a_dead_driver_is_still_the_users(host: SparkHost) -> None:
    driver = host.driver()
    with host.task("own") as task:
        task.session  # noqa: B018
        assert isinstance(driver, JvmDriver) and driver.pid is not None
        os.kill(driver.pid, signal.SIGKILL)
        until(lambda: not driver.alive())
        assert not task.hurt(ValueError("nothing to do with it"))
        with pytest.raises(Exception) as raised:
            task.session.range(3).collect()
        assert task.hurt(raised.value)


def test_a_context_that_user_code_stopped_leaves_no_jvm_behind(host: SparkHost) -> None:
    with pytest.raises(Exception) as caught, host.task("stops it") as task:
        old = jvm(host)
        assert task.session.range(3).count() == 3
        context: Any = task.session.sparkContext
        context._jsc.stop()
        task.session.range(3).count()
    failure = task.failure(caught.value)
    assert failure is not None and failure.category == "infrastructure"
    with host.task("next") as task:
        assert task.session.range(3).count() == 3
    assert jvm(host) != old
    until(lambda: not is_running(old))


def test_an_end_leaves_no_jvm_when_it_returns(host: SparkHost) -> None:
    with host.task("last") as task:
        assert task.session.range(3).count() == 3
    old = jvm(host)
    host.end()
    assert not is_running(old)
    with host.task("after all") as task:
        assert task.session.range(3).count() == 3


def jvm(host: SparkHost) -> int:
    driver = host.driver()
    assert isinstance(driver, JvmDriver) and driver.pid is not None
    return driver.pid


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
