"""Pages of runs and of requests for runs, the newest first."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from arco.epoch import EPOCH
from arco.state.table import Row, Table

R = TypeVar("R", bound=Row)
Choose = Callable[[pa.Table], Sequence[int]]
"""Returns the places of rows that may match."""
FIRST_CHUNK: Final = 64
FIRST_CHUNKS: Final = 8
"""Number of chunks that are read once for all lists."""
CHUNK: Final = 500
"""Rows are read in chunks of this size, because it is unknown how many are needed."""


def in_states(rows: pa.Table, states: Collection[str]) -> pa.Table:
    if not states:
        return rows
    return rows.filter(pc.is_in(rows.column("state"), pa.array(states, pa.string())))


class SortedRows(Generic[R]):
    """Rows in the order of a list, the newest first: which of them a page has is looked up."""

    def __init__(self, table: Table[R], rows: pa.Table, time: str, id: str) -> None:
        self._table = table
        self._rows = rows
        self._id = id
        newest = [(time, "descending"), (id, "descending")]
        self._order = pc.sort_indices(rows, sort_keys=newest)
        times = rows.column(time).cast(pa.int64()).take(self._order)
        self._ages: list[int] = pc.negate(times).to_pylist()
        self._first: dict[int, list[R]] = {}
        """The first of them, which most lists begin with, by the number of their chunk."""
        self._cached: dict[int, R] = {}

    def following(
        self,
        after: tuple[datetime, str] | None,
        since: datetime | None,
        choose: Choose | None = None,
    ) -> Iterator[R]:
        """The rows after one with this time and id, and not from before `since`.

        `choose` filters many rows at once."""
        start, end = first_place(self._ages, after, self._id_at), last_place(self._ages, since)
        while choose is None and start < min(end, FIRST_CHUNKS * FIRST_CHUNK):
            number, place = divmod(start, FIRST_CHUNK)
            rows = self._first_rows(number)[place : place + end - start]
            yield from rows
            start += len(rows)
        size = FIRST_CHUNK
        while start < end:
            places = self._order.slice(start, min(size, end - start))
            chosen = self._rows.take(places)
            if choose is not None:
                chosen = chosen.take(pa.array(choose(chosen), pa.int64()))
            yield from self._table.rows_of(chosen)
            start, size = start + size, CHUNK

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in this order."""
        return self._rows.select([n for n in names if n in self._rows.column_names]).take(
            self._order
        )

    def rows_at(self, places: Sequence[int]) -> Iterator[R]:
        """The rows at places of this order. Some are kept: reading one takes as long as many."""
        for start in range(0, len(places), FIRST_CHUNK):
            chunk = places[start : start + FIRST_CHUNK]
            earlier = self._cached  # another thread may put others there
            rows = {place: earlier[place] for place in chunk if place in earlier}
            if fresh := [place for place in chunk if place not in rows]:
                chosen = self._rows.take(self._order.take(pa.array(fresh, pa.int64())))
                rows.update(zip(fresh, self._table.rows_of(chosen), strict=True))
                has_room = len(earlier) < FIRST_CHUNKS * FIRST_CHUNK
                self._cached = {**earlier, **rows} if has_room else rows
            yield from map(rows.__getitem__, chunk)

    def _first_rows(self, number: int) -> list[R]:
        rows = self._first.get(number)
        if rows is None:
            places = self._order.slice(number * FIRST_CHUNK, FIRST_CHUNK)
            rows = self._first[number] = list(self._table.rows_of(self._rows.take(places)))
        return rows

    def _id_at(self, place: int) -> str:
        return str(self._rows.column(self._id)[self._order[place].as_py()].as_py())


def first_place(
    ages: Sequence[int], after: tuple[datetime, str] | None, id_at: Callable[[int], str]
) -> int:
    """Where a list goes on after a row with this time and id. Rows have ages: times, negated."""
    if after is None:
        return 0
    age, last_id = -_microseconds(after[0]), after[1]
    place = bisect.bisect_left(ages, age)
    while place < len(ages) and ages[place] == age and id_at(place) >= last_id:
        place += 1
    return place


def last_place(ages: Sequence[int], since: datetime | None) -> int:
    """Where rows from before `since` begin."""
    return len(ages) if since is None else bisect.bisect_right(ages, -_microseconds(since))


def _microseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def first_rows(
    table: Table[R], rows: pa.Table, order: list[tuple[str, str]], count: int
) -> list[R]:
    return list(table.rows_of(rows.take(pc.select_k_unstable(rows, count, order))))


def following(rows: pa.Table, after: tuple[datetime, str] | None, time: str, id: str) -> pa.Table:
    """The rows that come after one with this time and id, the newest first."""
    if after is None:
        return rows
    times, ids = rows.column(time), rows.column(id)
    last, last_id = pa.scalar(after[0], times.type), pa.scalar(after[1])
    same = pc.and_(pc.equal(times, last), pc.less(ids, last_id))
    return rows.filter(pc.or_(pc.less(times, last), same))
