"""Tables with history, read by their days.

`newest_first` iterates back in time: the hot rows come first, together, then history, a day, month
or year at a time. A caller that has enough stops, and files of earlier days are not opened.
`newest_rows` returns a limited number. `get_of_day` looks up a row whose day in history, if it is
there, is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from arco.state.file_rows import ShardRange
from arco.state.snapshot import Snapshot
from arco.state.table import Key, Row, Table

R = TypeVar("R", bound=Row)


class HistoryStretch(NamedTuple):
    rows: pa.Table
    """With their versions, in file order."""
    rest_before: datetime | None
    """Later rows have a time before this one, in the history column; None if there are none."""


def newest_first(
    snapshot: Snapshot, table: Table[Any], *shard: Any, between: ShardRange = None
) -> Iterator[HistoryStretch]:
    """The rows of a table, or of a shard key, or of a longer part of keys.

    With `between`, only files that may hold a shard key of that range are opened; their other rows
    are included. For tables whose rows never return from history, such as those of runs: otherwise
    a key might occur twice.
    """
    hot = hot_stretch(snapshot, table, *shard, between=between)
    yield hot
    if hot.rest_before is not None:
        yield from history_stretches(snapshot, table, *shard, between=between)


def hot_stretch(
    snapshot: Snapshot, table: Table[Any], *shard: Any, between: ShardRange = None
) -> HistoryStretch:
    """The hot rows."""
    return HistoryStretch(*snapshot.hot_rows(table, shard, between))


def history_stretches(
    snapshot: Snapshot, table: Table[Any], *shard: Any, between: ShardRange = None
) -> Iterator[HistoryStretch]:
    """The rows in history, the newest days first."""
    last_days = snapshot.history_days(table, between)
    while last_days:
        last = last_days.pop()
        rows = snapshot.rows_of_day(table, last, shard, between)
        yield HistoryStretch(rows, _end_of(last_days))


def newest_rows(
    snapshot: Snapshot,
    table: Table[R],
    *shard: Any,
    matches: Callable[[R], bool] = lambda row: True,
    limit: int | None = None,
    since: datetime | None = None,
) -> list[R]:
    """The newest rows of a shard key that match, by the history column, newest first.

    At most `limit`, and none from before `since`: files of earlier days are not opened.
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
        # Some hot rows may be older than rows in history.
        if limit is not None and len(chosen) == limit and at(chosen[-1]) >= rest_before:
            break
    return chosen


def get_of_day(snapshot: Snapshot, table: Table[R], key: Key, day: date) -> R | None:
    """A row by its key: among the hot ones, or in history of that day."""
    return snapshot.get_of_day(table, key, day)


def _end_of(days: Sequence[date]) -> datetime | None:
    """The end of the last of these days."""
    return datetime.combine(days[-1], time()) + timedelta(days=1) if days else None
