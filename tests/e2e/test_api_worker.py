"""`servo worker --api` as a process: no credentials, no store, another folder; and what fails."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arco.transport.queues.objectstore import contents
from tests.e2e.conftest import Servo
from tests.kit import forkserver
from tests.kit.forkserver import Forked
from tests.kit.spark_cluster import jvm_options

PROJECT = '''
import os, time, urllib.error, urllib.request
from pathlib import Path
import pyarrow as pa
from servo import *

NAMESPACE = "shop"
FLAGS = Path("{flags}")
days = daily("date", start="2026-01-01")


@asset(checks=[row_count(min=1), not_null("id"), unique("id"), in_range("v", min=0, max=9)])
def orders() -> pa.Table:
    print("ordering", flush=True)
    return pa.table({{"id": list(range(2000)), "v": [n % 7 for n in range(2000)]}})


@asset(partitions=days, retry=Retry(max_attempts=3, delay="1s", retry_on=("ConnectionError",)))
def daily_orders(ctx: AssetContext, orders: AssetIn["shop.orders"]) -> pa.Table:
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt fails")
    return orders.arrow()


@asset(checks=[expression("total > 0")])
def total(daily_orders: AssetIn["shop.daily_orders", all_upstream]) -> pa.Table:
    return pa.table({{"total": [daily_orders.arrow().num_rows]}})


@asset
def noted() -> pa.Table:
    return pa.table({{"n": [1]}})


new_totals = asset_sensor("new_totals", "shop.total", selection=[noted], interval="5s")


@asset(retry=Retry(max_attempts=3, delay="1s"))
def slow(ctx: AssetContext, orders: AssetIn["shop.orders"]) -> pa.Table:
    print("slow has begun", flush=True)
    (FLAGS / f"begun-{{ctx.attempt}}").touch()
    while not (FLAGS / "go").exists():
        time.sleep(0.05)
    return orders.arrow()


@asset
def on_spark(ctx: AssetContext):
    return ctx.spark.range(10)


@asset
def after_spark(on_spark: AssetIn["shop.on_spark"]) -> pa.Table:
    return on_spark.arrow()


@asset
def thief() -> pa.Table:
    """Tries the API with what it finds in its process."""
    import gc
    from arco.storage.http import HttpStore

    store = next(o for o in gc.get_objects() if isinstance(o, HttpStore))
    token = store._headers("")["Authorization"]
    found = [k for k, v in os.environ.items() if "arco_" in v or "TOKEN" in k or "KEY" in k]
    key = (FLAGS / "key").read_bytes()  # other tests have workers on this machine, too
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"ARCO_TOKEN=" + key in (process / "environ").read_bytes():
                found.append(str(process))
        except OSError:
            pass
    base = store.url
    root = base.removesuffix("/work")
    tried = {{}}
    for url in (
        f"{{root}}/assets", f"{{root}}/runs", f"{{root}}/audit", f"{{base}}/box/settings",
        f"{{base}}/objects/keys/tasks.json", f"{{base}}/objects/manifests/head.json",
        f"{{base}}/objects?prefix=ledger/", f"{{base}}/objects?prefix=data/",
    ):
        request = urllib.request.Request(url, headers={{"Authorization": token}})
        try:
            tried[url] = urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as error:
            tried[url] = error.code
    let_in = [url for url, status in tried.items() if status == 200]
    return pa.table(
        {{"found": [str(found)], "let_in": [str(let_in)], "tried": [len(tried)]}}
    )
'''


QUICK = ("--heartbeat", "0.5", "--zombie-after", "3", "--claim", "5", "--interval", "0.1")


class Fleet:
    """A server, an orchestrator, and workers that know nothing but the server's address."""

    def __init__(self, servo: Servo, *timing: str, source: str = "") -> None:
        self.servo = servo
        self.timing = timing
        self.flags = servo.directory / "flags"
        self.elsewhere = servo.directory / "elsewhere"
        folder = servo.directory / "project"
        for each in (self.flags, self.elsewhere, folder):
            each.mkdir()
        (folder / "shop.py").write_text(source or PROJECT.format(flags=self.flags))
        servo.json("deploy", "--project", str(folder))
        made = servo.json(
            *("auth", "keys", "create", "fleet", "--role", "admin"),
            *("--scope", "workers.work", "--kind", "worker"),
        )
        self.key: str = made["key"]
        (self.flags / "key").write_text(self.key)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.server = self.serve()
        self.started: list[Forked] = []
        self.orchestrator = servo.start("orchestrator", *timing)

    def serve(self) -> Forked:
        process = self.servo.start("serve", "--port", str(self.port), "--json")
        assert json.loads(process.stdout.readline())["state"] == "started"
        return process

    def worker(self, name: str, *options: str, **variables: str) -> Forked:
        """With an environment that has the key, and nothing of a store."""
        env = {"HOME": str(self.elsewhere), "ARCO_TOKEN": self.key, **variables}
        env |= {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        api = f"http://127.0.0.1:{self.port}"
        process = forkserver.shared().start_piped(
            *("arco.cli", "worker", "--api", api, "--name", name),
            *(*self.timing, "--slots", "2", "--json", *options),
            env=env,
            cwd=self.elsewhere,
        )
        self.started.append(process)
        line = process.stdout.readline()
        assert json.loads(line)["state"] == "started", line
        return process

    def run(self, *selection: str) -> str:
        answer = self.servo.json("run", *selection, "--remote", "--detach")
        run_id: str = answer["run_id"]
        return run_id

    def state(self, run_id: str) -> str:
        try:
            return str(self.servo.open().read.orchestration().run(run_id).state)
        except Exception:  # it is requested, and not planned yet
            return ""

    def wait(self, run_id: str, expected: str) -> None:
        self.until(lambda: self.state(run_id) in ("SUCCEEDED", "FAILED", "CANCELLED"))
        tasks = self.servo.open().read.orchestration().tasks(run_id)
        assert self.state(run_id) == expected, [(t.asset_key, t.state) for t in tasks]

    def until(self, reached: Any) -> None:
        deadline = time.monotonic() + 200
        while not reached():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.1)

    def rows(self, asset: str) -> dict[str, Any]:
        shown: list[dict[str, Any]] = self.servo.json("show", asset)["rows"]
        return shown[0]

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def fleet(servo: Servo) -> Iterator[Fleet]:
    fleet = Fleet(servo, *QUICK)
    yield fleet
    fleet.close()


