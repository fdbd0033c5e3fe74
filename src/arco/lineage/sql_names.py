"""Finds unknown tables and columns in the text of a query.

Names are resolved as in Spark, but in doubt they are assumed to exist: what is reported as
*certain* is an error in Spark too. So every table has a level of knowledge about its columns,
aliases are valid everywhere in their SELECT, and fields of structs are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sqlglot import exp

_SPECIAL: Final = frozenset(
    {
        "all",
        "current_catalog",
        "current_database",
        "current_date",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_timezone",
        "current_user",
        "grouping__id",
        "localtimestamp",
        "now",
        "session_user",
        "user",
    }
)
"""Names that mean something without a column of that name."""
_STRUCTS: Final = frozenset({"_metadata", "session_window", "window"})
"""Structs that a query has without naming them in FROM."""
_PLAIN: Final = re.compile(r"\w+")
_OPAQUE: Final = (exp.QueryTransform, exp.MatchRecognize, exp.Command, exp.Pivot)


class Knowledge(IntEnum):
    NOTHING = 0
    SOME = 1
    """These columns are declared, or were seen; there may be others."""
    ALL = 2


class TableColumns(NamedTuple):
    """What is known of a table's columns."""

    names: tuple[str, ...] = ()
    knowledge: Knowledge = Knowledge.NOTHING

    def has(self, name: str) -> bool:
        return name.lower() in {each.lower() for each in self.names}


UNKNOWN_TABLE: Final = TableColumns()


class UnknownName(NamedTuple):
    kind: Literal["table", "column"]
    name: str
    start: int
    stop: int
    certain: bool
    candidates: tuple[str, ...] = ()


class ResolvedNames(NamedTuple):
    output: TableColumns
    unknown: tuple[UnknownName, ...]


TablesOfQuery: TypeAlias = Mapping[str, TableColumns]


def resolve_query(tree: exp.Expr, tables: TablesOfQuery) -> ResolvedNames:
    """The columns of a query's result, and unknown names in it.

    `tables` are by the names that stand for them in the query.
    """
    if any(tree.find_all(*_OPAQUE)):
        return ResolvedNames(UNKNOWN_TABLE, ())
    resolver = _Resolver()
    output = resolver.query(tree, {name.lower(): each for name, each in tables.items()}, None)
    return ResolvedNames(output, tuple(resolver.unknown))


def resolve_expression(tree: exp.Expr, columns: TableColumns) -> tuple[UnknownName, ...]:
    """The names in a predicate about a table that are none of its columns."""
    resolver = _Resolver()
    scope = _NameScope(None)
    scope.sources[""] = columns
    resolver.expression(tree, scope, {}, frozenset())
    return tuple(resolver.unknown)


class _NameScope:
    def __init__(self, outer: _NameScope | None) -> None:
        self.outer = outer
        self.sources: dict[str, TableColumns] = {}
        self.aliases: set[str] = set()

    def add(self, name: str, columns: TableColumns) -> None:
        name = name.lower() or f"#{len(self.sources)}"
        if name in self.sources:  # ambiguous: Spark reports it
            columns = TableColumns((*self.sources[name].names, *columns.names))
        self.sources[name] = columns

    def knowledge(self) -> Knowledge:
        return min((each.knowledge for each in self.sources.values()), default=Knowledge.ALL)

    def has(self, parts: Sequence[str]) -> bool:
        """Whether a name is a column here, or its first part is; `parts` are in lower case."""
        if parts[0] in self.aliases or any(each.has(parts[0]) for each in self.sources.values()):
            return True
        for at, part in enumerate(parts[:-1]):
            if part in self.sources and self.sources[part].has(parts[at + 1]):
                return True
        return False

    def names(self) -> Iterator[str]:
        for each in self.sources.values():
            yield from each.names


