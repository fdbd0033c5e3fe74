"""The names that an expression of a query may use, and what a star stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from arco.lineage import nested
from arco.lineage.flow import LIKELY, SOMEWHERE, Flow, merge
from arco.lineage.sql_relation import SqlRelation


class SelectScope:
    """The columns that a SELECT sees, its own sources' and those around it."""

    def __init__(self, outer: SelectScope | None) -> None:
        self.outer = outer
        self.merged: dict[str, tuple[str, Flow]] = {}
        """Columns that USING made one of two."""
        self.partial: set[str] = set()
        """Sources with columns that are not known."""
        self._sources: dict[str, Sequence[tuple[str, Flow]]] = {}
        self._by_name: dict[str, dict[str, list[Flow]]] = {}
        """Of each source that was looked at, the columns by their names in lower case."""
        self._hidden: set[str] = set()

    def add(self, name: str, relation: SqlRelation, *, hidden: bool = False) -> None:
        name = name.lower() or f"#{len(self._sources)}"
        self._sources[name] = relation.outputs
        if relation.partial:
            self.partial.add(name)
        if hidden:
            self._hidden.add(name)

    def forget_hidden(self) -> None:
        """What a semi join looked at cannot be seen beyond its condition."""
        for name in self._hidden:
            del self._sources[name]
            self._by_name.pop(name, None)
        self.partial -= self._hidden
        self._hidden.clear()

    def source(self, name: str) -> Sequence[tuple[str, Flow]]:
        return self._sources.get(name.lower(), ())

    def of_source(self, source: str, name: str) -> Flow:
        return next(iter(self._named(source.lower(), name)), SOMEWHERE)

    def _named(self, source: str, name: str) -> Sequence[Flow]:
        if source not in self._by_name:
            index: dict[str, list[Flow]] = {}
            for each, flow in self._sources[source]:
                index.setdefault(each.lower(), []).append(flow)
            self._by_name[source] = index
        return self._by_name[source].get(name.lower(), ())

    def has(self, name: str) -> bool:
        return name.lower() in self._sources

    def outputs(self) -> Iterator[tuple[str, Flow]]:
        """What `*` means: merged columns first, then all others."""
        yield from self.merged.values()
        for name, outputs in self._sources.items():
            if name not in self._hidden:
                yield from ((n, f) for n, f in outputs if n.lower() not in self.merged)

    def columns(self, name: str | None = None) -> list[tuple[str, Flow]]:
        """What `*` or `name.*` means. Columns that are not known have no name."""
        if name is None:
            return [*self.outputs(), *([("", SOMEWHERE)] if self.partial else [])]
        unknown = [("", SOMEWHERE)] if name.lower() in self.partial else []
        return [*self.source(name), *unknown]

    def column(self, name: str) -> Flow | None:
        """A column without a qualifier."""
        if name.lower() in self.merged:
            return self.merged[name.lower()][1]
        flows = [flow for source in self._sources for flow in self._named(source, name)]
        if len(flows) <= 1:
            return flows[0] if flows else None
        both = merge(flows)
        return Flow(both.sources, max(both.doubt, LIKELY))


def named(outputs: Iterable[tuple[str, Flow]], name: str) -> Flow:
    return next((flow for each, flow in outputs if each.lower() == name.lower()), SOMEWHERE)


def is_star(tree: exp.Expr) -> bool:
    """`*`, `source.*`, `struct.*`, and `(an expression).*`."""
    inner = tree.expression if isinstance(tree, exp.Dot) else tree
    return isinstance(inner, exp.Star) or (
        isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
    )


def without(outputs: Iterable[tuple[str, Flow]], star: exp.Expr) -> list[tuple[str, Flow]]:
    """The columns of a star, without those that its EXCEPT names."""
    result = []
    left_out = [[part.name.lower() for part in path(e)] for e in star.args.get("except_") or ()]
    for name, flow in outputs:
        if [name.lower()] in left_out:
            continue
        for column, *fields in left_out:
            if column == name.lower() and fields:
                flow = nested.without_field(flow, fields[0])
        result.append((name, flow))
    return result


def fields(struct: Flow) -> list[tuple[str, Flow]]:
    """Of a struct; without a name, where they are not known."""
    if struct.parts is None or struct.parts.kind != "struct" or struct.parts.rest is not None:
        return [("", nested.part_of(struct))]
    names = struct.parts.names
    return [(name, nested.field(struct, name, at)) for at, name in enumerate(names)]


def path(tree: exp.Expr) -> Sequence[exp.Expr]:
    return tree.parts if isinstance(tree, exp.Column) else [tree]
