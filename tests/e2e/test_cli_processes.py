"""Commands that live for a while, and how they end."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from arco.catalog.events import AssetObserved
from arco.storage import paths
from tests.e2e.conftest import Servo, populate
from tests.kit.forkserver import Forked
from tests.kit.spark_cluster import children


def lines_until(process: Forked, text: str) -> list[str]:
    """What a process prints, up to the line that has `text`."""
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came; it said {lines} and {process.communicate()[1]}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_compactor_drains_and_ends_well_when_told(servo: Servo, number: signal.Signals) -> None:
    workspace = servo.open()
    process = servo.start("admin", "compact", "--json", "--interval", "5")
    lines_until(process, "started")
    workspace.ledger.append([AssetObserved(asset_id="a", row_count=1, size_bytes=1)])
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    published, stopped = map(json.loads, out.splitlines())
    assert (published["state"], published["events"], published["position"]) == ("published", 1, 1)
    assert stopped == {"state": "stopped", "generation": 1}


def test_killed_compactor_loses_nothing(servo: Servo) -> None:
    workspace = servo.open()
    process = servo.start("admin", "compact", "--json", "--interval", "0.02")
    lines_until(process, "started")
    ids: set[str] = set()
    for number in range(200):
        fact = AssetObserved(asset_id="a", row_count=number, size_bytes=1)
        ids.update(workspace.ledger.append([fact]).event_ids)
        if number == 150:
            process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    servo.text("admin", "compact", "--once")
    log = servo.text("admin", "log", "tail", "-n", "1000", "--json").splitlines()
    assert sorted(json.loads(line)["id"] for line in log) == sorted(ids)
    assert servo.json("admin", "fsck")["clean"] is True


def test_follow_shows_events_as_they_come_and_ends_quietly(servo: Servo) -> None:
    workspace = servo.open()
    populate(workspace)
    process = servo.start("admin", "log", "tail", "-n", "1", "--follow", "--interval", "0.05")
    assert len(lines_until(process, "asset_observed")) == 1
    workspace.commands.catalog.create_namespace("news")
    assert "namespace=news" in lines_until(process, "namespace_created")[-1]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_reader_that_leaves_is_no_error(servo: Servo) -> None:
    workspace = servo.open()
    facts = [AssetObserved(asset_id="a", row_count=n, size_bytes=1) for n in range(5_000)]
    workspace.ledger.append(facts)
    workspace.committer.commit()
    process = servo.start("admin", "log", "tail", "-n", "5000", "--json")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


ON_SPARK = """
from servo import AssetContext, asset

NAMESPACE = "n"


@asset
def numbers(ctx: AssetContext):
    return ctx.spark.range(3)
"""


@pytest.mark.spark
def test_a_worker_that_is_told_to_end_leaves_no_jvm(servo: Servo) -> None:
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "assets.py").write_text(ON_SPARK)
    servo.json("deploy", "--project", str(folder))
    worker = servo.start("worker", "--json", "--cache", str(servo.directory / "cache"))
    lines_until(worker, "started")
    jvms = _until_some_jvm(worker.pid)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=100)
    assert (worker.returncode, err) == (0, "")
    deadline = time.monotonic() + 60
    while any(_is_java(pid) for pid in jvms):
        assert time.monotonic() < deadline, "its JVM is still there"
        time.sleep(0.1)
    assert [meta.path for meta in servo.open().store.list(paths.LIVENESS)] == []


def _until_some_jvm(pid: int) -> list[int]:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        jvms = [child for child in children(pid) if _is_java(child)]
        if jvms:
            return jvms
        time.sleep(0.1)
    raise AssertionError("no JVM was started")


def _is_java(pid: int) -> bool:
    try:
        return "java" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False
