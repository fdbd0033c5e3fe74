"""Tables with history, read by their days.

`newest_first` goes back as far as somebody asks: the hot rows come first, together, then
history, a day or a month at a time. Whoever has enough stops, and files of earlier days are
not opened.
`newest_rows` takes as many as are wanted.
`get_of_day` looks up a row of which the day is known by which it left, if it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from arco.log.manifest import FileRef
from arco.state.lookup import look_up, slices
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from arco.state.sorted_rows import latest, prefix_range
from arco.state.table import Key, Row, Table
from arco.storage.parallel import each

R = TypeVar("R", bound=Row)


class HistoryStretch(NamedTuple):
    rows: pa.Table
    """With their versions, in file order."""
    rest_before: datetime | None
    """Rows that are still to come have a time before this one, in the column by which they
    left; None if there are none."""


def newest_first(
    snapshot: Snapshot, table: Table[Any], *shard: Any, between: tuple[str, str] | None = None
) -> Iterator[HistoryStretch]:
    """The rows of a table, or of a shard key, or of a longer part of keys.

    With `between`, only files are opened that may hold a shard key of that range; their
    other rows come along.

    For tables whose rows do not come back once they have left, such as those of runs: of
    another a key might be met twice.
    """
    assert table.history is not None
    manifest = snapshot.manifest(table)
    hot = [ref for ref in manifest.recent() if _may_hold(ref, between)]
    # What has left was that old by the log's time when it did.
    left = snapshot.head.manifest.log_time - table.history.after if manifest.has_history else None
    yield HistoryStretch(_rows(snapshot.files, table, hot, shard), left)
    history = [ref for ref in manifest.history if _may_hold(ref, between)]
    last_days = sorted({ref.days[1] for ref in history if ref.days})
    while last_days:
        last = last_days.pop()
        refs = [ref for ref in history if ref.days and ref.days[1] == last]
        yield HistoryStretch(_rows(snapshot.files, table, refs, shard), _end_of(last_days))


def newest_rows(
    snapshot: Snapshot,
    table: Table[R],
    *shard: Any,
    matches: Callable[[R], bool] = lambda row: True,
    limit: int | None = None,
    since: datetime | None = None,
) -> list[R]:
    """The newest rows of a shard key that match, by the time by which they leave, newest first.

    No more than `limit`, and none from before `since`: files of earlier days stay closed.
    """
    assert table.history is not None
    at = attrgetter(table.history.column)
    chosen: list[R] = []
    for rows, rest_before in newest_first(snapshot, table, *shard):
        chosen += [r for r in table.rows_of(rows) if (not since or at(r) >= since) and matches(r)]
        chosen.sort(key=lambda row: (at(row), table.key_of(row)), reverse=True)
        chosen = chosen[:limit]
        if rest_before is None or (since is not None and rest_before <= since):
            break
        # Some of the hot rows may be old enough to leave: they did not yet.
        if limit is not None and len(chosen) == limit and at(chosen[-1]) >= rest_before:
            break
    return chosen


def get_of_day(snapshot: Snapshot, table: Table[R], key: Key, day: date) -> R | None:
    """A row by its key: among the hot ones, or in history of that day alone."""
    manifest = snapshot.manifest(table)

    def left(version: int) -> list[FileRef]:
        return [r for r in manifest.history if r.days and r.days[0] <= day <= r.days[1]]

    return look_up(snapshot.files, manifest.recent(), table, key, left)[1]


def _may_hold(ref: FileRef, between: tuple[str, str] | None) -> bool:
    return between is None or (ref.shard[0] <= between[1] and between[0] <= ref.shard[1])


def _end_of(days: Sequence[date]) -> datetime | None:
    """The end of the last of these days."""
    return datetime.combine(days[-1], time()) + timedelta(days=1) if days else None


def _rows(files: Files, table: Table[Any], refs: Sequence[FileRef], shard: Key) -> pa.Table:
    parts = list(_of_shard(files, table, refs, shard) if shard else _whole(files, table, refs))
    if not parts:
        return table.schema.empty_table()
    return latest(parts, table.key, keep_deleted=False)


def _whole(files: Files, table: Table[Any], refs: Sequence[FileRef]) -> Iterator[pa.RecordBatch]:
    for batches in each(files.store, lambda ref: files.batches(table, ref), refs):
        yield from batches


def _of_shard(
    files: Files, table: Table[Any], refs: Sequence[FileRef], shard: Key
) -> Iterator[pa.RecordBatch]:
    for batch in slices(files, refs, table, shard):
        start, end = prefix_range(batch, table.key, shard)
        if end > start:
            yield batch.slice(start, end - start)
