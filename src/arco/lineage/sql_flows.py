"""What the expressions of a query make of its columns; as `spark.lineage.expressions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from sqlglot import exp

from arco.lineage.flow import (
    AGGREGATION,
    LIKELY,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    Sources,
    deciding,
    lift,
    merge,
)

_MASKING: Final = frozenset(
    {"md5", "sha", "sha1", "sha2", "crc32", "hash", "xxhash64", "mask", "collation_key"}
)
_COUNTING: Final = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_AGGREGATING: Final = frozenset(
    {
        "any",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "every",
        "histogram_numeric",
        "listagg",
        "percentile",
        "some",
        "std",
        "string_agg",
        "try_avg",
        "try_sum",
    }
)
"""Aggregates that the parser does not know as such."""
_NEIGHBOURS: Final = (exp.Lag, exp.Lead, exp.NthValue)
"""They take a value from another row of the window, and aggregate nothing."""
_SAME: Final = (exp.Alias, exp.Paren, exp.Ordered, exp.IgnoreNulls, exp.RespectNulls)


class Selected(Protocol):
    @property
    def outputs(self) -> Sequence[tuple[str, Flow]]: ...
    @property
    def influences(self) -> Sources: ...


Query = Callable[[exp.Expr, "Scope"], Selected]


class Scope:
    """The columns that a SELECT sees, its own sources' and those around it."""

    def __init__(self, outer: Scope | None) -> None:
        self.outer = outer
        self.merged: dict[str, tuple[str, Flow]] = {}
        """Columns that USING made one of two."""
        self._sources: dict[str, Sequence[tuple[str, Flow]]] = {}
        self._hidden: set[str] = set()

    def add(self, name: str, outputs: Sequence[tuple[str, Flow]], *, hidden: bool = False) -> None:
        name = name.lower() or f"#{len(self._sources)}"
        self._sources[name] = outputs
        if hidden:
            self._hidden.add(name)

    def forget_hidden(self) -> None:
        """What a semi join looked at cannot be seen beyond its condition."""
        for name in self._hidden:
            del self._sources[name]
        self._hidden.clear()

    def source(self, name: str) -> Sequence[tuple[str, Flow]]:
        return self._sources.get(name.lower(), ())

    def has(self, name: str) -> bool:
        return name.lower() in self._sources

    def outputs(self) -> Iterator[tuple[str, Flow]]:
        """What `*` means: merged columns first, then all others."""
        yield from self.merged.values()
        for name, outputs in self._sources.items():
            if name not in self._hidden:
                yield from ((n, f) for n, f in outputs if n.lower() not in self.merged)

    def column(self, name: str) -> Flow | None:
        """A column without a qualifier."""
        if name.lower() in self.merged:
            return self.merged[name.lower()][1]
        flows = [
            flow
            for outputs in self._sources.values()
            for each, flow in outputs
            if each.lower() == name.lower()
        ]
        if len(flows) <= 1:
            return flows[0] if flows else None
        both = merge(flows)
        return Flow(both.sources, max(both.doubt, LIKELY))


def named(outputs: Iterable[tuple[str, Flow]], name: str) -> Flow:
    return next((flow for each, flow in outputs if each.lower() == name.lower()), SOMEWHERE)


