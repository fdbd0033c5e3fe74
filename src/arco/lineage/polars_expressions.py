"""The flows of expressions in a polars plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arco.lineage import nested
from arco.lineage.flow import (
    AGGREGATION,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    deciding,
    lift,
    merge,
)

_COUNTING: Final = frozenset({"count", "n_unique", "null_count", "approx_n_unique", "len"})
"""Functions that count values: their result does not show values."""
_AGGREGATING: Final = frozenset({"quantile", "mode", "skew", "kurtosis", "entropy", "top_k"})
"""Functions that make one value of a whole column."""
_MASKING: Final = frozenset({"hash"})
_SCALARS: Final = (bool, int, float, str, bytes, type(None))


class PolarsExpressions:
    def __init__(self, traverser: Any) -> None:
        self._plan = traverser

    def of(self, id: int, inputs: Mapping[str, Flow]) -> Flow:
        """The flow of an expression over these columns; unknown where polars does not show it."""
        try:
            node = self._plan.view_expression(id)
        except NotImplementedError:
            return SOMEWHERE

        def flow(each: int) -> Flow:
            return self.of(each, inputs)

        match type(node).__name__:
            case "Column":
                return self._column(node.name, inputs)
            case "Len":
                return NOTHING
            case "Literal":
                # A column of values that code has made may come from anywhere.
                is_scalar = isinstance(node.value, _SCALARS) or hasattr(node.value, "isoformat")
                return NOTHING if is_scalar else SOMEWHERE
            case "Alias":
                return flow(node.expr)
            case "Cast" | "Explode":
                return lift(flow(node.expr), TRANSFORMATION)
            case "BinaryExpr":
                return nested.mixed([flow(node.left), flow(node.right)])
            case "Ternary":
                return nested.decided([flow(node.truthy), flow(node.falsy)], [flow(node.predicate)])
            case "Agg":
                mask = node.name in _COUNTING
                return nested.mixed([flow(e) for e in node.arguments], AGGREGATION, mask=mask)
            case "Function":
                return self._function(node, inputs)
            case "Window":
                keys = [*node.partition_by]
                if node.order_by is not None:
                    keys += [node.order_by] if isinstance(node.order_by, int) else node.order_by
                return nested.decided([flow(node.function)], [flow(e) for e in keys], "window")
            case "Filter":
                condition = deciding(flow(node.by), "conditional")
                return nested.beside(flow(node.input), [condition])
            case "Sort":
                own = flow(node.expr)
                return nested.beside(own, [deciding(own, "sort")])
            case "SortBy":
                keys_of = [deciding(flow(each), "sort") for each in node.by]
                return nested.beside(flow(node.expr), keys_of)
            case "Gather":
                return nested.beside(flow(node.expr), [deciding(flow(node.idx), "conditional")])
            case "Slice":
                limits = [deciding(flow(e), "conditional") for e in (node.offset, node.length)]
                return nested.beside(flow(node.input), limits)
        return SOMEWHERE

    def _column(self, name: str, inputs: Mapping[str, Flow]) -> Flow:
        try:
            return inputs[name]
        except KeyError:
            return SOMEWHERE

    def _function(self, node: Any, inputs: Mapping[str, Flow]) -> Flow:
        flows = [self.of(each, inputs) for each in node.input]
        name = node.function_data[0]
        text = name if isinstance(name, str) else str(name)
        if text == "StructFunction.FieldByName":
            return nested.field(merge(flows), str(node.function_data[1]))
        if text in _COUNTING:
            return nested.mixed(flows, AGGREGATION, mask=True)
        least = AGGREGATION if text in _AGGREGATING else TRANSFORMATION
        return nested.mixed(flows, least, mask=text in _MASKING)
