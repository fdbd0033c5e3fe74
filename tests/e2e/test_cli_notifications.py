"""Notifications from the command line, and by a real orchestrator to a real receiver."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy
from tests.kit.receivers import WebReceiver, web_receiver

FLOW = """
from pathlib import Path
from servo import asset, notify, static

@asset(namespace="raw", partitions=static("shop", ["a", "b", "c"]))
def orders() -> list[dict]:
    if Path({flag!r}).exists():
        raise ValueError("4711 of secret@example.org")
    return [{{"x": 1}}]

notify("failures", on=["asset_failed", "recovered"], to="ops", interval="1s")
"""
PATIENCE_S = 120


@pytest.fixture
def web() -> Iterator[WebReceiver]:
    with web_receiver() as receiver:
        yield receiver


def configure(servo: Servo, web: WebReceiver, more: str = "allow_private = true") -> str:
    """A project with a channel, and the file that makes its asset fail."""
    servo.env["OPS_KEY"] = "sesame"
    (servo.directory / "arco.toml").write_text(
        f'[notifications.channels.ops]\ntype = "webhook"\nurl = "{web.url}"\n'
        f'secret = "env:OPS_KEY"\n{more}\n'
    )
    return str(servo.directory / "broken")


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)


def test_a_failing_asset_is_told_once_and_its_recovery_once(servo: Servo, web: WebReceiver) -> None:
    flag = configure(servo, web)
    deploy(servo, FLOW.format(flag=flag), "flow.py")
    broken = servo.directory / "broken"
    broken.touch()
    processes = [
        servo.start("orchestrator", "--interval", "0.2"),
        servo.start("worker", "--slots", "2"),
    ]
    try:
        assert servo.json("run", "*", "--remote", code=1)["tasks_failed"] == 3
        until(lambda: web.posted)
        servo.json("run", "*", "--remote", code=1)
        broken.unlink()
        servo.json("run", "*", "--remote")
        until(lambda: len(web.posted) == 2)
        until(lambda: _states(servo) == ["DELIVERED", "DELIVERED"])
    finally:
        for process in processes:
            process.terminate()
        ended = [process.communicate() for process in processes]
    bodies = [json.loads(posted.body) for posted in web.posted]
    assert [[(i["event"], i["asset"]) for i in body["items"]] for body in bodies] == [
        [("asset_failed", "raw.orders")],
        [("recovered", "raw.orders")],
    ]
    spoken = "".join(posted.body.decode() for posted in web.posted) + "".join(map(str, ended))
    assert "4711" not in spoken and "secret@example.org" not in spoken
    assert "sesame" not in "".join(map(str, ended))
    newest, oldest = servo.json("notifications", "list")["notifications"]
    assert (oldest["title"], oldest["detail"]) == ("raw.orders failed (3 partitions)", "200 OK")
    assert newest["title"] == "raw.orders has recovered"
    assert "raw.orders failed" in servo.text("notifications", "show", oldest["notification_id"])
    assert servo.json("notifications", "alerts")["alerts"] == []


def _states(servo: Servo) -> list[str]:
    return [row["state"] for row in servo.json("notifications", "list")["notifications"]]


def test_a_channel_is_tested_now(servo: Servo, web: WebReceiver) -> None:
    configure(servo, web)
    assert servo.text("notifications", "test", "ops") == "delivered: 200 OK\n"
    assert "test of the channel ops" in json.loads(web.posted[0].body)["title"]
    web.status = 500
    answer = servo.json("notifications", "test", "ops", code=1)
    assert (answer["delivered"], answer["detail"]) == (
        False,
        "127.0.0.1 responded with 500 Internal Server Error",
    )
    assert servo.error("notifications", "test", "opps", code=2)["hint"] == "did you mean 'ops'?"
    del servo.env["OPS_KEY"]
    answer = servo.json("notifications", "test", "ops", code=1)
    assert answer["detail"] == "env:OPS_KEY cannot be resolved (secret.missing)"


def test_a_rule_without_its_channel_and_a_private_address_change_nothing(
    servo: Servo, web: WebReceiver
) -> None:
    flag = configure(servo, web, more="")
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "flow.py").write_text(FLOW.format(flag=flag))
    for command in ("validate", "deploy"):
        error = servo.error(command, "--project", "project", code=2)
        assert "127.0.0.1 is a loopback address" in error["message"]
        assert "allow_private = true" in error["hint"]
    (servo.directory / "arco.toml").write_text("")
    assert "unknown channel 'ops'" in servo.text("validate", "--project", "project", code=1)
    (folder / "other.py").write_text("from servo import schedule\nx = schedule('x', cron='no')\n")
    both = servo.text("validate", "--project", "project", code=1)
    assert "unknown channel 'ops'" in both and "other.py:2" in both
    (folder / "other.py").unlink()
    error = servo.error("deploy", "--project", "project", code=2)
    assert "names the unknown channel 'ops'" in error["message"]
    assert servo.json("notifications", "rules")["rules"] == []
    configure(servo, web)
    deploy(servo, FLOW.format(flag=flag), "flow.py")
    (rule,) = servo.json("notifications", "rules")["rules"]
    assert (rule["rule_id"], rule["channels"]) == ("main/failures", ["ops"])
    assert servo.error("notifications", "list", "--state", "LOST", code=2)["hint"].startswith("one")
    assert "is not the id" in servo.error("notifications", "retry", "abcdef", code=3)["message"]