def test_a_worker_without_credentials_runs_checks_partitions_and_retries(fleet: Fleet) -> None:
    worker = fleet.worker("box")
    fleet.until(lambda: fleet.servo.open().read.sensors().sensors()[0].cursor)
    run = fleet.run("shop.orders", "shop.daily_orders", "shop.total", "shop.thief")
    fleet.wait(run, "SUCCEEDED")
    # A sensor of an asset looks through the server.
    listed = ("runs", "list", "--asset", "shop.noted", "--state", "SUCCEEDED")
    fleet.until(lambda: fleet.servo.json(*listed)["runs"])
    reader = fleet.servo.open().read.orchestration()
    tasks = {task.asset_key: task for task in reader.tasks(run)}
    assert tasks["shop.daily_orders"].attempt == 2
    assert "ordering" in fleet.servo.text("runs", "logs", run, "--task", "shop.orders")
    # What user code finds in its process lets it in nowhere else.
    thief = fleet.rows("shop.thief")
    assert (thief["found"], thief["let_in"], int(thief["tried"])) == ("[]", "[]", 8)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert contents(fleet.servo.open().store).claimed == frozenset()
    assert not list(Path(fleet.elsewhere).rglob("*.parquet"))


def test_work_goes_on_when_worker_and_server_are_killed(fleet: Fleet) -> None:
    first = fleet.worker("one")
    run = fleet.run("shop.orders", "shop.slow")
    fleet.until(lambda: (fleet.flags / "begun-1").exists())
    # Its log can be read while it runs.
    fleet.until(
        lambda: "slow has begun" in fleet.servo.text("runs", "logs", run, "--task", "shop.slow")
    )
    first.kill()
    fleet.worker("two")
    fleet.until(lambda: (fleet.flags / "begun-2").exists())
    fleet.server.kill()
    fleet.server.communicate()
    (fleet.flags / "go").touch()  # it ends while there is no server
    time.sleep(1.0)
    fleet.server = fleet.serve()
    fleet.wait(run, "SUCCEEDED")
    reader = fleet.servo.open().read
    tasks = {task.asset_key: task for task in reader.orchestration().tasks(run)}
    # Without a server for longer than --zombie-after, it may be taken for lost; it counts once.
    assert tasks["shop.slow"].attempt in (2, 3)
    assert tasks["shop.slow"].state == "SUCCEEDED"
    assert len(list(reader.execution().versions(tasks["shop.slow"].asset_id))) == 1


def test_a_cancelled_run_is_stopped_at_the_worker(fleet: Fleet) -> None:
    fleet.worker("box")
    run = fleet.run("shop.orders", "shop.slow")
    fleet.until(lambda: (fleet.flags / "begun-1").exists())
    fleet.servo.json("runs", "cancel", run)
    fleet.wait(run, "CANCELLED")
    fleet.until(lambda: not contents(fleet.servo.open().store).messages)


def test_a_task_on_spark_is_refused_where_spark_has_no_access_to_the_data(fleet: Fleet) -> None:
    fleet.worker("box")
    run = fleet.run("shop.on_spark")
    fleet.wait(run, "FAILED")
    (task,) = fleet.servo.open().read.orchestration().tasks(run)
    assert (task.error_code, task.attempt) == ("spark.data_url", 1)


@pytest.mark.spark
def test_tasks_on_spark_open_the_data_themselves(servo: Servo) -> None:
    fleet = Fleet(servo)  # a JVM may take longer to start than others are silent
    try:
        variables = {"JDK_JAVA_OPTIONS": jvm_options()}
        fleet.worker("box", "--data-url", f"file://{servo.store}", **variables)
        run = fleet.run("shop.on_spark", "shop.after_spark")
        fleet.wait(run, "SUCCEEDED")
        assert fleet.rows("shop.after_spark") == {"id": 0}
    finally:
        fleet.close()
