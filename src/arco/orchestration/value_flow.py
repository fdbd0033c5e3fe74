"""All edges along which values of some columns flow downstream.

A traversal by lookups needs a few of them for each column: suitable for one asset, too slow for all
personal columns of a workspace. Here the edges are read once, as columns, and each step is one
comparison of all of them. Rows of assets with renamed columns, and of sources without an id, are
turned into nodes one by one: there are few of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.schema_tables import COLUMN_RENAMES
from arco.catalog.tables import ASSET_IDENTITIES
from arco.lineage.reader import LineageReader, Link, Node
from arco.lineage.tables import USES
from arco.state.snapshot import Snapshot
from servo.contract.task import DIRECT

_ENDS: Final = (("source", "source_column"), ("target", "target_column"))
_BETWEEN: Final = "\x1f"
"""Between the id of an asset and the name of a column, where both are one text."""


def links_below(lineage: LineageReader, roots: Iterable[Node]) -> list[Link]:
    """The edges that values of the roots flow along, each once. Nodes are by ids."""
    seen = frontier = pc.unique(pa.array(map(_BETWEEN.join, roots), pa.string()))
    links: list[Link] = []
    if len(frontier):
        edges = _edges(lineage)
        sources, targets = (_texts(edges, *end) for end in _ENDS)
    while len(frontier):
        follows = pc.is_in(sources, frontier)
        links += _links(edges.filter(follows))
        ends = pc.unique(targets.filter(follows))
        frontier = ends.filter(pc.invert(pc.is_in(ends, seen)))
        seen = pa.concat_arrays([seen, frontier])
    return links


def _edges(lineage: LineageReader) -> pa.Table:
    """All edges of values between columns, by ids and today's names."""
    uses = lineage.snapshot.scan(USES)
    flows = pc.is_in(uses.column("kind"), pa.array(DIRECT))
    for _, column in _ENDS:
        flows = pc.and_(flows, pc.not_equal(uses.column(column), ""))
    stored = [name for name in USES.columns if name in uses.column_names]
    uses = uses.filter(flows).select(stored)
    renamed = pc.unique(lineage.snapshot.scan(COLUMN_RENAMES).column("asset_id"))
    is_by_key = pc.match_substring(uses.column("source"), ".")
    differs = functools.reduce(
        pc.or_, [is_by_key, *(pc.is_in(uses.column(asset), renamed) for asset, _ in _ENDS)]
    )
    others = uses.filter(differs)
    if not others.num_rows:
        return uses
    today = pa.Table.from_pylist(list(_today(lineage, others)), uses.schema)
    return pa.concat_tables([uses.filter(pc.invert(differs)), today])


def _today(lineage: LineageReader, uses: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows with the ids and the names of today."""
    ids = _ids_of_keys(lineage.snapshot, uses)
    for row, values in zip(USES.rows_of(uses), uses.to_pylist(), strict=True):
        for id in ids.get(row.source, (row.source,)):
            source, target = lineage.ends(row, id)
            yield values | {
                "source": source.asset,
                "source_column": source.column,
                "target": target.asset,
                "target_column": target.column,
            }


def _ids_of_keys(snapshot: Snapshot, uses: pa.Table) -> dict[str, list[str]]:
    """The assets that keys in the place of ids stand for: those that have, or had, the name."""
    keys = {text for text in pc.unique(uses.column("source")).to_pylist() if "." in text}
    ids: dict[str, list[str]] = {key: [] for key in keys}
    for row in snapshot.all(ASSET_IDENTITIES) if keys else ():
        for key in keys.intersection(row.keys):
            ids[key].append(row.asset_id)
    return {key: assets or [key] for key, assets in ids.items()}


def _texts(edges: pa.Table, asset: str, column: str) -> pa.ChunkedArray:
    """The nodes at one end of edges, each as one text."""
    return pc.binary_join_element_wise(edges.column(asset), edges.column(column), _BETWEEN)


def _links(edges: pa.Table) -> Iterator[Link]:
    for row in USES.rows_of(edges):
        source = Node(row.source, row.source_column)
        target = Node(row.target, row.target_column)
        yield Link(1, source, target, row.kind, row.masked, row.method, row.confidence)
