"""Queries to relations: what they put out, and what decides about their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from arco.lineage.flow import (
    AGGREGATION,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    Sources,
    add,
    deciding,
    lift,
    merge,
    turned,
)
from arco.lineage.sql_flows import Flows, Scope, named
from servo.contract.task import Influence

Outputs = Sequence[tuple[str, Flow]]


class Relation(NamedTuple):
    outputs: Outputs
    influences: Sources


Tables = Mapping[str, Relation]
"""What a name in FROM may mean: references and common table expressions."""


class Queries:
    def query(self, tree: exp.Expr, tables: Tables, outer: Scope | None = None) -> Relation:
        tables = self._with(tree, tables, outer)
        if isinstance(tree, exp.Subquery):
            return self._ordered(tree, self.query(tree.this, tables, outer), tables, outer)
        if isinstance(tree, exp.SetOperation):
            return self._ordered(tree, self._set(tree, tables, outer), tables, outer)
        if isinstance(tree, exp.Select):
            return _Select(self, tree, tables, outer).relation()
        if isinstance(tree, exp.Table):
            return self.table(tree, tables, outer)
        return Relation([], {})

    def _with(self, tree: exp.Expr, tables: Tables, outer: Scope | None) -> Tables:
        clause = tree.args.get("with_")
        if clause is None:
            return tables
        known = dict(tables)
        for each in clause.expressions:
            name, columns = each.alias.lower(), each.args["alias"].columns
            if clause.args.get("recursive") and isinstance(each.this, exp.Union):
                start = self.query(each.this.this, known, outer)
                known[name] = _renamed(start, columns)
            known[name] = _renamed(self.query(each.this, known, outer), columns)
        return known

    def _set(self, tree: exp.SetOperation, tables: Tables, outer: Scope | None) -> Relation:
        left = self.query(tree.this, tables, outer)
        right = self.query(tree.expression, tables, outer)
        influences = _joined(left.influences, right.influences)
        if not isinstance(tree, exp.Union):
            matched = _joined(_all(left.outputs, "join"), _all(right.outputs, "join"))
            return Relation(left.outputs, _joined(influences, matched))
        pairs = zip(left.outputs, right.outputs, strict=False)
        outputs = [(name, merge([flow, other])) for (name, flow), (_, other) in pairs]
        if tree.args.get("distinct"):
            influences = _joined(influences, _all(outputs, "group_by"))
        return Relation(outputs, influences)

    def _ordered(
        self, tree: exp.Expr, made: Relation, tables: Tables, outer: Scope | None
    ) -> Relation:
        """ORDER BY of a set operation sees what it puts out."""
        keys = list(_sort_keys(tree))
        if not keys:
            return made
        scope = Scope(outer)
        scope.add("", made.outputs)
        flows = Flows(scope, lambda q, s: self.query(q, tables, s))
        more: Sources = {}
        for key in keys:
            add(more, turned(_by_position(key, made.outputs, flows).sources, "sort"))
        return Relation(made.outputs, _joined(made.influences, more))

    def table(self, tree: exp.Table, tables: Tables, outer: Scope | None) -> Relation:
        if isinstance(tree.this, exp.Func):
            return Relation(_function(tree.this, NOTHING, []), {})
        known = tables.get(tree.name.lower()) or tables.get(tree.name)
        return known or Relation([], {})


class _Select:
    """One SELECT: its sources first, then everything that looks at them."""

    def __init__(
        self, queries: Queries, tree: exp.Select, tables: Tables, outer: Scope | None
    ) -> None:
        self._queries = queries
        self._tree = tree
        self._tables = tables
        self._scope = Scope(outer)
        self._influences: Sources = {}
        self._flows = Flows(self._scope, lambda q, s: queries.query(q, tables, s))
        windows = tree.args.get("windows") or []
        self._flows.windows = {each.this.name.lower(): each for each in windows}

    def relation(self) -> Relation:
        self._sources()
        self._decide(self._clause("where"), "filter")
        outputs = self._projections()
        self._flows.aliases = {name.lower(): flow for name, flow in outputs}
        self._group(outputs)
        self._decide(self._clause("having"), "filter")
        self._decide(self._clause("qualify"), "filter")
        if self._tree.args.get("distinct"):
            add(self._influences, _all(outputs, "group_by"))
        self._flows.aliases_first = True
        for key in _sort_keys(self._tree):
            flow = _by_position(key, outputs, self._flows)
            add(self._influences, turned(flow.sources, "sort"))
        return Relation(outputs, self._influences)

    def _clause(self, name: str) -> list[exp.Expr]:
        clause = self._tree.args.get(name)
        return [] if clause is None else [clause.this]

    def _decide(self, expressions: Iterable[exp.Expr], kind: Influence) -> None:
        for each in expressions:
            add(self._influences, turned(self._flows.of(each).sources, kind))

    # -- FROM -------------------------------------------------------------------------

    def _sources(self) -> None:
        clause = self._tree.args.get("from_")
        joins = self._tree.args.get("joins") or []
        if clause is not None:
            self._add(clause.this)
            joins = [*(clause.this.args.get("joins") or []), *joins]
        for join in joins:
            self._join(join)
        for lateral in self._tree.args.get("laterals") or []:
            self._add(lateral)
        for join in joins:
            if (on := join.args.get("on")) is not None:
                self._decide([on], "join")
        self._scope.forget_hidden()

    def _join(self, join: exp.Join) -> None:
        before = list(self._scope.outputs())
        hidden = join.args.get("kind") in ("SEMI", "ANTI")
        relation = self._add(join.this, hidden=hidden)
        using = [each.name for each in join.args.get("using") or []]
        if join.args.get("method") == "NATURAL":
            right = {name.lower() for name, _ in relation.outputs}
            using = [name for name, _ in before if name.lower() in right]
        for name in using:
            self._use(name, before, relation.outputs, str(join.args.get("side") or ""), hidden)

    def _use(self, name: str, left: Outputs, right: Outputs, side: str, hidden: bool) -> None:
        one, other = named(left, name), named(right, name)
        add(self._influences, turned(merge([one, other]).sources, "join"))
        if not hidden:
            full = lift(merge([one, other]), TRANSFORMATION)
            self._scope.merged[name.lower()] = (name, {"RIGHT": other, "FULL": full}.get(side, one))

    def _add(self, tree: exp.Expr, *, hidden: bool = False) -> Relation:
        relation = self._source(tree)
        for pivot in tree.args.get("pivots") or []:
            relation = self._pivoted(relation, pivot)
        alias = tree.args.get("alias")
        if alias is not None and not isinstance(tree, exp.Lateral):
            relation = _renamed(relation, alias.columns)
        add(self._influences, relation.influences)
        pivots = tree.args.get("pivots") or []
        name = next((p.alias for p in pivots if p.alias), "") or tree.alias_or_name
        self._scope.add(name, relation.outputs, hidden=hidden)
        return relation

    def _source(self, tree: exp.Expr) -> Relation:
        if isinstance(tree, exp.Lateral):
            return self._lateral(tree)
        if isinstance(tree, exp.Table):
            return self._queries.table(tree, self._tables, self._scope.outer)
        if isinstance(tree, exp.Values):
            columns = tree.args["alias"].columns if tree.args.get("alias") else []
            return Relation([(each.name, SOMEWHERE) for each in columns], {})
        return self._queries.query(tree, self._tables, self._scope.outer)

    def _lateral(self, tree: exp.Lateral) -> Relation:
        columns = tree.args["alias"].columns if tree.args.get("alias") else []
        if isinstance(tree.this, exp.Subquery):
            made = self._queries.query(tree.this, self._tables, self._scope)
            return _renamed(made, columns)
        flow = lift(self._flows.of(tree.this), TRANSFORMATION)
        return Relation(_function(tree.this, flow, [each.name for each in columns]), {})

    def _pivoted(self, relation: Relation, pivot: exp.Pivot) -> Relation:
        scope = Scope(None)
        scope.add("", relation.outputs)
        flows = Flows(scope, lambda q, s: self._queries.query(q, self._tables, s))
        made = _unpivot if pivot.args.get("unpivot") else _pivot
        return made(relation, pivot, flows)

    # -- SELECT -----------------------------------------------------------------------

    def _projections(self) -> list[tuple[str, Flow]]:
        made: list[tuple[str, Flow]] = []
        for each in self._tree.expressions:
            found = list(self._projection(each))
            for name, flow in found:
                self._flows.aliases[name.lower()] = flow
            made += found
        return made

    def _projection(self, tree: exp.Expr) -> Iterator[tuple[str, Flow]]:
        if isinstance(tree, exp.Star):
            yield from _starred(self._scope.outputs(), tree)
        elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            yield from _starred(self._scope.source(tree.table), tree.this)
        elif isinstance(tree, exp.Aliases):
            names = [each.name for each in tree.expressions]
            yield from _function(tree.this, self._flows.of(tree.this), names)
        elif isinstance(tree, exp.Posexplode | exp.Inline):
            yield from _function(tree, self._flows.of(tree), [])
        else:
            yield tree.alias_or_name or _text(tree), self._flows.of(tree)

    def _group(self, outputs: Outputs) -> None:
        group = self._tree.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            keys = [e for e in self._tree.expressions if not _aggregates(e)]
            self._decide(keys, "group_by")
        for each in _flat(group):
            flow = _by_position(each, outputs, self._flows)
            add(self._influences, turned(flow.sources, "group_by"))


def _flat(group: exp.Group) -> Iterator[exp.Expr]:
    waiting: list[Any] = [v for value in group.args.values() for v in _listed(value)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            waiting += each.expressions
        elif isinstance(each, exp.Paren):
            waiting.append(each.this)
        elif isinstance(each, exp.Expr):
            yield each


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _aggregates(tree: exp.Expr) -> bool:
    return tree.find(exp.AggFunc) is not None


def _sort_keys(tree: exp.Expr) -> Iterator[exp.Expr]:
    for clause in ("order", "sort", "cluster"):
        found = tree.args.get(clause)
        for each in found.expressions if found is not None else ():
            yield each.this if isinstance(each, exp.Ordered) else each


def _by_position(key: exp.Expr, outputs: Outputs, flows: Flows) -> Flow:
    """A whole number means a column of the output."""
    if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit():
        at = int(key.this) - 1
        return outputs[at][1] if 0 <= at < len(outputs) else NOTHING
    return flows.of(key)


def _starred(outputs: Iterable[tuple[str, Flow]], star: exp.Star) -> Iterator[tuple[str, Flow]]:
    left_out = {each.name.lower() for each in star.args.get("except_") or ()}
    return ((name, flow) for name, flow in outputs if name.lower() not in left_out)


def _function(tree: exp.Expr, flow: Flow, names: Sequence[str]) -> list[tuple[str, Flow]]:
    """What a function puts out in place of a table, under its own names if none are given."""
    if isinstance(tree, exp.Posexplode) and not names:
        names = ("pos", "col")
    own = {"range": "id", "explode": "col"}.get(_text(tree).partition("(")[0].lower(), "col")
    return [(name, flow) for name in names or (own,)]


def _pivot(relation: Relation, pivot: exp.Pivot, flows: Flows) -> Relation:
    """Aggregates for each value; what neither they nor the values name are the keys."""
    used = {each.name.lower() for tree in pivot.expressions for each in tree.find_all(exp.Column)}
    fields = [field.this for field in pivot.args["fields"]]
    used |= {each.name.lower() for field in fields for each in field.find_all(exp.Column)}
    keys = [(name, flow) for name, flow in relation.outputs if name.lower() not in used]
    chosen = merge(flows.of(field) for field in fields)
    values = [
        merge([lift(flows.of(each), AGGREGATION), deciding(chosen, "conditional")])
        for each in pivot.expressions
    ]
    names = [each.name for each in pivot.args.get("columns") or ()]
    made = [(name, values[at % len(values)]) for at, name in enumerate(names)]
    grouped = _joined(_all(keys, "group_by"), turned(chosen.sources, "group_by"))
    return Relation([*keys, *made], _joined(relation.influences, grouped))


def _unpivot(relation: Relation, pivot: exp.Pivot, flows: Flows) -> Relation:
    (field,) = pivot.args["fields"]
    columns = [
        each.this if isinstance(each, exp.PivotAlias) else each for each in field.expressions
    ]
    used = {each.name.lower() for each in columns}
    kept = [(name, flow) for name, flow in relation.outputs if name.lower() not in used]
    value = merge(flows.of(each) for each in columns)
    made = [(field.this.name, NOTHING), (pivot.expressions[0].name, value)]
    if pivot.args.get("include_nulls"):
        return Relation([*kept, *made], relation.influences)
    left_out = turned(value.sources, "filter")
    return Relation([*kept, *made], _joined(relation.influences, left_out))


def _renamed(relation: Relation, columns: Sequence[exp.Expr]) -> Relation:
    if not columns:
        return relation
    pairs = zip(columns, relation.outputs, strict=False)
    return Relation([(each.name, flow) for each, (_, flow) in pairs], relation.influences)


def _all(outputs: Outputs, kind: Influence) -> Sources:
    return turned(merge(flow for _, flow in outputs).sources, kind)


def _joined(*parts: Sources) -> Sources:
    made: Sources = {}
    for part in parts:
        add(made, part)
    return made


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark")