class Flows:
    def __init__(self, scope: Scope, query: Query) -> None:
        self._scope = scope
        self._query = query
        self._bound: list[str] = []
        """Variables of the lambdas around."""
        self.aliases: dict[str, Flow] = {}
        self.aliases_first = False
        self.windows: dict[str, exp.Expr] = {}

    def of(self, tree: exp.Expr) -> Flow:
        match tree:
            case exp.Column():
                return self._column([part.name for part in tree.parts])
            case exp.Case():
                return self._case(tree)
            case exp.If() | exp.Nvl2():
                values = [tree.args.get("true"), tree.args.get("false")]
                return self._decided(values, [tree.this])
            case exp.Nullif():
                return self._decided([tree.this], [tree.this, tree.expression])
            case exp.Grouping() | exp.GroupingId():
                return NOTHING
            case exp.ArgMax() | exp.ArgMin():
                return lift(self._decided([tree.this], [tree.expression]), AGGREGATION)
            case exp.ArrayFilter():
                return self._decided([tree.this], [tree.expression])
            case exp.Filter():
                condition = deciding(self.of(tree.expression.this), "conditional")
                return merge([self.of(tree.this), condition])
            case exp.Window():
                return self._window(tree)
            case exp.Lambda():
                return self._lambda(tree)
            case exp.Exists() if isinstance(tree.this, exp.Query):
                return Flow(self._query(tree.this, self._scope).influences)
            case exp.Query():
                made = self._query(tree, self._scope)
                return merge([*(flow for _, flow in made.outputs[:1]), Flow(made.influences)])
        return self._function(tree)

    def _function(self, tree: exp.Expr) -> Flow:
        children = merge(self.of(each) for each in tree.iter_expressions())
        if isinstance(tree, _SAME):
            return children
        name = tree.name if isinstance(tree, exp.Anonymous) else type(tree).__name__
        if name.lower() in _MASKING:
            return lift(children, TRANSFORMATION, mask=True)
        if isinstance(tree, _COUNTING):
            return lift(children, AGGREGATION, mask=True)
        if name.lower() in _AGGREGATING:
            return lift(children, AGGREGATION)
        if isinstance(tree, exp.AggFunc) and not isinstance(tree, _NEIGHBOURS):
            return lift(children, AGGREGATION)
        return lift(children, TRANSFORMATION)

    def _column(self, parts: list[str]) -> Flow:
        """`column`, `source.column`, and either with fields of a struct behind it."""
        if parts[0] in self._bound or parts == ["*"]:
            return NOTHING
        scope: Scope | None = self._scope
        while scope is not None:
            flow = self._within(scope, parts)
            if flow is not None:
                return flow
            scope = scope.outer
        return SOMEWHERE

    def _within(self, scope: Scope, parts: list[str]) -> Flow | None:
        if len(parts) > 1 and scope.has(parts[0]):
            found = named(scope.source(parts[0]), parts[1])
            return lift(found, TRANSFORMATION) if len(parts) > 2 else found
        alias = self.aliases.get(parts[0].lower()) if scope is self._scope else None
        own = scope.column(parts[0])
        known = alias or own if self.aliases_first else own or alias
        return lift(known, TRANSFORMATION) if known is not None and len(parts) > 1 else known

    def _case(self, tree: exp.Case) -> Flow:
        values = [each.args["true"] for each in tree.args["ifs"]]
        conditions = [each.this for each in tree.args["ifs"]]
        return self._decided([*values, tree.args.get("default")], [*conditions, tree.this])

    def _decided(
        self,
        values: Iterable[exp.Expr | None],
        conditions: Iterable[exp.Expr | None],
    ) -> Flow:
        chosen = [lift(self.of(each), TRANSFORMATION) for each in values if each is not None]
        decided = [deciding(self.of(c), "conditional") for c in conditions if c is not None]
        return merge([*chosen, *decided])

    def _window(self, tree: exp.Window) -> Flow:
        spec: exp.Expr = self.windows.get(tree.alias.lower(), tree)
        order = spec.args.get("order")
        keys = [*(spec.args.get("partition_by") or []), *(order.expressions if order else [])]
        function = lift(self.of(tree.this), TRANSFORMATION)
        return merge([function, *(deciding(self.of(key), "window") for key in keys)])

    def _lambda(self, tree: exp.Lambda) -> Flow:
        names = [each.name for each in tree.expressions]
        self._bound += names
        try:
            return self.of(tree.this)
        finally:
            del self._bound[len(self._bound) - len(names) :]
