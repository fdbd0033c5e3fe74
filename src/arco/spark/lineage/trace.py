"""Following columns through an analyzed plan: pure Python, and no recursion on its depth.

A plan is a list of nodes in pre-order with `num-children`. Each node is evaluated when
its children are, to what it puts out (attributes by their ids, with their flows) and to
the influences on its rows. Inputs are the nodes `SubqueryAlias @namespace.asset`; what
lies below them is how they are read, and does not count.

Ids of attributes are not unique in a plan: a union has those of its first child. So a
node sees what its children put out, and nothing else. Only plans inside of expressions
are evaluated by recursion: sub-queries, as deep as somebody nested them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from arco.lineage.flow import (
    LIKELY,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    Sources,
    add,
    column,
    lift,
    merge,
    turned,
)
from arco.lineage.found import Found, found
from arco.spark.lineage.expressions import Env, Node, expr_id, flow_of, name_of
from servo.contract.task import Influence

INPUT: Final = re.compile(r"@([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)")
_LEFT_ONLY: Final = ("LeftSemi$", "LeftAnti$")


class Output(NamedTuple):
    id: int
    name: str
    flow: Flow


class Relation(NamedTuple):
    """What a node puts out. `influences` is shared between nodes, and never changed."""

    outputs: Sequence[Output]
    influences: Sources

    def env(self) -> dict[int, Flow]:
        return {output.id: output.flow for output in self.outputs}


class _Frame(NamedTuple):
    node: Node
    children: list[Relation]


def trace(plan_json: str | bytes) -> Found:
    """The lineage of what a plan puts out. Raises ValueError for what is not a plan."""
    nodes = msgspec.json.decode(plan_json)
    relation = _Tracer().run(nodes, {})
    columns = [(output.name, output.flow) for output in relation.outputs]
    return found("plan", columns, relation.influences, _reason([flow for _, flow in columns]))


def _reason(flows: Sequence[Flow]) -> str:
    if any(flow.doubt > LIKELY for flow in flows):
        return "Some columns come from data that was made in the code, or read past the inputs."
    if any(flow.doubt == LIKELY for flow in flows):
        return "Some columns come out of Python functions over whole rows, which cannot be seen."
    return ""


class _Tracer:
    def __init__(self) -> None:
        self._shared: dict[int, Relation] = {}
        """Common table expressions by their ids."""

    def run(self, nodes: list[Node], outer: Env) -> Relation:
        stack: list[_Frame] = []
        for node in nodes:
            stack.append(_Frame(node, []))
            while len(stack[-1].children) == stack[-1].node["num-children"]:
                done = stack.pop()
                made = self._relation(done, outer, stack)
                if not stack:
                    return made
                stack[-1].children.append(made)
        raise ValueError("the plan ends before its last node")

    def _relation(self, frame: _Frame, outer: Env, stack: list[_Frame]) -> Relation:
        node, children = frame
        name = name_of(node)
        if name == "UnionLoopRef":
            return self._loop(node, stack)
        handler = _HANDLERS.get(name)
        if handler is not None:
            return handler(self, node, children, outer)
        if "output" in node:
            return self._opaque(node, children, outer) if children else _leaf(node)
        return _side_by_side(children)

    # -- expressions ------------------------------------------------------------------

    def _flow(self, nodes: Sequence[Node], env: Env, outer: Env) -> Flow:
        if len(nodes) == 1 and "exprId" in nodes[0]:  # most columns only pass through
            known = env.get(nodes[0]["exprId"]["id"])
            if known is not None:
                return known
        return flow_of(nodes, env, outer, self._query)

    def _query(self, plan: list[Node], outer: Env) -> tuple[list[Flow], Flow]:
        made = self.run(plan, outer)
        return [output.flow for output in made.outputs], Flow(made.influences)

    def _named(self, lists: Sequence[Sequence[Node]], env: Env, outer: Env) -> list[Output]:
        """Attributes and aliases, as projections list them."""
        return [
            Output(expr_id(nodes[0]), nodes[0]["name"], self._flow(nodes, env, outer))
            for nodes in lists
        ]

    def _influenced(
        self, child: Relation, expressions: Sequence[Sequence[Node]], kind: Influence, outer: Env
    ) -> Sources:
        """The influences on a child's rows, and those that some expressions add."""
        env = child.env()
        more: Sources = {}
        for nodes in expressions:
            add(more, turned(self._flow(nodes, env, outer).sources, kind))
        return _joined(child.influences, more)

    # -- nodes ------------------------------------------------------------------------

    def project(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(self._named(node["projectList"], child.env(), outer), child.influences)

    def filter(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(
            child.outputs, self._influenced(child, [node["condition"]], "filter", outer)
        )

    def sort(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, self._influenced(child, node["order"], "sort", outer))

    def deduplicate(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, self._influenced(child, node["keys"], "group_by", outer))

    def distinct(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, _joined(child.influences, _all(child, "group_by")))

    def aggregate(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        outputs = self._named(node["aggregateExpressions"], child.env(), outer)
        keys = node["groupingExpressions"]
        return Relation(outputs, self._influenced(child, keys, "group_by", outer))

    def window(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        made = self._named(node["windowExpressions"], child.env(), outer)
        return Relation([*child.outputs, *made], child.influences)

    def generate(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        flow = lift(self._flow(node["generator"], child.env(), outer), TRANSFORMATION)
        made = [Output(expr_id(a[0]), a[0]["name"], flow) for a in node["generatorOutput"]]
        return Relation([*child.outputs, *made], child.influences)

    def expand(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """Each row several times: a column is what any of the projections has there."""
        (child,) = children
        env = child.env()
        rows = [
            [self._flow(nodes, env, outer) for nodes in projection]
            for projection in node["projections"] or ()
        ]
        flows = [merge(column) for column in zip(*rows, strict=True)]
        if not rows:
            flows = [SOMEWHERE] * len(node["output"])
        return Relation(_outputs(node, flows), child.influences)

    def join(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        both = _side_by_side(children)
        conditions = [node[c] for c in ("condition", "asOfCondition") if node.get(c)]
        influences = self._influenced(both, conditions, "join", outer)
        kind = str(node["joinType"].get("object", ""))
        outputs = children[0].outputs if kind.endswith(_LEFT_ONLY) else both.outputs
        if "exists" in node["joinType"]:  # an existence join adds whether there is a match
            outputs = children[0].outputs
        return Relation(outputs, influences)

    def lateral_join(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (left,) = children
        right = self.run(node["right"][0]["plan"], left.env())
        both = _side_by_side([left, right])
        conditions = [node["condition"]] if node.get("condition") else []
        return Relation(both.outputs, self._influenced(both, conditions, "join", outer))

    def union(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """By position, under the names and ids of the first."""
        columns = zip(*[child.outputs for child in children], strict=False)
        outputs = [
            Output(each[0].id, each[0].name, merge(o.flow for o in each)) for each in columns
        ]
        return Relation(outputs, _joined(*(child.influences for child in children)))

    def set_operation(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """Rows of the first, as far as the second has them, or has not."""
        left, right = children
        matched = _joined(_all(left, "join"), _all(right, "join"))
        influences = _joined(left.influences, right.influences, matched)
        return Relation(left.outputs, influences)

    def grouped(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """A Python function over the rows of a group."""
        made = self._opaque(node, children, outer)
        keys = node.get("groupingAttributes", ())
        return Relation(
            made.outputs, self._influenced(_side_by_side(children), keys, "group_by", outer)
        )

    def cogrouped(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        made = self._opaque(node, children, outer)
        left, right = children
        keys = [
            *left.outputs[: node["leftGroupingLen"]],
            *right.outputs[: node["rightGroupingLen"]],
        ]
        grouped = turned(merge(key.flow for key in keys).sources, "group_by")
        return Relation(made.outputs, _joined(made.influences, grouped))

    def _opaque(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """Code that cannot be seen: anything may come from anything that it is given."""
        both = _side_by_side(children)
        function = node.get("functionExpr") or node.get("func")
        given = (
            self._flow(function, both.env(), outer)
            if isinstance(function, list)
            else merge(output.flow for output in both.outputs)
        )
        made = lift(given, TRANSFORMATION)
        flow = Flow(made.sources, max(made.doubt, LIKELY))
        return Relation(_outputs(node, [flow] * len(node["output"])), both.influences)

    def serialized(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        """Objects of the JVM turned into columns."""
        both = _side_by_side(children)
        made = lift(merge(output.flow for output in both.outputs), TRANSFORMATION)
        flow = Flow(made.sources, max(made.doubt, LIKELY))
        heads = [nodes[0] for nodes in node["serializer"]]
        outputs = [Output(expr_id(head), head["name"], flow) for head in heads]
        return Relation(outputs, both.influences)

    # -- inputs, and what is shared ---------------------------------------------------

    def alias(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        match = INPUT.fullmatch(node["identifier"]["name"])
        if match is None:
            return child
        outputs = [Output(o.id, o.name, column(match[1], o.name)) for o in child.outputs]
        return Relation(outputs, {})

    def definition(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        self._shared[node["id"]] = children[0]
        return children[0]

    def reference(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        shared = self._shared.get(node["cteId"])
        if shared is None:
            return _leaf(node)
        return Relation(_outputs(node, [o.flow for o in shared.outputs]), shared.influences)

    def with_definitions(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        return children[-1]

    def _loop(self, node: Node, stack: list[_Frame]) -> Relation:
        """What a recursive query has so far: the rows that it starts from."""
        for frame in reversed(stack):
            if name_of(frame.node) == "UnionLoop" and frame.node["id"] == node["loopId"]:
                start = frame.children[0]
                return Relation(_outputs(node, [o.flow for o in start.outputs]), {})
        return _leaf(node)

    def range(self, node: Node, children: list[Relation], outer: Env) -> Relation:
        return Relation(_outputs(node, [NOTHING] * len(node["output"])), {})


def _leaf(node: Node) -> Relation:
    """Data that is no input of this asset."""
    return Relation(_outputs(node, [SOMEWHERE] * len(node["output"])), {})


def _outputs(node: Node, flows: Sequence[Flow]) -> list[Output]:
    heads = [nodes[0] for nodes in node["output"]]
    return [
        Output(expr_id(head), head["name"], flow) for head, flow in zip(heads, flows, strict=False)
    ]


def _side_by_side(children: Sequence[Relation]) -> Relation:
    if len(children) == 1:
        return children[0]
    outputs = [output for child in children for output in child.outputs]
    return Relation(outputs, _joined(*(child.influences for child in children)))


def _all(relation: Relation, kind: Influence) -> Sources:
    return turned(merge(output.flow for output in relation.outputs).sources, kind)


def _joined(*parts: Sources) -> Sources:
    some = [part for part in parts if part]
    if len(some) <= 1:
        return some[0] if some else {}
    made = dict(some[0])
    for part in some[1:]:
        add(made, part)
    return made


Handler = Callable[[_Tracer, Node, list[Relation], Env], Relation]
_HANDLERS: Final[Mapping[str, Handler]] = {
    "Project": _Tracer.project,
    "Filter": _Tracer.filter,
    "Sort": _Tracer.sort,
    "Deduplicate": _Tracer.deduplicate,
    "DeduplicateWithinWatermark": _Tracer.deduplicate,
    "Distinct": _Tracer.distinct,
    "Aggregate": _Tracer.aggregate,
    "Window": _Tracer.window,
    "Generate": _Tracer.generate,
    "Expand": _Tracer.expand,
    "Join": _Tracer.join,
    "AsOfJoin": _Tracer.join,
    "LateralJoin": _Tracer.lateral_join,
    "Union": _Tracer.union,
    "UnionLoop": _Tracer.union,
    "Intersect": _Tracer.set_operation,
    "Except": _Tracer.set_operation,
    "FlatMapGroupsInPandas": _Tracer.grouped,
    "FlatMapGroupsInArrow": _Tracer.grouped,
    "FlatMapCoGroupsInPandas": _Tracer.cogrouped,
    "FlatMapCoGroupsInArrow": _Tracer.cogrouped,
    "SerializeFromObject": _Tracer.serialized,
    "SubqueryAlias": _Tracer.alias,
    "CTERelationDef": _Tracer.definition,
    "CTERelationRef": _Tracer.reference,
    "WithCTE": _Tracer.with_definitions,
    "Range": _Tracer.range,
}
