"""What an orchestrator has in mind about automation of assets, apart from the orchestrator: it
looks, and what it proposes reaches the log when a test wants it to."""

from __future__ import annotations

from arco.automation.agenda import Agenda
from arco.automation.asset_events import AutomationAdvanced
from arco.automation.asset_reads import AutomationReads
from arco.automation.asset_watch import AssetWatch
from arco.orchestration.planning import RunPlanner
from arco.state.snapshot import Snapshot
from tests.kit.automation import Mill


class Watcher:
    def __init__(self, mill: Mill) -> None:
        self._mill = mill
        self._agenda = Agenda()
        self._agenda.load(self._snapshot())
        self._position = self._snapshot().position

    @property
    def watch(self) -> AssetWatch:
        return self._agenda.assets

    def _snapshot(self) -> Snapshot:
        return self._mill.fresh().read.snapshot()

    def follow(self) -> None:
        """Take what was committed."""
        snapshot = self._snapshot()
        self._agenda.advance(snapshot, self._position)
        self._position = snapshot.position

    def look(self) -> list[AutomationAdvanced]:
        """Follow, and propose what is to be made."""
        self.follow()
        w = self._mill.fresh()
        snapshot, clock = self._snapshot(), self._mill.clock
        reads = AutomationReads(snapshot, w.library)
        if not self.watch.is_prepared:
            self.watch.prepare(reads.graph(RunPlanner(w.core, w.library, "").world(snapshot)))
        now, monotonic_s = clock.now(), clock.monotonic()
        if not self.watch.has_work(now, monotonic_s, snapshot.position):
            return []
        requests, backfills = self._agenda.requests.values(), self._agenda.backfills.values()
        id = w.core.ids()
        return self.watch.decide(snapshot, {}, requests, backfills, reads, now, monotonic_s, id)
