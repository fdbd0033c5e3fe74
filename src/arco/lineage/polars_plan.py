"""The lineage of a polars LazyFrame, from the plan that polars would execute.

polars shows its plan, node by node, to engines that replace its own (`LazyFrame._ldf.visit`); the
interface has a version. Names are resolved there: stars, selectors and suffixes are columns
already. Nothing is executed, and no data is looked at.

What the interface does not show (Python functions, rare operations) is not guessed: such columns
have no known sources. Neither has data that does not come from a scan of an input.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from arco.lineage import nested
from arco.lineage.flow import (
    LIKELY,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    UNKNOWN,
    Flow,
    Sources,
    add,
    column,
    lift,
    merge,
    turned,
)
from arco.lineage.polars_expressions import PolarsExpressions
from arco.lineage.traced import TracedColumns, traced_columns
from servo.contract.task import Influence

log = logging.getLogger(__name__)
VERSIONS: Final = (16,)
"""Of polars' interface, the first number: another one may mean something else."""
AssetOf = Callable[[Any], str | None]
"""The asset that a function of a scan reads; None for a function that is not ours."""


class PolarsRelation(NamedTuple):
    outputs: dict[str, Flow]
    influences: Sources


def trace(frame: Any, asset_of: AssetOf) -> TracedColumns:
    """The lineage of a LazyFrame. Never raises: missing lineage must not fail a task."""
    try:
        traverser = frame._ldf.visit()
        if traverser.version()[0] not in VERSIONS:
            version = ".".join(map(str, traverser.version()))
            reason = f"Plans of this version of polars ({version}) are not known."
            return TracedColumns(method="plan", reason=reason)
        relation = PolarsPlan(traverser, asset_of).relation(traverser.get_node())
    except Exception as error:
        log.info("a plan of polars could not be read", exc_info=True)
        reason = f"The plan of polars could not be read: {type(error).__name__}."
        return TracedColumns(method="plan", reason=reason)
    certain = all(not flow.doubt for flow in relation.outputs.values())
    reason = "" if certain else "Some of the plan of polars is not known: Python, or other data."
    return traced_columns("plan", relation.outputs.items(), relation.influences, reason)


def scan_function(frame: Any) -> Any:
    """The function of a LazyFrame that is one Python scan; it identifies the input."""
    traverser = frame._ldf.visit()
    return traverser.view_current_node().options[0]


