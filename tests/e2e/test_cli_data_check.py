"""Data that was lost or damaged, as a user finds out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import AssetIn, asset, static

NAMESPACE = "shop"


@asset(partitions=static("region", ["north", "south"]))
def orders() -> pa.Table:
    return pa.table({"name": [f"customer {n}" for n in range(1000)]})


@asset(partitions=static("region", ["north", "south"]))
def names(orders: AssetIn["orders"]) -> pa.Table:
    return orders.arrow()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Servo:
    servo = Servo(tmp_path)
    servo.store.mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.json("deploy", "--project", str(folder))
    servo.json("run", "*")
    return servo


def test_lost_and_damaged_data_is_found_and_told(shop: Servo) -> None:
    good = shop.json("admin", "fsck", "--data", "--whole")
    assert (good["clean"], good["data"]["versions"], good["data"]["findings"]) == (True, 4, [])
    assert "data clean: 4 current versions, 4 files" in shop.text("admin", "fsck", "--data")

    north, south = sorted(shop.store.rglob("data/shop/orders/*/*/*.parquet"))
    data = bytearray(north.read_bytes())
    data[len(data) // 3] ^= 1
    north.write_bytes(data)
    assert shop.json("admin", "fsck", "--data")["clean"]
    (flipped,) = shop.json("admin", "fsck", "--data", "--whole", code=1)["data"]["findings"]
    assert "shop.orders[region=north] is damaged" in flipped["message"]
    assert "servo run shop.orders -p region=north --force" in flipped["message"]

    shutil.rmtree(south.parent)
    assert shop.json("admin", "fsck")["clean"]
    for how in ("--quick", "--data"):
        found = shop.json("admin", "fsck", "--data", how, code=1)["data"]["findings"]
        (lost,) = [each["message"] for each in found]
        assert "shop.orders[region=south] is damaged: 1 of 1 files are missing" in lost

    assert "0 tasks to run" in shop.text("plan", "*")
    shop.json("admin", "fsck", "--data", "--record", code=1)
    tasks = shop.json("plan", "*")["spec"]["tasks"]
    assert {(t["asset"], t["partition"]) for t in tasks if t["action"] == "run"} == {
        ("shop.orders", "region=s:south"),
        ("shop.names", "region=s:south"),
    }
    reasons = {t["reason"] for t in tasks if t["asset"] == "shop.orders"}
    assert any("files of its current version are missing or damaged" in each for each in reasons)

    run = shop.json("run", "shop.names", "--force", code=1)
    errors = {task["partition"]: task for task in run["tasks"]}
    for region, code in (("north", "input.corrupt"), ("south", "input.missing")):
        task = errors[f"region=s:{region}"]
        assert task["error_code"] == code
        assert f"shop.orders[region={region}] is damaged" in task["error_message"]
        command = f"servo run shop.orders -p region={region} --force"
        assert task["error_hint"] == f"run it again with `{command}`"
        shop.json(*command.split()[1:])
    assert shop.json("admin", "fsck", "--data", "--whole")["clean"]
