"""The list of runs at one generation, newest first: of all, or of some namespaces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

from arco.orchestration.newest_rows import Choose, SortedRows
from arco.orchestration.newest_rows import in_states as only_in_states
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.run_index import Keep, RunIndex, hot_index, make_again, run_days
from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import RUNS, TASKS, RunRow
from arco.state.days import history_stretches, hot_stretch

Rest = datetime | None
"""Runs of the stretches after one ended before this; None: there are none."""
RunStretch = tuple[Iterable[RunRow], Rest]


class RunWindow(NamedTuple):
    """The part of a list of runs that is wanted."""

    after: tuple[datetime, str] | None
    since: datetime | None
    choose: Choose | None
    in_states: Collection[str]
    matches: Callable[[RunRow], bool] | None

    def of(self, rows: SortedRows[RunRow]) -> Iterator[RunRow]:
        following = rows.following(self.after, self.since, self.choose)
        return following if self.matches is None else filter(self.matches, following)

    def matching(self, rows: Iterator[RunRow], index: RunIndex) -> Iterator[RunRow]:
        """Of rows that an index gave: those that name their namespaces match."""
        if self.matches is None or not index.has_unnamed:
            return rows
        return filter(self._matches_unnamed, rows)

    def _matches_unnamed(self, row: RunRow) -> bool:
        return row.namespaces is not None or self.matches is None or self.matches(row)


class RunList(NamedTuple):
    rows: list[RunRow]
    """The newest first."""
    is_complete: bool
    """Whether there is no other run that was asked for."""


class RunListReader(DeploymentReader):
    def runs(
        self,
        *,
        limit: int,
        in_states: Collection[str] = (),
        asset_key: str = "",
        since: datetime | None = None,
        after: tuple[datetime, str] | None = None,
        matches: Callable[[RunRow], bool] | None = None,
        choose: Choose | None = None,
        namespaces: Collection[str] | None = None,
        keep: Keep = make_again,
    ) -> RunList:
        """The newest runs that were created since a time, are in a state, or have an asset's task,
        and match. They are those that follow the run with this creation time and id, `after`.
        `choose` leaves out many that do not match at once.

        `namespaces`: those that match have a task of one of them, and are looked for by an index;
        `matches` is asked of runs that do not name theirs. `keep` keeps what was read of history.

        Files of history are opened a day at a time, until there are `limit` runs that no
        earlier day can have a newer one than.
        """
        only_active = bool(in_states) and RUN_ACTIVE.issuperset(in_states)
        chosen: list[RunRow] = []
        window = RunWindow(after, since, choose, in_states, matches)
        if namespaces is None:
            stretches = self._sorted_runs(window)
        else:
            stretches = self._indexed_runs(window, namespaces, keep)
        for rows, rest_before in stretches:
            if asset_key:
                rows = (row for row in rows if self._has_asset(row, asset_key))
            chosen = _newest_of(chosen, iter(rows), limit + 1)
            # What is still to come ended before that time, and was created before it ended.
            if rest_before is None or only_active or (since is not None and rest_before <= since):
                break
            if len(chosen) >= limit and chosen[limit - 1].created_at >= rest_before:
                return RunList(chosen[:limit], False)
        return RunList(chosen[:limit], len(chosen) <= limit)

    def _sorted_runs(self, window: RunWindow) -> Iterator[RunStretch]:
        """Runs by stretches of time. Those that have not left for history, which every list begins
        with, are sorted once for a generation."""
        rows, rest_before = self._hot_runs(window.in_states)
        yield window.of(rows), rest_before
        for history, rest_before in history_stretches(self.snapshot, RUNS):
            yield window.of(_sorted(only_in_states(history, window.in_states))), rest_before

    def _hot_runs(self, in_states: Collection[str] = ()) -> tuple[SortedRows[RunRow], Rest]:
        def read() -> tuple[SortedRows[RunRow], Rest]:
            rows, rest_before = hot_stretch(self.snapshot, RUNS)
            return _sorted(only_in_states(rows, in_states)), rest_before

        return read() if in_states else self.snapshot.cached("sorted runs", read)

    def _indexed_runs(
        self, window: RunWindow, namespaces: Collection[str], keep: Keep
    ) -> Iterator[RunStretch]:
        """The same of some namespaces, where an index has them."""
        snapshot, files = self.snapshot, self.snapshot.files
        after, since, _, in_states, _ = window
        hot, rest_before = self._hot_runs()
        index = snapshot.cached("run index", lambda: hot_index(hot))
        if index.is_useful:
            places = index.places(namespaces, in_states, after, since)
            yield window.matching(hot.rows_at(places), index), rest_before
        else:
            yield window.of(self._hot_runs(in_states)[0]), rest_before
        for day in snapshot.cached("days of runs", lambda: run_days(snapshot)):
            if day.has_none(files, namespaces, keep):
                yield (), day.rest_before
                continue
            index = day.run_index(files)
            if index.is_useful:
                places = index.places(namespaces, in_states, after, since)
                rows = day.rows_at(files, index, keep, places) if places else iter(())
                yield window.matching(rows, index), day.rest_before
            else:
                history = snapshot.rows_of_day(RUNS, day.last, (), None)
                yield window.of(_sorted(only_in_states(history, in_states))), day.rest_before

    def _has_asset(self, row: RunRow, asset_key: str) -> bool:
        if not asset_key:
            return True
        return any(task.asset_key == asset_key for task in self.snapshot.rows(TASKS, row.run_id))


def _newest_of(chosen: list[RunRow], rows: Iterator[RunRow], count: int) -> list[RunRow]:
    """The `count` newest rows of two lists. No more of the second are read than needed."""
    key = attrgetter("created_at", "run_id")
    added = list(islice(rows, count - len(chosen)))
    while chosen and len(added) < count:  # others must be newer than the oldest that is chosen
        row = next(rows, None)
        if row is None or key(row) < key(chosen[-1]):
            break
        added.append(row)
    if not chosen or not added or key(added[0]) < key(chosen[-1]):
        return (chosen + added)[:count]
    return sorted(chosen + added, key=key, reverse=True)[:count]


def _sorted(rows: pa.Table) -> SortedRows[RunRow]:
    return SortedRows(RUNS, rows, "created_at", "run_id")