class _Resolver:
    def __init__(self) -> None:
        self.unknown: list[UnknownName] = []

    # -- queries --------------------------------------------------------------------------

    def query(
        self, tree: exp.Expr, tables: TablesOfQuery, outer: _NameScope | None
    ) -> TableColumns:
        tables = self._with(tree, tables, outer)
        match tree:
            case exp.Subquery():
                return self.query(tree.this, tables, outer)
            case exp.SetOperation():
                left = self.query(tree.this, tables, outer)
                right = self.query(tree.expression, tables, outer)
                if tree.args.get("by_name"):
                    least = min(left.knowledge, right.knowledge)
                    return TableColumns((*left.names, *right.names), least)
                return left
            case exp.Select():
                return self._select(tree, tables, outer)
            case exp.Table():
                return self._select(exp.select("*").from_(tree.copy()), tables, outer)
        return UNKNOWN_TABLE

    def _with(
        self, tree: exp.Expr, tables: TablesOfQuery, outer: _NameScope | None
    ) -> TablesOfQuery:
        clause = tree.args.get("with_")
        if clause is None:
            return tables
        visible = dict(tables)
        for each in clause.expressions:
            name, labels = each.alias.lower(), _labels(each)
            if clause.args.get("recursive"):
                visible[name] = _renamed(UNKNOWN_TABLE, labels)
            visible[name] = _renamed(self.query(each.this, visible, outer), labels)
        return visible

    def _select(
        self, tree: exp.Select, tables: TablesOfQuery, outer: _NameScope | None
    ) -> TableColumns:
        scope = _NameScope(outer)
        clause = tree.args.get("from_")
        joins: list[exp.Expr] = []
        if clause is not None:
            joins += self._source(clause.this, scope, tables)
        for join in tree.args.get("joins") or []:
            joins += [join, *self._source(join.this, scope, tables)]
        for lateral in tree.args.get("laterals") or []:
            joins += self._source(lateral, scope, tables)
        scope.aliases |= {name.lower() for each in tree.expressions for name in _aliases(each)}
        for join in joins:
            for name in ("on", "using"):
                self._each(join.args.get(name), scope, tables)
        for name, value in tree.args.items():
            if name not in ("with_", "from_", "joins", "laterals", "hint", "into"):
                self._each(value, scope, tables)
        return _output(tree, scope)

    def _source(self, tree: exp.Expr, scope: _NameScope, tables: TablesOfQuery) -> list[exp.Expr]:
        """Add what FROM names to a scope; the joins inside of it."""
        if isinstance(tree, exp.Subquery) and not tree.alias and isinstance(tree.this, exp.Table):
            return self._source(tree.this, scope, tables)
        joins: list[exp.Expr] = []
        scope.add(tree.alias_or_name, _renamed(self._table(tree, scope, tables), _labels(tree)))
        for join in tree.args.get("joins") or []:
            joins += [join, *self._source(join.this, scope, tables)]
        return joins

    def _table(self, tree: exp.Expr, scope: _NameScope, tables: TablesOfQuery) -> TableColumns:
        match tree:
            case exp.Table() if isinstance(tree.this, exp.Identifier):
                return self._named_table(tree, tables)
            case exp.Lateral() if isinstance(tree.this, exp.Subquery):
                return self.query(tree.this, tables, scope)
            case exp.Lateral():
                self._each(tree.this, scope, tables)
            case exp.Query():
                return self.query(tree, tables, scope.outer)
        return UNKNOWN_TABLE

    def _named_table(self, tree: exp.Table, tables: TablesOfQuery) -> TableColumns:
        if tree.args.get("db") or tree.args.get("catalog"):
            return UNKNOWN_TABLE  # of Spark's own catalog, or a path
        columns = tables.get(tree.name.lower())
        if columns is None:
            candidates = tuple(name for name in tables)
            self._report("table", tree.this, tree.name, True, candidates)
        return columns or UNKNOWN_TABLE

    # -- expressions ----------------------------------------------------------------------

    def _each(self, value: Any, scope: _NameScope, tables: TablesOfQuery) -> None:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expr):
                self.expression(each, scope, tables, frozenset())

    def expression(
        self, tree: exp.Expr, scope: _NameScope, tables: TablesOfQuery, variables: frozenset[str]
    ) -> None:
        match tree:
            case exp.Query():
                self.query(tree, tables, scope)
                return
            case exp.Column():
                self._column(tree, scope, variables)
                return
            case exp.Lambda():
                variables |= {each.name.lower() for each in tree.expressions}
                self.expression(tree.this, scope, tables, variables)
                return
            case exp.PropertyEQ() | exp.Kwarg():
                self.expression(tree.expression, scope, tables, variables)
                return
            case exp.Star():
                return
        for each in tree.iter_expressions():
            self.expression(each, scope, tables, variables)

    def _column(self, tree: exp.Column, scope: _NameScope, variables: frozenset[str]) -> None:
        if not all(isinstance(part, exp.Identifier) for part in tree.parts):
            return  # a star
        parts = [part.name.lower() for part in tree.parts]
        if parts[0] in variables or parts[0] in _STRUCTS:
            return
        if len(parts) == 1 and parts[0] in _SPECIAL:
            return
        knowledge = Knowledge.ALL
        around: _NameScope | None = scope
        while around is not None:
            if around.has(parts):
                return
            knowledge = min(knowledge, around.knowledge())
            around = around.outer
        # Columns that were given no name have one that Spark makes up, like `count(1)`.
        if knowledge is Knowledge.NOTHING or not all(_PLAIN.fullmatch(part) for part in parts):
            return
        name = ".".join(part.name for part in tree.parts)
        names = tuple(dict.fromkeys([*scope.names(), *scope.aliases]))
        self._report("column", tree, name, knowledge is Knowledge.ALL, names)

    def _report(
        self,
        kind: Literal["table", "column"],
        tree: exp.Expr,
        name: str,
        certain: bool,
        candidates: tuple[str, ...],
    ) -> None:
        places = [each.meta for each in tree.find_all(exp.Identifier) if "start" in each.meta]
        start = min((place["start"] for place in places), default=0)
        stop = max((place["end"] + 1 for place in places), default=start + 1)
        self.unknown.append(UnknownName(kind, name, start, stop, certain, candidates))


