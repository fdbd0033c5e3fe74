"""`examples/shop` on Spark, at a tiny size, against sums that DuckDB makes of its raw files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.execution.tables import QUARANTINE, QuarantineRow
from arco.orchestration.personal_data import PersonalDataReader
from arco.orchestration.plan import PlanRequest
from arco.spark.settings import SparkSettings
from arco.worker.artifact import digest
from arco.worker.packing import pack
from servo.contract.manifest import Manifest
from servo.contract.partition import PartitionKey
from servo.discover import build_manifest, discover
from servo.errors import Invalid
from tests.kit.planning import World, planned

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"
SIZE: dict[str, str | int | bool | None] = {"rows_per_day": 400, "customers": 60, "products": 20}
FAST = SparkSettings(master="local[2]", fast_start=True, conf={"spark.driver.memory": "1g"})
KINDS = {
    "row_count",
    "not_null",
    "unique",
    "accepted_values",
    "in_range",
    "matches",
    "freshness",
    "schema_is",
    "row_count_change",
    "references",
    "expression",
    "python",
}


def manifest() -> tuple[Manifest, bytes]:
    artifact = pack(SHOP)
    return build_manifest(discover(SHOP), digest(artifact)), artifact


def test_every_kind_of_check_phase_and_severity_is_there() -> None:
    checks = [check for asset in manifest()[0].assets for check in asset.checks]
    assert {check.kind for check in checks} == KINDS
    assert {check.phase for check in checks} == {"before", "after"}
    assert {check.severity for check in checks} == {"info", "warning", "error", "critical"}


def test_personal_columns_are_declared_where_they_come_in() -> None:
    assets = manifest()[0].assets
    personal = {
        (asset.key, column.name) for asset in assets for column in asset.columns if column.pii
    }
    assert personal == {
        ("raw.customers", "name"),
        ("raw.customers", "email"),
        ("raw.clicks", "ip"),
        ("raw.clicks", "visitor"),
    }


def test_a_deprecation_and_a_rename_are_there() -> None:
    assets = {asset.key: asset for asset in manifest()[0].assets}
    assert assets["clean.sessions"].renamed_from == "clean.visits"
    deprecated = {key: asset.deprecated for key, asset in assets.items() if asset.deprecated}
    assert deprecated == {
        "marts.weekly_revenue": "sum up marts.daily_revenue over the days that you need"
    }


def test_a_new_day_puts_its_own_month_out_of_date_and_no_other() -> None:
    shop, world = manifest()[0], World()
    days = [date(2025, 1, 1) + timedelta(days=n) for n in range(90)]
    world.make("marts.daily_revenue", *(f"date=d:{day}" for day in days))

    def run() -> list[str]:
        months = ("month=2025-01..2025-04",)
        spec = planned(
            shop,
            "marts.monthly_revenue",
            world=world,
            partitions=months,
            until=datetime(2026, 1, 1),
        )
        world.run(shop, spec)
        return [task.partition for task in spec.tasks if task.action == "run"]

    with pytest.raises(
        Invalid, match=r"\[date=2025-04-01\] to \[date=2025-04-30\], which have no data"
    ):
        run()
    world.make("marts.daily_revenue", "date=d:2025-04-01")
    assert len(run()) == 4
    world.make("marts.daily_revenue", "date=d:2025-04-02")
    assert run() == ["month=d:2025-04-01"]
    world.make("marts.daily_revenue", "date=d:2025-02-28")
    assert run() == ["month=d:2025-02-01"]
    assert run() == []


class Ran:
    """The shop after its runs: good days, a bad one, that one again, and one spoilt later."""

    def __init__(self, engine: LocalEngine, store: Path) -> None:
        self._engine = engine
        self._store = store / "test" / "main"
        self.workspace = engine.workspace
        shop, artifact = manifest()
        replace = msgspec.structs.replace
        # What runs is asked for below, one after the other.
        assets = tuple(replace(asset, automation=None) for asset in shop.assets)
        self.workspace.commands.orchestration.deploy(replace(shop, assets=assets), artifact)
        self.good = self.run("*", "2025-01-01..2025-01-03")
        self.month_before = self.current("marts.monthly_revenue")
        self.bad = self.run("*", "2025-01-04")
        self.month_during = self.current("marts.monthly_revenue")
        self.mended = self.run("raw.orders+", "2025-01-04", bad_day="never")
        self.orders_before = self.current("clean.orders")
        self.spoilt = self.run("raw.orders+", "2025-01-02", bad_day="2025-01-02")

    def run(self, selection: str, days: str, **config: str) -> dict[str, tuple[str, str]]:
        """State and gate of each task, by asset and day."""
        request = PlanRequest(
            selection=(selection,),
            partitions=(f"date={days}", "month=2025-01"),
            config={**SIZE, **config},
        )
        triggered = self.workspace.commands.orchestration.trigger(request)
        row = self._engine.wait(triggered.run_id)
        tasks = self.workspace.read.orchestration().tasks(row.run_id)
        assert row.state == "SUCCEEDED", [
            (task.asset_key, task.partition_key, task.error_message) for task in tasks
        ]
        return {
            f"{task.asset_key} {_key(task.partition_key)}".strip(): (task.state, task.gate)
            for task in tasks
        }

    def current(self, asset: str) -> dict[str, str]:
        """The folder of each partition's current version, by its key."""
        row = self.workspace.read.orchestration().deployed_assets()[asset]
        found = self.workspace.read.execution().partitions(row.asset_id)
        return {_key(each.partition_key): each.path for each in found}

    def held(self) -> list[QuarantineRow]:
        rows = self.workspace.read.snapshot().all(QUARANTINE)
        return sorted(rows, key=lambda row: row.held_at)

    def table(self, asset: str) -> str:
        """All of an asset's current rows, for DuckDB, with their partition as `day`."""
        parts = [
            f"SELECT *, '{key}' AS day FROM read_parquet('{self._store / path}/*.parquet')"
            for key, path in sorted(self.current(asset).items())
        ]
        return f"({' UNION ALL '.join(parts)})"

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = duckdb.connect(":memory:").execute(sql).fetchall()
        return sorted(found)

    def expected_sales(self) -> str:
        """What `clean.sales` should hold, from the raw files alone."""
        return f"""(
            WITH orders AS (SELECT DISTINCT * FROM {self.table("raw.orders")}),
            rates(currency, rate) AS (VALUES ('EUR', 1.00), ('USD', 0.92), ('GBP', 1.17))
            SELECT
              o.day, o.order_id, o.ordered_at, o.customer_id,
              upper(trim(c.country)) AS country, p.category,
              CAST(o.quantity * o.unit_price * r.rate AS DECIMAL(14, 2))
                * CASE o.status WHEN 'refunded' THEN -1 ELSE 1 END AS revenue
            FROM orders o
            JOIN rates r ON r.currency = upper(trim(o.currency))
            JOIN {self.table("raw.customers")} c USING (customer_id)
            JOIN {self.table("raw.products")} p USING (sku)
            WHERE o.status <> 'cancelled'
        )"""


