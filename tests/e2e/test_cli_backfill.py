"""Backfills from the command line."""

from __future__ import annotations

import time
from typing import Any

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy

FLOW = """
from pathlib import Path
from servo import AssetContext, AssetIn, Retry, asset, daily
NAMESPACE = "raw"
DAYS = daily("date", start="2025-01-01")

@asset(partitions=DAYS)
def cleaned(orders: AssetIn["orders"]) -> None:
    pass

@asset(partitions=DAYS, retry=Retry(max_attempts=1))
def orders(ctx: AssetContext) -> None:
    if "2025-01-05" in str(ctx.partition) and not Path("MENDED").exists():
        raise ValueError("a bad day")
"""
JANUARY = ("raw.orders", "-p", "date=2025-01-01..2025-01-09", "--chunk-size", "4")


def until(servo: Servo, id: str, *states: str) -> dict[str, Any]:
    reader = servo.open().read
    for _ in range(1_200):
        if reader.automation().backfill(id).row.state in states:
            break
        time.sleep(0.05)
    status: dict[str, Any] = servo.json("backfill", "status", id)
    return status


def test_a_backfill_is_previewed_created_carried_out_and_retried(servo: Servo) -> None:
    mended = servo.directory / "mended"
    deploy(servo, FLOW.replace("MENDED", str(mended)), "flow.py")
    preview = servo.json("backfill", "preview", *JANUARY)
    assert (preview["partitions"], preview["chunks"], preview["up_to_date"]) == (9, 3, 0)
    assert preview["sample"][0]["partitions"] == ["date=2025-01-01..2025-01-04"]
    assert "tasks to run  9" in servo.run("backfill", "preview", *JANUARY).stdout
    refused = servo.run("backfill", "preview", "raw.cleaned", *JANUARY[1:])
    assert "0  would be refused" in refused.stdout
    assert "chunk 0 would be refused: inputs are missing" in refused.stderr
    assert "as in +raw.cleaned" in refused.stderr
    assert "so would 2 more of these chunks" in refused.stderr
    assert servo.json("backfill", "list")["backfills"] == []
    created = servo.json("backfill", "create", *JANUARY, "--reason", "a correction")
    id = created["backfill_id"]
    assert (created["state"], created["pending_partitions"]) == ("PENDING", 9)
    crew = [
        servo.start("orchestrator", "--interval", "0.2"),
        servo.start("worker", "--slots", "2", "--interval", "0.2"),
    ]
    try:
        status = until(servo, id, "SUCCEEDED", "FAILED")
        assert (status["state"], status["failed_partitions"]) == ("FAILED", 1)
        assert [run["state"] for run in status["runs"]] == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
        mended.touch()
        assert "is RUNNING" in servo.text("backfill", "retry", id[:12])
        status = until(servo, id, "SUCCEEDED", "FAILED")
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.communicate(timeout=60)
    assert (status["state"], status["completed_partitions"]) == ("SUCCEEDED", 9)
    again = status["runs"][1]
    assert (again["chunk_index"], again["round"]) == (1, 2)
    shown = servo.text("runs", "show", again["run_id"])
    assert f"backfill {id}, chunk 1, round 2" in shown
    preview = servo.json("backfill", "preview", *JANUARY)
    assert (preview["up_to_date"], preview["tasks"]) == (9, 0)
    more = servo.json("backfill", "preview", "raw.orders", "-p", "date=2025-01-01..2025-01-31")
    assert (more["up_to_date"], more["tasks"], more["is_estimate"]) == (9, 22, False)
    assert more["task_time_s"] is not None and more["unknown_assets"] == []


def test_a_backfill_is_paused_resumed_and_cancelled_by_its_first_characters(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    id = servo.json("backfill", "create", *JANUARY, "--order", "newest")["backfill_id"]
    assert servo.json("backfill", "pause", id[:14], "--reason", "outage")["reason"] == "outage"
    assert "PAUSED: outage" in servo.text("backfill", "status", id)
    assert "newest first" in servo.text("backfill", "status", id)
    assert "0 of 9 (0%)" in servo.text("backfill", "list")
    assert servo.json("backfill", "resume", id)["state"] == "RUNNING"
    assert "is CANCELLED" in servo.text("backfill", "cancel", id)
    refusal = servo.error("backfill", "pause", id, code=5)
    assert "is CANCELLED; only one that is PENDING or RUNNING" in refusal["message"]
    assert "is not the id" in servo.error("backfill", "status", "01XXXX", code=3)["message"]


def test_bad_input_is_refused_and_creates_nothing(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    create = ("backfill", "create")
    assert "-p date=" in servo.error(*create, "raw.orders", code=2)["hint"]
    threshold = servo.error(*create, *JANUARY, "--failure-threshold", "-1", code=2)
    assert threshold["hint"] == "write 10% or a number, as in 25"
    assert "there is no asset" in servo.error(*create, "raw.order", code=2)["message"]
    assert servo.run(*create, *JANUARY, "--chunk-size", "0").returncode == 2
    assert servo.json("backfill", "list")["backfills"] == []