def _labels(tree: exp.Expr) -> tuple[str, ...]:
    """The names of columns in `AS t(a, b)`."""
    alias = tree.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else ()
    return tuple(each.name for each in columns)


def _renamed(columns: TableColumns, names: tuple[str, ...]) -> TableColumns:
    return TableColumns(names, Knowledge.ALL) if names else columns


def _aliases(tree: exp.Expr) -> Iterable[str]:
    if isinstance(tree, exp.Aliases):
        return [each.name for each in tree.expressions]
    return [tree.alias] if tree.alias else []


def _output(tree: exp.Select, scope: _NameScope) -> TableColumns:
    names: list[str] = []
    knowledge = Knowledge.ALL
    for each in tree.expressions:
        star = each.this if isinstance(each, exp.Column) else each
        if isinstance(star, exp.Star):
            sources = _starred(each, scope)
            left_out = {e.name.lower() for e in star.args.get("except_") or ()}
            names += [n for s in sources for n in s.names if n.lower() not in left_out]
            knowledge = min([knowledge, *(source.knowledge for source in sources)])
            if star.args.get("rename") or star.args.get("replace"):
                knowledge = Knowledge.NOTHING
        elif isinstance(each, exp.Column):
            names.append(each.name)
        elif aliases := list(_aliases(each)):
            names += aliases
        else:
            knowledge = Knowledge.NOTHING
    return TableColumns(tuple(dict.fromkeys(names)), knowledge)


def _starred(tree: exp.Expr, scope: _NameScope) -> list[TableColumns]:
    """The tables that `*` or `t.*` stands for; an unknown one for the fields of a struct."""
    if isinstance(tree, exp.Star):
        return list(scope.sources.values())
    return [scope.sources.get(tree.parts[-2].name.lower(), UNKNOWN_TABLE)]  # type: ignore[attr-defined]
