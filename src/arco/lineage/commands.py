"""Edges that people add to lineage, and remove (Tier 1)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from arco.errors import Invalid, NotFound
from arco.lineage.events import EdgeAdded, EdgeRemoved
from arco.lineage.reader import LineageReader, Node
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.task import Influence
from servo.suggest import did_you_mean

MAX_TEXT = 4_096


class LineageCommands:
    """`reader` reads lineage by names; `columns` finds the columns that an asset has."""

    def __init__(
        self,
        tier1: Tier1,
        reader: Callable[[Snapshot], LineageReader],
        columns: Callable[[Snapshot, str], Collection[str]],
        actor: str = "",
    ) -> None:
        self._tier1 = tier1
        self._reader = reader
        self._columns = columns
        self._actor = actor

    def add(
        self,
        source: Node,
        target: Node,
        *,
        kind: Influence = "transformation",
        masked: bool = False,
        owner: str = "",
        description: str = "",
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Add an edge from `source` to `target`: two assets, or two columns.

        Raises NotFound for missing assets or columns, and Invalid for an edge that would close a
        cycle.
        """
        _check_ends(source, target)
        for what, text in (("the owner", owner), ("the description", description)):
            if len(text) > MAX_TEXT:
                raise Invalid(f"{what} has {len(text)} characters; the limit is {MAX_TEXT}")
        if not owner.isprintable():
            raise Invalid(
                f"the owner {owner!r} has control characters", hint="write it in one line"
            )

        def build(snapshot: Snapshot) -> EdgeAdded:
            reader = self._reader(snapshot)
            source_id, target_id = self._id(reader, source), self._id(reader, target)
            if source.asset in {link.target.asset for link in reader.downstream(target.asset)}:
                raise Invalid(
                    f"{source.asset} depends on {target.asset}: the edge would create a cycle",
                    hint=f"see `servo lineage show {source.asset}`",
                )
            return EdgeAdded(
                source_id=source_id,
                target_id=target_id,
                source_column=source.column,
                target_column=target.column,
                kind=kind,
                masked=masked,
                owner=owner,
                description=description,
            )

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def remove(self, source: Node, target: Node, *, idempotency_key: str = "") -> Acknowledged:
        """Remove an edge that `add` has added. Refused for other edges."""
        _check_ends(source, target)

        def build(snapshot: Snapshot) -> EdgeRemoved:
            reader = self._reader(snapshot)
            return EdgeRemoved(
                source_id=self._id(reader, Node(source.asset)),
                target_id=self._id(reader, Node(target.asset)),
                source_column=source.column,
                target_column=target.column,
            )

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def _id(self, reader: LineageReader, node: Node) -> str:
        id = reader.names.id(node.asset)
        if id == node.asset:
            raise NotFound(
                f"there is no asset {node.asset}",
                hint="an asset outside of the code is created with `servo catalog asset create`",
            )
        columns = self._columns(reader.snapshot, node.asset) if node.column else ()
        if node.column and node.column not in columns:
            near = did_you_mean(node.column, columns)
            listed = f"its columns: {', '.join(sorted(columns))}" if columns else ""
            raise NotFound(f"{node.asset} has no column {node.column!r}", hint=near or listed)
        return id


def _check_ends(source: Node, target: Node) -> None:
    if bool(source.column) != bool(target.column):
        raise Invalid(
            f"{source} and {target} are an asset and a column",
            hint="name two assets, or two columns",
        )
    if source.asset == target.asset:
        raise Invalid(
            f"{source} and {target} are of one asset", hint="an edge leads to another asset"
        )
