"""The rows that generators compute from one row: the flows of their columns and of their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from arco.lineage import nested
from arco.lineage.flow import LIKELY, NOTHING, TRANSFORMATION, Flow, lift, merge
from arco.spark.lineage.expressions import Context, PlanNode, Term, name_of

GeneratedFlows = tuple[list[Flow], Flow]
"""The flow of each column, and of the number of rows."""


def generate(nodes: Sequence[PlanNode], width: int, context: Context) -> GeneratedFlows:
    children = context.terms(nodes[1:])
    return _GENERATORS.get(name_of(nodes[0]), _unknown)(children, width)


def _exploded(children: list[Term], width: int) -> GeneratedFlows:
    (child,) = (term.flow for term in children)
    if width == 1:
        return [nested.element(child)], nested.length(child)
    return [nested.keys_of(child), nested.values_of(child)], nested.length(child)


def _with_positions(children: list[Term], width: int) -> GeneratedFlows:
    columns, size = _exploded(children, width - 1)
    return [lift(size, TRANSFORMATION), *columns], size


def _inlined(children: list[Term], width: int) -> GeneratedFlows:
    (child,) = (term.flow for term in children)
    struct = nested.element(child)
    names = struct.parts.names if struct.parts else ()
    columns = [
        nested.field(struct, names[at] if at < len(names) else "", at) for at in range(width)
    ]
    return columns, nested.length(child)


def _stacked(children: list[Term], width: int) -> GeneratedFlows:
    """The first argument is the number of rows, a literal."""
    values = [term.flow for term in children[1:]]
    return [merge(values[at::width]) for at in range(width)], NOTHING


def _extracted(children: list[Term], width: int) -> GeneratedFlows:
    """Each row gives one row."""
    return [nested.mixed([term.flow for term in children])] * width, NOTHING


def _unknown(children: list[Term], width: int) -> GeneratedFlows:
    """Unknown code: any column may come from any argument."""
    given = nested.mixed([term.flow for term in children])
    flow = Flow(given.sources, max(given.doubt, LIKELY) if given.sources else given.doubt)
    return [flow] * width, given


_GENERATORS: Final[dict[str, Callable[[list[Term], int], GeneratedFlows]]] = {
    "Explode": _exploded,
    "PosExplode": _with_positions,
    "Inline": _inlined,
    "Stack": _stacked,
    "JsonTuple": _extracted,
}
