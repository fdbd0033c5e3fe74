"""Plans as JSON, without Spark: what cannot be provoked there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arco.spark.lineage.capture import UNSEEN, capture, observe
from arco.spark.lineage.trace import trace
from arco.spark.lineage.walk import MAX_CASES, cases
from servo.contract.task import ColumnSource

LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
EXPRESSION = "org.apache.spark.sql.catalyst.expressions."


def attribute(id: int, name: str) -> list[dict[str, Any]]:
    return [
        {
            "class": f"{EXPRESSION}AttributeReference",
            "num-children": 0,
            "name": name,
            "exprId": {"id": id},
        }
    ]


def node(name: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": f"{LOGICAL}{name}", "num-children": children, **fields}


def read(asset: str, *columns: tuple[int, str]) -> list[dict[str, Any]]:
    return [
        node("SubqueryAlias", 1, identifier={"name": f"@{asset}"}),
        node("LogicalRDD", 0, output=[attribute(*column) for column in columns]),
    ]


def test_a_plan_of_fifty_thousand_nodes_is_no_trouble() -> None:
    steps = [node("Project", 1, projectList=[attribute(1, "a")]) for _ in range(50_000)]
    found = trace(json.dumps([*steps, *read("shop.orders", (1, "a"))]))
    assert found.columns[0].sources == (ColumnSource("shop.orders", "a"),)


def test_an_expression_of_fifty_thousand_nodes_is_no_trouble() -> None:
    add = {"class": f"{EXPRESSION}UnaryMinus", "num-children": 1}
    deep = [
        {"class": f"{EXPRESSION}Alias", "num-children": 1, "name": "b", "exprId": {"id": 2}},
        *[add] * 50_000,
        *attribute(1, "a"),
    ]
    plan = [node("Project", 1, projectList=[deep]), *read("shop.orders", (1, "a"))]
    (column,) = trace(json.dumps(plan)).columns
    assert column.sources == (ColumnSource("shop.orders", "a", "transformation"),)


def test_an_unknown_node_passes_its_columns_on() -> None:
    found = trace(json.dumps([node("BrandNew", 1), *read("shop.orders", (1, "a"))]))
    assert found.columns[0].sources == (ColumnSource("shop.orders", "a"),)


def test_an_unknown_node_with_columns_of_its_own_is_opaque() -> None:
    made = node("BrandNew", 1, output=[attribute(7, "x")])
    (column,) = trace(json.dumps([made, *read("shop.orders", (1, "a"))])).columns
    assert column.sources == (ColumnSource("shop.orders", "a", "transformation"),)
    assert column.confidence == "medium"


def test_an_alias_that_is_no_input_is_an_alias() -> None:
    found = trace(json.dumps(read("Shop.Orders; --", (1, "a"))))
    assert (found.columns, found.unmapped) == ((), ("a",))


def test_a_column_of_known_and_unknown_sources_is_of_low_confidence() -> None:
    other = node("LogicalRDD", 0, output=[attribute(5, "z")])
    plan = [node("Union", 2), *read("shop.orders", (1, "a")), other]
    (column,) = trace(json.dumps(plan)).columns
    assert column.sources == (ColumnSource("shop.orders", "a"),)
    assert column.confidence == "low"


@pytest.mark.parametrize("text", ["[]", json.dumps([node("Project", 1, projectList=[])])])
def test_half_a_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ends before"):
        trace(text)


class _Frame:
    """A frame of Spark Connect has no plan in this process."""


class _Broken:
    @property
    def _jdf(self) -> Any:
        raise RuntimeError("the driver is gone")


def test_a_frame_without_a_plan_has_none() -> None:
    assert capture(_Frame()) is None  # type: ignore[arg-type]
    assert observe(_Frame()).reason == UNSEEN  # type: ignore[arg-type]


def test_observing_never_raises() -> None:
    found = observe(_Broken())  # type: ignore[arg-type]
    assert found.columns == ()
    assert found.reason == "Spark's plan could not be read: RuntimeError."


def test_nested_cases_are_counted_as_often_as_they_would_be_printed() -> None:
    deep = "CASE WHEN a THEN 1 ELSE " * 5 + "0" + " END" * 5
    assert cases(deep) == 1 + 2 + 4 + 8 + 16
    assert cases("CASE WHEN a THEN 1 END, CASE WHEN b THEN 2 END") == 2
    assert cases("CASE WHEN a " * 13) > MAX_CASES


def test_what_spark_knows_of_files_is_no_column_of_the_input() -> None:
    fields = ["file_path", "file_name", "file_size", "file_modification_time"]
    of_files = attribute(2, "_metadata")
    of_files[0]["dataType"] = {"type": "struct", "fields": [{"name": name} for name in fields]}
    plan = [
        node("SubqueryAlias", 1, identifier={"name": "@shop.orders"}),
        node("LogicalRelation", 0, output=[attribute(1, "a"), of_files]),
    ]
    found = trace(json.dumps(plan))
    assert [each.sources for each in found.columns] == [(ColumnSource("shop.orders", "a"),), ()]


def test_a_column_that_is_called_metadata_is_a_column() -> None:
    (column,) = trace(json.dumps(read("shop.orders", (1, "_metadata")))).columns
    assert column.sources == (ColumnSource("shop.orders", "_metadata"),)


def test_a_recursive_query_is_followed_until_nothing_new_comes_of_it() -> None:
    names = "abcd"
    step = [attribute(11 + (at + 1) % 4, name) for at, name in enumerate(names)]
    loop = node("UnionLoop", 2, id=0, outputAttrIds=[{"id": 21 + at} for at in range(4)])
    reference = node(
        "UnionLoopRef", 0, loopId=0, output=[attribute(11 + at, n) for at, n in enumerate(names)]
    )
    plan = [
        node("Project", 1, projectList=[attribute(21, "n")]),
        loop,
        *read("shop.orders", *((1 + at, name) for at, name in enumerate(names))),
        node("Project", 1, projectList=step),
        reference,
    ]
    (column,) = trace(json.dumps(plan)).columns
    assert column.sources == tuple(ColumnSource("shop.orders", name) for name in names)
    assert (column.column, column.confidence) == ("n", "high")