def _key(partition: str) -> str:
    return " ".join(str(value) for value in PartitionKey.parse(partition).dimensions.values())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    store = tmp_path_factory.mktemp("shop")
    workspace = Workspace.open(f"file://{store}", "test", "main", spark=FAST)
    with LocalEngine(workspace, slots=2).running() as engine:
        yield Ran(engine, store)


def test_good_days_run_through(shop: Ran) -> None:
    assert {state for state, _ in shop.good.values()} == {"SUCCEEDED"}
    assert {gate for _, gate in shop.good.values()} <= {"", "warn"}
    assert len(shop.good) == 4 + 3 * 9 + 2


def test_bad_day_goes_into_quarantine_and_what_needs_it_is_skipped(shop: Ran) -> None:
    assert shop.bad["clean.orders 2025-01-04"] == ("SUCCEEDED", "quarantine")
    skipped = {task for task, (state, _) in shop.bad.items() if state == "SKIPPED"}
    assert skipped == {
        "clean.sales 2025-01-04",
        "marts.daily_revenue 2025-01-04",
        "marts.conversion 2025-01-04",
        "marts.weekly_revenue 2025-01-04",
        "marts.monthly_revenue 2025-01-01",
        "marts.customer_value",
    }
    assert shop.bad["clean.sessions 2025-01-04"][0] == "SUCCEEDED"
    assert shop.month_during == shop.month_before
    held = shop.held()[0]
    assert (held.asset_key, held.partition_key) == ("clean.orders", "date=d:2025-01-04")
    assert held.reason.startswith("in_range(amount)")


def test_day_that_is_sent_again_reaches_the_marts(shop: Ran) -> None:
    assert {state for state, _ in shop.mended.values()} == {"SUCCEEDED"}
    assert shop.current("marts.monthly_revenue") != shop.month_before
    assert "2025-01-04" in shop.current("marts.weekly_revenue")


