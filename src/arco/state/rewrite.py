"""Rewriting a table's files: the work of merges and rebuilds, without the publishing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.clock import Clock
from arco.log.manifest import FileRef, TableManifest
from arco.state import parquet
from arco.state.parquet import Files
from arco.state.runs import latest
from arco.state.table import BUCKETS, Table
from arco.storage import paths
from arco.storage.own import put_own

ROWS_PER_FILE = 131_072


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


def only_grew(then: TableManifest, live: TableManifest) -> bool:
    """Whether all that changed since `then` can be seen in `live`'s L0 files.

    Files that came, and files that were joined into a run, have every row and every
    tombstone. A merge into the base ends tombstones: after one, the files do not
    tell any more that a row of `then` was deleted.
    """
    if {ref.path for ref in then.base} != {ref.path for ref in live.base}:
        return False
    there = {ref.path for ref in live.l0}
    return all(ref.path in there or _covered(ref, live.l0) for ref in then.l0)


def _covered(ref: FileRef, l0: Sequence[FileRef]) -> bool:
    low, high = ref.versions
    return any(run.versions[0] <= low and high <= run.versions[1] for run in l0)


class Rewriter:
    def __init__(self, files: Files, clock: Clock, ids: Callable[[], str]) -> None:
        self._files = files
        self._clock = clock
        self._ids = ids

    def into_run(self, table: Table[Any], l0: Sequence[FileRef]) -> Swap:
        """One L0 file in the place of several."""
        rows = latest([self._files.table(r) for r in l0], table.key, keep_deleted=True)
        run = self._write(table, rows, "l0")
        return Swap(table, frozenset(ref.path for ref in l0), (), (run,), ())

    def into_base(
        self,
        table: Table[Any],
        manifest: TableManifest,
        l0: Sequence[FileRef],
        log_time: datetime,
    ) -> Swap:
        """New base files for the buckets that L0 files touch."""
        fresh = latest([self._files.table(r) for r in l0], table.key, keep_deleted=True)
        touched = set(pc.unique(fresh.column("_bucket")).to_pylist())
        removed = {ref.path for ref in l0}
        base: list[FileRef] = []
        leaving: list[pa.Table] = []
        for low, high, old in _pieces(manifest.base, touched):
            parts = [self._files.table(ref) for ref in old]
            parts.append(_between(fresh, low, high))
            rows = latest(parts, table.key, keep_deleted=False)
            removed |= {ref.path for ref in old}
            stays = self._split_history(table, rows, log_time, leaving)
            base += [self._write(table, part, "base") for part in file_sized(stays)]
        history = tuple(self._write_history(table, manifest, leaving, removed))
        return Swap(table, frozenset(removed), tuple(base), (), history)

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
    put_own(files.store, path, raw)
    return ref


def _pieces(base: Sequence[FileRef], touched: set[int]) -> Iterator[tuple[int, int, list[FileRef]]]:
    """Ranges of buckets to rewrite, each with the base files in it; together they cover
    every touched bucket, and never reach into a file that stays.

    Neighbours that fit into one file become one: rows that are deleted, or leave for
    history, would otherwise shatter a table into files of a few rows.
    """
    low = 0
    for group in _neighbours(base):
        first, last = group[0].buckets[0], group[-1].buckets[1]
        if len(group) > 1 or any(first <= bucket <= last for bucket in touched):
            yield low, last, group
        elif any(low <= bucket < first for bucket in touched):
            yield low, first - 1, []
        low = last + 1
    if any(low <= bucket for bucket in touched):
        yield low, BUCKETS - 1, []


def _neighbours(base: Sequence[FileRef]) -> list[list[FileRef]]:
    groups: list[list[FileRef]] = []
    for ref in sorted(base, key=lambda ref: ref.buckets):
        if groups and sum(r.rows for r in groups[-1]) + ref.rows <= ROWS_PER_FILE:
            groups[-1].append(ref)
        else:
            groups.append([ref])
    return groups


def _between(rows: pa.Table, low: int, high: int) -> pa.Table:
    bucket = rows.column("_bucket")
    return rows.filter(pc.and_(pc.greater_equal(bucket, low), pc.less_equal(bucket, high)))


def file_sized(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows cut into files, at the borders of buckets: a bucket lies in one file."""
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
