"""What tasks took, and what that comes to, as a user types it."""

from __future__ import annotations

import pytest

from arco.cli.costs import amount, duration
from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import AssetIn, asset

NAMESPACE = "shop"


@asset
def orders() -> pa.Table:
    return pa.table({"amount": [1, 2, 3]})


@asset
def totals(orders: AssetIn["orders"]) -> pa.Table:
    return pa.table({"total": [sum(orders.arrow()["amount"].to_pylist())]})


@asset
def broken() -> pa.Table:
    raise ValueError("no")
"""
PRICES = '[prices]\ncpu_hour = "3600"\nread_gib = "1000000"\n'
SUMMED = ("tasks", "attempts", "cpu_ms", "memory_kib_ms", "bytes_read", "bytes_written")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    servo = Servo(tmp_path_factory.mktemp("costs"))
    servo.store.mkdir()
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    assert servo.text("costs").startswith("no task has ended since")
    servo.json("deploy", "--project", str(folder))
    servo.json("run", "shop.orders", "shop.totals")
    servo.run("run", "shop.broken")
    (servo.directory / "prices.toml").write_text(PRICES)
    return servo


def test_days_are_counted_back_from_the_moment_that_is_asked_for(shop: Servo) -> None:
    now = shop.json("costs")
    before = shop.json("costs", "--generation", str(now["generation"]))
    assert before["total"] == now["total"] and before["since"] == now["since"]
    assert shop.run("costs", "--days", "999999999").returncode == 2


@pytest.mark.parametrize("by", ["asset", "day", "asset,day", "run"])
def test_lines_add_up_to_the_total(shop: Servo, by: str) -> None:
    found = shop.json("costs", "--by", by, "--pricing", "prices.toml")
    names = {"run_id"} if by == "run" else set(by.split(","))
    assert all(names <= set(line) for line in found["lines"])
    for name in SUMMED:
        assert sum(line[name] for line in found["lines"]) == found["total"][name], name
    nanos = [line["cost_nanos"].get("USD", 0) for line in found["lines"]]
    assert sum(nanos) == found["total"]["cost_nanos"]["USD"] > 0
    assert found["total"]["tasks"] == 3
    assert found["total"]["failed_attempts"] == 1


def test_usage_is_there_without_prices_and_the_way_to_give_them(shop: Servo) -> None:
    text = shop.text("costs")
    assert "shop.orders" in text and "total" in text
    assert 'pricing = "pricing.toml"' in text
    assert "1 attempt failed; their cost is included" in text
    found = shop.json("costs")["total"]
    assert (found["cost_nanos"], found["unpriced_attempts"]) == ({}, 3)


def test_assets_are_chosen_by_a_pattern(shop: Servo) -> None:
    found = shop.json("costs", "--asset", "shop.t*")
    assert [line["asset"] for line in found["lines"]] == ["shop.totals"]
    assert found["total"]["bytes_read"] > 0
    assert "no task of other.* has ended" in shop.text("costs", "--asset", "other.*")


def test_prices_of_the_file_are_in_the_table(shop: Servo) -> None:
    text = shop.text("costs", "--by", "asset,day", "--pricing", "prices.toml")
    assert "USD" in text and "100%" in text
    assert "had no prices" not in text
    missing = shop.error("costs", "--pricing", "none.toml", code=3)
    assert "none.toml" in missing["message"]


def test_amounts_and_durations() -> None:
    assert [duration(ms) for ms in (7, 12_340, 250_000, 11_100_000)] == [
        "7ms",
        "12.3s",
        "4m10s",
        "3h05m",
    ]
    assert amount(1_234_567_890_123, 2) == "1,234.57"
    assert amount(1_234, 6) == "0.000001"
