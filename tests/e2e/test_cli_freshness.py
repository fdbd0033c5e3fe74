"""Freshness and the status of partitions from the command line."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_cli_flow import deploy

FLOW = """
from servo import AssetIn, Freshness, asset, daily, static
NAMESPACE = "raw"
DAYS = daily("date", start="2026-01-01", end="2026-02-01")

@asset(partitions=DAYS, freshness=Freshness(max_age="6h", request_run=True))
def orders() -> list[dict]:
    return [{"x": 1}]

@asset(partitions=DAYS)
def cleaned(orders: AssetIn["orders"]) -> list[dict]:
    return [{"x": 1}]

@asset(partitions=static("region", ["eu", "us"]), freshness=Freshness(max_age="2d"))
def rates() -> list[dict]:
    return [{"x": 1}]

@asset
def broken() -> list[dict]:
    raise ValueError("no way")
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    servo = Servo(tmp_path_factory.mktemp("freshness"))
    servo.store.mkdir()
    deploy(servo, FLOW, "flow.py")
    servo.json("run", "raw.orders", "raw.cleaned", "-p", "date=2026-01-05..2026-01-07")
    servo.json("run", "raw.orders", "-p", "date=2026-01-06", "--force")
    servo.json("run", "raw.rates", "-p", "region=eu")
    servo.json("run", "raw.broken", code=1)
    return servo


def test_what_is_stale_is_listed_with_the_reason(shop: Servo) -> None:
    entries = shop.json("freshness")["freshness"]
    assert [(e["asset"], e["series"], e["status"]) for e in entries] == [
        ("raw.orders", "", "STALE"),
        ("raw.rates", "region=s:eu", "FRESH"),
        ("raw.rates", "region=s:us", "FRESH"),
    ]
    stale = entries[0]
    assert (stale["partition"], stale["newest"]) == ("date=d:2026-01-31", "date=d:2026-01-07")
    assert stale["due_at"].startswith("2026-01-09T06:00:00")
    assert entries[2]["reason"].startswith("not materialized yet; due at 20")
    text = shop.text("freshness", "--stale", "--wide")
    assert "date=2026-01-31 is missing; the newest is date=2026-01-07" in text
    assert "raw.rates" not in text
    assert "not materialized yet; due at 20" in shop.text("freshness", "raw.rates", "--wide")
    assert shop.json("freshness", "raw.rates", "--stale")["freshness"] == []
    assert "nothing is stale" in shop.text("freshness", "raw.rates", "--stale")
    assert "no such asset has a freshness policy" in shop.text("freshness", "raw.cleaned")
    assert len(shop.json("freshness", "--limit", "1")["freshness"]) == 1


def test_partitions_are_listed_as_ranges_of_equal_status(shop: Servo) -> None:
    document = shop.json("partitions", "status", "raw.cleaned")
    assert [(r["first"], r["last"], r["state"], r["quality"]) for r in document["ranges"]] == [
        ("date=d:2026-01-01", "date=d:2026-01-04", "MISSING", "UNKNOWN"),
        ("date=d:2026-01-05", "date=d:2026-01-05", "MATERIALIZED", "PASSED"),
        ("date=d:2026-01-06", "date=d:2026-01-06", "STALE", "PASSED"),
        ("date=d:2026-01-07", "date=d:2026-01-07", "MATERIALIZED", "PASSED"),
        ("date=d:2026-01-08", "date=d:2026-01-31", "MISSING", "UNKNOWN"),
    ]
    assert document["ranges"][0]["partition"] == "date=2026-01-01..2026-01-04"
    assert (document["partitions"], document["stale_known"], document["more"]) == (31, True, False)
    assert sum(each["partitions"] for each in document["counts"]) == 31
    lines = shop.text("partitions", "status", "raw.cleaned", "--state", "missing").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["date=2026-01-01..2026-01-04", "4", "MISSING"],
        ["date=2026-01-08..2026-01-31", "24", "MISSING"],
    ]
    some = shop.json("partitions", "status", "raw.cleaned", "-p", "date=2026-01-04..2026-01-05")
    assert [each["state"] for each in some["ranges"]] == ["MISSING", "MATERIALIZED"]
    each = shop.json("partitions", "status", "raw.cleaned", "--each", "--limit", "2")
    assert [r["partitions"] for r in each["ranges"]] == [1, 1] and each["more"] is True


def test_an_asset_without_partitions_has_one_status(shop: Servo) -> None:
    (entry,) = shop.json("partitions", "status", "raw.broken")["ranges"]
    assert (entry["state"], entry["quality"]) == ("FAILED", "UNKNOWN")
    assert "no way" in shop.text("partitions", "status", "raw.broken")


def test_sql_has_the_two_columns(shop: Servo) -> None:
    query = "SELECT state, quality, count(*) AS n FROM execution.partition_status GROUP BY ALL"
    rows = shop.json("admin", "sql", query)["rows"]
    assert {(row["state"], row["quality"]): row["n"] for row in rows} == {
        ("MATERIALIZED", "PASSED"): 7,
        ("FAILED", "UNKNOWN"): 1,
    }
