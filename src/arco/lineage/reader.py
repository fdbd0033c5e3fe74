"""Reading lineage at one generation.

Parameters and results have names, as of that generation. Rows have ids; a `LineageNames` maps them.
Columns have the names that outputs had them under, and an output's time tells which column that
was: rows have no column ids, since the fold of a target does not know the columns of its sources.
The time of a source's names is that of the newest version that the output has read, which may be
old, e.g. a pinned one.

A graph is walked breadth first, each node once, so cycles (an asset that reads its own
past) end. A node is a column, or with an empty column the rows of an asset as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from arco.errors import Invalid, NotFound
from arco.lineage import tables
from arco.lineage.events import LineageRecorded
from arco.state.days import newest_rows
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table
from servo.contract.task import DIRECT

DEPTH = 32
"""The default depth of a traversal."""


R = TypeVar("R", bound=Row)
End = Literal["source", "target"]


class LineageNames(Protocol):
    def id(self, key: str) -> str:
        """Of the asset with this name; the name itself if there is none."""

    def key(self, id: str) -> str:
        """The name of an asset; the id itself if it is nobody's."""

    def former_keys(self, id: str) -> Sequence[str]:
        """All names that stand for an asset where a row has no id: today's, and earlier ones."""

    def has_renames(self, id: str) -> bool:
        """Whether a column of the asset was ever renamed. If not, times do not matter."""

    def column(self, id: str, name: str, at: datetime | None) -> str:
        """Today's name of the column that had this name then."""

    def column_names(self, id: str, name: str) -> Sequence[str]:
        """All names that outputs may have a column under: today's, earlier ones, the next."""

    def made_at(self, id: str, versions: Sequence[str]) -> datetime | None:
        """When the newest of some versions of an asset was written; None if unknown."""


class Node(NamedTuple):
    asset: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.asset}.{self.column}" if self.column else self.asset


class Link(Struct, frozen=True, order=True):
    """One edge of a traversal."""

    distance: int
    source: Node
    target: Node
    kind: str
    masked: bool = False
    method: str = ""
    confidence: str = ""

    @property
    def direct(self) -> bool:
        return self.kind in DIRECT


class Impact(Struct, frozen=True, order=True):
    """What a change of a column reaches."""

    distance: int
    node: Node
    direct: bool
    """Whether its values flow there on some path; otherwise the influence is indirect."""
    masked: bool
    """Whether they are masked on every path."""


def is_by_names(snapshot: Snapshot) -> bool:
    """Whether the tables were written by an older version and not rebuilt since."""
    files = snapshot.contents.table(tables.BY_NAMES)
    return bool(files.base or files.l0)


