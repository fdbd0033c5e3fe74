"""Assets in unit tests, with data in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pytest

from servo import (
    AssetContext,
    AssetIn,
    AssetOut,
    asset,
    check,
    column,
    daily,
    not_null,
    references,
    row_count_change,
    sql_asset,
    unique,
)
from servo.errors import Invalid
from servo.testing import run_asset

NAMESPACE = "shop"
DAY = {"date": date(2025, 1, 3)}
ORDERS = [{"id": 1, "amount": 3.0}, {"id": 2, "amount": 4.0}]


@check(severity="warning")
def has_large(data: AssetIn) -> bool:
    return bool(max(data.arrow()["amount"].to_pylist()) > 100)


@asset(
    partitions=daily("date", start="2025-01-01"),
    config={"rate": 2},
    secrets={"token": "env:T"},
    checks=[unique("id"), has_large, not_null("id", phase="before")],
    columns=[column("id", "bigint", nullable=False), column("amount", "double")],
)
def totals(ctx: AssetContext, orders: AssetIn) -> AssetOut:
    frame = orders.pandas()
    frame["amount"] *= ctx.config["rate"]
    return ctx.output(frame, day=str(ctx.partition_value("date")), token=ctx.secret("token"))


@asset(checks=[references("id", "shop.ids.id"), row_count_change(min_percent=-10)])
def ids() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})


@asset
def nothing() -> pa.Table:
    return None


@asset
def broken() -> pa.Table:
    raise KeyError("amount")


@asset
def untyped() -> pa.Table:
    return pa.table({"x": [None]})


def test_an_output_is_what_a_reader_would_get_and_checks_are_evaluated() -> None:
    result = run_asset(totals, {"orders": ORDERS}, partition=DAY, secrets={"token": "s3cret"})
    assert result.rows == [{"id": 1, "amount": 6.0}, {"id": 2, "amount": 8.0}]
    assert result.metadata == {"day": "2025-01-03", "token": "***"}
    assert [each.name for each in result.checks] == [
        "not_null(id)",
        "columns",
        "unique(id)",
        "has_large",
    ]
    assert ([each.name for each in result.failures], result.gate) == (["has_large"], "warn")
    large = run_asset(
        totals, {"orders": ORDERS}, partition=DAY, config={"rate": 50}, secrets={"token": "s3cret"}
    )
    assert large.passed


def test_checks_decide_by_the_assets_gating() -> None:
    twice = pa.table({"id": [1, 1], "amount": [1.0, 2.0]})
    result = run_asset(totals, {"orders": twice}, partition=DAY, secrets={"token": "t"})
    assert (result.gate, result.failures[0].failing) == ("block", 1)
    null = pa.table({"id": pa.array([1, None]), "amount": [1.0, 2.0]})
    result = run_asset(totals, {"orders": null}, partition=DAY, secrets={"token": "t"})
    assert (result.data, result.gate, result.checks[0].input) == (None, "block", "shop.orders")
    assert len(result.checks) == 1, "the function was not called"


def test_checks_look_into_references_and_at_the_version_before() -> None:
    result = run_asset(ids, references={"shop.ids": [{"id": 1}]}, previous_rows=30)
    assert {each.name: each.passed for each in result.checks} == {
        "references(id)": False,
        "row_count_change": False,
    }


def test_what_a_worker_would_refuse_is_refused() -> None:
    with pytest.raises(KeyError, match="amount"):
        run_asset(broken)
    query = sql_asset("query", "SELECT 1 AS one", namespace="shop")
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: run_asset(nothing), "shop.nothing returned nothing"),
        (lambda: run_asset(untyped), "column 'x' is of type void"),
        (lambda: run_asset(totals, {}), "the test gives no 'orders'"),
        (lambda: run_asset(totals, {"order": []}), "did you mean 'orders'"),
        (lambda: run_asset(totals, {"orders": 1}), "the data for shop.orders"),
        (lambda: run_asset(totals, {"orders": ORDERS}, config={"rat": 1}), "did you mean 'rate'"),
        (lambda: run_asset(query), "not an asset with a function"),
    )
    for call, text in calls:
        with pytest.raises(Invalid) as raised:
            call()
        assert text in str(raised.value)


def test_without_arco_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arco.worker.trial", None)
    monkeypatch.setitem(sys.modules, "arco", None)
    with pytest.raises(Invalid, match="needs the package 'arco'"):
        run_asset(nothing)
