"""`servo lineage`, after a run, as a user types it."""

# Keys inside AssetIn[...] are text, not names of types.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Servo
from tests.unit.test_lineage_openlineage import facets, validate

SHOP = """
import pyarrow as pa

from servo import AssetIn, asset, column, daily

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(partitions=DAYS)
def orders() -> pa.Table:
    return pa.table({"id": [1, 2], "amount": [1.5, 2.5], "email": ["a", "b"]})


@asset(partitions=DAYS, columns=[column("total", lineage=["shop.orders.amount"])])
def daily_totals(orders: AssetIn["orders"]) -> pa.Table:
    table = orders.arrow()
    return pa.table({"total": [sum(table["amount"].to_pylist())], "made": ["here"]})


@asset(partitions=DAYS, columns=[column("figure", lineage=["shop.daily_totals.total"])])
def report(daily_totals: AssetIn["daily_totals"]) -> pa.Table:
    table = daily_totals.arrow()
    return pa.table({"figure": table["total"]})
"""


@pytest.fixture(scope="module")
def servo(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    at = tmp_path_factory.mktemp("lineage")
    servo = Servo(at)
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.text("admin", "init")
    servo.json("deploy", "--project", str(folder))
    done = servo.json("run", "+shop.report", "-p", "date=2025-01-01")
    assert done["state"] == "SUCCEEDED"
    return servo


def test_a_number_is_followed_to_where_it_comes_from(servo: Servo) -> None:
    shown = servo.text("lineage", "show", "shop.report.figure")
    first, second, third = shown.splitlines()[:3]
    assert first == "shop.report.figure"
    assert "← shop.daily_totals.total  transformation" in second
    assert "← shop.orders.amount  transformation" in third
    assert "date=2025-01-01" in shown


def test_machines_get_links_coverage_and_executions(servo: Servo) -> None:
    found = servo.json("lineage", "show", "shop.report.figure", "--depth", "1")
    (link,) = found["links"]
    assert link["source"] == {"asset": "shop.daily_totals", "column": "total"}
    assert (link["kind"], link["method"], link["confidence"]) == (
        "transformation",
        "annotation",
        "high",
    )
    assert found["coverage"]["coverage_percent"] == 100
    (execution,) = found["executions"]
    assert execution["source"] == "shop.daily_totals"
    assert execution["rows_written"] == 1
    (edge,) = found["edges"]
    assert (edge["source"], edge["executions"]) == ("shop.daily_totals", 1)
    assert edge["first_seen_run"] == edge["last_seen_run"] == execution["run_id"]
    assert edge["transform"]


def test_an_asset_shows_its_columns_and_what_is_not_known(servo: Servo) -> None:
    shown = servo.text("lineage", "show", "shop.daily_totals")
    assert "total  ← shop.orders.amount transformation" in shown
    assert "made  ← unknown" in shown
    assert "50% of the columns are covered" in shown
    assert "shop.orders: 1 output, first 2" in shown


def test_impact_reaches_everything_below(servo: Servo) -> None:
    found = servo.json("lineage", "impact", "shop.orders.amount")["impact"]
    assert [(each["distance"], each["asset"], each["column"]) for each in found] == [
        (1, "shop.daily_totals", "total"),
        (2, "shop.report", "figure"),
    ]
    assert "2 assets, 2 places" in servo.text("lineage", "impact", "shop.orders.amount")
    assert servo.text("lineage", "impact", "shop.report.figure").startswith("nothing uses")


def test_down_shows_what_uses_a_column(servo: Servo) -> None:
    shown = servo.text("lineage", "show", "shop.orders.amount", "--down")
    assert "→ shop.daily_totals.total" in shown
    assert "→ shop.report.figure" in shown


def test_a_run_is_exported_as_valid_events(servo: Servo, tmp_path: Path) -> None:
    run = servo.json("runs", "list")["runs"][0]["run_id"]
    target = tmp_path / "lineage.ndjson"
    servo.text("lineage", "export", run, "--output", str(target))
    events: list[dict[str, Any]] = [json.loads(line) for line in target.read_text().splitlines()]
    assert [e["eventType"] for e in events] == ["START", "COMPLETE"] * 3
    for event in events:
        validate(event, "RunEvent")
        for facet in facets(event):
            validate(facet, facet["_schemaURL"].rpartition("/")[2])
    last = events[-1]
    assert last["job"]["name"] == "shop.report"
    assert last["inputs"][0]["name"] == "shop.daily_totals"
    made = [e for e in events if e["job"]["name"] == "shop.orders"][-1]["outputs"][0]
    columns = made["facets"]["schema"]["fields"]
    assert [each["name"] for each in columns] == ["id", "amount", "email"]
    assert all(each["type"] for each in columns)
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 2
    fields = last["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert fields["figure"]["inputFields"][0]["field"] == "total"
    nominal = last["run"]["facets"]["nominalTime"]["nominalStartTime"]
    assert nominal == "2025-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("target", "kind"),
    [("nonsense", "invalid"), ("no.such", "not_found"), ("shop.report.nothing", "not_found")],
)
def test_what_is_not_there_is_said_so(servo: Servo, target: str, kind: str) -> None:
    done = servo.run("lineage", "show", target, "--json")
    error = json.loads(done.stderr)["error"]
    assert (error["kind"], bool(error["hint"])) == (kind, True)


def test_a_column_that_no_version_of_a_source_has_is_said_so(servo: Servo) -> None:
    error = servo.error("lineage", "impact", "shop.orders.amonut", code=3)
    assert "shop.orders has no column 'amonut'" in error["message"]
    assert "amount" in error["hint"]
    unused = servo.text("lineage", "impact", "shop.orders.email")
    assert unused.startswith("nothing uses shop.orders.email")


def test_what_is_no_longer_deployed_is_marked(servo: Servo) -> None:
    """The last one here: it takes an asset away."""
    before = servo.json("lineage", "impact", "shop.orders.amount")["impact"]
    assert [each["deployed"] for each in before] == [True, True]
    kept = SHOP[: SHOP.index('@asset(partitions=DAYS, columns=[column("figure"')]
    (servo.directory / "project" / "shop.py").write_text(kept)
    servo.json("deploy", "--project", str(servo.directory / "project"))
    after = servo.json("lineage", "impact", "shop.orders.amount")["impact"]
    assert [each["deployed"] for each in after] == [True, False]
    assert "flows (no longer deployed)" in servo.text("lineage", "impact", "shop.orders.amount")
    shown = servo.text("lineage", "show", "shop.orders.amount", "--down")
    assert "shop.report.figure  transformation  (no longer deployed)" in shown
    found = servo.json("lineage", "show", "shop.orders.amount", "--down")
    assert found["no_longer_deployed"] == ["shop.report"]
