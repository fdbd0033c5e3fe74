"""Who read which secret for what is in the audit log, and no value is anywhere."""

from __future__ import annotations

import signal
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_api_worker import QUICK, Fleet
from tests.e2e.test_cli_flow import deploy

PLANTED = "s3cr3t-planted-value"
PROJECT = """
from servo import *
import pyarrow as pa

NAMESPACE = "shop"

@asset(secrets={{"token": "env:SHOP_TOKEN", "password": "file:{password}"}})
def orders(ctx: AssetContext) -> pa.Table:
    assert ctx.secret("token") == ctx.secret("password")
    print("using", ctx.secret("token"))
    return pa.table({{"x": [1]}})

@asset(secrets={{"token": "env:NO_SUCH_TOKEN"}})
def broken(ctx: AssetContext) -> None:
    raise RuntimeError("it is not called")

@sensor(selection=[orders], interval="5s", secrets={{"token": "env:SHOP_TOKEN"}})
def poll(ctx: SensorContext) -> SensorResult:
    assert len(ctx.secret("token")) == {length}
    if ctx.cursor:
        return SensorResult(skip_reason="all was seen")
    return SensorResult(cursor="1")
"""


def project(servo: Servo) -> str:
    password = servo.directory / "password"
    password.write_text(PLANTED + "\n")
    return PROJECT.format(password=password, length=len(PLANTED))


def reads(servo: Servo) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = servo.json("audit", "list", "--action", "ReadSecret")["records"]
    return records[::-1]


def summary(record: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """The secret, what it was read for, the name of the worker, and how it went."""
    worker = record["request"]["worker_id"].partition("@")[0]
    name = record["resource_name"]
    return record["resource_id"], name, worker, record["outcome"], record["code"]


def texts(store: Path) -> Iterator[tuple[str, bytes]]:
    """All that is stored, as it is and as readers see it."""
    for path in store.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), data
        if path.suffix == ".parquet":
            yield str(path), str(pq.read_table(BytesIO(data)).to_pylist()).encode()
        if path.suffix == ".zip":
            with zipfile.ZipFile(BytesIO(data)) as archive:
                for name in archive.namelist():
                    yield f"{path}/{name}", archive.read(name)


def found(store: Path) -> list[str]:
    return [name for name, data in texts(store) if PLANTED.encode() in data]


def test_a_run_here_records_its_reads_and_no_value(servo: Servo) -> None:
    servo.env["SHOP_TOKEN"] = PLANTED
    deploy(servo, project(servo), "shop.py")
    done = servo.run("run", "*")
    assert done.returncode == 1, done
    records = reads(servo)
    worker = records[0]["actor_id"]
    assert worker.startswith("local-")
    password = f"file:{servo.directory}/password"
    assert sorted(map(summary, records)) == [
        ("env:NO_SUCH_TOKEN", "shop.broken", worker, "failed", "secret.missing"),
        ("env:SHOP_TOKEN", "shop.orders", worker, "applied", ""),
        (password, "shop.orders", worker, "applied", ""),
    ]
    first = next(each for each in records if each["resource_id"] == "env:SHOP_TOKEN")
    run_id = first["request"]["run_id"]
    tasks = servo.open().read.orchestration().tasks(run_id)
    task = next(each for each in tasks if each.asset_key == "shop.orders")
    assert first["request"] == {
        "reference": "env:SHOP_TOKEN",
        "provider": "env",
        "name": "token",
        "worker_id": worker,
        "asset": "shop.orders",
        "run_id": run_id,
        "task_id": task.task_id,
        "attempt": 1,
        "attempt_id": task.attempt_id,
    }
    assert (first["actor"], first["actor_kind"], first["namespace"]) == ("tester", "worker", "shop")
    listed = servo.text("audit", "list", "--resource", "env:NO_SUCH_TOKEN")
    assert "ReadSecret" in listed and "secret.missing" in listed
    assert [
        r["resource_name"]
        for r in servo.json("audit", "list", "--resource", "shop.broken")["records"]
    ] == ["shop.broken"]
    shown = servo.text("audit", "show", str(first["position"]))
    exported = servo.text("audit", "export") + servo.text("admin", "log", "tail")
    assert "env:SHOP_TOKEN" in shown and "env:SHOP_TOKEN" in exported
    assert PLANTED not in shown + exported + listed + done.stdout + done.stderr
    assert "the audit log is intact" in servo.text("audit", "verify")
    assert found(servo.store) == []


@pytest.fixture
def fleet(servo: Servo) -> Iterator[Fleet]:
    fleet = Fleet(servo, *QUICK, source=project(servo))
    yield fleet
    fleet.close()


def test_workers_with_and_without_a_store_record_reads_of_tasks_and_sensors(fleet: Fleet) -> None:
    servo = fleet.servo
    servo.env["SHOP_TOKEN"] = PLANTED
    password = f"file:{servo.directory}/password"
    far = fleet.worker("far", SHOP_TOKEN=PLANTED)
    fleet.wait(fleet.run("shop.orders"), "SUCCEEDED")
    fleet.wait(fleet.run("shop.broken"), "FAILED")
    fleet.until(lambda: ("env:SHOP_TOKEN", "main/poll", "far", "applied", "") in seen(servo))
    fleet.until(lambda: servo.json("sensors", "show", "poll")["cursor"] == "1")
    far.send_signal(signal.SIGTERM)
    far.communicate(timeout=60)
    by_far = [
        ("env:NO_SUCH_TOKEN", "shop.broken", "far", "failed", "secret.missing"),
        ("env:SHOP_TOKEN", "main/poll", "far", "applied", ""),
        ("env:SHOP_TOKEN", "shop.orders", "far", "applied", ""),
        (password, "shop.orders", "far", "applied", ""),
    ]
    assert sorted(seen(servo)) == by_far
    for each in reads(servo):
        worker = each["request"]["worker_id"]
        assert (each["actor"], each["actor_kind"]) == (f"worker:{worker}", "worker")
    near = servo.start("worker", "--name", "near", "--json", *QUICK)
    fleet.wait(fleet.run("shop.orders", "--force"), "SUCCEEDED")
    near.send_signal(signal.SIGTERM)
    near.communicate(timeout=60)
    by_near = [each for each in seen(servo) if each not in by_far]
    assert ("env:SHOP_TOKEN", "shop.orders", "near", "applied", "") in by_near
    assert (password, "shop.orders", "near", "applied", "") in by_near
    assert "the audit log is intact" in servo.text("audit", "verify")
    assert found(servo.store) == []


def seen(servo: Servo) -> list[tuple[str, str, str, str, str]]:
    return [summary(record) for record in reads(servo)]
