"""Following columns through an analyzed plan: pure Python, and no recursion on its depth.

A plan is a list of nodes in pre-order with `num-children`. Each node is evaluated after its
children, to its output (attributes by their ids, with their flows) and to the influences on its
rows. Inputs are the nodes `SubqueryAlias @namespace.asset`; what lies below them is how they are
read, and does not count.

Ids of attributes are not unique in a plan: a union has those of its first child. So a node sees the
outputs of its children only. Only plans inside of expressions are evaluated by recursion:
sub-queries, as deep as they are nested.
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
from arco.lineage.traced import TracedColumns, traced_columns
from arco.spark.lineage.expressions import Context, Env, PlanNode, expr_id, flow_of, name_of
from arco.spark.lineage.generators import generate
from arco.spark.lineage.relation import Output, Relation, everything, joined, side_by_side
from servo.contract.task import Influence

INPUT: Final = re.compile(r"@([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)")
_METADATA: Final = frozenset({"file_path", "file_name", "file_modification_time"})
"""Some fields of `_metadata`, which has no mark in the JSON of a plan."""
_OF_FILES: Final = Flow({})
"""What Spark knows of the files that it reads."""
_ROUNDS: Final = 100
_LEFT_ONLY: Final = ("LeftSemi$", "LeftAnti$")


class _Frame(NamedTuple):
    node: PlanNode
    start: int
    children: list[Relation]


def trace(plan_json: str | bytes) -> TracedColumns:
    """The lineage of the output of a plan. Raises ValueError for an invalid plan."""
    nodes = msgspec.json.decode(plan_json)
    relation = _Tracer().run(nodes, {})
    columns = [(output.name, output.flow) for output in relation.outputs]
    return traced_columns(
        "plan", columns, relation.influences, _reason([flow for _, flow in columns])
    )


def _reason(flows: Sequence[Flow]) -> str:
    if any(flow.doubt > LIKELY for flow in flows):
        return "Some columns come from data that the code created, or read without an input."
    if any(flow.doubt == LIKELY for flow in flows):
        return (
            "Some columns come from Python functions over whole rows, or are fields of what a "
            "function made of several columns: their sources are among those named."
        )
    return ""


class _Tracer:
    def __init__(self) -> None:
        self._shared: dict[int, Relation] = {}
        """Common table expressions by their ids."""
        self._loops: dict[int, list[Flow]] = {}
        """The columns of recursive queries by their ids, as far as they have been followed."""

    def run(self, nodes: list[PlanNode], outer: Env) -> Relation:
        stack: list[_Frame] = []
        for at, node in enumerate(nodes):
            stack.append(_Frame(node, at, []))
            while len(stack[-1].children) == stack[-1].node["num-children"]:
                done = stack.pop()
                result = self._relation(done.node, done.children, outer)
                if not stack:
                    return result
                parent = stack[-1]
                parent.children.append(result)
                if name_of(parent.node) == "UnionLoop":
                    self._advance(parent, nodes[done.start : at + 1], outer)
        raise ValueError("the plan ends before its last node")

    def _relation(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        name = name_of(node)
        handler = _HANDLERS.get(name)
        if handler is not None:
            return handler(self, node, children, outer)
        if "output" in node:
            return self._opaque(node, children, outer) if children else _leaf(node)
        return side_by_side(children)

    # -- expressions ------------------------------------------------------------------

    def _flow(self, nodes: Sequence[PlanNode], env: Env, outer: Env) -> Flow:
        if len(nodes) == 1 and "exprId" in nodes[0]:  # most columns only pass through
            candidates = env.get(nodes[0]["exprId"]["id"])
            if candidates is not None:
                return candidates
        return flow_of(nodes, env, outer, self._query)

    def _query(self, plan: list[PlanNode], outer: Env) -> tuple[list[Flow], Flow]:
        result = self.run(plan, outer)
        return [output.flow for output in result.outputs], Flow(result.influences)

    def _named(self, lists: Sequence[Sequence[PlanNode]], env: Env, outer: Env) -> list[Output]:
        """Attributes and aliases, as projections list them."""
        return [
            Output(expr_id(nodes[0]), nodes[0]["name"], self._flow(nodes, env, outer))
            for nodes in lists
        ]

    def _influenced(
        self,
        child: Relation,
        expressions: Sequence[Sequence[PlanNode]],
        kind: Influence,
        outer: Env,
    ) -> Sources:
        """The influences on a child's rows, and those that some expressions add."""
        env = child.env()
        more: Sources = {}
        for nodes in expressions:
            add(more, turned(self._flow(nodes, env, outer).sources, kind))
        return joined(child.influences, more)

    # -- nodes ------------------------------------------------------------------------

    def project(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(self._named(node["projectList"], child.env(), outer), child.influences)

    def filter(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(
            child.outputs, self._influenced(child, [node["condition"]], "filter", outer)
        )

    def sort(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, self._influenced(child, node["order"], "sort", outer))

    def deduplicate(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, self._influenced(child, node["keys"], "group_by", outer))

    def distinct(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        return Relation(child.outputs, joined(child.influences, everything(child, "group_by")))

    def aggregate(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        outputs = self._named(node["aggregateExpressions"], child.env(), outer)
        keys = node["groupingExpressions"]
        return Relation(outputs, self._influenced(child, keys, "group_by", outer))

    def window(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        result = self._named(node["windowExpressions"], child.env(), outer)
        return Relation([*child.outputs, *result], child.influences)

    def generate(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        heads = [nodes[0] for nodes in node["generatorOutput"]]
        context = Context(child.env(), outer, self._query)
        flows, rows = generate(node["generator"], len(heads), context)
        result = [
            Output(expr_id(head), head["name"], flow)
            for head, flow in zip(heads, flows, strict=True)
        ]
        influences = joined(child.influences, turned(rows.sources, "filter"))
        return Relation([*child.outputs, *result], influences)

    def expand(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
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

    def join(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        sides = side_by_side(children)
        conditions = [node[c] for c in ("condition", "asOfCondition") if node.get(c)]
        influences = self._influenced(sides, conditions, "join", outer)
        kind = str(node["joinType"].get("object", ""))
        outputs = children[0].outputs if kind.endswith(_LEFT_ONLY) else sides.outputs
        if "exists" in node["joinType"]:  # an existence join adds whether there is a match
            outputs = children[0].outputs
        return Relation(outputs, influences)

    def lateral_join(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (left,) = children
        right = self.run(node["right"][0]["plan"], left.env())
        both = side_by_side([left, right])
        conditions = [node["condition"]] if node.get("condition") else []
        return Relation(both.outputs, self._influenced(both, conditions, "join", outer))

    def union(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """By position, under the names and ids of the first."""
        flows = _by_position([[output.flow for output in child.outputs] for child in children])
        outputs = [
            Output(o.id, o.name, flow) for o, flow in zip(children[0].outputs, flows, strict=False)
        ]
        return Relation(outputs, joined(*(child.influences for child in children)))

    def set_operation(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """Rows of the first, as far as the second has them, or has not."""
        left, right = children
        matched = joined(everything(left, "join"), everything(right, "join"))
        influences = joined(left.influences, right.influences, matched)
        return Relation(left.outputs, influences)

    def grouped(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """A Python function over the rows of a group."""
        result = self._opaque(node, children, outer)
        keys = node.get("groupingAttributes", ())
        return Relation(
            result.outputs, self._influenced(side_by_side(children), keys, "group_by", outer)
        )

    def cogrouped(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        result = self._opaque(node, children, outer)
        left, right = children
        keys = [
            *left.outputs[: node["leftGroupingLen"]],
            *right.outputs[: node["rightGroupingLen"]],
        ]
        grouped = turned(merge(key.flow for key in keys).sources, "group_by")
        return Relation(result.outputs, joined(result.influences, grouped))

    def _opaque(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """Unknown code: any output may come from any input."""
        sides = side_by_side(children)
        function = node.get("functionExpr") or node.get("func")
        source = (
            self._flow(function, sides.env(), outer)
            if isinstance(function, list)
            else merge(output.flow for output in sides.outputs)
        )
        result = lift(source, TRANSFORMATION)
        flow = Flow(result.sources, max(result.doubt, LIKELY))
        return Relation(_outputs(node, [flow] * len(node["output"])), sides.influences)

    def serialized(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """Objects of the JVM turned into columns."""
        sides = side_by_side(children)
        result = lift(merge(output.flow for output in sides.outputs), TRANSFORMATION)
        flow = Flow(result.sources, max(result.doubt, LIKELY))
        heads = [nodes[0] for nodes in node["serializer"]]
        outputs = [Output(expr_id(head), head["name"], flow) for head in heads]
        return Relation(outputs, sides.influences)

    # -- inputs, and what is shared ---------------------------------------------------

    def alias(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        (child,) = children
        match = INPUT.fullmatch(node["identifier"]["name"])
        if match is None:
            return child
        outputs = [
            o if o.flow is _OF_FILES else Output(o.id, o.name, column(match[1], o.name))
            for o in child.outputs
        ]
        return Relation(outputs, {})

    def definition(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        self._shared[node["id"]] = children[0]
        return children[0]

    def reference(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        shared = self._shared.get(node["cteId"])
        if shared is None:
            return _leaf(node)
        return Relation(_outputs(node, [o.flow for o in shared.outputs]), shared.influences)

    def with_definitions(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        return children[-1]

    def _advance(self, loop: _Frame, step: list[PlanNode], outer: Env) -> None:
        """After the start of a recursive query, and after its step.

        The step is repeated on what it gave, until nothing changes: each round can move a source by
        one column.
        """
        id = loop.node["id"]
        if len(loop.children) == 1:
            self._loops[id] = [output.flow for output in loop.children[0].outputs]
            return
        for _ in range(_ROUNDS):
            flows = _by_position([self._loops[id], [o.flow for o in loop.children[1].outputs]])
            if flows == self._loops[id]:
                return
            self._loops[id] = flows
            loop.children[1] = self.run(step, outer)
        doubtful = [flow._replace(doubt=max(flow.doubt, LIKELY)) for flow in self._loops[id]]
        self._loops[id] = doubtful
        loop.children[1] = self.run(step, outer)

    def loop(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        flows = _by_position([[output.flow for output in child.outputs] for child in children])
        ids = [each["id"] for each in node.get("outputAttrIds", ())]
        names = [output.name for output in children[0].outputs]
        if len(ids) != len(names):
            ids = [output.id for output in children[0].outputs]
        outputs = [Output(*each) for each in zip(ids, names, flows, strict=True)]
        return Relation(outputs, joined(*(child.influences for child in children)))

    def loop_reference(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        """What a recursive query has so far."""
        flows = self._loops.get(node["loopId"])
        return _leaf(node) if flows is None else Relation(_outputs(node, flows), {})

    def range(self, node: PlanNode, children: list[Relation], outer: Env) -> Relation:
        return Relation(_outputs(node, [NOTHING] * len(node["output"])), {})


def _leaf(node: PlanNode) -> Relation:
    """Data that is no input of this asset. File metadata is no column."""
    flows = [_OF_FILES if _of_files(nodes[0]) else SOMEWHERE for nodes in node["output"]]
    return Relation(_outputs(node, flows), {})


def _of_files(attribute: PlanNode) -> bool:
    type = attribute.get("dataType")
    if not attribute["name"].endswith("_metadata") or not isinstance(type, dict):
        return False
    return {field["name"] for field in type.get("fields", ())} >= _METADATA


def _by_position(rows: Sequence[Sequence[Flow]]) -> list[Flow]:
    return [merge(column) for column in zip(*rows, strict=False)]


def _outputs(node: PlanNode, flows: Sequence[Flow]) -> list[Output]:
    heads = [nodes[0] for nodes in node["output"]]
    return [
        Output(expr_id(head), head["name"], flow) for head, flow in zip(heads, flows, strict=False)
    ]


PlanHandler = Callable[[_Tracer, PlanNode, list[Relation], Env], Relation]
_HANDLERS: Final[Mapping[str, PlanHandler]] = {
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
    "UnionLoop": _Tracer.loop,
    "UnionLoopRef": _Tracer.loop_reference,
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
