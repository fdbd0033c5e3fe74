"""Merges: fewer, larger files for the same rows.

A merge runs beside commits. It reads files of a generation, writes new ones, and publishes a commit
that swaps exactly the files it read. Commits in between only add files, so they do not conflict. If
one of its files is not in the head any more, another merge replaced the same files, and this one's
work is dropped.

There are three kinds, so that the cost depends on the changes and not on the size of a table:

- *joining change files*: those of many commits become one. A table with many rows in them
  gets an L0 file of its own.
- *into a run*: small L0 files become one larger L0 file. Files join only a run of
  about their own size, so each row is rewritten a logarithmic number of times.
- *into the base*: when the L0 rows amount to a good part of the base, or have waited too long, the
  base files of the touched buckets are rewritten. Tombstones end here, and old rows (see `History`)
  move to files of their day; files of old months are joined, and then those of old years.

Segments of days that are over are joined as well, into segments of up to 64 MiB.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from arco.log.commit import publish
from arco.log.contents import GenerationTables, TableFiles
from arco.log.head import Head
from arco.log.manifest import ChangesRef, FileRef
from arco.log.publish import Proposal, Publication, Publisher, left_to_delete
from arco.state.core import Core
from arco.state.join_segments import SegmentJoiner
from arco.state.rewrite import Join, Revision, Rewriter, Swap
from arco.state.table import Table

log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE = "merge"
LEASE_TTL = timedelta(minutes=1)


class L0Limits(msgspec.Struct, frozen=True):
    """Past any of these, a table is due for a merge."""

    files: int = 16
    bytes: int = 256 << 20
    age_s: int = 3600
    change_files: int = 16
    """Past this, change files are joined."""


class MergePlan(NamedTuple):
    l0: tuple[FileRef, ...]
    into_base: bool


def plan(files: TableFiles, limits: L0Limits, now: datetime) -> MergePlan | None:
    """What to merge, if anything is due."""
    l0 = files.l0
    if not l0:
        return None
    own = tuple(ref for ref in l0 if not ref.table)
    aged = (now - min(ref.created_at for ref in l0)).total_seconds() > limits.age_s
    large = sum(ref.bytes for ref in own) > limits.bytes
    if not (aged or large or len(own) > limits.files):
        return None
    base_rows = sum(ref.rows for ref in files.base)
    if aged or large or 4 * sum(ref.rows for ref in l0) >= base_rows:
        return MergePlan(l0, True)
    return MergePlan(_of_like_size(own, [ref.rows for ref in own]), False)


def _replaced(swaps: Sequence[Swap], join: Join | None, head: Head) -> set[str]:
    """The files that are in no table any more."""
    removed = {path for swap in swaps for path in swap.removed | swap.removed_history}
    removed |= {ref.path for ref in join.removed} if join is not None else set()
    return removed - {ref.path for ref in head.manifest.changes}


def to_join(changes: Sequence[ChangesRef], limits: L0Limits) -> tuple[ChangesRef, ...]:
    """The change files to join into one, if there are too many."""
    if len(changes) <= limits.change_files:
        return ()
    return _of_like_size(changes, [ref.rows for ref in changes])


def _of_like_size(refs: Sequence[T], rows: Sequence[int]) -> tuple[T, ...]:
    """The smaller files, and any larger one that does not exceed those before it together."""
    chosen: list[T] = []
    total = 0
    for count, at in sorted((count, at) for at, count in enumerate(rows)):
        if len(chosen) > len(refs) // 2 and count > total:
            break
        chosen.append(refs[at])
        total += count
    return tuple(chosen)


class Merger:
    def __init__(
        self,
        core: Core,
        publisher: Publisher,
        tables: Sequence[Table[Any]],
        limits: L0Limits | None = None,
    ) -> None:
        self._core = core
        self._publisher = publisher
        self._tables = {str(table): table for table in tables}
        self._limits = limits or L0Limits()
        self._rewriter = Rewriter(core)
        self._segment_joiner = SegmentJoiner(core, self._rewriter)
        self._segments_looked_at: date | None = None

    def merge(self, *, everything: bool = False) -> Head | None:
        """Merge what is due (or everything, into the base); None if nothing was published.

        Of several mergers one does the work: the others do not get the lease.
        """
        publication = self._publisher.begin()
        contents = GenerationTables(self._core.manifests, self._core.manifests.head())
        due = [
            (table, plan)
            for table in self._tables.values()
            if (plan := self._due(contents, table, everything))
        ]
        joined = () if due else self._joinable(contents)
        segments = not due and not joined and self._has_segments_to_join(contents)
        if not due and not joined and not segments:
            return None
        with self._core.leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                log.info("another process is merging")
                return None
            if segments:
                swaps = list(self._segment_joiner.join(contents, hold.keep))
                if not swaps:
                    return None
            else:
                swaps = self._rewrite(contents, due, hold.keep)
            if joined:  # return free memory of commits to the system
                pa.default_memory_pool().release_unused()
            join = self._rewriter.join(joined, self._tables) if joined else None
            # Whole tables passed through memory: return free memory to the system.
            pa.default_memory_pool().release_unused()
            return self.publish(swaps, join, publication)

    def publish(
        self,
        swaps: Sequence[Swap],
        join: Join | None = None,
        publication: Publication | None = None,
    ) -> Head | None:
        """Publish merged files; None if other merges have replaced all of them."""
        publication = publication or self._publisher.begin()
        head = publish(publication, lambda head: self._propose(head, swaps, join))
        if head is not None:
            self._core.files.forget(_replaced(swaps, join, head))
        return head

    def _due(
        self, contents: GenerationTables, table: Table[Any], everything: bool
    ) -> MergePlan | None:
        root = contents.head.manifest
        name = str(table)
        if name not in root.l0 and not any(name in ref.tables for ref in root.changes):
            return None
        if any(name in ref.tables and not self._knows(ref, name) for ref in root.changes):
            return None  # written by a newer program, which merges it
        files = contents.table(name, table.manifest())
        if everything:
            return MergePlan(files.l0, True)
        return plan(files, self._limits, self._core.clock.now())

    def _joinable(self, contents: GenerationTables) -> tuple[ChangesRef, ...]:
        """Change files without tables or columns of newer programs, which stay as they are."""
        changes = contents.head.manifest.changes
        readable = [ref for ref in changes if all(self._knows(ref, name) for name in ref.tables)]
        return to_join(readable, self._limits)

    def _knows(self, ref: ChangesRef, name: str) -> bool:
        """Whether this program has the table, with every column that its rows here have."""
        table = self._tables.get(name)
        return table is not None and ref.tables[name].columns <= len(table.columns)

    def _rewrite(
        self,
        contents: GenerationTables,
        due: Sequence[tuple[Table[Any], MergePlan]],
        keep: Callable[[], None],
    ) -> list[Swap]:
        swaps = []
        for table, plan in due:
            keep()
            # Return free memory of commits and of the table before to the system.
            pa.default_memory_pool().release_unused()
            if plan.into_base:
                files = contents.table(str(table), table.manifest())
                log_time = contents.head.manifest.log_time
                swaps.append(self._rewriter.into_base(table, files, plan.l0, log_time))
            else:
                swaps.append(self._rewriter.into_run(table, plan.l0))
        return swaps

    def _has_segments_to_join(self, contents: GenerationTables) -> bool:
        """Once a day is enough: segments of whole days are joined."""
        day = contents.head.manifest.log_time.date()
        if self._segments_looked_at == day:
            return False
        if not self._segment_joiner.due(contents):
            self._segments_looked_at = day
            return False
        return True

    def _propose(self, head: Head, swaps: Sequence[Swap], join: Join | None) -> Proposal | None:
        revision = Revision(GenerationTables(self._core.manifests, head))
        done = [swap.table for swap in swaps if revision.swap(swap)]
        joined = join is not None and revision.join(join)
        if len(done) < len(swaps) or (join is not None and not joined):
            log.info("another merge replaced the same files")
        if not done and not joined:
            return None
        return Proposal(
            kind="merge",
            changes=revision.changes,
            l0=revision.l0,
            tables=revision.tables,
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=left_to_delete(head),
        )
