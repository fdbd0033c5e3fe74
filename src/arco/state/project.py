"""From events to table files: what a commit adds to the state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from arco.log.commit import Projection
from arco.log.envelope import Recorded
from arco.log.head import Head, Manifests
from arco.log.manifest import DomainManifest, FileRef, SegmentRef, TableManifest
from arco.log.publish import Domains
from arco.state import parquet, system
from arco.state.consumed import ConsumedBatches
from arco.state.fold import Chain, Failure, fold
from arco.state.parquet import Files
from arco.state.table import Key, Table, Versioned
from arco.state.warm import Changes, Warm
from arco.storage import paths


class Projected:
    """The changed rows of a batch, encoded as one L0 file for each table."""

    def __init__(
        self,
        changes: Changes,
        failures: Sequence[Failure],
        ids: Callable[[], str],
        now: datetime,
    ) -> None:
        self.changes = changes
        self.failures = failures
        self._added: dict[Table[Any], FileRef] = {}
        self.files = [
            functools.partial(self._encode, table, rows, ids(), now)
            for table, rows in sorted(changes.items(), key=lambda item: -len(item[1]))
            if rows
        ]

    def _encode(
        self, table: Table[Any], rows: Mapping[Key, Versioned[Any]], nonce: str, now: datetime
    ) -> tuple[str, bytes]:
        raw, self._added[table] = _l0(table, rows, nonce, now)
        return self._added[table].path, raw

    def path(self, table: Table[Any]) -> str:
        """Of the file with a table's changes."""
        return self._added[table].path

    @property
    def skipped(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for failure in self.failures:
            kind = f"{failure.type} in {failure.stage}: {failure.error}"
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def domains(self, current: Domains) -> Domains:
        changed: dict[str, DomainManifest] = {}
        for table, ref in sorted(self._added.items(), key=lambda item: str(item[0])):
            domain = changed.get(table.domain) or current.get(table.domain)
            if domain is None:
                domain = DomainManifest(table.domain, 0, {})
            known = domain.tables.get(table.name, table.manifest())
            # Columns are only ever added; an older program must not take one away.
            columns = dict.fromkeys((*table.manifest().columns, *known.columns))
            grown = msgspec.structs.replace(known, columns=tuple(columns), l0=(*known.l0, ref))
            changed[table.domain] = with_table(domain, table.name, grown)
        return changed


def with_table(domain: DomainManifest, name: str, manifest: TableManifest) -> DomainManifest:
    return msgspec.structs.replace(domain, tables={**domain.tables, name: manifest})


def _l0(
    table: Table[Any], rows: Mapping[Key, Versioned[Any]], nonce: str, now: datetime
) -> tuple[bytes, FileRef]:
    last = max(version for version, _ in rows.values())
    path = paths.state_file(table.domain, table.name, "l0", f"{last:020d}-{nonce}")
    return parquet.encode(table.to_arrow(rows), path, key=table.key, shard=table.shard, now=now)


class StateProjector:
    """Folds events over warm state. One for each process that commits."""

    def __init__(
        self,
        manifests: Manifests,
        chain: Chain,
        warm: Warm,
        files: Files,
        ids: Callable[[], str],
    ) -> None:
        self._consumed = ConsumedBatches(files)
        self._manifests = manifests
        self._chain = chain
        self._warm = warm
        self._ids = ids
        self._lineage: Head | None = None
        self.listeners: list[Callable[[Head, Changes], None]] = []
        """Told of each commit of this process, with the rows that it changed."""

    def consumed(self, head: Head, names: Iterable[str]) -> set[str]:
        domain = self._manifests.domains(head).get(system.BATCHES.domain)
        manifest = None if domain is None else domain.tables.get(system.BATCHES.name)
        return set() if manifest is None else self._consumed.among(manifest, names)

    def prepare(
        self,
        head: Head,
        events: Sequence[Recorded],
        segment: SegmentRef | None,
        batches: Sequence[str],
        now: datetime,
    ) -> Projected:
        self._catch_up(head)
        folded = fold(self._chain, self._warm, events)
        changes = dict(folded.changes)
        if segment is not None:
            row = system.segment_row(segment, events[0].received_at, events[-1].received_at)
            changes[system.SEGMENTS] = {(segment.first,): (segment.last, row)}
            last = events[-1]
            changes[system.BATCHES] = system.batch_rows(batches, last.position, last.received_at)
        return Projected(changes, folded.failures, self._ids, now)

    def committed(self, head: Head, projection: Projection) -> None:
        assert isinstance(projection, Projected)
        self._warm.apply(projection.changes, self._manifests.domains(head), head.manifest.position)
        self._lineage = head
        if (names := projection.changes.get(system.BATCHES)) is not None:
            self._consumed.remember(projection.path(system.BATCHES), (key[0] for key in names))
        for listen in self.listeners:
            listen(head, projection.changes)

    def _catch_up(self, head: Head) -> None:
        if self._lineage is None or self._manifests.rewritten(self._lineage.generation, head):
            self._warm.reset()
        self._warm.advance(self._manifests.domains(head), head.manifest.position)
        self._lineage = head
