"""Merges: fewer, larger files for the same rows.

A merge runs beside commits. It reads files of a generation, writes new ones, and
publishes a commit that swaps exactly the files it read. Commits in between only
add files, so they do not disturb it. If one of its files is gone from the head,
another merge was faster, and this one's work is dropped.

Two kinds, so that the cost follows the activity and not the size of a table:

- *into a run*: small L0 files become one larger L0 file. Files join only a run of
  about their own size, so each row is rewritten a logarithmic number of times.
- *into the base*: when the L0 rows amount to a good part of the base, or have
  waited too long, the base files of the touched buckets are rewritten. Tombstones
  end here, and rows that have left (see `History`) go to files of their day.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.clock import Clock
from arco.log.commit import Proposal, Publisher
from arco.log.head import Head, Manifests
from arco.log.manifest import FileRef, L0Limits, TableManifest
from arco.state import parquet
from arco.state.parquet import Files
from arco.state.project import with_table
from arco.state.runs import latest
from arco.state.table import BUCKETS, Table
from arco.storage import paths

log = logging.getLogger(__name__)

ROWS_PER_FILE = 131_072


class Plan(NamedTuple):
    l0: tuple[FileRef, ...]
    into_base: bool


class Swap(NamedTuple):
    """Files to take out of a table, and files to put in."""

    table: Table[Any]
    removed: frozenset[str]
    base: tuple[FileRef, ...]
    l0: tuple[FileRef, ...]
    history: tuple[FileRef, ...]

    def apply(self, manifest: TableManifest) -> TableManifest | None:
        """The table after the swap; None if one of the files is not there any more."""
        if not self.removed <= {ref.path for ref in manifest.files()}:
            return None
        return msgspec.structs.replace(
            manifest,
            base=_ordered(_without(manifest.base, self.removed) + self.base),
            l0=self.l0 + _without(manifest.l0, self.removed),
            history=_without(manifest.history, self.removed) + self.history,
        )


def _without(refs: tuple[FileRef, ...], removed: frozenset[str]) -> tuple[FileRef, ...]:
    return tuple(ref for ref in refs if ref.path not in removed)


def _ordered(refs: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    return tuple(sorted(refs, key=lambda ref: ref.buckets))


def plan(manifest: TableManifest, limits: L0Limits, now: datetime) -> Plan | None:
    """What to merge, if anything is due."""
    l0 = manifest.l0
    if not l0:
        return None
    aged = (now - min(ref.created_at for ref in l0)).total_seconds() > limits.age_s
    large = sum(ref.bytes for ref in l0) > limits.bytes
    if not (aged or large or len(l0) > limits.files):
        return None
    base_rows = sum(ref.rows for ref in manifest.base)
    if aged or large or 4 * sum(ref.rows for ref in l0) >= base_rows:
        return Plan(l0, True)
    return Plan(_of_like_size(l0), False)


def _of_like_size(l0: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """The smaller files, and any larger one that does not exceed those before it together."""
    chosen: list[FileRef] = []
    total = 0
    for ref in sorted(l0, key=lambda ref: ref.rows):
        if len(chosen) > len(l0) // 2 and ref.rows > total:
            break
        chosen.append(ref)
        total += ref.rows
    return tuple(chosen)


class Merger:
    def __init__(
        self,
        publisher: Publisher,
        tables: Sequence[Table[Any]],
        files: Files,
        clock: Clock,
        ids: Callable[[], str],
    ) -> None:
        self._publisher = publisher
        self._store = publisher.store
        self._manifests: Manifests = publisher.manifests
        self._tables = tuple(tables)
        self._files = files
        self._clock = clock
        self._ids = ids

    def merge(self, *, everything: bool = False) -> Head | None:
        """Merge what is due (or everything, into the base); None if nothing was published."""
        began = self._publisher.begin()
        head = self._manifests.head()
        swaps = []
        for table in self._tables:
            swap = self._merge_table(table, head, everything)
            if swap is not None:
                swaps.append(swap)
        if not swaps:
            return None
        return self._publisher.publish(lambda head: self._propose(head, swaps), began)

    def _merge_table(self, table: Table[Any], head: Head, everything: bool) -> Swap | None:
        ref = head.manifest.domains.get(table.domain)
        domain = None if ref is None else self._manifests.domain(ref)
        manifest = None if domain is None else domain.tables.get(table.name)
        if domain is None or manifest is None:
            return None
        if everything:
            todo = Plan(manifest.l0, True) if manifest.l0 else None
        else:
            todo = plan(manifest, domain.limits, self._clock.now())
        if todo is None:
            return None
        if todo.into_base:
            return self._into_base(table, manifest, todo, head.manifest.log_time)
        return self._into_run(table, todo)

    def _propose(self, head: Head, swaps: Sequence[Swap]) -> Proposal | None:
        domains = dict(self._manifests.domains(head))
        changed = set()
        for swap in swaps:
            domain = domains.get(swap.table.domain)
            manifest = None if domain is None else domain.tables.get(swap.table.name)
            merged = None if manifest is None else swap.apply(manifest)
            if domain is None or merged is None:
                log.info("another merge of %s was faster", swap.table)
                continue
            domains[swap.table.domain] = with_table(domain, swap.table.name, merged)
            changed.add(swap.table.domain)
        if not changed:
            return None
        return Proposal(
            kind="merge",
            domains={name: domains[name] for name in changed},
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=head.manifest.pending_cleanup,
        )

    def _into_run(self, table: Table[Any], todo: Plan) -> Swap:
        rows = latest([self._files.table(r) for r in todo.l0], table.key, keep_deleted=True)
        run = self._write(table, rows, "l0")
        return Swap(table, frozenset(ref.path for ref in todo.l0), (), (run,), ())

    def _into_base(
        self, table: Table[Any], manifest: TableManifest, todo: Plan, log_time: datetime
    ) -> Swap:
        fresh = latest([self._files.table(r) for r in todo.l0], table.key, keep_deleted=True)
        touched = set(pc.unique(fresh.column("_bucket")).to_pylist())
        removed = {ref.path for ref in todo.l0}
        base: list[FileRef] = []
        leaving: list[pa.Table] = []
        for low, high, old in _pieces(manifest.base, touched):
            parts = [self._files.table(ref) for ref in old]
            parts.append(_between(fresh, low, high))
            rows = latest(parts, table.key, keep_deleted=False)
            removed |= {ref.path for ref in old}
            stays = self._split_history(table, rows, log_time, leaving)
            base += [self._write(table, part, "base") for part in _file_sized(stays)]
        history = self._write_history(table, manifest, leaving, removed)
        return Swap(table, frozenset(removed), tuple(base), (), tuple(history))

    def _split_history(
        self, table: Table[Any], rows: pa.Table, log_time: datetime, leaving: list[pa.Table]
    ) -> pa.Table:
        if table.history is None:
            return rows
        threshold = pa.scalar(log_time - table.history.after, pa.timestamp("us"))
        gone = pc.fill_null(pc.less(rows.column(table.history.column), threshold), False)
        leaving.append(rows.filter(gone))
        return rows.filter(pc.invert(gone))

    def _write_history(
        self,
        table: Table[Any],
        manifest: TableManifest,
        leaving: Sequence[pa.Table],
        removed: set[str],
    ) -> Iterator[FileRef]:
        if table.history is None or not any(part.num_rows for part in leaving):
            return
        rows = pa.concat_tables(leaving, promote_options="default")
        days = rows.column(table.history.column).cast(pa.date32())
        for day in sorted(pc.unique(days).to_pylist()):
            old = [ref for ref in manifest.history if ref.day == day]
            parts = [self._files.table(ref) for ref in old]
            parts.append(rows.filter(pc.equal(days, pa.scalar(day, pa.date32()))))
            removed |= {ref.path for ref in old}
            merged = latest([*parts, parts[0].slice(0, 0)], table.key, keep_deleted=True)
            yield self._write(table, merged, "history", day)

    def _write(
        self, table: Table[Any], rows: pa.Table, level: str, day: date | None = None
    ) -> FileRef:
        return write_file(self._files, table, rows, level, self._ids(), self._clock.now(), day)


def write_file(
    files: Files,
    table: Table[Any],
    rows: pa.Table,
    level: str,
    nonce: str,
    now: datetime,
    day: date | None = None,
) -> FileRef:
    """Put rows, which are in file order, as one file of a table."""
    path = paths.state_file(table.domain, table.name, level, f"{day}-{nonce}" if day else nonce)
    raw, ref = parquet.encode(rows, path, key=table.key, shard=table.shard, now=now, day=day)
    files.store.put(path, raw)
    return ref


def _pieces(base: Sequence[FileRef], touched: set[int]) -> Iterator[tuple[int, int, list[FileRef]]]:
    """Ranges of buckets to rewrite, each with the base file in it; together they cover
    every touched bucket, and never reach into a file that stays."""
    low = 0
    for ref in sorted(base, key=lambda ref: ref.buckets):
        first, last = ref.buckets
        if any(first <= bucket <= last for bucket in touched):
            yield low, last, [ref]
        elif any(low <= bucket < first for bucket in touched):
            yield low, first - 1, []
        low = last + 1
    if any(low <= bucket for bucket in touched):
        yield low, BUCKETS - 1, []


def _between(rows: pa.Table, low: int, high: int) -> pa.Table:
    bucket = rows.column("_bucket")
    return rows.filter(pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high)))


def _file_sized(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut at the borders of buckets, so that a bucket lies in one file."""
    if rows.num_rows == 0:
        return
    if rows.num_rows <= ROWS_PER_FILE * 3 // 2:
        yield rows
        return
    counts = pc.value_counts(rows.column("_bucket")).to_pylist()
    start = size = 0
    for entry in counts:
        if size and size + entry["counts"] > ROWS_PER_FILE:
            yield rows.slice(start, size)
            start, size = start + size, 0
        size += entry["counts"]
    yield rows.slice(start, size)
