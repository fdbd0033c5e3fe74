"""Runs of some namespaces, newest first, without a look at the rows of others.

Rows of runs name the namespaces of their tasks. An index has the order of the runs of a stretch of
time and, for each namespace, the places of its runs in that order. That of recent runs is made once
for a generation. Files of history never change: the index of a day is made of four columns of its
files, and kept as long as there is room. Complete rows are read of runs that are wanted.

A row that does not name its namespaces (`RunRow.namespaces`) is in the list of every namespace, and
the reader looks at its tasks. Where a stretch has many of them an index is of no use.
"""

from __future__ import annotations

import bisect
import sys
from array import array
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from arco.log.manifest import FileRef
from arco.orchestration.newest_rows import SortedRows, first_place, last_place
from arco.orchestration.tables import RUN_ORDER, RUNS, RunRow
from arco.state.lookup import look_up
from arco.state.parquet import Files
from arco.state.snapshot import Snapshot
from arco.state.sorted_rows import latest

FEW: Final = 64
"""Maximum number of runs of a stretch that do not name their namespaces."""

T = TypeVar("T")


class Keep(Protocol):
    """Keeps what never changes, by what tells it apart."""

    def __call__(self, name: Hashable, make: Callable[[], T], /) -> T: ...


def make_again(name: Hashable, make: Callable[[], T], /) -> T:
    """Keeps nothing."""
    return make()


class RunIndex:
    def __init__(self, rows: pa.Table) -> None:
        """`rows`: columns of `RUN_ORDER`, newest first."""
        self.ages = array("q", pc.negate(rows.column("created_at").cast(pa.int64())).to_pylist())
        self._ids = rows.column("run_id").combine_chunks()
        self._states = rows.column("state").combine_chunks().dictionary_encode()
        self._by_namespace: dict[str, array[int]] = {}
        self._last: tuple[Collection[str] | None, Sequence[int]] = (None, ())
        if "namespaces" in rows.column_names:
            column = rows.column("namespaces").combine_chunks()
        else:  # files of earlier versions
            column = pa.nulls(rows.num_rows, pa.list_(pa.string()))
        self._unnamed = array("I", pc.indices_nonzero(column.is_null()).to_pylist())
        names, places = pc.list_flatten(column), pc.list_parent_indices(column)
        for name, place in zip(names.to_pylist(), places.to_pylist(), strict=True):
            self._by_namespace.setdefault(sys.intern(name), array("I")).append(place)

    @property
    def nbytes(self) -> int:
        lists = sum(200 + len(places) * places.itemsize for places in self._by_namespace.values())
        return int(self._ids.nbytes + self._states.nbytes + 8 * len(self.ages) + lists)

    @property
    def namespaces(self) -> frozenset[str] | None:
        """Of all runs; None if some do not name theirs."""
        return None if self._unnamed else frozenset(self._by_namespace)

    @property
    def has_unnamed(self) -> bool:
        return len(self._unnamed) > 0

    @property
    def is_useful(self) -> bool:
        return len(self._unnamed) <= FEW

    def run_id(self, place: int) -> str:
        return str(self._ids[place].as_py())

    def places(
        self,
        namespaces: Collection[str],
        in_states: Collection[str],
        after: tuple[datetime, str] | None,
        since: datetime | None,
    ) -> Sequence[int]:
        """Of runs that have, or may have, a task of one of the namespaces."""
        start = first_place(self.ages, after, self.run_id)
        end = last_place(self.ages, since)
        if start >= end:
            return ()
        places = self._of(namespaces)
        places = places[bisect.bisect_left(places, start) : bisect.bisect_left(places, end)]
        if in_states and places:
            chosen = self._in_states(in_states)
            return [place for place in places if place in chosen]
        return places

    def _in_states(self, in_states: Collection[str]) -> set[int]:
        states = self._states.dictionary.to_pylist()
        codes = [code for code, state in enumerate(states) if state in in_states]
        is_chosen = pc.is_in(self._states.indices, pa.array(codes, self._states.indices.type))
        return set(pc.indices_nonzero(is_chosen).to_pylist())

    def _of(self, namespaces: Collection[str]) -> Sequence[int]:
        """Places in their order. Those that were asked for last are kept: pages follow pages."""
        last, places = self._last
        if last != namespaces:
            lists = [each for name in namespaces if (each := self._by_namespace.get(name))]
            if self._unnamed:
                lists.append(self._unnamed)
            places = sorted(set().union(*lists)) if len(lists) > 1 else [*lists[0]] if lists else []
            self._last = namespaces, places
        return places


class RunDay(NamedTuple):
    """Files of history that end with the same day."""

    name: str
    """Tells apart what files these are."""
    refs: tuple[FileRef, ...]
    last: date
    rest_before: datetime | None
    """What is in files of earlier days ended before; None if there are none."""

    def run_index(self, files: Files) -> RunIndex:
        return files.derived(f"{self.name}#run index", lambda: _index_of_files(files, self.refs))

    def has_none(self, files: Files, namespaces: Collection[str], keep: Keep) -> bool:
        """Whether no run is of one of the namespaces. The names are kept longer than the index."""
        names = keep((self.name, "namespaces"), lambda: self.run_index(files).namespaces)
        return names is not None and names.isdisjoint(namespaces)

    def rows_at(
        self, files: Files, index: RunIndex, keep: Keep, places: Sequence[int]
    ) -> Iterator[RunRow]:
        for place in places:
            yield keep((self.name, place), partial(self._read, files, index, place))

    def _read(self, files: Files, index: RunIndex, place: int) -> RunRow:
        row = look_up(files, self.refs, RUNS, (index.run_id(place),))[1]
        assert row is not None
        return row


def hot_index(rows: SortedRows[RunRow]) -> RunIndex:
    return RunIndex(rows.columns(RUN_ORDER.columns))


def run_days(snapshot: Snapshot) -> list[RunDay]:
    """History of runs, the newest days first."""
    days: dict[date, list[FileRef]] = {}
    for ref in snapshot.manifest(RUNS).history:
        if ref.days:
            days.setdefault(ref.days[1], []).append(ref)
    ends = sorted(days, reverse=True)
    befores = [datetime.combine(end, time()) + timedelta(days=1) for end in ends[1:]]
    return [
        RunDay("#".join(ref.path for ref in days[end]), tuple(days[end]), end, before)
        for end, before in zip(ends, [*befores, None], strict=True)
    ]


def _index_of_files(files: Files, refs: Sequence[FileRef]) -> RunIndex:
    parts = [files.table(RUN_ORDER, ref) for ref in refs]
    rows = latest(parts, RUN_ORDER.key, keep_deleted=False)
    return RunIndex(rows.sort_by([("created_at", "descending"), ("run_id", "descending")]))
