"""Tasks on a Spark Connect server, which is inside the pip package, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.spark.host import SparkHost
from arco.spark.metrics import SparkUsage
from arco.spark.query import TaskQuery
from arco.spark.settings import SparkSettings
from arco.tasks.failure import TaskFailed
from tests.kit.spark_cluster import jvm_options

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": jvm_options(),
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    log = tmp_path_factory.mktemp("connect") / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                *(str(home / "bin" / "spark-submit"), "--master", "local[2]", *options),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                "spark-internal",
            ],
            env={**os.environ, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    made = SparkHost(SparkSettings(remote=f"sc://127.0.0.1:{port}"))
    try:
        wait_for(port, server, log)
        yield made
    finally:
        made.stop()
        server.kill()
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)


def test_tasks_have_sessions_of_their_own(host: SparkHost) -> None:
    from pyspark.sql import SparkSession

    with host.task("first", input_bytes=0) as task:
        session = task.session
        assert task.connect and SparkSession.active() is session
        assert session.conf.get("spark.sql.adaptive.enabled") == "false"
        session.range(3).createOrReplaceTempView("mine")
        assert session.sql("SELECT count(*) AS n FROM mine").collect()[0]["n"] == 3
        assert (task.usage(), task.progress()) == (SparkUsage(), None)
    with host.task("second") as task:
        with pytest.raises(Exception) as raised:
            task.session.sql("SELECT * FROM mine").collect()
        failure = task.failure(raised.value)
        assert failure is not None and failure.code == "spark.table_or_view_not_found"


def test_a_task_is_cancelled_and_another_goes_on(host: SparkHost) -> None:
    with host.task("doomed") as task:
        session = task.session
        timer = threading.Timer(2, task.cancel)
        timer.start()
        with pytest.raises(Exception) as raised:
            session.range(10**13).selectExpr("max(id)").collect()
        failure = task.failure(raised.value)
        assert failure is not None and failure.category == "cancelled"
        assert not task.hurt(raised.value)
    with host.task("next") as task:
        assert task.session.range(3).count() == 3


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT 1 AS x) INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT * FROM a",
        "FROM range(3) INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT id",
    ],
)
def test_a_query_that_writes_is_refused(host: SparkHost, tmp_path: Path, sql: str) -> None:
    target = tmp_path / "written"
    with host.task("writes") as task, pytest.raises(TaskFailed, match="not a query"):
        TaskQuery(sql.format(target)).run(task, {})
    assert not target.exists()


def test_queries_and_their_errors_are_the_servers(host: SparkHost) -> None:
    with host.task("queries") as task:
        rows = TaskQuery("SELECT id FROM range(3) WHERE id > 1 -- the end").run(task, {}).collect()
        assert [row[0] for row in rows] == [2]
        for sql, at in (("SELECT\n id frm xx y FROM range(3)", " xx"), ("SELECT\n idd", "idd")):
            with pytest.raises(TaskFailed) as caught:
                TaskQuery(sql).run(task, {})
            column = sql.index(at.strip()) - sql.index("\n")
            assert f"line 2, column {column}:" in str(caught.value)
