"""Limits, pools and a pause from the command line, with orchestrators and a worker that are real
processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy

FLOW = """
import os, time
from pathlib import Path
from servo import Resources, asset, static
NAMESPACE = "raw"
FOLDER = Path({folder!r})

@asset(partitions=static("n", [str(n) for n in range(6)]), resources=Resources(pool="jdbc"))
def orders() -> list[dict]:
    own = FOLDER / f"busy-{{os.urandom(4).hex()}}"
    own.touch()
    (FOLDER / f"most-{{len(list(FOLDER.glob('busy-*')))}}").touch()
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    own.unlink()
    return [{{"x": 1}}]

@asset
def plain() -> list[dict]:
    return [{{"x": 1}}]
"""


def until(reached: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (value := reached()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
    return value


@contextmanager
def processes(servo: Servo, *commands: list[str]) -> Iterator[None]:
    running = [servo.start(*command) for command in commands]
    try:
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.communicate(timeout=100)


def entry(servo: Servo, scope: str, name: str = "max_concurrent_tasks") -> dict[str, Any]:
    limits = servo.json("limits", "list")["limits"]
    found: dict[str, Any] = next(e for e in limits if (e["scope"], e["name"]) == (scope, name))
    return found


def running(servo: Servo) -> int:
    tasks = servo.open().read.orchestration().tasks_in_flight()
    return sum(task.state == "RUNNING" for task in tasks)


def test_two_orchestrators_keep_a_pool_and_a_pause(servo: Servo) -> None:
    deploy(servo, FLOW.format(folder=str(servo.directory)), "flow.py")
    assert entry(servo, "pool:jdbc")["value"] is None
    assert servo.json("limits", "set", "pool:jdbc", "2")["value"] == 2
    orchestrator = ["orchestrator", "--interval", "0.1"]
    worker = ["worker", "--slots", "4", "--cache", str(servo.directory / "cache")]
    with processes(servo, orchestrator, orchestrator, worker):
        run = servo.json("run", "raw.orders", "--remote", "--detach")["run_id"]
        until(lambda: len(list(servo.directory.glob("busy-*"))) == 2)
        until(lambda: running(servo) == 2)
        assert entry(servo, "pool:jdbc")["use"] == 2
        [waiting] = servo.json("runs", "show", run)["waiting"]
        assert waiting["text"] == "4 tasks ready: 2 of 2 slots of pool jdbc are in use"

        paused = servo.json("pause", "--reason", "an upgrade")
        assert (paused["paused_by"], paused["running"]) == ("tester", 2)
        (servo.directory / "go").touch()
        until(lambda: running(servo) == 0)
        [waiting] = servo.json("runs", "show", run)["waiting"]
        assert waiting["what"] == "pause"
        assert "by tester: an upgrade" in waiting["text"]
        request = servo.json("run", "raw.plain", "--remote", "--detach")["request_key"]
        assert "dispatch is paused" in servo.text("requests", "show", request)
        assert servo.error("run", "raw.plain", code=5)["message"].startswith("dispatch is paused")

        assert servo.json("resume")["paused_at"] is None
        until(lambda: servo.open().read.orchestration().run(run).state == "SUCCEEDED")
        until(lambda: servo.open().read.orchestration().run_request(request).state == "TRIGGERED")
    assert not list(servo.directory.glob("most-[3-9]"))


def test_a_paused_workspace_says_so_wherever_one_would_look(servo: Servo) -> None:
    deploy(servo, FLOW.format(folder=str(servo.directory)), "flow.py")
    assert "dispatch is paused since" in servo.text("pause", "--reason", "night")
    again = servo.run("pause", "--reason", "day")
    assert "by tester: night" in again.stdout and "its reason is not changed" in again.stderr
    assert "by tester: night" in servo.text("limits", "list").splitlines()[0]
    assert servo.json("limits", "list")["paused"]["reason"] == "night"
    [check] = [c for c in servo.json("doctor")["checks"] if c["name"] == "dispatch"]
    assert (check["status"], "by tester: night" in check["message"]) == ("warn", True)
    assert "a run would not start now: dispatch is paused" in servo.run("plan", "*").stderr
    assert servo.json("plan", "*")["waiting"] == [check["message"]]
    assert servo.text("resume") == "dispatch is running\n"
    assert servo.json("run", "raw.plain")["state"] == "SUCCEEDED"


def test_a_refused_run_names_the_limit_its_value_and_the_use(servo: Servo) -> None:
    deploy(servo, FLOW.format(folder=str(servo.directory)), "flow.py")
    servo.text("limits", "set", "workspace", "max_daily_runs", "1")
    servo.text("limits", "set", "workspace", "max_tasks_per_run", "5")
    assert servo.error("run", "raw.orders", code=5)["message"] == (
        "the run would have 6 tasks: max_tasks_per_run of the workspace is 5"
    )
    assert servo.json("run", "raw.plain")["state"] == "SUCCEEDED"
    assert servo.error("run", "raw.plain", "--force", code=5)["message"] == (
        "1 run was started today (UTC): max_daily_runs of the workspace is 1"
    )
    key = servo.json("run", "raw.plain", "--remote", "--detach")["request_key"]
    assert "max_daily_runs of the workspace is 1" in servo.text("requests", "show", key)
    assert entry(servo, "workspace", "max_daily_runs")["use"] == 1
    assert servo.json("limits", "unset", "workspace", "max_daily_runs")["value"] is None
    assert servo.json("run", "raw.plain", "--force")["state"] == "SUCCEEDED"


def test_bad_input_of_limits_is_refused_and_changes_nothing(servo: Servo) -> None:
    deploy(servo, FLOW.format(folder=str(servo.directory)), "flow.py")
    for arguments, message in [
        (["pool:jdbcc", "4"], "no deployed asset has Resources(pool='jdbcc')"),
        (["workspace", "max_daily_runs", "-1"], "'-1' is not a value of max_daily_runs"),
        (["workspace", "max_run_duration", "soon"], "'soon' is not a valid max_run_duration"),
        (["workspace", "4"], "servo limits set workspace 4: give a scope, a limit and a value"),
    ]:
        assert servo.error("limits", "set", *arguments, code=2)["message"] == message
    hint = servo.error("limits", "set", "max_daily_runs", "5", code=2)["hint"]
    assert hint == "for example: servo limits set workspace max_daily_runs 5"
    hint = servo.error("limits", "set", "max_daily_run", "5", code=2)["hint"]
    assert hint == "for example: servo limits set workspace max_daily_runs 10"
    assert all(e["changed_at"] is None for e in servo.json("limits", "list")["limits"])
