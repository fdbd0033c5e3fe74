"""`servo status`, `servo logs` and `servo assets`, as a user types them."""

from __future__ import annotations

import json
import signal
from typing import IO

import pytest

from tests.e2e.conftest import Servo, names

SHOP = """
import pyarrow as pa

from servo import AssetContext, AssetIn, Freshness, asset, daily, row_count, schedule

NAMESPACE = "shop"
DAYS = daily("date", start="2026-01-01", end="2026-02-01")


@asset(partitions=DAYS, retry=1, config={"rows": 4, "broken": False}, owners=["ana"])
def orders(ctx: AssetContext) -> pa.Table:
    print("reading", ctx.partition_value("date"))
    if ctx.config["broken"]:
        raise ValueError("the source is down")
    rows = ctx.config["rows"]
    return pa.table({"id": pa.array(range(rows), pa.int64())})


@asset(partitions=DAYS, checks=[row_count(min=1)], gating="quarantine")
def totals(orders: AssetIn) -> pa.Table:
    print("adding up")
    return orders.arrow()


@asset(freshness=Freshness(max_age="1s"))
def report() -> pa.Table:
    return pa.table({"n": [1]})


schedule("nightly", cron="15 3 * * *", selection=["shop.report"])
"""
HELD, BROKEN = "date=2026-01-02", "date=2026-01-03"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """A day whose totals are held, a broken day, and a report that is too old."""
    servo = Servo(tmp_path_factory.mktemp("status"))
    servo.store.mkdir()
    (servo.directory / "shop.py").write_text(SHOP)
    servo.json("deploy")
    servo.json("run", "shop.report")
    servo.json("run", "shop.totals", "shop.orders", "-p", HELD, "--config", "rows=0", code=1)
    servo.json("run", "shop.orders", "-p", BROKEN, "--config", "broken=true", code=1)
    return servo


def test_status_has_what_failed_what_is_stale_what_is_held_and_what_comes(shop: Servo) -> None:
    answer = shop.json("status")
    (failed,) = answer["failed"]
    assert (failed["asset"], failed["partition"]) == ("shop.orders", "date=d:2026-01-03")
    assert (failed["message"], failed["partitions"]) == ("the source is down", 1)
    assert names(answer["held"], "asset") == ["shop.totals"]
    assert names(answer["stale"], "asset") == ["shop.report"]
    assert names(answer["next"], "schedule") == ["main/nightly"]
    assert (answer["assets"], answer["running"], answer["paused"]) == (3, [], None)
    text = shop.text("status")
    for part in ("failed: 1 asset", "stale: 1", "1 output in quarantine", "running: none"):
        assert part in text


def test_status_of_an_earlier_generation_is_as_it_was_then(shop: Servo) -> None:
    answer = shop.json("status", "--generation", "1")
    assert (answer["generation"], answer["failed"], answer["held"]) == (1, [], [])


def test_a_pause_is_said(shop: Servo) -> None:
    shop.json("pause", "--reason", "upgrade")
    try:
        assert shop.json("status")["paused"]["reason"] == "upgrade"
        assert "dispatch is paused by tester: upgrade" in shop.text("status")
    finally:
        shop.json("resume")


def test_watch_shows_each_change_until_it_is_interrupted(shop: Servo) -> None:
    process = shop.start("status", "--watch", "--json", "--interval", "0.1")
    first = _line(process.stdout)
    assert first["paused"] is None
    shop.json("pause", "--reason", "watched")
    second = _line(process.stdout)
    shop.json("resume")
    assert second["paused"]["reason"] == "watched"
    assert second["generation"] > first["generation"]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130


def _line(stream: IO[str]) -> dict[str, dict[str, str]]:
    answer: dict[str, dict[str, str]] = json.loads(stream.readline())
    return answer


def test_watch_refuses_a_moment_in_the_past(shop: Servo) -> None:
    error = shop.error("status", "--watch", "--generation", "1", code=2)
    assert error["message"] == "--watch shows the newest generation"


def test_logs_are_those_of_the_newest_run_and_of_the_newest_run_of_an_asset(shop: Servo) -> None:
    newest = shop.json("runs", "list", "--limit", "1")["runs"][0]["run_id"]
    assert shop.json("logs")["run_id"] == newest
    (log,) = shop.json("logs", "shop.totals")["logs"]
    assert log["task"] == "shop.totals[date=2026-01-02]"
    earlier = shop.json("logs", "shop.totals")["run_id"]
    assert earlier != newest
    (log,) = shop.json("logs", earlier, "shop.orders")["logs"]
    assert "reading 2026-01-02" in log["text"]
    assert shop.json("logs", earlier[:12])["run_id"] == earlier
    assert "the source is down" in shop.text("logs", "--follow")


def test_assets_are_found_by_a_part_and_by_a_pattern(shop: Servo) -> None:
    everything = shop.json("assets")
    assert names(everything["assets"], "asset") == ["shop.orders", "shop.report", "shop.totals"]
    assert names(everything["assets"], "health") == ["WARNING", "UNHEALTHY", "UNHEALTHY"]
    assert names(shop.json("assets", "REPORT")["assets"], "asset") == ["shop.report"]
    assert names(shop.json("assets", "shop.*r*s")["assets"], "asset") == ["shop.orders"]
    assert shop.json("assets", "--limit", "1")["total"] == 3
    assert "did you mean 'shop.orders'?" in shop.text("assets", "shop.oders")
