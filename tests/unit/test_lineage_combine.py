"""One answer out of several ways of looking."""

from __future__ import annotations

import pytest

from arco.lineage import combine
from arco.lineage.combine import lineage_of
from arco.lineage.traced import TracedColumns
from servo.contract.manifest import ColumnDef
from servo.contract.task import (
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    MaterializationRef,
)

ORDERS = {
    "shop.orders": [ColumnInfo(name="id", type="long"), ColumnInfo(name="amount", type="double")]
}
OUTPUT = [
    ColumnInfo(name="id", type="long"),
    ColumnInfo(name="total", type="double"),
    ColumnInfo(name="amount", type="string"),
]
READ = (
    InputRef(
        asset="shop.orders",
        parameter="orders",
        materializations=(MaterializationRef(partition="", materialization_id="m", path="p"),),
    ),
)
PLAN = TracedColumns(
    method="plan",
    columns=(
        ColumnLineage(column="id", sources=(ColumnSource("shop.orders", "id"),)),
        ColumnLineage(
            column="total", sources=(ColumnSource("shop.orders", "amount", "aggregation"),)
        ),
        ColumnLineage(column="amount", confidence="medium"),
    ),
    influences=(ColumnSource("shop.orders", "id", "group_by"),),
)


def test_what_the_author_wrote_wins_over_the_plan() -> None:
    declared = [ColumnDef(name="total", lineage=("shop.orders.id",))]
    found = lineage_of(declared, ORDERS, OUTPUT, plan=PLAN, read=READ)
    assert found.columns[1] == ColumnLineage(
        column="total",
        sources=(ColumnSource("shop.orders", "id", "transformation"),),
        method="annotation",
    )
    assert found.method == "mixed"
    assert found.read == READ
    assert found.influences == PLAN.influences


def test_a_plan_is_enough() -> None:
    found = lineage_of([], ORDERS, OUTPUT, plan=PLAN)
    assert (found.method, found.confidence, found.coverage_percent) == ("plan", "medium", 100)
    assert found.unmapped == ()


def test_the_query_is_asked_where_there_is_no_plan() -> None:
    sql = 'select id, sum(amount) as total from {{ ref("orders") }} group by id'
    found = lineage_of([], ORDERS, OUTPUT[:2], sql=sql, refs={"orders": "shop.orders"})
    assert found == Lineage(
        columns=(
            ColumnLineage(column="id", sources=(ColumnSource("shop.orders", "id"),), method="sql"),
            ColumnLineage(
                column="total",
                sources=(ColumnSource("shop.orders", "amount", "aggregation"),),
                method="sql",
            ),
        ),
        influences=(ColumnSource("shop.orders", "id", "group_by"),),
        method="sql",
        confidence="high",
        reason="The query names the sources of every column.",
        coverage_percent=100,
    )


def test_a_reference_without_a_namespace_is_found_by_its_name() -> None:
    found = lineage_of([], ORDERS, OUTPUT[:1], sql="select id from {{ ref('orders') }}")
    assert found.columns[0].sources == (ColumnSource("shop.orders", "id"),)


def test_columns_without_an_alias_are_matched_by_position() -> None:
    sql = 'select id, count(*), substr(amount, 1) from {{ ref("orders") }} group by all'
    output = [
        ColumnInfo(name="id", type="long"),
        ColumnInfo(name="count(1)", type="long"),
        ColumnInfo(name="substring(amount, 1, 2147483647)", type="string"),
    ]
    found = lineage_of([], ORDERS, output, sql=sql)
    assert [(each.column, each.sources) for each in found.columns] == [
        ("id", (ColumnSource("shop.orders", "id"),)),
        ("count(1)", ()),
        (
            "substring(amount, 1, 2147483647)",
            (ColumnSource("shop.orders", "amount", "transformation"),),
        ),
    ]
    assert found.unmapped == ()


def test_positions_mean_nothing_where_the_number_of_columns_is_not_known() -> None:
    sql = "select address.*, count(*) from {{ ref('orders') }}"
    output = [ColumnInfo(name=name, type="string") for name in ("street", "count(1)")]
    schemas = {"shop.orders": [ColumnInfo(name=name, type="x") for name in ("id", "address")]}
    found = lineage_of([], schemas, output, sql=sql)
    assert found.unmapped == ("street", "count(1)")
    assert found.confidence == "low"


def test_columns_that_look_alike_are_the_last_resort() -> None:
    found = lineage_of([], ORDERS, OUTPUT, read=READ)
    assert found.columns == (
        ColumnLineage(
            column="id",
            sources=(ColumnSource("shop.orders", "id"),),
            method="schema",
            confidence="low",
        ),
    )
    assert found.unmapped == ("total", "amount")
    assert (found.method, found.confidence, found.coverage_percent) == ("schema", "low", 0)


def test_a_plan_that_could_not_be_seen_says_so() -> None:
    blind = TracedColumns(method="plan", reason="Spark's plan cannot be seen from here.")
    found = lineage_of([], {}, OUTPUT[:1], plan=blind)
    assert (found.method, found.reason) == ("none", "Spark's plan cannot be seen from here.")


def test_a_query_that_cannot_be_parsed_is_a_reason_and_no_error() -> None:
    found = lineage_of([], ORDERS, OUTPUT[:1], sql="select from where ((")
    assert found.method == "schema"
    assert "could not be analyzed" in found.reason


def test_nothing_ever_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> TracedColumns:
        raise RuntimeError("a defect")

    monkeypatch.setattr(combine, "compare", broken)
    found = lineage_of([], ORDERS, OUTPUT, plan=PLAN, read=READ)
    assert found == Lineage(
        read=READ,
        reason="Lineage could not be computed: RuntimeError.",
        unmapped=("id", "total", "amount"),
    )


def test_an_output_without_columns_is_covered() -> None:
    assert lineage_of([], ORDERS, []).coverage_percent == 100