class LineageReader:
    def __init__(self, snapshot: Snapshot, names: LineageNames) -> None:
        self.snapshot = snapshot
        self.names = names
        self._newest = functools.cache(lambda target: snapshot.get(tables.COVERAGE, target))
        self._read_at = functools.cache(self._newest_read)

    # -- one asset --------------------------------------------------------------------

    def edges(self, target: str) -> list[tables.EdgeRow]:
        """What an asset reads or comes after: as its code says, and people."""
        return self._of_target(tables.EDGES, target)

    def inputs(self, target: str) -> list[str]:
        """The assets that an asset reads or comes after."""
        return sorted(map(self.names.key, self.input_ids(self.names.id(target))))

    def input_ids(self, id: str) -> list[str]:
        """The same, by ids."""
        rows = self.snapshot.rows(tables.EDGE_SOURCES, id)
        return sorted({self._today(row.source) for row in rows})

    def edge_metadata(self, target: str) -> dict[str, tables.EdgeMetadataRow]:
        """When each edge was seen, by its id; also of edges that are no more."""
        return {row.edge_id: row for row in self._of_target(tables.EDGE_METADATA, target)}

    def executions(
        self, target: str, *, limit: int | None = None, since: datetime | None = None
    ) -> list[tables.ExecutionRow]:
        """What went into the newest outputs of an asset, newest first."""
        id = self.names.id(target)
        rows = newest_rows(self.snapshot, tables.EXECUTIONS, id, limit=limit, since=since)
        return list(map(self._named, rows))

    def inputs_of(self, target: str, version: str = "") -> list[tables.ExecutionRow]:
        """What went into one output: the newest, or the one whose id begins with `version`."""
        rows = self.executions(target)
        ids = list(dict.fromkeys(row.materialization_id for row in rows))
        named = [id for id in ids if id.startswith(version.upper())]
        if not rows or not named:
            which = f" {version!r}" if version and rows else ""
            raise NotFound(
                f"{target} has no output{which} with recorded inputs",
                hint="see `servo lineage show`",
            )
        if version and len(named) > 1:
            raise Invalid(
                f"{version!r} names {len(named)} outputs of {target}",
                hint="give more characters of the id",
            )
        return [row for row in rows if row.materialization_id == named[-1]]

    def held(self, target: str) -> dict[str, LineageRecorded]:
        """The inputs of held outputs, by the output's id."""
        return {
            row.materialization_id: msgspec.json.decode(row.recorded, type=LineageRecorded)
            for row in self.snapshot.rows(tables.HELD, self.names.id(target))
        }

    def columns(self, target: str) -> list[tables.ColumnEdgeRow]:
        return self._of_target(tables.COLUMNS, target)

    def coverage(self, target: str) -> tables.CoverageRow | None:
        id = self.names.id(target)
        row = self.snapshot.get(tables.COVERAGE, id)
        if row is None:
            return None
        at = row.names_of or row.since
        today = {name: self.names.column(id, name, at) for name in (*row.columns, *row.unmapped)}
        return msgspec.structs.replace(
            row,
            target=self.names.key(id),
            columns=[today[name] for name in row.columns],
            unmapped=[today[name] for name in row.unmapped],
        )

    def uses(self, source: str) -> list[tables.UseRow]:
        return self._of_source(tables.USES, source)

    def dependents(self, source: str) -> list[tables.DependentRow]:
        return self._of_source(tables.DEPENDENTS, source)

    def _of_target(self, table: Table[R], target: str) -> list[R]:
        return list(map(self._named, self.snapshot.rows(table, self.names.id(target))))

    def _of_source(self, table: Table[R], source: str) -> list[R]:
        id = self.names.id(source)
        return [
            self._named(row)
            for each in self._stand_ins(id)
            for row in self.snapshot.rows(table, each)
        ]

    def _stand_ins(self, id: str) -> Iterable[str]:
        """What rows may have for a source."""
        return dict.fromkeys((id, *self.names.former_keys(id)))

    def _named(self, row: Any) -> Any:
        """A row with names for the ids in it."""
        ends: tuple[End, ...] = ("source", "target")
        ids = {end: id for end in ends if (id := getattr(row, end, None))}
        changes: dict[str, str] = {end: self.names.key(id) for end, id in ids.items()}
        for end, id in ids.items():
            if name := getattr(row, f"{end}_column", ""):
                changes[f"{end}_column"] = self._column(row, end, id, name)
        return msgspec.structs.replace(row, **changes)

    def _column(
        self, row: tables.ColumnEdgeRow | tables.UseRow, end: End, id: str, name: str
    ) -> str:
        """Today's name of a column at one end of a row, the asset `id`."""
        if not self.names.has_renames(id):
            return name
        return self.names.column(id, name, self._named_at(row, end, id))

    def _named_at(
        self, row: tables.ColumnEdgeRow | tables.UseRow, end: End, id: str
    ) -> datetime | None:
        """When the data with the row's column names was written: the output, or its input."""
        if row.said_at is not None or row.method in ("manual", *tables.IMPORTED_FROM):
            return row.said_at or row.since  # `since` is when it was said first
        read_at = self._read_at(row.target, id) if end == "source" and id != row.target else None
        newest = self._newest(row.target)
        return read_at or (None if newest is None else newest.names_of) or row.since

    def _newest_read(self, target: str, source: str) -> datetime | None:
        """When the newest version of a source was made that the newest output has read."""
        newest = self._newest(target)
        if newest is None or not newest.materialization_id:
            return None
        rows = self.snapshot.rows(tables.EXECUTIONS, target, newest.materialization_id)
        versions = [
            id
            for row in rows
            if self._today(row.source) == source and not row.source_count
            for id in row.source_materializations
        ]
        return self.names.made_at(source, versions) if versions else None

    # -- walks ------------------------------------------------------------------------

    def upstream(self, asset: str, column: str = "", *, depth: int = DEPTH) -> list[Link]:
        """Where a column comes from; without a column, what an asset reads."""
        start = Node(self.names.id(asset), column)
        return self._all_named(_walk(start, depth, self.sources, lambda link: link.source))

    def downstream(self, asset: str, column: str = "", *, depth: int = DEPTH) -> list[Link]:
        """What uses a column; without a column, what reads an asset."""
        start = Node(self.names.id(asset), column)
        return self._all_named(_walk(start, depth, self.targets, lambda link: link.target))

    def impact(self, asset: str, column: str, *, depth: int = DEPTH) -> list[Impact]:
        """All that a change of a column reaches, nearest first."""
        links = self.downstream(asset, column, depth=depth)
        start = self.named(Node(self.names.id(asset), column))
        reached = _reached(start, links)
        near = {link.target: link.distance for link in reversed(links)}
        near.pop(start, None)
        return sorted(Impact(far, node, *reached[node]) for node, far in near.items())

    def named(self, node: Node) -> Node:
        """A node by its names instead of its ids."""
        return Node(self.names.key(node.asset), node.column)

    def _all_named(self, links: Iterable[Link]) -> list[Link]:
        return [
            msgspec.structs.replace(
                link, source=self.named(link.source), target=self.named(link.target)
            )
            for link in links
        ]

    def sources(self, node: Node, distance: int = 1) -> Iterator[Link]:
        """One step up. Nodes are by ids here."""
        if not node.column:
            for id in sorted({e.source for e in self.snapshot.rows(tables.EDGES, node.asset)}):
                yield Link(distance, Node(self._today(id)), node, "data")
            return
        for name in self.names.column_names(node.asset, node.column):
            for row in self.snapshot.rows(tables.COLUMNS, node.asset, name):
                if self._column(row, "target", node.asset, name) == node.column:
                    source = self._node(row, "source", row.source, row.source_column)
                    yield _link(distance, source, node, row)

    def targets(self, node: Node, distance: int = 1) -> Iterator[Link]:
        """One step down."""
        for source in self._stand_ins(node.asset):
            if not node.column:
                for row in self.snapshot.rows(tables.DEPENDENTS, source):
                    yield Link(distance, node, Node(row.target), "data")
                continue
            for name in self.names.column_names(node.asset, node.column):
                for use in self.snapshot.rows(tables.USES, source, name):
                    if self._column(use, "source", node.asset, name) == node.column:
                        target = self._node(use, "target", use.target, use.target_column)
                        yield _link(distance, node, target, use)

    def ends(self, use: tables.UseRow, source: str) -> tuple[Node, Node]:
        """The columns at the ends of a row by today's names; its source is this asset."""
        source_column = self._column(use, "source", source, use.source_column)
        target_column = self._column(use, "target", use.target, use.target_column)
        return Node(source, source_column), Node(use.target, target_column)

    def _node(
        self, row: tables.ColumnEdgeRow | tables.UseRow, end: End, id: str, column: str
    ) -> Node:
        id = self._today(id)
        return Node(id, self._column(row, end, id, column) if column else "")

    def _today(self, id: str) -> str:
        """The id of a source, of which a row may have the name alone."""
        return self.names.id(id) if "." in id else id


