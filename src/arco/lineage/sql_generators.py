"""The flows of generators in a query; as `spark.lineage.generators`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlglot import exp

from arco.lineage import nested
from arco.lineage.flow import LIKELY, NOTHING, TRANSFORMATION, Flow, lift, merge
from arco.lineage.sql_flows import Flows

_NAMED: Final = frozenset({"inline_outer", "json_tuple"})
"""Generators that the parser does not know as such."""


class Generated(NamedTuple):
    names: Sequence[str] | None
    """None where the text does not tell them."""
    flows: Sequence[Flow]
    rows: Flow
    """What decides how many rows there are."""


def is_generator(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Explode | exp.Inline | exp.Stack) or (
        isinstance(tree, exp.Anonymous) and tree.name.lower() in _NAMED
    )


def generate(tree: exp.Expr, flows: Flows, names: Sequence[str]) -> Generated:
    match tree:
        case exp.Posexplode():
            result = _exploded(flows.of(tree.this), names[1:])
            position = lift(result.rows, TRANSFORMATION)
            labels = names or (("pos", *result.names) if result.names is not None else None)
            return Generated(labels, [position, *result.flows], result.rows)
        case exp.Explode():
            return _exploded(flows.of(tree.this), names)
        case exp.Inline():
            return _inlined(flows.of(tree.this), names)
        case exp.Stack():
            return _stacked(tree, flows, names)
        case exp.Anonymous() if tree.name.lower() == "inline_outer":
            return _inlined(flows.of(tree.expressions[0]), names)
        case exp.Anonymous() if tree.name.lower() == "json_tuple":
            width = len(tree.expressions) - 1
            flow = nested.mixed([flows.of(each) for each in tree.expressions])
            return Generated(names or [f"c{at}" for at in range(width)], [flow] * width, NOTHING)
    given = nested.mixed([flows.of(each) for each in tree.iter_expressions()])
    flow = Flow(given.sources, max(given.doubt, LIKELY))
    return Generated(names or None, [flow] * len(names), given)


def _exploded(flow: Flow, names: Sequence[str]) -> Generated:
    """Of a column the names tell whether it is a map."""
    size = nested.length(flow)
    if len(names) == 2 or (flow.parts is not None and flow.parts.kind == "map"):
        columns = [nested.keys_of(flow), nested.values_of(flow)]
        return Generated(names or ("key", "value"), columns, size)
    labels = names or (("col",) if flow.parts is not None else None)
    return Generated(labels, [nested.element(flow)], size)


def _inlined(flow: Flow, names: Sequence[str]) -> Generated:
    struct = nested.element(flow)
    parts = struct.parts
    if parts is None or parts.rest is not None:
        return Generated(names or None, [nested.part_of(struct)] * len(names), nested.length(flow))
    columns = [nested.field(struct, name, at) for at, name in enumerate(parts.names)]
    return Generated(names or parts.names, columns, nested.length(flow))


def _stacked(tree: exp.Stack, flows: Flows, names: Sequence[str]) -> Generated:
    values = [flows.of(each) for each in tree.expressions]
    rows = int(tree.this.name) if isinstance(tree.this, exp.Literal) else 0
    width = -(-len(values) // rows) if rows else len(names)
    columns = [merge(values[at::width]) for at in range(width)]
    return Generated(names or [f"col{at}" for at in range(width)], columns, NOTHING)
