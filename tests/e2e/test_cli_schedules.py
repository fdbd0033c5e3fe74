"""Schedules and requests from the command line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy

FLOW = """
from servo import asset, daily, schedule
NAMESPACE = "raw"

@asset(partitions=daily("date", start="2026-01-01"))
def orders() -> list[dict]:
    return [{"x": 1}]

nightly = schedule("nightly", cron="30 2 * * *", timezone="Europe/Berlin", selection=[orders])
"""


def test_a_schedule_is_listed_paused_resumed_and_previewed(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    assert deploy(servo, FLOW, "flow.py")["changed"] is False
    (row,) = servo.json("schedules", "list")["schedules"]
    assert (row["schedule_id"], row["state"], row["cron"]) == (
        "main/nightly",
        "ACTIVE",
        "30 2 * * *",
    )
    assert row["next_tick"].endswith("T02:30")
    assert "main/nightly is PAUSED by" in servo.text(
        "schedules", "pause", "nightly", "--reason", "outage"
    )
    assert servo.json("schedules", "show", "nightly")["pause_reason"] == "outage"
    assert "none of these fires" in servo.run("schedules", "preview", "nightly").stderr
    assert servo.json("schedules", "resume", "nightly")["state"] == "ACTIVE"
    assert (
        "one of none, latest, all"
        in servo.error("schedules", "resume", "nightly", "--catchup", "some", code=2)["hint"]
    )
    assert servo.error("schedules", "show", "nightli", code=3)["hint"] == "did you mean 'nightly'?"


def test_a_preview_shows_the_clock_change_and_what_each_tick_would_run(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    preview = servo.json("schedules", "preview", "nightly", "--count", "2")
    assert preview["clock_change"] is not None
    ticks = preview["ticks"]
    assert 4 <= len(ticks) <= 5
    assert {tick["offset"] for tick in ticks} == {"+0100", "+0200"}
    assert [task["asset"] for task in ticks[0]["tasks"]] == ["raw.orders"]
    assert "clock change" in servo.text("schedules", "preview", "nightly")


def test_a_detached_run_is_a_request_that_can_be_looked_at_and_cancelled(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    requested = servo.json("run", "*", "--remote", "--detach")
    assert requested["state"] == "PENDING"
    run_id, key = requested["run_id"], requested["request_key"]
    assert "an orchestrator plans it" in servo.text("runs", "show", run_id[:12])
    assert servo.json("runs", "show", run_id)["request"]["request_key"] == key
    assert [r["state"] for r in servo.json("requests", "list")["requests"]] == ["PENDING"]
    cancelled = servo.json("runs", "cancel", run_id, "--reason", "a mistake")
    assert (cancelled["request"]["state"], cancelled["request"]["reason"]) == (
        "REFUSED",
        "a mistake",
    )
    assert servo.json("requests", "list", "--state", "pending")["requests"] == []
    assert "a mistake" in servo.text("requests", "show", key)
    assert key.startswith("manual:*@20"), "people can tell it from others"
    assert servo.json("requests", "show", run_id[:12])["request_key"] == key
    assert servo.json("runs", "show", run_id)["request"]["state"] == "REFUSED"
    assert "REFUSED already" in servo.error("runs", "cancel", run_id, code=5)["message"]


def test_a_tick_by_hand_asks_for_what_the_schedule_would_run(servo: Servo) -> None:
    deploy(servo, FLOW, "flow.py")
    requested = servo.json("schedules", "tick", "nightly", "--at", "2026-01-05T01:30Z")
    shown = servo.json("requests", "show", requested["request_key"])
    assert (shown["kind"], shown["reference"]) == ("schedule", "main/nightly@2026-01-05T02:30")
    assert shown["until"] == "2026-01-05T01:30:00.000000Z"
    assert servo.json("schedules", "show", "nightly")["ticks"] == []
    assert "schedule main/nightly, tick 2026-01-05T02:30 by tester" in servo.text(
        "requests", "list"
    )
    assert "refresh sources  yes" in servo.text("schedules", "show", "nightly")
    key = requested["request_key"]
    (cancelled,) = servo.json("requests", "cancel", key, "--reason", "twice")["requests"]
    assert (cancelled["state"], cancelled["reason"]) == ("REFUSED", "twice")
    assert "REFUSED already" in servo.error("requests", "cancel", key, code=5)["message"]
    servo.error("requests", "cancel", "nobody", code=5)


def test_an_impossible_cron_is_refused_where_it_is_written(servo: Servo) -> None:
    (servo.directory / "flow.py").write_text(FLOW.replace("30 2 * * *", "0 0 30 2 *"))
    problem = servo.error("deploy", code=2)
    assert "flow.py:9" in problem["message"] and "never fires" in problem["message"]


def test_the_clock_of_tries_moves_with_a_file_on_a_local_store_alone(
    servo: Servo, tmp_path: Path
) -> None:
    deploy(servo, FLOW, "flow.py")
    before = servo.json("schedules", "list")["schedules"][0]["next_tick"]
    (tmp_path / "clock").write_text(str(40 * 86_400))
    servo.env["ARCO_CLOCK"] = str(tmp_path / "clock")
    after = servo.json("schedules", "list")["schedules"][0]["next_tick"]
    days = (datetime.fromisoformat(after) - datetime.fromisoformat(before)).days
    assert days == 40
    refused = servo.error("schedules", "list", "--store", "s3://bucket/x", code=2)
    assert "ARCO_CLOCK" in refused["hint"]
    (tmp_path / "clock").write_text("soon")
    assert "number of seconds" in servo.error("schedules", "list", code=2)["hint"]
