"""Lineage of wide and many-branched queries: four times as much takes four times as many steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from arco.lineage.combine import lineage_of
from arco.lineage.sql import analyze
from arco.spark.lineage.trace import trace
from servo.contract.task import ColumnInfo, Lineage

LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical."
EXPRESSION: Final = "org.apache.spark.sql.catalyst.expressions."
SMALL, LARGE, RATIO = 200, 800, 5.5
"""Linear is 4, and the square 16."""
Nodes = list[dict[str, Any]]


def attribute(id: int) -> Nodes:
    return [
        {
            "class": f"{EXPRESSION}AttributeReference",
            "num-children": 0,
            "name": f"c{id}",
            "exprId": {"id": id},
        }
    ]


def named(id: int, *nodes: dict[str, Any], name: str = "") -> Nodes:
    head = {
        "class": f"{EXPRESSION}Alias",
        "num-children": 1,
        "name": name or f"c{id}",
        "exprId": {"id": id},
    }
    return [head, *nodes]


def expression(kind: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": f"{EXPRESSION}{kind}", "num-children": children, **fields}


def node(name: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": f"{LOGICAL}{name}", "num-children": children, **fields}


def read(width: int, asset: str = "wide") -> Nodes:
    return [
        node("SubqueryAlias", 1, identifier={"name": f"@shop.{asset}"}),
        node("LogicalRDD", 0, output=[attribute(id) for id in range(width)]),
    ]


def project(*lists: Nodes) -> dict[str, Any]:
    return node("Project", 1, projectList=list(lists))


def selection(width: int) -> Nodes:
    return [project(*map(attribute, range(width))), *read(width)]


def five_projections(width: int) -> Nodes:
    one_more = [
        named(id, expression("Add", 2), *attribute(id), *attribute((id + 1) % width))
        for id in range(width)
    ]
    return [*[project(*one_more)] * 5, *read(width)]


def union(width: int) -> Nodes:
    branches = [each for n in range(width) for each in read(3, f"t{n}")]
    return [node("Union", width), *branches]


def struct_of_all(width: int) -> Nodes:
    """`struct(*)`, and each of its fields taken out again."""
    pairs = [
        each
        for id in range(width)
        for each in (expression("Literal", 0, value=f"c{id}"), *attribute(id))
    ]
    struct = named(width, expression("CreateNamedStruct", 2 * width), *pairs, name="s")
    fields = [
        named(
            width + 1 + at,
            expression("GetStructField", 1, ordinal=at, name=f"c{at}"),
            *attribute(width),
        )
        for at in range(width)
    ]
    return [project(*fields), project(struct), *read(width)]


def distinct(width: int) -> Nodes:
    return [node("Distinct", 1), *selection(width)]


def texts(width: int) -> dict[str, str]:
    columns = [f"c{n}" for n in range(width)]
    table = '{{ ref("shop.wide") }}'
    return {
        "selection": f"select {', '.join(columns)} from {table}",
        "qualified": f"select {', '.join(f't.{each} + 1 x{each}' for each in columns)} "
        f"from {table} t where t.c0 > 1",
        "star": f"select * from (select * from {table}) join (select c0 from {table}) using (c0)",
        "struct": f"select {', '.join(f's.{each}' for each in columns)} "
        f"from (select struct(*) s from {table})",
        "union": f"with few as (select {', '.join(columns[:10])} from {table}) "
        + " union all ".join(f"select c{n % 10} from few" for n in range(width)),
    }


def steps(work: Callable[[], Any]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def counting(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "plan", [selection, five_projections, union, struct_of_all, distinct], ids=lambda f: f.__name__
)
def test_a_plan_is_traced_in_steps_that_follow_its_size(plan: Callable[[int], Nodes]) -> None:
    small, large = (json.dumps(plan(width)) for width in (SMALL, LARGE))
    assert steps(lambda: trace(large)) < RATIO * steps(lambda: trace(small))


@pytest.mark.parametrize("shape", texts(1))
def test_a_text_is_analyzed_in_steps_that_follow_its_size(shape: str) -> None:
    def work(width: int) -> int:
        columns = {"shop.wide": [f"c{n}" for n in range(width)]}
        sql = texts(width)[shape]
        return steps(lambda: analyze(sql, columns))

    work(SMALL)  # the parser prepares its tables
    assert work(LARGE) < RATIO * work(SMALL)


def test_a_wide_output_is_put_together_in_steps_that_follow_its_size() -> None:
    def work(width: int) -> int:
        plan = trace(json.dumps(selection(width)))
        output = [ColumnInfo(name=f"c{n}", type="int") for n in range(width)]

        def combined() -> Lineage:
            return lineage_of((), {"shop.wide": output}, output, plan=plan)

        assert combined().coverage_percent == 100
        return steps(combined)

    assert work(LARGE) < RATIO * work(SMALL)
