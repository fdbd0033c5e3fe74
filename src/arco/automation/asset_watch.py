"""Watches changes for the automation of assets, in memory, and proposes partitions to run.

Like the agenda it follows the commits: each partition that got a version, failed, was held or
released, and each task that ended, may cause runs of partitions that read it. Changes of one commit
are evaluated together. A partition that was evaluated without effect is forgotten: only another
change can alter that.

A new process starts from the cursor in the log: it reads changes since then from the files that
have them. It moves with each proposal, and now and then without one.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from arco.automation.asset_events import AutomationAdvanced
from arco.automation.asset_graph import AssetGraph, AutomatedPartition, Periods
from arco.automation.asset_holds import HeldPartitions
from arco.automation.asset_proposal import AssetProposal
from arco.automation.asset_reads import AutomationReads, RequestedPlaces
from arco.automation.asset_tables import (
    AUTOMATION_CURSOR,
    AUTOMATION_HOLDS,
    AUTOMATIONS,
    SCOPE,
    AutomationCursorRow,
    AutomationRow,
)
from arco.automation.backfill_states import ASKING
from arco.automation.changed_rows import AssetPartition, TableRows, places
from arco.automation.coalesce import coalesced, in_events
from arco.automation.conditions import ActiveTasks, ActiveWork, Conditions
from arco.automation.due_times import DueTimes
from arco.automation.tables import BACKFILLS, BackfillRow
from arco.automation.ticks import next_tick
from arco.execution.tables import PARTITIONS
from arco.orchestration.states import RequestState
from arco.orchestration.tables import DYNAMIC_KEYS, PROJECTS, RUN_REQUESTS, RunRequestRow
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table

log = logging.getLogger(__name__)

CHECKPOINT = 10_000
"""After this many positions the cursor moves even without a request."""
BUDGET = 5_000
"""Maximum of partitions that are evaluated in one round."""

R = TypeVar("R", bound=Row)


class AssetWatch:
    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.rows: dict[str, AutomationRow] = {}
        self.cursor: AutomationCursorRow | None = None
        self._graph: AssetGraph | None = None
        self.changed: set[AssetPartition] = set()
        self._earlier: set[AssetPartition] = set()
        """Changes before the cursor: only assets with `on_cron` have not seen them."""
        self._keys: set[tuple[str, str]] = set()
        """Keys that were added to sets of dynamic dimensions."""
        self._new: set[str] = set()
        """Assets whose automation was declared or resumed."""
        self._nodes: set[AutomatedPartition] = set()
        """Partitions to evaluate, besides those that follow from changes."""
        self._at_ticks: dict[str, set[AssetPartition]] = {}
        """By asset with `on_cron`: what changed since its last tick."""
        self._ticked: dict[str, int] = {}
        """Those with a tick that is not recorded yet, and the last position that belongs to it."""
        self._due = DueTimes()
        """When time alone makes an asset due."""
        self._ended: dict[str, datetime] = {}
        """By asset: periods that were over by then have been evaluated."""
        self._proposal: AssetProposal | None = None
        self.held = HeldPartitions()
        self._requested = RequestedPlaces()
        self._work_changed = False
        """Whether a request or a backfill may have ended: what is held may have waited for it."""
        self._position = 0
        """Changes up to there have been evaluated."""

    # -- moving to another generation ----------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Load everything from a snapshot: changes since the cursor are to be evaluated."""
        self._clear()
        for row in snapshot.hot(AUTOMATIONS):
            self._put(row)
        self._new.clear()
        cursor = self.cursor = snapshot.get(AUTOMATION_CURSOR, SCOPE)
        if cursor is None:
            return
        self.held.stored(snapshot.hot(AUTOMATION_HOLDS))
        position = self._position = cursor.position
        if not self._has_active:
            return

        def changed(table: Table[R]) -> Iterable[R]:
            return (row for _, row in snapshot.since(table, position))

        self.take(changed)
        self._new = {
            row.asset_key for row in changed(AUTOMATIONS) if row.since > position or row.replay_from
        }
        ticking = [row.ticked_position for row in self.rows.values() if row.acts_at_ticks]
        if ticking:
            self._earlier = places(
                lambda table: (r for _, r in snapshot.since(table, min(ticking)))
            )

    def take(self, rows_of: TableRows) -> None:
        """Advance by rows that changed."""
        cursors = list(rows_of(AUTOMATION_CURSOR))
        self.cursor = cursors[-1] if cursors else self.cursor
        for row in rows_of(AUTOMATIONS):
            self._put(row)
        self.held.stored(rows_of(AUTOMATION_HOLDS))
        for cursor in cursors:
            self._settle(cursor)
        if any(True for _ in rows_of(PROJECTS)):
            self._graph = None
        self._work_changed |= any(
            row.state != RequestState.PENDING for row in rows_of(RUN_REQUESTS)
        ) or any(row.state not in ASKING for row in rows_of(BACKFILLS))
        if not self._has_active:  # a declaration counts from its position on, as a resumption does
            self._nodes, self.changed, self._earlier, self._keys = set(), set(), set(), set()
            return
        self.changed |= places(rows_of)
        self._keys |= {(row.keys, row.key) for row in rows_of(DYNAMIC_KEYS)}

    def _put(self, row: AutomationRow) -> None:
        key = row.asset_key
        old = self.rows.get(key)
        self.rows[key] = row
        if not row.is_active:
            self.held.discard_asset(key)
        if not row.acts_at_ticks:
            self._at_ticks.pop(key, None)
        if old is None or (old.state, old.since) != (row.state, row.since):
            self._new.add(key)
        if old is None or (old.state, old.ticked_at) != (row.state, row.ticked_at):
            self._plan_due(key)

    def _settle(self, cursor: AutomationCursorRow) -> None:
        """Check the outcome of the last proposal."""
        proposal = self._proposal
        if proposal is None or not proposal.is_over(cursor):
            return
        self._proposal = None
        if proposal.is_whole(cursor):
            self.held.removed(proposal.events[-1].released)
        if proposal.is_lost(cursor):
            self._nodes |= set(proposal.nodes)
            for key in [key for key, at in self._ended.items() if at > cursor.until]:
                del self._ended[key]
                self._plan_due(key)

    # -- time ----------------------------------------------------------------------------

    def _plan_due(self, key: str) -> None:
        row, at = self.rows[key], None
        try:
            at = self._next_at(row) if row.is_active else None
        except Exception:  # zone data of this machine; the others are served
            log.exception("automation of %s cannot be evaluated here", key)
        self._due.put(key, at)

    def _next_at(self, row: AutomationRow) -> datetime | None:
        if row.when == "on_cron":
            tick = next_tick(row.cron, row.timezone, max(row.ticked_at, self._dealt(row)))
            return None if tick is None else tick.at
        graph = self._graph
        if graph is None or row.asset_key not in graph.timed:
            return None
        return Periods(graph, self._dealt(row), lambda _: ()).next_end(row.asset_key)

    def _dealt(self, row: AutomationRow) -> datetime:
        until = row.since_at if self.cursor is None else self.cursor.until
        return self._ended.get(row.asset_key, row.ticked_at if row.when == "on_cron" else until)

    def next_due(self) -> datetime | None:
        """When time alone makes an asset due."""
        return self._due.first()

    # -- deciding ------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether the last round had no time for all partitions."""
        return bool(self._nodes) and self._proposal is None and self._has_active

    @property
    def _has_active(self) -> bool:
        return any(row.is_active for row in self.rows.values())

    @property
    def is_prepared(self) -> bool:
        return self._graph is not None or not self._has_active

    @property
    def graph(self) -> AssetGraph:
        assert self._graph is not None, "it is prepared first"
        return self._graph

    def prepare(self, graph: AssetGraph) -> None:
        """Use the current deployments. Removed partitions are forgotten."""
        self._graph = graph
        self._requested = RequestedPlaces()
        self._nodes = {node for node in self._nodes if graph.fits(node)}
        self.held.keep_fitting(graph)
        if self._proposal is not None:
            self._proposal = self._proposal.fitting(graph)
        for key in self.rows:
            self._plan_due(key)

    def has_work(self, now: datetime, monotonic_s: float, position: int) -> bool:
        cursor = self.cursor
        if cursor is None or not self._has_active:
            return False
        if self._proposal is not None and self._proposal.may_arrive(monotonic_s):
            return False
        at = self.next_due()
        return bool(
            self.changed
            or self._nodes
            or self._new
            or self._keys
            or self._earlier
            or (self._work_changed and (self.held.for_work or self.held.has_new_rows))
            or self._proposal is not None
            or (at is not None and at <= now)
            or position - cursor.position > CHECKPOINT
        )

    def decide(
        self,
        snapshot: Snapshot,
        making: ActiveTasks,
        requests: Iterable[RunRequestRow],
        backfills: Iterable[BackfillRow],
        reads: AutomationReads,
        now: datetime,
        monotonic_s: float,
        proposal_id: str,
    ) -> list[AutomationAdvanced]:
        """The events of a proposal, in order; none if nothing is to run.

        `requests` are those that are pending, `backfills` those that are not over.
        """
        cursor = self.cursor
        assert cursor is not None
        if self._proposal is not None:
            self._nodes |= set(self._proposal.nodes)
            self._proposal = None
        periods = reads.periods(self.graph, now)
        self.held.recover(periods, self._position)
        self._collect(periods, snapshot, now)
        causes: Mapping[AutomatedPartition, str] = {}
        is_complete = True
        if self._nodes:
            planned = self._requested.at(reads, self.graph, requests, backfills, now)
            active = ActiveWork(making, planned)
            conditions = Conditions(snapshot, periods, self.rows, active, reads.seen_by)
            causes, is_complete = self._evaluate(conditions, periods)
        if is_complete:
            self._position = snapshot.position
        holds = self.held.change(periods, self._position)
        position = max(cursor.position, holds.position)
        spaces = {node.asset: periods.space(node.asset) for node in causes}
        new_requests = coalesced(causes, spaces)
        ticked = self._ticked if is_complete else {}
        if not (new_requests or ticked or position - cursor.position > CHECKPOINT):
            return []
        last = AutomationAdvanced(
            proposal=proposal_id,
            step=cursor.step,
            position=position,
            until=now,
            ticked=tuple(sorted(ticked)),
            ticked_position=min(ticked.values(), default=0),
            has_more=not is_complete,
            held=holds.held if is_complete else (),
            released=holds.released if is_complete else (),
        )
        events = in_events(last, new_requests)
        if is_complete:
            self._ticked = {}
        self._proposal = AssetProposal(events, list(causes), monotonic_s)
        return events

    def _collect(self, periods: Periods, snapshot: Snapshot, now: datetime) -> None:
        """Turn changes, and assets that are due, into partitions to evaluate."""
        if self._work_changed:
            self._nodes.update(self.held.for_work)
            self._work_changed = False
        for place in self._earlier:
            self._spread(place, periods, only_ticks=True)
        for place in self.changed:
            self._spread(place, periods)
        self._earlier, self.changed = set(), set()
        for key in self._new:
            self._nodes.update(self._of_new(key, periods, snapshot))
        for keys, value in self._keys:
            self._nodes.update(periods.with_key(keys, value))
        self._new, self._keys = set(), set()
        for key in list(self._due.pop(now)):
            row = self.rows[key]
            if row.when == "on_cron":
                for place in self._at_ticks.pop(key, ()):
                    self._nodes.update(self._nodes_of(place, periods, key))
                self._ticked.setdefault(key, snapshot.position)
            else:
                self._nodes.update(
                    AutomatedPartition(key, point)
                    for point in periods.newly_ended(key, self._dealt(row))
                )
            self._ended[key] = now
            self._plan_due(key)

    def _spread(self, place: AssetPartition, periods: Periods, *, only_ticks: bool = False) -> None:
        graph = periods.graph
        key = graph.keys.get(place[0])
        if key is None:
            return
        for read in graph.readers.get(key, ()):
            row = self.rows.get(read.reader)
            if row is not None and row.acts_at_ticks:
                self._at_ticks.setdefault(read.reader, set()).add(place)
        if not only_ticks:
            self._nodes.update(self._nodes_of(place, periods))

    def _nodes_of(
        self, place: AssetPartition, periods: Periods, reader: str = ""
    ) -> Iterator[AutomatedPartition]:
        """The partition itself and those that read it; at a tick, those of one reader."""
        key = periods.graph.keys.get(place[0])
        if key is None:
            return
        if not reader and self._acts_at_once(key):
            point = periods.space(key).point(place[1])
            if point is not None:
                yield AutomatedPartition(key, point)
        for node in self._readers_of(key, place[1], periods):
            if node.asset == reader or (not reader and self._acts_at_once(node.asset)):
                yield node

    def _readers_of(
        self, key: str, partition: str, periods: Periods
    ) -> Iterator[AutomatedPartition]:
        yield from periods.readers_of(key, partition)
        for read in periods.graph.readers.get(key, ()):
            yield from self.held.of(read.reader)

    def _acts_at_once(self, key: str) -> bool:
        row = self.rows.get(key)
        return row is not None and row.is_active and row.when != "on_cron"

    def _of_new(
        self, key: str, periods: Periods, snapshot: Snapshot
    ) -> Iterator[AutomatedPartition]:
        """Partitions that may run after a new declaration or the end of a pause."""
        row = self.rows[key]
        if not row.is_active or key not in periods.graph.automated:
            return
        if row.when == "on_missing" and key not in periods.graph.timed:
            yield from (AutomatedPartition(key, point) for point in periods.every(key))
        if row.replay_from:
            inputs = periods.graph.assets[key].inputs
            reads = {each.asset for each in inputs if not each.is_pinned}
            ids = {periods.graph.ids[name] for name in reads if name in periods.graph.ids}
            # Also changes before the pause that were not evaluated, or waited for a tick.
            before = self.cursor.position if self.cursor is not None else 0
            since = min(row.ticked_position if row.when == "on_cron" else before, row.replay_from)
            for (asset_id, partition), _ in snapshot.since(PARTITIONS, since):
                if asset_id in ids and row.when == "on_cron":
                    self._at_ticks.setdefault(key, set()).add((asset_id, partition))
                elif asset_id in ids:
                    yield from self._nodes_of((asset_id, partition), periods, key)
            if row.when != "on_cron" and key in periods.graph.timed:
                points = periods.newly_ended(key, row.since_at)
                yield from (AutomatedPartition(key, point) for point in points)

    def _evaluate(
        self, conditions: Conditions, periods: Periods
    ) -> tuple[Mapping[AutomatedPartition, str], bool]:
        """Ask for the verdict of each partition, those that are read before their readers.

        Where one does not run, those below it may have waited for it only: they are looked at too.
        """
        rank = periods.graph.rank
        queue = [(rank[node.asset], node) for node in self._nodes if node.asset in rank]
        heapq.heapify(queue)
        visited: set[AutomatedPartition] = set()
        causes: dict[AutomatedPartition, str] = {}
        while queue and len(visited) < BUDGET:
            _, node = heapq.heappop(queue)
            if node in visited:
                continue
            visited.add(node)
            verdict = conditions.verdict(node)
            if verdict.is_held:
                self.held.add(node, self._position, for_work=verdict.waits_for_work)
            else:
                self.held.discard(node)
            if verdict.runs:
                causes[node] = verdict.cause
                conditions.request(node)
                continue
            partition = periods.space(node.asset).text(node.point)
            for reader in self._readers_of(node.asset, partition, periods):
                if reader not in visited and self._acts_at_once(reader.asset):
                    heapq.heappush(queue, (rank[reader.asset], reader))
        self._nodes = {node for _, node in queue} - visited
        return causes, not self._nodes
