"""Sensors from the command line, and on real orchestrators and workers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy, project
from tests.e2e.test_cli_processes import lines_until

FLOW = """
import time
from servo import *
NAMESPACE = "raw"

@asset
def orders() -> list[dict]:
    return [{{"x": 1}}]

@sensor(selection=[orders], interval="5s")
def poll(ctx: SensorContext) -> SensorResult:
    ctx.log.info("the cursor is %r", ctx.cursor)
    if ctx.cursor == "2":
        return SensorResult(skip_reason="all was seen")
    number = int(ctx.cursor or 0)
    return SensorResult(cursor=str(number + 1), runs=[RunRequest(f"item {{number}}")])

@webhook_sensor("pushed", selection=[orders])
def pushed(ctx: SensorContext) -> SensorResult:
    return SensorResult(runs=[RunRequest(ctx.json()["id"])])

landing = file_sensor("landing", "{folder}", selection=[orders], pattern="*.csv", interval="5s")
watch = asset_sensor("watch", "raw.orders", workspace="other", selection=[orders])

@sensor(selection=[orders], interval="1m", timeout="1s")
def hanging(ctx: SensorContext) -> SensorResult:
    print("begins to hang")
    time.sleep(600)
    return SensorResult()
"""


def flow(servo: Servo) -> str:
    folder = servo.directory / "landing"
    folder.mkdir(exist_ok=True)
    return FLOW.format(folder=folder)


def test_a_sensor_is_listed_paused_resumed_reset_and_pushed_to(servo: Servo) -> None:
    deploy(servo, flow(servo), "flow.py")
    rows = servo.json("sensors", "list")["sensors"]
    assert [(row["sensor_id"], row["kind"], row["status"]) for row in rows] == [
        ("main/hanging", "polling", "ACTIVE"),
        ("main/landing", "files", "ACTIVE"),
        ("main/poll", "polling", "ACTIVE"),
        ("main/pushed", "webhook", "ACTIVE"),
        ("main/watch", "asset", "ACTIVE"),
    ]
    assert "main/poll is PAUSED by" in servo.text("sensors", "pause", "poll", "--reason", "outage")
    assert servo.json("sensors", "show", "poll")["pause_reason"] == "outage"
    assert servo.json("sensors", "resume", "poll")["status"] == "ACTIVE"
    assert servo.json("sensors", "reset", "poll", "--cursor", "1")["cursor"] == "1"
    assert "its cursor is empty" in servo.text("sensors", "reset", "poll")
    message = servo.directory / "message.json"
    message.write_text('{"id": "o1"}')
    push = ("sensors", "push", "pushed", "--id", "m1", "--payload", str(message))
    assert servo.json(*push)["state"] == "PENDING"
    assert servo.json(*push)["is_repeated"] is True
    assert "m1" in servo.text("sensors", "show", "pushed")
    assert (
        "takes no messages"
        in servo.error("sensors", "push", "poll", "--id", "1", code=5)["message"]
    )
    assert servo.error("sensors", "show", "pol", code=3)["hint"] == "did you mean 'poll'?"
    assert servo.error("sensors", "show", "poll", "--log", "7", code=3)["message"] == (
        "main/poll has no recorded evaluation 7"
    )


def test_a_test_shows_what_a_sensor_would_ask_for_and_changes_nothing(servo: Servo) -> None:
    folder = project(servo, flow(servo), "flow.py")
    servo.json("deploy", "--project", str(folder))
    before = servo.json("sensors", "list")["generation"]
    at = ("--project", str(folder))
    found = servo.run("sensors", "test", "poll", "--cursor", "1", *at, "--json")
    answer = json.loads(found.stdout)["answer"]
    assert (answer["cursor"], [run["key"] for run in answer["runs"]]) == ("2", ["item 1"])
    assert "the cursor is '1'" in found.stderr
    (servo.directory / "landing" / "a.csv").write_text("x")
    assert (
        json.loads(servo.run("sensors", "test", "landing", *at, "--json").stdout)["answer"]["runs"]
        == []
    )
    failed = servo.run("sensors", "test", "hanging", *at)
    assert (failed.returncode, "took longer than its 1 s" in failed.stdout) == (1, True)
    failed = servo.run("sensors", "test", "pushed", *at)
    assert failed.returncode == 1
    assert "the message was empty; give it a body with --payload FILE" in failed.stderr
    failed = servo.run("sensors", "test", "watch", *at)
    assert "there is no workspace other" in failed.stdout
    assert not (servo.store / "default" / "other").exists()
    assert servo.json("sensors", "list")["generation"] == before


ENDS = """
import ctypes, itertools, os, threading, time
from servo import *

@asset(namespace="raw")
def orders() -> None: ...

@sensor(selection=[orders], interval="5s", timeout="{timeout}", secrets={{"pin": "env:PIN"}})
def bad(ctx: SensorContext) -> SensorResult:
    assert not {{"ARCO_TASK_KEYS", "ARCO_TOKEN"}} & set(os.environ)
    print("printed by the sensor", flush=True)
    {body}
    return SensorResult()
