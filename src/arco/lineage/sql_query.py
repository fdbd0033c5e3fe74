"""From queries to relations: their columns, and the influences on their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from sqlglot import exp

from arco.lineage.flow import (
    LIKELY,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    Sources,
    add,
    lift,
    merge,
    turned,
)
from arco.lineage.sql_flows import Flows
from arco.lineage.sql_generators import generate, is_generator
from arco.lineage.sql_pivot import pivoted, unpivoted
from arco.lineage.sql_relation import Outputs, SqlRelation, everything, joined, renamed, united
from arco.lineage.sql_scope import SelectScope, is_star, named
from servo.contract.task import Influence

_ROUNDS: Final = 100
NamedRelations = Mapping[str, SqlRelation]
"""What a name in FROM may mean: references and common table expressions."""


class Queries:
    def __init__(self) -> None:
        self.gaps = False
        """Whether a relation of the query is partial."""

    def query(
        self, tree: exp.Expr, tables: NamedRelations, outer: SelectScope | None = None
    ) -> SqlRelation:
        tables = self._with(tree, tables, outer)
        if isinstance(tree, exp.Subquery):
            return self._ordered(tree, self.query(tree.this, tables, outer), tables, outer)
        if isinstance(tree, exp.SetOperation):
            return self._ordered(tree, self._set(tree, tables, outer), tables, outer)
        if isinstance(tree, exp.Select):
            return _Select(self, tree, tables, outer).relation()
        if isinstance(tree, exp.Table):
            if tree.args.get("joins"):
                return self.query(exp.select("*").from_(tree.copy()), tables, outer)
            return self.table(tree, tables, outer)
        return self.unknown()

    def unknown(self) -> SqlRelation:
        self.gaps = True
        return SqlRelation([], {}, partial=True)

    def _with(
        self, tree: exp.Expr, tables: NamedRelations, outer: SelectScope | None
    ) -> NamedRelations:
        clause = tree.args.get("with_")
        if clause is None:
            return tables
        candidates = dict(tables)
        for each in clause.expressions:
            name, columns = each.alias.lower(), each.args["alias"].columns
            if clause.args.get("recursive") and isinstance(each.this, exp.Union):
                candidates[name] = self._recursive(each, candidates, outer)
            else:
                candidates[name] = renamed(self.query(each.this, candidates, outer), columns)
        return candidates

    def _recursive(
        self, tree: exp.CTE, tables: NamedRelations, outer: SelectScope | None
    ) -> SqlRelation:
        """The step is repeated on its result until nothing changes."""
        name, columns = tree.alias.lower(), tree.args["alias"].columns
        result = renamed(self.query(tree.this.this, tables, outer), columns)
        for _ in range(_ROUNDS):
            before = result
            result = renamed(self.query(tree.this, {**tables, name: result}, outer), columns)
            result = result._replace(outputs=united([before, result]))
            if result == before:
                return result
        doubtful = [(n, flow._replace(doubt=max(flow.doubt, LIKELY))) for n, flow in result.outputs]
        return result._replace(outputs=doubtful)

    def _set(
        self, tree: exp.SetOperation, tables: NamedRelations, outer: SelectScope | None
    ) -> SqlRelation:
        branches = [self.query(each, tables, outer) for each in _branches(tree)]
        influences = joined(*(each.influences for each in branches))
        if not isinstance(tree, exp.Union):
            matched = [everything(each.outputs, "join") for each in branches]
            return branches[0]._replace(influences=joined(influences, *matched))
        outputs = united(branches)
        if tree.args.get("distinct"):
            influences = joined(influences, everything(outputs, "group_by"))
        return SqlRelation(outputs, influences, any(each.partial for each in branches))

    def _ordered(
        self, tree: exp.Expr, result: SqlRelation, tables: NamedRelations, outer: SelectScope | None
    ) -> SqlRelation:
        """ORDER BY of a set operation refers to its output columns."""
        keys = list(_sort_keys(tree))
        if not keys:
            return result
        scope = SelectScope(outer)
        scope.add("", result)
        flows = Flows(scope, lambda q, s: self.query(q, tables, s))
        more: Sources = {}
        for key in keys:
            add(more, turned(_by_position(key, result.outputs, flows).sources, "sort"))
        return result._replace(influences=joined(result.influences, more))

    def table(
        self, tree: exp.Table, tables: NamedRelations, outer: SelectScope | None
    ) -> SqlRelation:
        if isinstance(tree.this, exp.Func):
            if tree.name.lower() == "range" or _text(tree.this).lower().startswith("range("):
                return SqlRelation([("id", NOTHING)], {})
            alias = tree.args.get("alias")
            flows = Flows(SelectScope(outer), lambda q, s: self.query(q, tables, s))
            return self.generated(tree.this, flows, alias.columns if alias else ())
        return tables.get(tree.name.lower()) or tables.get(tree.name) or self.unknown()

    def generated(self, tree: exp.Expr, flows: Flows, names: Sequence[exp.Expr]) -> SqlRelation:
        """The columns of a generator, and what decides how many rows there are of it."""
        result = generate(tree, flows, [each.name for each in names])
        influences = turned(result.rows.sources, "filter")
        if result.names is None:
            return self.unknown()._replace(influences=influences)
        return SqlRelation(list(zip(result.names, result.flows, strict=False)), influences)


class _Select:
    """One SELECT: its sources first, then everything that uses them."""

    def __init__(
        self, queries: Queries, tree: exp.Select, tables: NamedRelations, outer: SelectScope | None
    ) -> None:
        self._queries = queries
        self._tree = tree
        self._tables = tables
        self._scope = SelectScope(outer)
        self._influences: Sources = {}
        self._partial = False
        self._bracketed: list[exp.Join] = []
        self._flows = Flows(self._scope, lambda q, s: queries.query(q, tables, s))
        windows = tree.args.get("windows") or []
        self._flows.windows = {each.this.name.lower(): each for each in windows}

    def relation(self) -> SqlRelation:
        self._sources()
        self._decide(self._clause("where"), "filter")
        outputs = self._projections()
        self._flows.aliases = {name.lower(): flow for name, flow in outputs}
        self._group(outputs)
        self._decide(self._clause("having"), "filter")
        self._decide(self._clause("qualify"), "filter")
        if self._tree.args.get("distinct"):
            add(self._influences, everything(outputs, "group_by"))
        self._flows.aliases_first = True
        for key in _sort_keys(self._tree):
            flow = _by_position(key, outputs, self._flows)
            add(self._influences, turned(flow.sources, "sort"))
        return SqlRelation(outputs, self._influences, self._partial)

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
        for join in [*joins, *self._bracketed]:
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

    def _add(self, tree: exp.Expr, *, hidden: bool = False) -> SqlRelation:
        if isinstance(tree, exp.Subquery) and not tree.alias and _joins_tables(tree.this):
            return self._add_brackets(tree.this)
        relation = self._source(tree)
        for pivot in tree.args.get("pivots") or []:
            relation = self._pivoted(relation, pivot)
        alias = tree.args.get("alias")
        if alias is not None and not isinstance(tree, exp.Lateral):
            relation = renamed(relation, alias.columns)
        add(self._influences, relation.influences)
        pivots = tree.args.get("pivots") or []
        name = next((p.alias for p in pivots if p.alias), "") or tree.alias_or_name
        self._scope.add(name, relation, hidden=hidden)
        return relation

    def _add_brackets(self, table: exp.Table) -> SqlRelation:
        """`(b JOIN c ON …)`: both keep their names. Returns the columns of all."""
        joins = table.args["joins"]
        if any(join.args.get("using") or join.args.get("method") for join in joins):
            self._scope.add("", self._queries.unknown())
        alone = table.copy()
        alone.set("joins", None)
        result = list(self._add(alone).outputs)
        for join in joins:
            result += self._add(join.this).outputs
        self._bracketed += joins
        return SqlRelation(result, {})

    def _source(self, tree: exp.Expr) -> SqlRelation:
        if isinstance(tree, exp.Lateral):
            return self._lateral(tree)
        if isinstance(tree, exp.Table):
            return self._queries.table(tree, self._tables, self._scope.outer)
        if isinstance(tree, exp.Values):
            columns = tree.args["alias"].columns if tree.args.get("alias") else []
            return SqlRelation([(each.name, SOMEWHERE) for each in columns], {})
        return self._queries.query(tree, self._tables, self._scope.outer)

    def _lateral(self, tree: exp.Lateral) -> SqlRelation:
        columns = tree.args["alias"].columns if tree.args.get("alias") else []
        if isinstance(tree.this, exp.Subquery):
            result = self._queries.query(tree.this, self._tables, self._scope)
            return renamed(result, columns)
        return self._queries.generated(tree.this, self._flows, columns)

    def _pivoted(self, relation: SqlRelation, pivot: exp.Pivot) -> SqlRelation:
        scope = SelectScope(None)
        scope.add("", relation)
        flows = Flows(scope, lambda q, s: self._queries.query(q, self._tables, s))
        result = unpivoted if pivot.args.get("unpivot") else pivoted
        return result(relation, pivot, flows)

    # -- SELECT -----------------------------------------------------------------------

    def _projections(self) -> list[tuple[str, Flow]]:
        result: list[tuple[str, Flow]] = []
        for each in self._tree.expressions:
            entry = list(self._projection(each))
            for name, flow in entry:
                self._flows.aliases[name.lower()] = flow
            result += entry
        return result

    def _projection(self, tree: exp.Expr) -> Iterator[tuple[str, Flow]]:
        if is_star(tree):
            yield from self._starred(tree)
        elif is_generator(tree):
            yield from self._generated(tree, ())
        elif isinstance(tree, exp.Aliases):
            yield from self._generated(tree.this, tree.expressions)
        elif isinstance(tree, exp.Alias) and is_generator(tree.this):
            yield from self._generated(tree.this, [tree.args["alias"]])
        else:
            yield tree.alias_or_name or _text(tree), self._flows.of(tree)

    def _generated(self, tree: exp.Expr, names: Sequence[exp.Expr]) -> Outputs:
        result = self._queries.generated(tree, self._flows, names)
        add(self._influences, result.influences)
        self._partial |= result.partial
        return result.outputs

    def _starred(self, tree: exp.Expr) -> Iterator[tuple[str, Flow]]:
        for name, flow in self._flows.star(tree):
            if name:
                yield name, flow
            else:
                self._partial = self._queries.gaps = True

    def _group(self, outputs: Outputs) -> None:
        group = self._tree.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            keys = [e for e in self._tree.expressions if e.find(exp.AggFunc) is None]
            self._decide(keys, "group_by")
        for each in _flat(group):
            flow = _by_position(each, outputs, self._flows)
            add(self._influences, turned(flow.sources, "group_by"))


def _branches(tree: exp.SetOperation) -> list[exp.Expr]:
    """The two sides; of `a UNION ALL b UNION ALL c …`, which is as deep as long, all of them."""
    result = [tree.expression]
    left = tree.this
    if isinstance(tree, exp.Union) and not tree.args.get("distinct"):
        while _is_plain_union(left):
            result.append(left.expression)
            left = left.this
    return [left, *reversed(result)]


def _is_plain_union(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Union) and {
        name for name, value in tree.args.items() if value not in (None, False, [])
    } <= {"this", "expression"}


def _flat(group: exp.Group) -> Iterator[exp.Expr]:
    waiting: list[Any] = list(group.args.values())
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            waiting += each.expressions
        elif isinstance(each, exp.Paren):
            waiting.append(each.this)
        elif isinstance(each, exp.Expr):
            yield each


def _sort_keys(tree: exp.Expr) -> Iterator[exp.Expr]:
    for clause in ("order", "sort", "cluster"):
        entry = tree.args.get(clause)
        for each in entry.expressions if entry is not None else ():
            yield each.this if isinstance(each, exp.Ordered) else each


def _by_position(key: exp.Expr, outputs: Outputs, flows: Flows) -> Flow:
    """A whole number means a column of the output."""
    if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit():
        at = int(key.this) - 1
        return outputs[at][1] if 0 <= at < len(outputs) else NOTHING
    return flows.of(key)


def _joins_tables(tree: exp.Expr) -> TypeGuard[exp.Table]:
    return isinstance(tree, exp.Table) and bool(tree.args.get("joins"))


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark")
