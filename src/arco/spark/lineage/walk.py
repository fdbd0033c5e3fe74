"""Printing a plan node by node, where `toJSON` would print too much.

The result has the form of `toJSON`, with those fields only that `trace` reads. Whatever lies
below and beside the nested CASE expressions is printed by `toJSON`. The cost is some calls
into the JVM for each node above them, and for each level of a CASE.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from arco.spark.lineage.expressions import PlanNode

MAX_CASES: Final = 60
"""Times that a CASE may be printed by `toJSON`, about 2 KB each."""
_CASE: Final = re.compile(r"\bCASE WHEN\b|\bEND\b")
_SUBQUERY: Final = re.compile(r"(?:subquery|exists|list)#\d")
"""A sub-query prints as its id; its plan may hold anything."""
_LISTS: Final[dict[str, tuple[str, ...]]] = {
    "Project": ("projectList",),
    "Aggregate": ("groupingExpressions", "aggregateExpressions"),
    "Sort": ("order",),
    "Window": ("windowExpressions",),
}
"""Nodes whose only expressions, as far as they matter, are lists."""


def cases(text: str) -> int:
    """How often CASE would be printed: twice as often with every CASE around it."""
    depth = times = 0
    for word in _CASE.findall(text):
        if word == "END":
            depth = max(depth - 1, 0)
        else:
            times += 1 << min(depth, 30)
            depth += 1
    return times


def items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def walk(plan: Any) -> list[PlanNode]:
    """The nodes of a plan in pre-order. Raises ValueError where it cannot be printed so."""
    result: list[PlanNode] = []
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if cases(_tree_text(node)) <= MAX_CASES:
            result += json.loads(node.toJSON())
            continue
        children = items(node.children())
        result.append({**_node(node), "num-children": len(children)})
        waiting += reversed(children)
    return result


def _tree_text(node: Any) -> str:
    text: str = node.treeString(True, False, (1 << 31) - 1, False, False)
    return text


def _node(node: Any) -> PlanNode:
    """A node of the plan without its children."""
    name = node.nodeName()
    if name == "WithCTE":  # its children are not of one kind
        fields: PlanNode = {}
    elif name in _LISTS:
        fields = {field: _each(getattr(node, field)()) for field in _LISTS[name]}
    elif name == "Filter":
        fields = {"condition": _expression(node.condition())}
    elif name == "Join":
        condition = node.condition()
        fields = {
            "condition": _expression(condition.get()) if condition.isDefined() else None,
            "joinType": {"object": node.joinType().getClass().getName()},
        }
    elif name == "Generate":
        fields = {
            "generator": _expression(node.generator()),
            "generatorOutput": _each(node.generatorOutput()),
        }
    else:
        fields = _bare(node)
    return {**fields, "class": node.getClass().getName()}


def _each(expressions: Any) -> list[list[PlanNode]]:
    return [_expression(each) for each in items(expressions)]


def _bare(node: Any) -> PlanNode:
    """A node of another kind: as `toJSON` prints it above a leaf of the plan."""
    leaf = node
    while leaf.children().size():
        leaf = leaf.children().apply(leaf.children().size() - 1)
    count = node.children().size()
    children = node.children().take(0)
    for _ in range(count):
        children = children.appended(leaf)
    bare = node.withNewChildren(children)
    if cases(_tree_text(bare)) > MAX_CASES:
        raise ValueError(f"a {node.nodeName()} holds too many nested CASE expressions")
    result: PlanNode = json.loads(bare.toJSON())[0]
    return result


def _expression(root: Any) -> list[PlanNode]:
    result: list[PlanNode] = []
    waiting = [root]
    while waiting:
        each = waiting.pop()
        text = each.toString()
        if cases(text) <= MAX_CASES and not _SUBQUERY.search(text):
            result += json.loads(each.toJSON())
            continue
        children = items(each.children())
        result.append({**_head(each), "num-children": len(children)})
        waiting += reversed(children)
    return result


def _head(expression: Any) -> PlanNode:
    """An expression without its children."""
    kind = expression.getClass().getName()
    result: PlanNode = {"class": kind}
    name = kind[kind.rfind(".") + 1 :]
    if name == "Alias":
        result |= {"name": expression.name(), "exprId": {"id": expression.exprId().id()}}
    elif name == "GetStructField":
        result |= {"ordinal": expression.ordinal()}
    elif name == "NullIf":
        result |= {side: _expression(getattr(expression, side)()) for side in ("left", "right")}
    elif name in ("ScalarSubquery", "Exists", "ListQuery"):
        result["plan"] = walk(expression.plan())
    elif name == "UpdateFields":
        raise ValueError("fields are replaced by nested CASE expressions")
    return result
