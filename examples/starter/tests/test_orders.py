"""Assets, called with data in memory. Run them with: python -m pytest"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from pipeline import clean, raw
from pyspark.sql import SparkSession

from servo.testing import run_asset

DAY = {"date": date(2025, 1, 31)}


def test_orders_are_those_of_their_day() -> None:
    result = run_asset(raw.orders, partition=DAY, config={"rows": 3})
    assert [row["ordered_on"] for row in result.rows] == [date(2025, 1, 31)] * 3
    assert result.passed


def test_no_orders_are_refused() -> None:
    result = run_asset(raw.orders, partition=DAY, config={"rows": 0})
    assert [check.name for check in result.failures] == ["row_count"]


def test_refunds_are_left_out_and_countries_are_tidy(spark: SparkSession) -> None:
    order = {"order_id": 1, "ordered_on": DAY["date"], "email": "a@example.com"}
    orders = [{**order, "country": "it ", "cents": 250}, {**order, "country": "DE", "cents": -250}]
    result = run_asset(clean.orders, {"orders": orders}, partition=DAY, spark=spark)
    assert [(row["country"], row["amount"]) for row in result.rows] == [("IT", Decimal("2.50"))]
    assert result.passed


def test_an_unknown_country_waits_for_a_person(spark: SparkSession) -> None:
    order = {"order_id": 1, "ordered_on": DAY["date"], "email": "a@example.com"}
    orders = [{**order, "country": "XX", "cents": 250}]
    result = run_asset(clean.orders, {"orders": orders}, partition=DAY, spark=spark)
    assert result.gate == "quarantine"