def _link(
    distance: int, source: Node, target: Node, row: tables.ColumnEdgeRow | tables.UseRow
) -> Link:
    return Link(distance, source, target, row.kind, row.masked, row.method, row.confidence)


def _walk(
    start: Node,
    depth: int,
    step: Callable[[Node, int], Iterable[Link]],
    far_end: Callable[[Link], Node],
) -> list[Link]:
    links: list[Link] = []
    seen, edge = {start}, [start]
    for distance in range(1, depth + 1):
        beyond: list[Node] = []
        for node in edge:
            for link in step(node, distance):
                links.append(link)
                if far_end(link) not in seen:
                    seen.add(far_end(link))
                    beyond.append(far_end(link))
        edge = beyond
        if not edge:
            break
    return links


def _reached(start: Node, links: list[Link]) -> dict[Node, tuple[bool, bool]]:
    """For each node, whether values flow there on some path, and are masked on every path."""
    reached = {start: (True, False)}
    changed = True
    while changed:
        changed = False
        for link in links:
            if link.source not in reached:
                continue
            direct, masked = reached[link.source]
            flow = (direct and link.direct, masked or link.masked)
            before = reached.get(link.target, (False, True))
            best = (before[0] or flow[0], before[1] and flow[1])
            if link.target not in reached or best != before:
                reached[link.target] = best
                changed = True
    return reached