def test_consumers_read_the_good_version_while_a_later_one_is_held(shop: Ran) -> None:
    assert shop.spoilt["clean.orders 2025-01-02"] == ("SUCCEEDED", "quarantine")
    assert {state for state, _ in shop.spoilt.values()} == {"SUCCEEDED"}
    assert shop.current("clean.orders") == shop.orders_before
    assert len(shop.held()) == 2


# The last run's raw orders of 2025-01-02 are the spoilt ones, so that day is left out where
# sums are made of raw files.
GOOD_DAYS = "day <> '2025-01-02'"


def test_daily_revenue_is_what_the_raw_files_say(shop: Ran) -> None:
    expected = f"""
        SELECT day, country, category, count(*), count(DISTINCT customer_id), sum(revenue)
        FROM {shop.expected_sales()} WHERE {GOOD_DAYS} GROUP BY ALL
    """
    actual = f"""
        SELECT day, country, category, orders, customers, revenue
        FROM {shop.table("marts.daily_revenue")} WHERE {GOOD_DAYS}
    """
    assert shop.query(actual) == shop.query(expected)


def test_sliding_week_and_month_are_sums_of_their_days(shop: Ran) -> None:
    days = shop.table("marts.daily_revenue")
    for mart, groups in (("weekly_revenue", 4), ("monthly_revenue", 1)):
        upto = "d.day <= m.day" if mart == "weekly_revenue" else "true"
        expected = f"""
            SELECT m.day, country, category, sum(orders), sum(revenue), count(*)
            FROM (SELECT DISTINCT day FROM {shop.table(f"marts.{mart}")}) m
            JOIN {days} d ON {upto} GROUP BY ALL
        """
        actual = f"""
            SELECT day, country, category, orders, revenue, days
            FROM {shop.table(f"marts.{mart}")}
        """
        assert shop.query(actual) == shop.query(expected)
        assert len({row[0] for row in shop.query(actual)}) == groups


def test_customer_value_is_the_sum_of_all_sales(shop: Ran) -> None:
    expected = f"""
        SELECT customer_id, count(*), sum(revenue), min(ordered_at), max(ordered_at)
        FROM {shop.table("clean.sales")} GROUP BY ALL
    """
    actual = f"""
        SELECT customer_id, orders, revenue, first_order, last_order
        FROM {shop.table("marts.customer_value")}
    """
    assert shop.query(actual) == shop.query(expected)


def test_hashes_stand_for_tidy_addresses(shop: Ran) -> None:
    expected = f"SELECT customer_id, sha256(lower(trim(email))) FROM {shop.table('raw.customers')}"
    actual = f"SELECT customer_id, email_hash FROM {shop.table('clean.customers')}"
    assert shop.query(actual) == shop.query(expected)


def test_visits_end_after_half_an_hour_without_a_click(shop: Ran) -> None:
    clicks: dict[tuple[str, str], list[datetime]] = {}
    rows = shop.query(f"SELECT day, visitor, clicked_at FROM {shop.table('raw.clicks')}")
    for day, visitor, moment in rows:  # in order of time
        clicks.setdefault((day, visitor), []).append(moment)
    expected = sorted(
        (day, visitor, visit[0], visit[-1], len(visit))
        for (day, visitor), moments in clicks.items()
        for visit in _visits(moments)
    )
    assert expected == shop.query(
        f"SELECT day, visitor, started_at, ended_at, clicks FROM {shop.table('clean.sessions')}"
    )
    assert len(expected) > len(clicks)


def _visits(moments: list[datetime]) -> list[list[datetime]]:
    found = [[moments[0]]]
    for before, moment in pairwise(moments):
        if moment - before > timedelta(minutes=30):
            found.append([])
        found[-1].append(moment)
    return found


def test_cookies_flow_into_visits_and_hashed_addresses_end(shop: Ran) -> None:
    reader = PersonalDataReader(shop.workspace.read.snapshot())
    holding = {f"{each.asset}.{each.column}": each.pii for each in reader.everything() if each.pii}
    assert holding == {
        "raw.customers.name": ("name",),
        "raw.customers.email": ("email",),
        "raw.clicks.ip": ("ip_address",),
        "raw.clicks.visitor": ("custom:cookie",),
        "clean.clicks.visitor": ("custom:cookie",),
        "clean.sessions.visitor": ("custom:cookie",),
    }
