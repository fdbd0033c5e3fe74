"""Rewriting a table's files: the work of merges and rebuilds, without the publishing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.log.contents import GenerationTables, TableFiles
from arco.log.manifest import ChangesRef, FileRef
from arco.state import changes, file_encoder
from arco.state.bucket_windows import BucketWindow, RecentRows, pieces
from arco.state.core import Core
from arco.state.file_encoder import FileEncoder
from arco.state.parquet import Files
from arco.state.sorted_rows import latest
from arco.state.table import BUCKETS, Key, Table, Versioned, keep_newest
from arco.storage import paths
from arco.storage.unique_objects import put_own

ROWS_PER_FILE = 16_384
"""A merge holds the file that it writes in memory."""
JOINED_ROWS = 1 << 20
JOINED_BYTES = 16 << 20
"""Files of history with more rows or bytes than this together are not joined."""
SETTLED_AFTER = timedelta(days=7)
"""How long after the last row of a month or a year has left the hot table its files are joined."""


class Swap(NamedTuple):
    """Files to remove from a table, and files to add."""

    table: Table[Any]
    removed: frozenset[str]
    base: tuple[FileRef, ...] = ()
    l0: tuple[FileRef, ...] = ()
    history: tuple[FileRef, ...] = ()
    removed_history: frozenset[str] = frozenset()
    into_base: bool = False

    def apply(self, files: TableFiles) -> TableFiles | None:
        """The table after the swap; None if one of the files was removed."""
        if not self.removed <= {ref.path for ref in files.recent()}:
            return None
        history = None
        if self.history or self.removed_history:
            if not self.removed_history <= {ref.path for ref in files.history}:
                return None
            remaining = _without(files.history, self.removed_history)
            history = tuple(sorted(remaining + self.history, key=lambda ref: ref.versions))
        return files.with_files(
            base=tuple(
                sorted(_without(files.base, self.removed) + self.base, key=lambda ref: ref.buckets)
            ),
            l0=self.l0 + _without(files.l0, self.removed),
            history=history,
            merged=self.into_base,
        )


class Join(NamedTuple):
    """Change files to remove, and their replacements."""

    removed: tuple[ChangesRef, ...]
    changes: tuple[ChangesRef, ...]
    l0: Mapping[str, FileRef]


class Revision:
    """The files of a generation, with swaps made on them."""

    def __init__(self, contents: GenerationTables) -> None:
        self._contents = contents
        self.changes = contents.head.manifest.changes
        self.l0 = dict(contents.head.manifest.l0)
        self.tables: dict[str, TableFiles] = {}
        """Those whose base or history has changed."""

    def swap(self, swap: Swap) -> bool:
        """Swap files; False if one of them was removed."""
        name = str(swap.table)
        before = self.tables.get(name) or self._contents.table(name, swap.table.manifest())
        after = swap.apply(before)
        if after is None:
            return False
        self._set_l0(name, tuple(ref for ref in after.l0 if not ref.table))
        self.changes = _without_rows(self.changes, name, swap.removed)
        if swap.into_base or swap.history or swap.removed_history:
            self.tables[name] = after
        return True

    def join(self, join: Join) -> bool:
        if any(ref not in self.changes for ref in join.removed):
            return False
        remaining = tuple(ref for ref in self.changes if ref not in join.removed)
        self.changes = join.changes + remaining
        for name, ref in join.l0.items():
            self._set_l0(name, (ref, *self.l0.get(name, ())))
        return True

    def _set_l0(self, name: str, refs: tuple[FileRef, ...]) -> None:
        if refs:
            self.l0[name] = refs
        else:
            self.l0.pop(name, None)


def _without_rows(
    changes: tuple[ChangesRef, ...], table: str, removed: frozenset[str]
) -> tuple[ChangesRef, ...]:
    """Change files without the rows of one table in some of them."""
    left = []
    for ref in changes:
        if ref.path in removed and table in ref.tables:
            tables = {name: at for name, at in ref.tables.items() if name != table}
            ref = msgspec.structs.replace(ref, tables=tables)
        if ref.tables:
            left.append(ref)
    return tuple(left)


def _without(refs: tuple[FileRef, ...], removed: frozenset[str]) -> tuple[FileRef, ...]:
    return tuple(ref for ref in refs if ref.path not in removed)


def only_grew(earlier: TableFiles, live: TableFiles) -> bool:
    """Whether `live`'s L0 files show everything that changed since `earlier`.

    New files, and files that were joined into a larger one, have every row and every tombstone. A
    merge into the base ends tombstones: after one, the files do not show any more that a row of
    `earlier` was deleted.
    """
    return earlier.merges == live.merges


class Rewriter:
    def __init__(self, core: Core) -> None:
        self._files = core.files
        self._clock = core.clock
        self._ids = core.ids

    def into_run(self, table: Table[Any], l0: Sequence[FileRef]) -> Swap:
        """Replace several L0 files by one."""
        recent = RecentRows(self._files, table, l0)
        encoder = self._encoder(table, "l0", recent.counts.total())
        for window in recent.windows(0, BUCKETS - 1):
            encoder.add(recent.between(window))
        return Swap(table, frozenset(ref.path for ref in l0), l0=(self._put(encoder),))

    def join(self, joined: Sequence[ChangesRef], tables: Mapping[str, Table[Any]]) -> Join:
        """Replace several change files by one; a table with many rows gets an L0 file."""
        small: dict[Table[Any], Mapping[Key, Versioned[Any]]] = {}
        l0: dict[str, FileRef] = {}
        for name in sorted({name for ref in joined for name in ref.tables}):
            table = tables[name]
            changed = self._newest_rows(table, [r.of(name) for r in joined if name in r.tables])
            if changes.belongs(table, changed):
                small[table] = changed
            else:
                l0[name] = self._write(table, table.to_arrow(changed), "l0")
        added: tuple[ChangesRef, ...] = ()
        if small:
            raw, ref = changes.encode(small, self._ids(), self._clock.now())
            put_own(self._files.store, ref.path, raw)
            self._files.written(ref, raw)
            added = (ref,)
        return Join(tuple(joined), added, l0)

    def _newest_rows(self, table: Table[Any], refs: Sequence[FileRef]) -> dict[Key, Versioned[Any]]:
        """The rows of a table in change files: of each key the newest."""
        newest: dict[Key, Versioned[Any]] = {}
        for ref in refs:
            keep_newest(newest, self._files.changed_rows(table, ref))
        return newest

    def into_base(
        self, table: Table[Any], files: TableFiles, l0: Sequence[FileRef], log_time: datetime
    ) -> Swap:
        """New base files for the buckets that L0 files touch."""
        recent = RecentRows(self._files, table, l0)
        removed = {ref.path for ref in l0}
        base: list[FileRef] = []
        leaving: list[pa.Table] = []
        for low, high, old in pieces(files.base, set(recent.counts), ROWS_PER_FILE):
            pa.default_memory_pool().release_unused()  # of the file before, and of commits
            base += self._piece(table, old, recent, (low, high), log_time, leaving)
            removed |= {ref.path for ref in old}
        removed_history: set[str] = set()
        history = self._write_history(table, files, leaving, removed_history)
        if history:
            history = self._joined(table, files, history, removed_history, log_time)
        return Swap(
            table,
            frozenset(removed),
            tuple(base),
            history=tuple(history),
            removed_history=frozenset(removed_history),
            into_base=True,
        )

    def _piece(
        self,
        table: Table[Any],
        old: Sequence[FileRef],
        recent: RecentRows,
        piece: BucketWindow,
        log_time: datetime,
        leaving: list[pa.Table],
    ) -> list[FileRef]:
        """New base files of some buckets. Only rows of a window and for history are in memory."""
        opened = [self._files.opened(table, ref) for ref in old]
        schema = pa.unify_schemas([*(file.schema for file in opened), recent.schema])
        rows = sum(ref.rows for ref in old)
        rows += sum(recent.counts[bucket] for bucket in range(piece[0], piece[1] + 1))
        most = rows if rows <= ROWS_PER_FILE * 3 // 2 else ROWS_PER_FILE
        borders = [group.buckets[0] for file in opened for group in file.groups]
        written: list[FileRef] = []
        encoder = None
        for window in recent.windows(*piece, borders):
            parts = [file.between(*window) for file in opened]
            merged = latest(
                [schema.empty_table(), *parts, recent.between(window)],
                table.key,
                keep_deleted=False,
            )
            del parts
            stays = self._split_history(table, merged, log_time, leaving)
            if not stays.num_rows:
                continue
            for part in file_encoder.whole_buckets(stays, ROWS_PER_FILE):
                if encoder is not None and encoder.rows + part.num_rows > most:
                    written.append(self._put(encoder))
                    encoder = None
                encoder = encoder or self._encoder(table, "base", rows)
                encoder.add(part)
            del merged, stays, part  # before the rows of the next window are read
        return [*written, self._put(encoder)] if encoder is not None else written

    def _encoder(self, table: Table[Any], level: str, expected_rows: int) -> FileEncoder:
        path = paths.state_file(table.domain, table.name, level, self._ids())
        now = self._clock.now()
        return FileEncoder(
            path,
            table.key,
            table.shard,
            now,
            expected_rows=expected_rows,
            group_rows=table.group_rows,
        )

    def _put(self, encoder: FileEncoder) -> FileRef:
        raw, ref = encoder.finish()
        put_own(self._files.store, ref.path, raw)
        return ref

    def _split_history(
        self, table: Table[Any], rows: pa.Table, log_time: datetime, leaving: list[pa.Table]
    ) -> pa.Table:
        if table.history is None:
            return rows
        threshold = pa.scalar(log_time - table.history.after, pa.timestamp("us"))
        expired = pc.fill_null(pc.less(rows.column(table.history.column), threshold), False)
        if not pc.any(expired).as_py():
            return rows
        leaving.append(rows.filter(expired))
        return rows.filter(pc.invert(expired))

    def _write_history(
        self, table: Table[Any], files: TableFiles, leaving: Sequence[pa.Table], removed: set[str]
    ) -> list[FileRef]:
        """Files for rows that leave, of one day each, or of the month or year that it is in."""
        if table.history is None or not any(part.num_rows for part in leaving):
            return []
        rows = pa.concat_tables(leaving, promote_options="default")
        days = rows.column(table.history.column).cast(pa.date32())
        spans: dict[tuple[date, date], list[date]] = {}
        for day in sorted(pc.unique(days).to_pylist()):
            spans.setdefault(_span_of(day, files.history), []).append(day)
        written = []
        for span, its_days in spans.items():
            old = [ref for ref in files.history if ref.days == span]
            parts = [self._files.table(table, ref) for ref in old]
            parts.append(rows.filter(pc.is_in(days, pa.array(its_days, pa.date32()))))
            removed |= {ref.path for ref in old}
            written.append(self._history_file(table, parts, span))
        return written

    def _joined(
        self,
        table: Table[Any],
        files: TableFiles,
        written: Sequence[FileRef],
        removed: set[str],
        log_time: datetime,
    ) -> list[FileRef]:
        """What was written, with one file for each month long past, and then for each such year.

        So the list of history files does not grow with time, but with the size of history.
        """
        assert table.history is not None  # or nothing was written
        limit = (log_time - table.history.after - SETTLED_AFTER).date()
        result = list(written)
        for last_day in (_month_ends, _year_ends):
            history = [ref for ref in files.history if ref.path not in removed]
            periods: dict[date, list[FileRef]] = {}
            for ref in (*history, *result):
                if ref.days is not None and (end := last_day(ref.days[1])) < limit:
                    periods.setdefault(end, []).append(ref)
            for period in periods.values():
                if len(period) < 2 or sum(ref.rows for ref in period) > JOINED_ROWS:
                    continue
                if sum(ref.bytes for ref in period) > JOINED_BYTES:
                    continue
                days = [day for ref in period if ref.days for day in ref.days]
                parts = [self._files.table(table, ref) for ref in period]
                joined = self._history_file(table, parts, (min(days), max(days)))
                paths_of = {ref.path for ref in period}
                removed |= paths_of - {ref.path for ref in result}  # those are unpublished
                result = [ref for ref in result if ref.path not in paths_of] + [joined]
        return result

    def _history_file(
        self, table: Table[Any], parts: Sequence[pa.Table], span: tuple[date, date]
    ) -> FileRef:
        merged = latest([*parts, parts[0].slice(0, 0)], table.key, keep_deleted=True)
        return self._write(table, merged, "history", span)

    def replace_history(self, table: Table[Any], old: FileRef, rows: pa.Table) -> Swap:
        """The same days of history with other rows."""
        assert old.days is not None
        fresh = self._write(table, rows, "history", old.days)
        return Swap(table, frozenset(), history=(fresh,), removed_history=frozenset((old.path,)))

    def _write(
        self, table: Table[Any], rows: pa.Table, level: str, days: tuple[date, date] | None = None
    ) -> FileRef:
        return write_file(self._files, table, rows, level, self._ids(), self._clock.now(), days)


def _span_of(day: date, history: Sequence[FileRef]) -> tuple[date, date]:
    """The days of the history file that a day belongs to; itself if there is none."""
    for ref in history:
        if ref.days is not None and ref.days[0] <= day <= ref.days[1]:
            return ref.days
    return day, day


def _month_ends(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)


def _year_ends(day: date) -> date:
    return date(day.year, 12, 31)


def write_file(
    files: Files,
    table: Table[Any],
    rows: pa.Table,
    level: str,
    nonce: str,
    now: datetime,
    days: tuple[date, date] | None = None,
) -> FileRef:
    """Put rows, which are in file order, as one file of a table."""
    stem = f"{days[0]}-{nonce}" if days else nonce
    path = paths.state_file(table.domain, table.name, level, stem)
    raw, ref = file_encoder.encode(
        rows,
        path,
        key=table.key,
        shard=table.shard,
        now=now,
        days=days,
        group_rows=table.group_rows,
    )
    put_own(files.store, path, raw)
    return ref
