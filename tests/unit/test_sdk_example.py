"""The example project: it is sound, and its functions run without a platform."""

from __future__ import annotations

import logging
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from servo import AssetContext, AssetIn, AssetOut
from servo.asset import AssetDefinition
from servo.contract.manifest import Manifest
from servo.contract.partition import PartitionKey
from servo.discover import build_manifest, discover

ROOT = Path(__file__).resolve().parents[2] / "examples" / "pipelines"


@pytest.fixture(scope="module")
def assets() -> dict[str, AssetDefinition[..., Any]]:
    found = discover(ROOT).assets
    return {each.name: each for each in found if isinstance(each, AssetDefinition)}


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return build_manifest(discover(ROOT))


def holding(table: pa.Table) -> AssetIn:
    return AssetIn("shop.any", reader=lambda given, shape: table)


def context(region: str = "eu") -> AssetContext:
    return AssetContext(
        tenant_id="acme",
        workspace_id="main",
        run_id="run",
        task_id="task",
        attempt=1,
        asset="shop.orders",
        partition=PartitionKey({"date": date(2025, 1, 4), "region": region}),
        config={"channel": "sales"},
        secrets={"api_token": "x"},
        log=logging.getLogger("shop"),
        on_progress=lambda percent, message: None,
        is_cancelled=lambda: False,
    )


def test_the_manifest_holds_the_whole_project(manifest: Manifest) -> None:
    assert {asset.key: [i.asset for i in asset.inputs] for asset in manifest.assets} == {
        "shop.announcement": ["shop.weekly_trend"],
        "shop.daily_totals": ["shop.sales"],
        "shop.orders": ["shop.products"],
        "shop.products": [],
        "shop.sales": ["shop.orders", "shop.products"],
        "shop.weekly_trend": ["shop.daily_totals"],
    }
    assert [schedule.name for schedule in manifest.schedules] == ["nightly"]


def test_the_functions_can_be_called_one_after_the_other(
    assets: dict[str, AssetDefinition[..., Any]],
) -> None:
    products = holding(assets["products"]())
    sales = []
    for region in ("eu", "us"):
        orders = assets["orders"](context(region))
        assert isinstance(orders, AssetOut)
        sales.append(assets["sales"](holding(orders.data), products))
    totals = assets["daily_totals"](holding(pa.concat_tables(sales)))
    trend = assets["weekly_trend"](holding(totals))
    assert trend.to_pylist() == [{"value_cents": 2 * (120 + 2 * 450 + 300 + 2 * 120)}]
    assets["announcement"](context())
