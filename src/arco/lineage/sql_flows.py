"""The flows of expressions in a query; as `spark.lineage.expressions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from sqlglot import exp

from arco.lineage import nested
from arco.lineage.flow import (
    AGGREGATION,
    IDENTITY,
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
from arco.lineage.functions import OF_PARTS
from arco.lineage.nested import beside, decided, mixed
from arco.lineage.sql_scope import SelectScope, fields, is_star, path, without
from servo.contract.task import Influence

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
        "count_min_sketch",
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
_NAMES: Final = {
    "ArraySize": "Size",
    "ArraySlice": "Slice",
    "ArraySort": "SortArray",
    "Cardinality": "Size",
    "Isnull": "IsNull",
    "Isnotnull": "IsNotNull",
    "Map": "MapFromArrays",
}
"""Where the parser's name of a function is not Spark's."""
_SAME: Final = (exp.Alias, exp.Paren, exp.Ordered, exp.IgnoreNulls, exp.RespectNulls)


class Selected(Protocol):
    @property
    def outputs(self) -> Sequence[tuple[str, Flow]]: ...
    @property
    def influences(self) -> Sources: ...


SelectQuery = Callable[[exp.Expr, "SelectScope"], Selected]


class Flows:
    def __init__(self, scope: SelectScope, query: SelectQuery) -> None:
        self._scope = scope
        self._query = query
        self._bound: list[tuple[str, Flow]] = []
        """Variables of the lambdas around, the innermost last."""
        self.aliases: dict[str, Flow] = {}
        self.aliases_first = False
        self.windows: dict[str, exp.Expr] = {}

    def of(self, tree: exp.Expr) -> Flow:
        if is_star(tree):
            return mixed([flow for _, flow in self.star(tree)])
        match tree:
            case exp.Column():
                return self.named([part.name for part in tree.parts])
            case exp.Count() if isinstance(tree.this, exp.Star):
                return NOTHING
            case exp.Case():
                return self._case(tree)
            case exp.If() | exp.Nvl2():
                values = [tree.args.get("true"), tree.args.get("false")]
                return self._decided(values, [tree.this])
            case exp.Nullif():
                return self._decided([tree.this], [tree.this, tree.expression])
            case exp.DecodeCase():
                return self._decoded(tree)
            case exp.Anonymous() if tree.name.lower() == "nullifzero":
                return self._decided(tree.expressions, tree.expressions)
            case exp.Grouping() | exp.GroupingId():
                return NOTHING
            case exp.ArgMax() | exp.ArgMin():
                return lift(self._decided([tree.this], [tree.expression]), AGGREGATION)
            case exp.Filter():
                condition = deciding(self.of(tree.expression.this), "conditional")
                return beside(self.of(tree.this), [condition])
            case exp.WithinGroup():
                return self._within_group(tree)
            case exp.GroupConcat() if isinstance(tree.this, exp.Order):
                return self._ordered(self.of(tree.this.this), tree.this, "sort")
            case exp.Window():
                return self._window(tree)
            case exp.Identifier():
                return self._variable(tree.name) or NOTHING
            case exp.Exists() if isinstance(tree.this, exp.Query):
                return Flow(self._query(tree.this, self._scope).influences)
            case exp.In() if tree.args.get("query") is not None:
                return self._in_query(tree)
            case exp.Query():
                result = self._query(tree, self._scope)
                first = merge(flow for _, flow in result.outputs[:1])
                return beside(first, [Flow(result.influences)])
            case exp.Anonymous() if tree.name.lower() == "identifier":
                return self._identifier(tree)
        for rule in (self._with_lambda, self._nested):
            if (flow := rule(tree)) is not None:
                return flow
        return self._function(tree)

    # -- structs, arrays and maps -----------------------------------------------------------

    def _nested(self, tree: exp.Expr) -> Flow | None:
        match tree:
            case exp.Struct():
                return self._struct(tree)
            case exp.Array():
                return nested.array(self._arguments(tree))
            case exp.VarMap():
                return self._map(tree)
            case exp.Dot() if isinstance(tree.expression, exp.Identifier):
                return self._field(self.of(tree.this), tree.expression.name)
            case exp.Bracket() if len(tree.expressions) == 1:
                return self._item(tree)
            case exp.Max() | exp.Min() if not tree.expressions:
                return lift(nested.extreme(self.of(tree.this)), AGGREGATION)
            case exp.ArrayAgg() | exp.ArrayUniqueAgg():
                distinct = isinstance(tree, exp.ArrayUniqueAgg)
                return lift(nested.collected(self.of(tree.this), distinct=distinct), AGGREGATION)
            case exp.First() | exp.Last() | exp.AnyValue() | exp.FirstValue() | exp.LastValue():
                return lift(self.of(tree.this), AGGREGATION)
            case exp.Coalesce():
                return lift(merge(self._arguments(tree)), TRANSFORMATION)
            case exp.Is():
                return mixed([nested.length(self.of(tree.this))])
        name = type(tree).__name__
        if isinstance(tree, exp.Anonymous):
            name = "".join(word.capitalize() for word in tree.name.split("_"))
        function = OF_PARTS.get(_NAMES.get(name, name))
        return None if function is None else function(self._arguments(tree))

    def _struct(self, tree: exp.Struct) -> Flow:
        columns: list[tuple[str, Flow]] = []
        for each in tree.expressions:
            if is_star(each):
                columns += self.star(each)
            elif isinstance(each, exp.PropertyEQ):
                columns.append((each.this.name, self.of(each.expression)))
            else:
                columns.append((each.alias_or_name, self.of(each)))
        return nested.struct([name for name, _ in columns], [flow for _, flow in columns])

    def _map(self, tree: exp.VarMap) -> Flow | None:
        keys, values = tree.args["keys"], tree.args["values"]
        if not (isinstance(keys, exp.Array) and isinstance(values, exp.Array)):
            return None
        literal = all(isinstance(each, exp.Literal) for each in keys.expressions)
        return nested.map_of(
            [self.of(each) for each in keys.expressions],
            [self.of(each) for each in values.expressions],
            [each.name for each in keys.expressions] if literal else (),
        )

    def _field(self, flow: Flow, name: str) -> Flow:
        """A field of a struct; of an array of structs, the field of each."""
        if flow.parts is not None and flow.parts.kind == "array":
            return nested.array_of(nested.field(nested.element(flow), name), nested.length(flow))
        return nested.field(flow, name)

    def _item(self, tree: exp.Bracket) -> Flow:
        (key,) = tree.expressions
        flow, by = self.of(tree.this), self.of(key)
        literal = key.name if isinstance(key, exp.Literal) else None
        if flow.parts is None:
            return mixed([nested.part_of(flow), by])
        if flow.parts.kind == "map":
            return nested.chosen_by(nested.value_at(flow, literal), by)
        at = int(literal) - int(tree.args.get("offset") or 0) if literal else None
        return nested.chosen_by(nested.item(flow, at), by)

    def _with_lambda(self, tree: exp.Expr) -> Flow | None:
        functions = [each for each in tree.iter_expressions() if isinstance(each, exp.Lambda)]
        if not functions:
            return None
        others = [self.of(e) for e in tree.iter_expressions() if not isinstance(e, exp.Lambda)]
        array = merge(others)
        element = nested.element(others[0]) if others else NOTHING
        if isinstance(tree, exp.Transform):
            result = self._call(functions[0], [element, nested.length(array)])
            size = lift(nested.length(array), TRANSFORMATION)
            return nested.array_of(lift(result, TRANSFORMATION), size)
        own = array.parts is not None  # else the items decide about themselves
        if isinstance(tree, exp.ArrayFilter) or (tree.name.lower() == "map_filter" and not own):
            return decided([array], [self._call(functions[0], [element if own else NOTHING] * 2)])
        called = [self._call(each, [nested.part_of(array)] * 3) for each in functions]
        result = mixed([*others, *called])
        candidates = all(flow.parts is None for flow in others)
        return result if candidates else result._replace(doubt=max(result.doubt, LIKELY))

    def _call(self, tree: exp.Lambda, given: Sequence[Flow]) -> Flow:
        names = [each.name for each in tree.expressions]
        self._bound += zip(names, given, strict=False)
        try:
            return self.of(tree.this)
        finally:
            del self._bound[len(self._bound) - len(names) :]

    def _variable(self, name: str) -> Flow | None:
        return next((flow for each, flow in reversed(self._bound) if each == name), None)

    # -- functions ------------------------------------------------------------------------

    def _identifier(self, tree: exp.Anonymous) -> Flow:
        """`identifier('a.b')` is the column of that name."""
        (name,) = tree.expressions
        if not isinstance(name, exp.Literal):
            return SOMEWHERE
        return self.named([part.strip("`") for part in name.name.split(".")])

    def _within_group(self, tree: exp.WithinGroup) -> Flow:
        """Percentiles and modes are taken of the order; other aggregates only follow it."""
        name = tree.this.name if isinstance(tree.this, exp.Anonymous) else tree.this.key
        if name.lower().replace("_", "") in ("percentilecont", "percentiledisc", "mode"):
            keys = [self.of(tree.this), *(self.of(each) for each in tree.expression.expressions)]
            return mixed(keys, AGGREGATION)
        return self._ordered(self.of(tree.this), tree.expression, "sort")

    def _ordered(self, value: Flow, order: exp.Expr, kind: Influence) -> Flow:
        keys = [self.of(each) for each in order.expressions]
        return lift(decided([value], keys, kind), AGGREGATION)

    def _arguments(self, tree: exp.Expr) -> list[Flow]:
        """Of a function. A star stands for several of them."""
        result: list[Flow] = []
        for each in tree.iter_expressions():
            if is_star(each):
                result += [flow for _, flow in self.star(each)]
            else:
                result.append(self.of(each))
        return result

    def _in_query(self, tree: exp.In) -> Flow:
        result = self._query(tree.args["query"], self._scope)
        columns = [flow for _, flow in result.outputs]
        return mixed([self.of(tree.this), *columns, Flow(result.influences)])

    def _function(self, tree: exp.Expr) -> Flow:
        flows = self._arguments(tree)
        if isinstance(tree, _SAME):
            return merge(flows)
        children = mixed(flows, IDENTITY)
        name = tree.name if isinstance(tree, exp.Anonymous) else type(tree).__name__
        if name.lower() in _MASKING:
            return lift(children, TRANSFORMATION, mask=True)
        if isinstance(tree, _COUNTING):
            return lift(children, AGGREGATION, mask=True)
        if _aggregates(name.lower()) and not _quantifies(tree):
            return lift(children, AGGREGATION)
        if isinstance(tree, exp.AggFunc) and not isinstance(tree, _NEIGHBOURS):
            return lift(children, AGGREGATION)
        return lift(children, TRANSFORMATION)

    def star(self, tree: exp.Expr) -> list[tuple[str, Flow]]:
        """What a star stands for; without a name, where that is not known."""
        if isinstance(tree, exp.Star):
            return without(self._scope.columns(), tree)
        if isinstance(tree, exp.Dot):
            return fields(self.of(tree.this))
        names = [part.name for part in path(tree)[:-1]]
        if len(names) == 1 and self._scope.has(names[0]):
            return without(self._scope.columns(names[0]), tree.this)
        return fields(self.named(names))

    def named(self, parts: list[str]) -> Flow:
        """`column`, `source.column`, and either with fields of a struct behind it."""
        variable = self._variable(parts[0])
        if variable is not None:
            return self._fields(variable, parts[1:])
        scope: SelectScope | None = self._scope
        while scope is not None:
            flow = self._within(scope, parts)
            if flow is not None:
                return flow
            if scope.partial:  # it may be one of the columns that are not known
                return SOMEWHERE
            scope = scope.outer
        return SOMEWHERE

    def _within(self, scope: SelectScope, parts: list[str]) -> Flow | None:
        if len(parts) > 1 and scope.has(parts[0]):
            entry = scope.of_source(parts[0], parts[1])
            return self._fields(entry, parts[2:])
        alias = self.aliases.get(parts[0].lower()) if scope is self._scope else None
        own = scope.column(parts[0])
        candidates = alias or own if self.aliases_first else own or alias
        return None if candidates is None else self._fields(candidates, parts[1:])

    def _fields(self, flow: Flow, names: Sequence[str]) -> Flow:
        for name in names:
            flow = self._field(flow, name)
        return flow

    def _case(self, tree: exp.Case) -> Flow:
        values = [each.args["true"] for each in tree.args["ifs"]]
        conditions = [each.this for each in tree.args["ifs"]]
        return self._decided([*values, tree.args.get("default")], [*conditions, tree.this])

    def _decoded(self, tree: exp.DecodeCase) -> Flow:
        """A value, then what it may be and what that means in turns, then perhaps a default."""
        value, *cases = tree.expressions
        pairs = len(cases) // 2 * 2
        return self._decided(cases[1:pairs:2] + cases[pairs:], [value, *cases[:pairs:2]])

    def _decided(
        self, values: Iterable[exp.Expr | None], conditions: Iterable[exp.Expr | None]
    ) -> Flow:
        return decided(
            [self.of(each) for each in values if each is not None],
            [self.of(each) for each in conditions if each is not None],
        )

    def _window(self, tree: exp.Window) -> Flow:
        keys: list[exp.Expr] = []
        spec: exp.Expr | None = tree
        while spec is not None:  # `w AS (v)` means `v`
            order = spec.args.get("order")
            keys += [*(spec.args.get("partition_by") or []), *(order.expressions if order else [])]
            spec = self.windows.get(spec.alias.lower()) if spec.alias else None
        return decided([self.of(tree.this)], [self.of(key) for key in keys], "window")


def _aggregates(name: str) -> bool:
    return name in _AGGREGATING or name.endswith("_agg") or name.startswith("regr_")


def _quantifies(tree: exp.Expr) -> bool:
    """`LIKE ANY (…)`, which is no aggregate."""
    return isinstance(tree.parent, exp.Like | exp.ILike | exp.EQ)
