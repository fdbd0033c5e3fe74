"""Reading lineage at one generation.

A graph is walked breadth first, each node once, so cycles (an asset that reads its own
past) end. A node is a column, or with an empty column the rows of an asset as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from arco.errors import Invalid, NotFound
from arco.lineage import tables
from arco.lineage.events import LineageRecorded
from arco.state.days import newest_rows
from arco.state.snapshot import Snapshot
from servo.contract.task import DIRECT

DEPTH = 32
"""So far a walk goes unless it is told otherwise."""


class Node(NamedTuple):
    asset: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.asset}.{self.column}" if self.column else self.asset


class Link(Struct, frozen=True, order=True):
    """One step of a walk, from what was asked for to what was found."""

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
    """Whether its values flow there, on some way; otherwise they only decide."""
    masked: bool
    """Whether they cannot be seen there, whichever way."""


class LineageReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    # -- one asset --------------------------------------------------------------------

    def edges(self, target: str) -> list[tables.EdgeRow]:
        """What the newest output of an asset has read, or comes after."""
        return self.snapshot.rows(tables.EDGES, target)

    def edge_metadata(self, target: str) -> dict[str, tables.EdgeMetadataRow]:
        """When each edge was seen, by its id; also of edges that are no more."""
        return {row.edge_id: row for row in self.snapshot.rows(tables.EDGE_METADATA, target)}

    def executions(
        self, target: str, *, limit: int | None = None, since: datetime | None = None
    ) -> list[tables.ExecutionRow]:
        """What went into the newest outputs of an asset, newest first."""
        return newest_rows(self.snapshot, tables.EXECUTIONS, target, limit=limit, since=since)

    def inputs_of(self, target: str, version: str = "") -> list[tables.ExecutionRow]:
        """What went into one output: the newest, or the one whose id begins with `version`."""
        rows = self.executions(target)
        ids = list(dict.fromkeys(row.materialization_id for row in rows))
        named = [id for id in ids if id.startswith(version.upper())]
        if not rows or not named:
            which = f" {version!r}" if version and rows else ""
            raise NotFound(
                f"{target} has no output{which} that was made from anything",
                hint="see `servo lineage show`",
            )
        if version and len(named) > 1:
            raise Invalid(
                f"{version!r} names {len(named)} outputs of {target}",
                hint="give more characters of the id",
            )
        return [row for row in rows if row.materialization_id == named[-1]]

    def held(self, target: str) -> dict[str, LineageRecorded]:
        """What went into outputs that are held back, by the output's id."""
        return {
            row.materialization_id: msgspec.json.decode(row.recorded, type=LineageRecorded)
            for row in self.snapshot.rows(tables.HELD, target)
        }

    def columns(self, target: str) -> list[tables.ColumnEdgeRow]:
        return self.snapshot.rows(tables.COLUMNS, target)

    def coverage(self, target: str) -> tables.CoverageRow | None:
        return self.snapshot.get(tables.COVERAGE, target)

    def uses(self, source: str) -> list[tables.UseRow]:
        return self.snapshot.rows(tables.USES, source)

    def dependents(self, source: str) -> list[tables.DependentRow]:
        return self.snapshot.rows(tables.DEPENDENTS, source)

    # -- walks ------------------------------------------------------------------------

    def upstream(self, asset: str, column: str = "", *, depth: int = DEPTH) -> list[Link]:
        """Where a column comes from; without a column, what an asset reads."""
        return _walk(Node(asset, column), depth, self._sources, lambda link: link.source)

    def downstream(self, asset: str, column: str = "", *, depth: int = DEPTH) -> list[Link]:
        """What uses a column; without a column, what reads an asset."""
        return _walk(Node(asset, column), depth, self._targets, lambda link: link.target)

    def impact(self, asset: str, column: str, *, depth: int = DEPTH) -> list[Impact]:
        """All that a change of a column reaches, nearest first."""
        start = Node(asset, column)
        links = self.downstream(asset, column, depth=depth)
        ways = _ways(start, links)
        near = {link.target: link.distance for link in reversed(links)}
        near.pop(start, None)
        return sorted(Impact(far, node, *ways[node]) for node, far in near.items())

    def _sources(self, node: Node, distance: int) -> Iterator[Link]:
        if not node.column:
            yield from self._assets_above(node, distance)
            return
        for row in self.snapshot.rows(tables.COLUMNS, node.asset, node.column):
            yield _link(distance, Node(row.source, row.source_column), node, row)

    def _assets_above(self, node: Node, distance: int) -> Iterator[Link]:
        for source in sorted({edge.source for edge in self.edges(node.asset)}):
            yield Link(distance, Node(source), node, "data")

    def _targets(self, node: Node, distance: int) -> Iterator[Link]:
        if not node.column:
            for row in self.dependents(node.asset):
                yield Link(distance, node, Node(row.target), "data")
            return
        for use in self.snapshot.rows(tables.USES, node.asset, node.column):
            yield _link(distance, node, Node(use.target, use.target_column), use)


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


def _ways(start: Node, links: list[Link]) -> dict[Node, tuple[bool, bool]]:
    """Of each node, whether values flow there on some way, and are masked on every one."""
    ways = {start: (True, False)}
    changed = True
    while changed:
        changed = False
        for link in links:
            if link.source not in ways:
                continue
            direct, masked = ways[link.source]
            way = (direct and link.direct, masked or link.masked)
            before = ways.get(link.target, (False, True))
            best = (before[0] or way[0], before[1] and way[1])
            if link.target not in ways or best != before:
                ways[link.target] = best
                changed = True
    return ways