class PolarsPlan:
    def __init__(self, traverser: Any, asset_of: AssetOf) -> None:
        self._plan = traverser
        self._asset_of = asset_of
        self._expressions = PolarsExpressions(traverser)
        self._relations: dict[int, PolarsRelation] = {}

    def relation(self, id: int) -> PolarsRelation:
        """The relation of a node; cached for nodes with several readers."""
        if id not in self._relations:
            self._relations[id] = self._read(id)
        return self._relations[id]

    def _read(self, id: int) -> PolarsRelation:
        self._plan.set_node(id)
        names, inputs = list(self._plan.get_schema()), list(self._plan.get_inputs())
        try:
            node = self._plan.view_current_node()
        except NotImplementedError as error:
            sources = [self.relation(each) for each in inputs]
            return _opaque(names, sources, LIKELY if "python" in str(error) else UNKNOWN)
        if type(node).__name__ == "PythonScan":
            return self._scan(node, names, self._plan.get_exprs())
        sources = [self.relation(each) for each in inputs]
        # Looking at inputs has moved the traverser; expressions are found from anywhere.
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            return _opaque(names, sources, UNKNOWN)
        relation: PolarsRelation = method(node, names, sources)
        return relation

    # -- data -------------------------------------------------------------------------

    def _scan(self, node: Any, names: Sequence[str], predicates: Sequence[Any]) -> PolarsRelation:
        asset = self._asset_of(node.options[0])
        outputs = {name: column(asset, name) if asset else SOMEWHERE for name in names}
        if not asset or not predicates:
            return PolarsRelation(outputs, {})
        every = _Columns(asset)  # a predicate may look at what is not read further
        return PolarsRelation(outputs, self._decided(predicates, every, "filter"))

    def _dataframescan(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        return PolarsRelation(dict.fromkeys(names, SOMEWHERE), {})

    # -- the same rows ----------------------------------------------------------------

    def _select(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows = self._named(node.expr, inputs[0].outputs)
        return PolarsRelation(_picked(names, flows), inputs[0].influences)

    def _reduce(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows = self._named(node.expr, inputs[0].outputs)
        return PolarsRelation(_picked(names, flows), inputs[0].influences)

    def _hstack(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows = inputs[0].outputs | self._named(node.exprs, inputs[0].outputs)
        return PolarsRelation(_picked(names, flows), inputs[0].influences)

    def _simpleprojection(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        return PolarsRelation(_picked(names, inputs[0].outputs), inputs[0].influences)

    _slice = _cache = _sink = _simpleprojection

    def _hconcat(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows: dict[str, Flow] = {}
        for each in inputs:
            flows |= each.outputs
        return PolarsRelation(_picked(names, flows), _joined(inputs))

    def _mapfunction(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows, influences = inputs[0]
        match node.function:
            case ("row_index", str(name), *_):
                return PolarsRelation(_picked(names, {**flows, name: NOTHING}), influences)
            case ("unpivot", list(index), list(on), str(variable), str(value)):
                index_flows = {name: flows.get(name, SOMEWHERE) for name in index}
                values = merge([flows.get(name, SOMEWHERE) for name in on])
                molten = {variable: NOTHING, value: values}
                return PolarsRelation(_picked(names, index_flows | molten), influences)
            case ("explode", list(exploded), *_):
                lists = {name: flows.get(name, SOMEWHERE) for name in exploded}
                items = {name: lift(flow, TRANSFORMATION) for name, flow in lists.items()}
                rows = turned(merge(lists.values()).sources, "filter")
                return PolarsRelation(_picked(names, flows | items), _with(influences, rows))
            case ("rename", list(old), list(new), *_):
                moved = dict(zip(old, new, strict=True))
                renamed = {moved.get(name, name): flow for name, flow in flows.items()}
                return PolarsRelation(_picked(names, renamed), influences)
            case ("rechunk", *_):
                return PolarsRelation(_picked(names, flows), influences)
        return _opaque(names, inputs, UNKNOWN)

    # -- other rows -------------------------------------------------------------------

    def _filter(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows, influences = inputs[0]
        rows = self._decided([node.predicate], flows, "filter")
        return PolarsRelation(_picked(names, flows), _with(influences, rows))

    def _sort(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows, influences = inputs[0]
        rows = self._decided(node.by_column, flows, "sort")
        return PolarsRelation(_picked(names, flows), _with(influences, rows))

    def _distinct(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows, influences = inputs[0]
        subset = node.options[1] or list(flows)
        keys = merge(flows.get(name, SOMEWHERE) for name in subset)
        rows = turned(keys.sources, "group_by")
        return PolarsRelation(_picked(names, flows), _with(influences, rows))

    def _groupby(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        flows, influences = inputs[0]
        if node.apply:
            return _opaque(names, inputs, LIKELY)
        keys = self._named(node.keys, flows)
        aggregates = self._named(node.aggs, flows)
        # The index of a rolling or dynamic group is no key, and is cut to the window's start.
        others = [name for name in names if name not in keys and name not in aggregates]
        index = {name: lift(flows.get(name, SOMEWHERE), TRANSFORMATION) for name in others}
        rows = turned(merge([*keys.values(), *index.values()]).sources, "group_by")
        outputs = _picked(names, keys | aggregates | index)
        return PolarsRelation(outputs, _with(influences, rows))

    def _union(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        columns = [list(each.outputs.values()) for each in inputs]
        if len({len(each) for each in columns}) != 1:
            return _opaque(names, inputs, UNKNOWN)
        merged = [merge(flows) for flows in zip(*columns, strict=True)]
        return PolarsRelation(dict(zip(names, merged, strict=True)), _joined(inputs))

    def _mergesorted(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        outputs, influences = self._union(node, names, inputs)
        keys = [node.key] if isinstance(node.key, str) else node.key
        rows = turned(merge(outputs.get(key, SOMEWHERE) for key in keys).sources, "sort")
        return PolarsRelation(outputs, _with(influences, rows))

    def _join(
        self, node: Any, names: Sequence[str], inputs: Sequence[PolarsRelation]
    ) -> PolarsRelation:
        left, right = inputs
        kind, _, _, suffix, coalesced, *_ = node.options
        left_keys, right_keys = (
            [(each.output_name, self._expressions.of(each.node, side.outputs)) for each in keys]
            for keys, side in ((node.left_on, left), (node.right_on, right))
        )
        by = [flow for _, flow in (*left_keys, *right_keys)]
        if isinstance(kind, tuple):  # ("AsOf", …, names of the left, names of the right, …)
            lists = [each for each in kind if isinstance(each, list)]
            for equal, side in zip(lists, inputs, strict=False):
                by += [side.outputs.get(name, SOMEWHERE) for name in equal]
        if node.predicate is not None:
            every = {f"{name}{suffix}": flow for name, flow in right.outputs.items()}
            every |= right.outputs | left.outputs
            by.append(self._expressions.of(node.predicate.node, every))
        influences = _with(_joined(inputs), turned(merge(by).sources, "join"))
        outputs: dict[str, Flow] = {}
        for name in names:
            base = name.removesuffix(suffix)
            if name in left.outputs:
                outputs[name] = left.outputs[name]
            elif name in right.outputs:
                outputs[name] = right.outputs[name]
            else:
                outputs[name] = right.outputs.get(base, SOMEWHERE)
        if coalesced and kind in ("Right", "Full"):
            for (name, one), (other_name, other) in zip(left_keys, right_keys, strict=True):
                if kind == "Right":
                    outputs |= {other_name: other} if other_name in outputs else {}
                elif name in outputs:
                    outputs[name] = lift(merge([one, other]), TRANSFORMATION)
        return PolarsRelation(outputs, influences)

    # -- expressions ------------------------------------------------------------------

    def _named(self, expressions: Iterable[Any], inputs: Mapping[str, Flow]) -> dict[str, Flow]:
        return {each.output_name: self._expressions.of(each.node, inputs) for each in expressions}

    def _decided(
        self, expressions: Iterable[Any], inputs: Mapping[str, Flow], kind: Influence
    ) -> Sources:
        flows = [self._expressions.of(each.node, inputs) for each in expressions]
        return turned(merge(flows).sources, kind)


class _Columns(dict[str, Flow]):
    """All columns of an asset."""

    def __init__(self, asset: str) -> None:
        super().__init__()
        self._asset = asset

    def __missing__(self, name: str) -> Flow:
        return column(self._asset, name)


def _picked(names: Iterable[str], flows: Mapping[str, Flow]) -> dict[str, Flow]:
    return {name: flows.get(name, SOMEWHERE) for name in names}


def _opaque(names: Iterable[str], inputs: Sequence[PolarsRelation], doubt: int) -> PolarsRelation:
    """Each column may come from each; with UNKNOWN, also from other sources."""
    every = nested.mixed([flow for each in inputs for flow in each.outputs.values()])
    flow = Flow(every.sources, max(every.doubt, doubt), None, True)
    if doubt == UNKNOWN:
        flow = SOMEWHERE
    return PolarsRelation(dict.fromkeys(names, flow), _joined(inputs))


def _with(influences: Sources, more: Sources) -> Sources:
    both = dict(influences)
    add(both, more)
    return both


def _joined(relations: Iterable[PolarsRelation]) -> Sources:
    every: Sources = {}
    for each in relations:
        add(every, each.influences)
    return every
