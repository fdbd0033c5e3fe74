"""Looking into versions, comparing and quarantining them, as a user types it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import AssetContext, AssetIn, asset, column, daily, static

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(
    partitions=DAYS,
    columns=[column("id", "bigint"), column("mail", "string", pii="email")],
    config={"n": 2},
)
def orders(ctx: AssetContext) -> pa.Table:
    n = int(ctx.config["n"])
    ids = list(range(n))
    mails = [f"{i}@x.org" for i in ids]
    return pa.table({"id": ids, "mail": mails, "amount": [i * n for i in ids]})


@asset(partitions=DAYS)
def report(
    orders: AssetIn, first: AssetIn = AssetIn("orders", version=1)
) -> pa.Table:
    return pa.table({"now": [orders.arrow().num_rows], "first": [first.arrow().num_rows]})


@asset(partitions=static("region", ["it's \\"x\\"", "..", "a,b=c", "=cmd|' /C calc'!A0"]))
def odd(ctx: AssetContext) -> pa.Table:
    return pa.table({"it's": [str(ctx.partition_value("region"))], 'x"; --': ["=1+1"]})
"""
DAY = ("-p", "date=2025-01-01")
REGIONS = ['it\'s "x"', "..", "a,b=c", "=cmd|' /C calc'!A0"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """Three versions of a day's orders: of 2, 3 and 4 rows."""
    servo = Servo(tmp_path_factory.mktemp("versions"))
    servo.store.mkdir()
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.json("deploy", "--project", str(folder))
    for n in (2, 3, 4):
        servo.json("run", "shop.orders", *DAY, "--config", f"n={n}")
    return servo


def noted(servo: Servo, *arguments: str) -> tuple[str, str]:
    """What a command prints, and its notes."""
    done = servo.run(*arguments)
    assert done.returncode == 0, done
    assert "\x1b" not in done.stdout
    return done.stdout, done.stderr


def numbers(document: Any) -> list[tuple[int, str, bool]]:
    return [(v["version"], v["status"], v["is_current"]) for v in document["versions"]]


def test_a_version_is_looked_into_compared_quarantined_and_released(shop: Servo) -> None:
    out, notes = noted(shop, "show", "shop.orders", *DAY, "--limit", "2")
    assert out.splitlines()[1].split() == ["0", "***", "0", "2025-01-01"]
    assert "2 rows of 4 of shop.orders[date=2025-01-01], version 3" in notes
    assert "masked: mail" in notes
    seen = shop.json("show", "shop.orders", "--version", "1", *DAY, "--columns", "mail", "--reveal")
    assert seen["rows"] == [{"mail": "0@x.org"}, {"mail": "1@x.org"}]

    runs = shop.json("runs", "list")["runs"]
    second = runs[1]["run_id"]
    then = shop.json("show", "shop.orders", "--as-of-run", second[:12], "--columns", "id")
    assert (then["version"], then["total_rows"]) == (2, 3)
    outputs = shop.json("runs", "outputs", second)
    assert [(o["asset"], o["version"]) for o in outputs["materializations"]] == [("shop.orders", 2)]
    assert "v_00002" in shop.text("runs", "outputs", second)
    assert (
        "mutually exclusive"
        in shop.error("show", "shop.orders", "--as-of", "1d", "-g", "1", code=2)["message"]
    )

    changes = shop.json("compare", "shop.orders", *DAY, "1", "current", "--key", "id")["keys"]
    assert [changes[kind] for kind in ("added", "removed", "changed", "same")] == [2, 0, 1, 1]
    text = shop.text("compare", "shop.orders", *DAY, "1", "3", "--key", "id")
    assert "2 added, 0 removed, 1 changed, 1 the same" in text
    assert "changed  id=1  amount: 2 → 4" in text and "mail: ***" in text
    (file,) = shop.json("partitions", "files", "shop.orders", *DAY)["files"]
    assert file["row_count"] == 4
    bounds = {c["name"]: (c["min"], c["max"]) for c in file["columns"]}
    assert bounds == {"id": ("0", "3"), "mail": (None, None), "amount": ("0", "12")}

    made = shop.json("run", "shop.report", *DAY)
    assert made["tasks_succeeded"] == 1
    assert shop.json("show", "shop.report")["rows"][0] | {"date": ""} == {
        "now": 4,
        "first": 2,
        "date": "",
    }

    said = shop.text("quarantine", "add", "shop.orders", *DAY, "--reason", "too many")
    assert "shop.orders[date=2025-01-01]: version 3 is in quarantine; version 2 is current" in said
    assert "now out of date: shop.report" in said
    assert (
        "the reason is empty"
        in (
            shop.error("quarantine", "add", "shop.orders", *DAY, "--reason", " ", code=2)["message"]
        )
    )
    for version in ((), ("--version", "3")):
        again = shop.json("quarantine", "add", "shop.orders", *DAY, *version)
        assert (again["is_new"], again["version"], again["held_by"]) == (False, 3, "tester")
        assert again["reason"] == "too many"
    assert "give --version to hold an older one" in shop.text("quarantine", "add", "shop.orders")
    history = shop.json("partitions", "history", "shop.orders", *DAY)
    assert numbers(history) == [(3, "QUARANTINED", False), (2, "GOOD", True), (1, "GOOD", False)]
    assert [v["rows_change"] for v in history["versions"]] == [1, 1, None]
    assert history["versions"][0]["hold"]["reason"] == "too many"
    assert "held by tester" in shop.text("partitions", "history", "shop.orders")
    shop.json("run", "shop.report", *DAY)
    assert shop.json("show", "shop.report")["rows"][0]["now"] == 3

    id = history["versions"][0]["materialization_id"]
    release = ("quarantine", "release", id[:12], "--reason", "it was a sale")
    released = shop.text(*release)
    assert "released, and current as version 3" in released
    assert "now out of date: shop.report" in released
    assert "already released by tester" in shop.text(*release)
    assert numbers(shop.json("partitions", "history", "shop.orders"))[0] == (3, "GOOD", True)

    shop.json("quarantine", "add", "shop.orders", *DAY, "--version", "1")
    refusal = shop.error("plan", "shop.report", *DAY, code=2)
    assert "reads version 1 of shop.orders[date=2025-01-01]" in refusal["message"]
    assert "servo partitions history" in refusal["hint"]
    held = shop.json("quarantine", "list")["outputs"]
    assert [row["held_by"] for row in held] == ["tester"]


def test_a_partition_without_a_good_version_offers_its_release_and_no_run(shop: Servo) -> None:
    day = ("-p", "date=2025-01-02")
    for asset in ("shop.orders", "shop.report"):
        shop.json("run", asset, *day)
    held = shop.text("quarantine", "add", "shop.orders", *day, "--reason", "half of it")
    assert "now out of date: shop.report" in held and "servo run" not in held
    refusal = shop.error("plan", "shop.report", *day, code=2)
    assert "shop.orders[date=2025-01-02], of which there is no good" in refusal["message"]
    again = shop.text("quarantine", "add", "shop.orders", *day)
    assert "version 1 is already held" in again and "give --version" in again
    id = shop.json("quarantine", "add", "shop.orders", *day)["materialization_id"]
    released = shop.text("quarantine", "release", id)
    assert "current as version 1" in released and "out of date" not in released


def test_hostile_partitions_and_columns_are_shown_as_they_are(shop: Servo) -> None:
    shop.json("run", "shop.odd")
    for region in REGIONS:
        seen = shop.json("show", "shop.odd", "-p", f"region={region}")
        assert seen["rows"] == [{"it's": region, 'x"; --': "=1+1", "region": region}]
        key = ("--key", "it's")
        same = shop.json("compare", "shop.odd", "-p", f"region={region}", "1", "1", *key)["keys"]
        assert (same["same"], same["added"]) == (1, 0)
    nothing = shop.error("show", "shop.odd", "-p", "region=../..", code=3)
    assert "shop.odd has no partition region=../.." in nothing["message"]
