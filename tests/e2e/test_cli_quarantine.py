"""From a bad day to a decision about it, as a user types it."""

from __future__ import annotations

import os

import pytest

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import AssetContext, AssetIn, Gating, all_upstream, asset, daily, in_range, not_null
from servo import window

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(
    partitions=DAYS,
    checks=[in_range("amount", min=0, max=100), not_null("id")],
    gating=Gating(preset="quarantine"),
)
def orders(ctx: AssetContext) -> pa.Table:
    return pa.table({"id": [1, 2], "amount": [ctx.config.get("lowest", 1), 2]})


@asset(partitions=DAYS)
def totals(orders: AssetIn["orders"]) -> pa.Table:
    return pa.table({"total": [sum(orders.arrow()["amount"].to_pylist())]})


@asset(partitions=DAYS)
def weekly(totals: AssetIn["totals", window(-6, 0)]) -> pa.Table:
    return totals.arrow()


@asset
def ever(totals: AssetIn["totals", all_upstream]) -> pa.Table:
    return totals.arrow()
"""
DAY = ("-p", "date=2025-01-01")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """A good version, and three that are held back: the newest first."""
    servo = Servo(tmp_path_factory.mktemp("quarantine"))
    servo.store.mkdir()
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    assert servo.text("quarantine", "list") == "no output is held\n"
    servo.json("deploy", "--project", str(folder))
    servo.json("run", "*", *DAY)
    for lowest in (-1, -2, -3):
        servo.json("run", "shop.orders", *DAY, "--config", f"lowest={lowest}", code=1)
    return servo


def test_a_bad_day_is_held_back_looked_at_and_decided(shop: Servo) -> None:
    outputs = shop.json("quarantine", "list")["outputs"]
    assert [o["status"] for o in outputs] == ["QUARANTINED"] * 3
    third, second, first = (o["materialization_id"] for o in outputs)
    partition, _ = shop.json("partitions", "status", "shop.orders")["ranges"]
    assert (partition["state"], partition["quality"]) == ("MATERIALIZED", "QUARANTINED")
    assert partition["last_attempt"]["last"] == third
    assert (partition["current"]["version"], partition["current"]["rows"]) == (1, 2)

    shown = shop.json("quarantine", "show", second)
    assert (shown["asset"], shown["rows"]) == ("shop.orders", 2)
    assert shown["partition"] == "date=d:2025-01-01"
    assert [(c["check_name"], c["status"]) for c in shown["checks"]] == [
        ("in_range(amount)", "failed"),
        ("not_null(id)", "passed"),
    ]
    assert shown["checks"][0]["failing"] == 1
    assert shown["current"]["version"] == 1

    text = shop.text("quarantine", "show", second[:10])
    assert "1 of 2 checks failed" in text
    assert '"amount": -2' in text
    assert "version 1" in text
    listed = shop.text("quarantine", "list", "--wide")
    assert "QUARANTINED" in listed and "\\n" not in listed
    assert listed.splitlines()[0].split() == ["id", "status", "held", "output", "why"]

    said = shop.text("quarantine", "approve", second[:10], "--reason", "a refund")
    assert "shop.orders[date=2025-01-01]: approved, and current as version 2" in said
    assert "now out of date: shop.totals" in said
    assert "servo run shop.totals -p date=2025-01-01" in said
    assert "out of date in the partitions that read this: shop.ever, shop.weekly" in said
    again = shop.json("run", "shop.totals", *DAY)
    assert (again["tasks_reused"], again["tasks_succeeded"]) == (0, 1)

    older = shop.text("quarantine", "approve", first)
    assert "approved as version 3; version 2 is newer and stays current" in older
    done = shop.json("quarantine", "reject", third, "--reason", "no")
    assert (done["status"], done["is_current"], done["decided_by"]) == ("REJECTED", False, "tester")

    standing = shop.text("partitions", "status", "shop.orders").splitlines()
    # It was made with another configuration than a plan would have.
    assert standing[1].split()[:6] == ["date=2025-01-01", "1", "STALE", "REJECTED", "v_00002", "2"]
    assert standing[-1] == "date=2025-01-01: no"
    assert "deploy" in shop.error("partitions", "status", "no.such", code=3)["hint"]

    refusal = shop.error("quarantine", "approve", third, code=5)
    assert "rejected already" in refusal["message"]
    assert shop.text("quarantine", "list") == "no output is held\n"
    everything = shop.json("quarantine", "list", "--all", "--asset", "shop.orders")["outputs"]
    assert [o["decision"] for o in everything] == ["no", "a refund", ""]
    nothing = shop.text("quarantine", "list", "--asset", "shop.totals")
    assert nothing == "no output of shop.totals is held\n"


def test_what_names_nothing_says_where_to_look(shop: Servo) -> None:
    for id in ("zzzzzzzz", "abc"):
        failure = shop.error("quarantine", "show", id, code=3)
        assert "is not the id of a held output" in failure["message"]
        assert "servo quarantine list" in failure["hint"]


def test_gc_shows_leftovers_and_removes_them_when_told(shop: Servo) -> None:
    folder = shop.store / "default/main/data/shop/orders/date=d:2025-01-31" / ("01J" + "0" * 23)
    folder.mkdir(parents=True)
    leftover = folder / "part-00000.parquet"
    leftover.write_bytes(b"half")
    assert shop.text("gc") == "nothing to remove\n"  # it may still be written to
    os.utime(leftover, (0, 0))
    found = shop.json("gc")
    assert (found["dry_run"], found["given_up"], found["bytes"]) == (True, [], 4)
    assert [(d["why"], d["asset"]) for d in found["doomed"]] == [("leftover", "shop.orders")]
    assert "this was a dry run; run with --apply to delete them" in shop.text("gc")
    assert leftover.exists()
    assert "removed 0 versions, 1 file, 4 B" in shop.text("gc", "--apply")
    assert not leftover.exists()
    assert shop.text("gc") == "nothing to remove\n"
