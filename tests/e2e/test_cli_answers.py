"""Answers as a user asks for them: explain, health, recommend and diff, and the same in Python."""

from __future__ import annotations

from datetime import date
from operator import methodcaller

import pytest

import arco
from arco.answers.shapes import AssetExplanation
from arco.errors import Invalid, NotFound
from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import AssetContext, AssetIn, asset, daily, row_count

NAMESPACE = "shop"
DAYS = daily("date", start="2026-01-01", end="2026-02-01")


@asset(partitions=DAYS, retry=1, config={"rows": 4, "broken": False})
def orders(ctx: AssetContext) -> pa.Table:
    if ctx.config["broken"]:
        raise ValueError("the source is down")
    rows = ctx.config["rows"]
    amounts = pa.array([1.5] * rows, pa.float64())
    return pa.table({"id": pa.array(range(rows), pa.int64()), "amount": amounts})


@asset(partitions=DAYS, checks=[row_count(min=1)], gating="quarantine")
def totals(orders: AssetIn) -> pa.Table:
    amounts = orders.arrow()["amount"].to_pylist()
    return pa.table({"total": pa.array([sum(amounts)] if amounts else [], pa.float64())})
"""
html = methodcaller("_repr_html_")
FIRST, SECOND = ("-p", "date=2026-01-01"), ("-p", "date=2026-01-02")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """A good day; a day whose orders are empty, so that checks hold the totals; a broken day."""
    servo = Servo(tmp_path_factory.mktemp("answers"))
    servo.store.mkdir()
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.json("deploy", "--project", str(folder))
    servo.json("run", "*", *FIRST)
    servo.json("run", "*", *SECOND, "--config", "rows=0", code=1)
    servo.json("run", "*", "-p", "date=2026-01-03", "--config", "broken=true", code=1)
    return servo


def test_explain_leads_to_the_first_cause_with_facts_and_commands(shop: Servo) -> None:
    answer = shop.json("explain", "shop.totals", "-p", "date=2026-01-03")
    assert [cause["kind"] for cause in answer["causes"]] == ["skipped", "failed"]
    first = answer["causes"][-1]
    assert first["facts"]["place"] == "shop.py:13"
    assert first["remedies"][1]["command"].startswith("servo runs logs ")
    text = shop.text("explain", "shop.totals", "-p", "date=2026-01-03")
    assert "└ first cause: the last attempt at shop.orders[date=2026-01-03] failed" in text
    run = shop.json("explain", first["facts"]["run_id"])
    assert (run["state"], [c["kind"] for c in run["causes"]]) == (
        "FAILED",
        ["run_failed", "failed"],
    )


def test_explain_tells_of_holds_and_of_what_is_empty_or_different(shop: Servo) -> None:
    answer = shop.json("explain", "shop.totals", *SECOND)
    assert [cause["kind"] for cause in answer["causes"]] == ["held"]
    assert answer["causes"][0]["facts"]["checks"] == ["row_count: there are 0 rows"]
    attempts = {each["partition"]: each["text"] for each in answer["recent_activity"]}
    assert attempts["date=d:2026-01-02"].endswith("s, output held by checks")
    assert not attempts["date=d:2026-01-01"].endswith("checks")
    missing = shop.error("show", "shop.totals", *SECOND, code=3)
    assert missing["hint"].startswith("its last output is held: see `servo quarantine show ")
    older = str(shop.json("admin", "snapshot")["generation"] - 1)
    missing = shop.error("show", "shop.totals", *SECOND, "--generation", older, code=3)
    assert missing["hint"].endswith("leave out --generation: then the newest generation is read")
    orders = shop.json("explain", "shop.orders", *SECOND)
    assert {each["kind"]: each["text"] for each in orders["observations"]} == {
        "empty": "shop.orders[date=2026-01-02] has no rows: "
        "it reads no asset: its source returned none",
        "different": "shop.orders[date=2026-01-02] differs from date=2026-01-01: "
        "0 rows instead of 4",
    }


def test_health_names_the_worst_first_and_recommend_answers(shop: Servo) -> None:
    document = shop.json("health")
    assert [(each["asset"], each["status"]) for each in document["assets"]] == [
        ("shop.totals", "UNHEALTHY"),
        ("shop.orders", "WARNING"),
    ]
    assert document["counts"] == {"UNHEALTHY": 1, "WARNING": 1, "UNKNOWN": 0, "HEALTHY": 0}
    assert shop.json("health", "--status", "healthy")["assets"] == []
    assert [each["kind"] for each in shop.json("recommend")["recommendations"]] == [
        "failing_checks"
    ]


def test_diff_takes_generations_times_and_runs(shop: Servo) -> None:
    run = shop.json("runs", "list")["runs"][-1]["run_id"]
    difference = shop.json("diff", f"run:{run}")
    assert [each["asset"] for each in difference["added_partitions"]] == ["shop.orders"]
    number = str(difference["from_snapshot"])
    assert shop.json("diff", number)["added_partitions"] == difference["added_partitions"]
    assert shop.json("diff", number, number)["added_partitions"] == []
    assert "no asset, partition, schema or lineage changed" in shop.text("diff", "0s")
    assert "is not a time" in shop.error("diff", "tomorrow", code=2)["message"]


def test_a_workspace_is_read_from_python(shop: Servo) -> None:
    ws = arco.open(str(shop.store))
    orders = ws.table("shop.orders")
    assert (len(orders), orders.arrow().column_names) == (4, ["id", "amount", "date"])
    one = ws.table("shop.orders", partition={"date": date(2026, 1, 1)}, columns=["amount"])
    assert one.pandas()["amount"].sum() == 6.0
    assert ws.table("shop.orders", partition="date=2026-01-01", version=1).polars().height == 4
    joined = (
        "SELECT sum(amount) AS s, max(total) AS t FROM shop.orders JOIN shop.totals USING (date)"
    )
    assert ws.sql(joined).arrow().to_pylist() == [{"s": 6.0, "t": 6.0}]
    assert ws.sql("SELECT count(*) AS n FROM execution.partitions").arrow()["n"].to_pylist() == [3]
    assert [hit.asset for hit in ws.search("ordrs")] == ["shop.orders"]
    assert ws.lineage("shop.totals").assets == ("shop.orders", "shop.totals")
    explanation = ws.explain("shop.totals", {"date": date(2026, 1, 3)})
    assert isinstance(explanation, AssetExplanation) and len(explanation.causes) == 2
    for shown in (ws, orders, ws.lineage("shop.totals"), explanation, ws.search("shop")):
        assert "<table" in html(shown) or "<ul" in html(shown)
    older = arco.open(str(shop.store), generation=ws.generation - 1)
    assert older.generation == ws.generation - 1


def test_what_cannot_be_read_from_python_is_said(shop: Servo) -> None:
    ws = arco.open(str(shop.store))
    for call, error, text in (
        (lambda: ws.table("shop.order"), NotFound, "did you mean 'shop.orders'"),
        (lambda: ws.table("shop.orders", partition="date=2026-01-09"), NotFound, "no partition"),
        (lambda: ws.table("shop.orders", partition="day=1"), Invalid, "have no dimension 'day'"),
        (lambda: ws.table("shop.orders", partition={"day": 1}), Invalid, "have no dimension 'day'"),
        (lambda: ws.lineage("shop.totals", direction="side"), Invalid, "'side' is not a direction"),  # type: ignore[arg-type]
        (lambda: ws.lineage("shop.totals", "totl"), NotFound, "did you mean 'total'"),
        (lambda: ws.sql("COPY (SELECT 1) TO 'x.csv'"), Invalid, "COPY is not allowed"),
        (lambda: ws.sql("SELECT 1; SELECT 2"), Invalid, "expected one statement, found 2"),
        (lambda: ws.table("shop.orders", version=9), NotFound, "has no version 9"),
        (lambda: ws.table("shop.orders", columns=["x"]).arrow(), Invalid, "has no column 'x'"),
        (lambda: ws.sql("SELECT * FROM shop.nothing"), NotFound, "no asset or table shop.nothing"),
        (lambda: ws.sql("SELEC"), Invalid, "the query"),
        (lambda: arco.open("/nowhere/lake"), NotFound, "there is no store"),
    ):
        with pytest.raises(error) as raised:
            call()
        assert text in str(raised.value)
