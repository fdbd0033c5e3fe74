"""Automation of assets from the command line, with real processes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy

FLOW = """
from servo import AssetIn, asset, daily, eager, on_cron
NAMESPACE = "raw"
day = daily("date", start="2026-01-01")

@asset(partitions=day)
def orders() -> list[dict]:
    return [{"x": 1}]

@asset(partitions=day, automation=eager())
def left(orders: AssetIn):
    return orders.arrow()

@asset(partitions=day, automation=eager())
def right(orders: AssetIn):
    return orders.arrow()

@asset(partitions=day, automation=eager())
def bottom(left: AssetIn, right: AssetIn):
    return left.arrow()

@asset(partitions=day, automation=on_cron("0 6 * * *", timezone="Europe/Berlin"))
def later(orders: AssetIn):
    return orders.arrow()
"""
DAY = "date=2026-01-05"


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.2)


def test_automation_is_listed_explained_paused_and_resumed(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    rows = {row["asset"]: row for row in servo.json("automation", "list")["assets"]}
    assert sorted(rows) == ["raw.bottom", "raw.later", "raw.left", "raw.right"]
    assert rows["raw.later"]["next_tick"] is not None
    assert "on_cron 0 6 * * * (Europe/Berlin)" in servo.text("automation", "list")
    (partition,) = servo.json("automation", "explain", "left", "-p", DAY)["partitions"]
    assert partition["outcome"] == "waits"
    assert partition["reasons"] == [f"it reads raw.orders[{DAY}], which has no data yet"]
    servo.json("run", "raw.orders", "-p", DAY)
    (partition,) = servo.json("automation", "explain", "left", "-p", DAY)["partitions"]
    assert partition["outcome"] == "runs"
    assert partition["cause"].startswith(f"raw.orders[{DAY}] ")
    assert "raw.left" in servo.text("automation", "explain", "left", "-p", DAY)
    assert "raw.left is PAUSED by" in servo.text("automation", "pause", "left", "--reason", "no")
    (partition,) = servo.json("automation", "explain", "left", "-p", DAY)["partitions"]
    assert partition["reasons"] == ["its automation is PAUSED"]
    assert servo.json("automation", "resume", "left")["state"] == "ACTIVE"
    refused = servo.error("automation", "resume", "left", "--catchup", "some", code=2)
    assert refused["hint"] == "one of none, all"
    refused = servo.error("automation", "pause", "raw.lefd", code=3)
    assert refused["hint"] == "did you mean 'raw.left'?"
    assert "no automation" not in servo.text("automation", "list", "--removed")


@pytest.mark.xdist_group("processes")
def test_an_orchestrator_and_a_worker_make_a_diamond_once(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    servo.start("orchestrator")
    servo.start("worker", "--slots", "2")
    servo.json("run", "raw.orders", "-p", DAY)

    def made() -> list[str]:
        runs = servo.json("runs", "list")["runs"]
        own = [run for run in runs if run["trigger"] == "materialization"]
        return sorted(
            asset for run in own if run["state"] == "SUCCEEDED" for asset in run["selection"]
        )

    wait_until(lambda: "raw.bottom" in made())
    assert made() == ["raw.bottom", "raw.left", "raw.right"]
    (run,) = (r for r in servo.json("runs", "list")["runs"] if r["selection"] == ["raw.bottom"])
    assert f"automation: raw.left[{DAY}] " in servo.text("runs", "show", run["run_id"]) or (
        f"automation: raw.right[{DAY}] " in servo.text("runs", "show", run["run_id"])
    )
    chain = servo.json("runs", "show", run["run_id"])["caused_by"]
    triggers = [servo.json("runs", "show", each)["trigger"] for each in chain]
    assert triggers == ["materialization", "manual"]
    (partition,) = servo.json("automation", "explain", "bottom", "-p", DAY)["partitions"]
    assert partition["reasons"] == ["it is up to date"]