"""


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("os._exit(0)", "process.exit", "the process of the function ended with exit status 0"),
        ("ctypes.string_at(0)", "process.crash", "the process of the function ended with SIGSEGV"),
        ("all(itertools.repeat(1))", "timeout.task", "the sensor took longer than its 1 s"),
        (
            "os.closerange(3, 200)",
            "process.descriptors",
            "the process of the function closed a file descriptor that is not its own",
        ),
        (
            "os.kill(os.getpid(), 9)",
            "process.crash",
            "the process of the function ended with SIGKILL",
        ),
        ("threading.Thread(target=time.sleep, args=(600,)).start()", "", ""),
        ("import multiprocessing; multiprocessing.Pool(1).map(abs, [1])", "", ""),
        ("assert ctx.secrets['pin'] == '1234'", "", ""),
        ("assert os.sys.stdin.read() == ''", "", ""),
    ],
    ids=[
        *("exits", "crashes", "loops in C", "closes", "is killed", "leaves a thread"),
        *("starts a pool", "reads a secret", "reads its input"),
    ],
)
def test_a_sensor_that_ends_its_process_fails_its_test(
    servo: Servo, body: str, code: str, message: str
) -> None:
    timeout = "1s" if code.startswith("timeout") else "60s"
    (servo.directory / "bad.py").write_text(ENDS.format(body=body, timeout=timeout))
    servo.env |= {"ARCO_TASK_KEYS": "1:" + 32 * "00", "ARCO_TOKEN": "arco_x", "PIN": "1234"}
    done = servo.run("sensors", "test", "bad", "--json")
    trial = json.loads(done.stdout)
    assert done.returncode == (1 if code else 0), done
    assert "printed by the sensor" in done.stderr
    error = trial["error"] or {"code": "", "message": ""}
    assert (error["code"], error["message"]) == (code, message)


def test_a_message_of_megabytes_reaches_the_function(servo: Servo) -> None:
    (servo.directory / "flow.py").write_text(
        "from servo import *\n"
        "@asset(namespace='raw')\ndef orders() -> None: ...\n"
        "@webhook_sensor('pushed', selection=[orders])\n"
        "def pushed(ctx: SensorContext) -> SensorResult:\n"
        "    return SensorResult(skip_reason=str(len(ctx.json()['text'])))\n"
    )
    message = servo.directory / "message.json"
    message.write_text(json.dumps({"text": "é" * 600_000}))
    trial = servo.json("sensors", "test", "pushed", "--payload", str(message))
    assert trial["answer"]["skip_reason"] == "600000"


def test_real_processes_evaluate_sensors_and_what_hangs_times_out(servo: Servo) -> None:
    deploy(servo, flow(servo), "flow.py")
    orchestrator = servo.start("orchestrator", "--json", "--interval", "0.2")
    cache = str(servo.directory / "cache")
    worker = servo.start("worker", "--json", "--slots", "2", "--interval", "0.2", "--cache", cache)
    try:
        lines_until(orchestrator, "started")
        lines_until(worker, "started")
        until(lambda: shown(servo, "landing")["cursor"])
        (servo.directory / "landing" / "a.csv").write_text("x")
        message = servo.directory / "message.json"
        message.write_text('{"id": "o1"}')
        servo.json("sensors", "push", "pushed", "--id", "m1", "--payload", str(message))
        until(lambda: shown(servo, "hanging")["status"] == "ERROR")
        until(lambda: shown(servo, "watch")["status"] == "ERROR")
        until(lambda: {"poll", "landing", "pushed"} <= causes(servo))
        until(lambda: shown(servo, "landing")["nothing_new"])
    finally:
        for process in (orchestrator, worker):
            process.send_signal(signal.SIGTERM)
        for process in (orchestrator, worker):
            process.communicate(timeout=100)
    landing = shown(servo, "landing")
    assert landing["evaluated_at"] > landing["last_evaluation_at"], "one without effect, later"
    assert landing["nothing_new"]["sensor_id"] == "main/landing"
    (listed,) = [s for s in servo.json("sensors", "list")["sensors"] if s["name"] == "landing"]
    assert listed["evaluated_at"] == landing["evaluated_at"]
    assert "nothing new" in servo.text("sensors", "show", "landing")
    at = ("--generation", str(landing["generation"]))
    assert servo.json("sensors", "show", "landing", *at)["nothing_new"] is None
    hanging = shown(servo, "hanging")
    assert hanging["error"].startswith("the evaluation took longer than its 1 s")
    assert "begins to hang" in servo.text("sensors", "show", "hanging", "--log", "1")
    assert "the cursor is ''" in servo.text("sensors", "show", "poll", "--log", "1")
    (pushed,) = [run for run in runs(servo) if run["trigger"] == "webhook"]
    assert pushed["run_key"] == "sensor:main/pushed:o1"
    assert "webhook main/pushed, evaluation 1" in servo.text("runs", "show", pushed["run_id"])
    assert "there is no workspace other" in shown(servo, "watch")["error"]


def shown(servo: Servo, sensor: str) -> dict[str, Any]:
    found: dict[str, Any] = servo.json("sensors", "show", sensor)
    return found


def runs(servo: Servo) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = servo.json("runs", "list")["runs"]
    return found


def causes(servo: Servo) -> set[str]:
    """The sensors that have caused runs which have ended well."""
    ended = [run for run in runs(servo) if run["state"] == "SUCCEEDED"]
    return {run["reference"].removeprefix("main/").partition("#")[0] for run in ended}


def until(reached: Callable[[], object], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.3)
