"""From events to table files: what a commit adds to the state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from arco.log.contents import GenerationTables
from arco.log.envelope import Recorded
from arco.log.head import Head
from arco.log.manifest import SegmentRef
from arco.log.projection import AddedFiles, EncodedFile, Projection
from arco.state import changes as change_files
from arco.state import file_encoder, system
from arco.state.changes import Changes
from arco.state.consumed import ConsumedBatches
from arco.state.core import Core
from arco.state.feed import OnCommit
from arco.state.fold import Chain, FoldFailure, fold
from arco.state.parquet import Files
from arco.state.table import Key, Table, Versioned
from arco.state.warm import Warm
from arco.storage import paths

SKIPPED_KINDS = 20
"""Maximum of kinds of failures that a root manifest counts separately."""


class Projected:
    """The changed rows of a batch: one change file, and an L0 file for each large change."""

    def __init__(
        self, core: Core, changes: Changes, failures: Sequence[FoldFailure], now: datetime
    ) -> None:
        self.table_changes = {table: rows for table, rows in changes.items() if rows}
        self._failures = failures
        small = {t: rows for t, rows in self.table_changes.items() if change_files.belongs(t, rows)}
        large = {t: rows for t, rows in self.table_changes.items() if t not in small}
        self.files: list[Callable[[], EncodedFile]] = [
            functools.partial(_l0, table, rows, core.ids(), now)
            for table, rows in sorted(large.items(), key=lambda item: -len(item[1]))
        ]
        if small:
            self.files.append(functools.partial(_change_file, small, core.ids(), now, core.files))

    @property
    def skipped(self) -> Mapping[str, int]:
        return count_failures(self._failures)


def count_failures(failures: Iterable[FoldFailure]) -> dict[str, int]:
    """Facts that a fold failed on, by type, stage and kind of error; bounded."""
    counts: dict[str, int] = {}
    for failure in failures:
        kind = f"{failure.type} in {failure.stage}: {failure.error[:200]}"
        if kind not in counts and len(counts) >= SKIPPED_KINDS:
            kind = "others"
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _l0(
    table: Table[Any], rows: Mapping[Key, Versioned[Any]], nonce: str, now: datetime
) -> EncodedFile:
    last = max(version for version, _ in rows.values())
    path = paths.state_file(table.domain, table.name, "l0", f"{last:020d}-{nonce}")
    raw, ref = file_encoder.encode(
        table.to_arrow(rows),
        path,
        key=table.key,
        shard=table.shard,
        now=now,
        group_rows=table.group_rows,
    )
    return EncodedFile(path, raw, ref, str(table))


def _change_file(changes: Changes, nonce: str, now: datetime, files: Files) -> EncodedFile:
    raw, ref = change_files.encode(changes, nonce, now)
    files.written(ref, raw)  # a cache: this process is the first to read it
    return EncodedFile(ref.path, raw, ref)


class StateProjector:
    """Folds events over warm state. One for each process that commits."""

    def __init__(
        self, core: Core, chain: Chain, warm: Warm, on_commit: OnCommit = lambda head, changes: None
    ) -> None:
        """`on_commit` is called with each commit of this process, and the rows that it changed."""
        self._core = core
        self._manifests = core.manifests
        self._consumed = ConsumedBatches(core.files)
        self._chain = chain
        self.warm = warm
        self._warm_at: Head | None = None
        """The generation whose rows are warm."""
        self._on_commit = on_commit

    def consumed(self, head: Head, names: Iterable[str]) -> set[str]:
        batches = GenerationTables(self._manifests, head).table(str(system.BATCHES))
        return self._consumed.among(batches, names)

    def prepare(
        self,
        head: Head,
        events: Sequence[Recorded],
        segment: SegmentRef | None,
        batches: Sequence[str],
        now: datetime,
    ) -> Projected:
        self.catch_up(head)
        folded = fold(self._chain, self.warm, events, is_tight=lambda: self.warm.is_tight)
        changes = dict(folded.changes)
        if segment is not None:
            row = system.segment_row(segment, events[0].received_at, events[-1].received_at)
            changes[system.SEGMENTS] = {(segment.first,): (segment.last, row)}
            last = events[-1]
            changes[system.BATCHES] = system.batch_rows(batches, last.position, last.received_at)
        return Projected(self._core, changes, folded.failures, now)

    def committed(self, head: Head, projection: Projection, added: AddedFiles) -> None:
        assert isinstance(projection, Projected)
        changes = projection.table_changes
        self.warm.apply(changes, GenerationTables(self._manifests, head), head.manifest.position)
        self._warm_at = head
        if (names := changes.get(system.BATCHES)) is not None:
            path = added.ref(str(system.BATCHES)).path
            self._consumed.remember(path, (key[0] for key in names))
        self._on_commit(head, changes)

    def catch_up(self, head: Head) -> None:
        if self._warm_at is None or self._manifests.rewritten(self._warm_at.generation, head):
            self.warm.reset()
        self.warm.advance(GenerationTables(self._manifests, head), head.manifest.position)
        self._warm_at = head
