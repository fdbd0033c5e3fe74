"""The liveness record of an orchestrator that has runs to serve."""

from __future__ import annotations

from collections.abc import Collection

from arco.state.core import Core
from arco.storage import paths
from arco.storage.outage import PastOutage
from arco.transport.liveness import OrchestratorRecord, beat_orchestrator


class OrchestratorHeartbeat:
    def __init__(self, core: Core, name: str, heartbeat_s: float) -> None:
        self._core = core
        self._name = name
        self._heartbeat_s = heartbeat_s
        self._beats = 0
        self._beaten_at = -1e9

    def beat(self, runs: int, adopted: Collection[str], outage: PastOutage | None) -> None:
        """Rewrite the record if due; remove it after the last run. Raises errors of the store."""
        now = self._core.clock.monotonic()
        if runs and now - self._beaten_at >= self._heartbeat_s:
            record = OrchestratorRecord(
                name=self._name,
                beat=self._beats + 1,
                heartbeat_s=self._heartbeat_s,
                runs=runs,
                adopted=tuple(sorted(adopted)),
                outage=outage,
            )
            beat_orchestrator(self._core.store, record)
            self._beats, self._beaten_at = self._beats + 1, now
        elif not runs and self._beats:
            self._core.store.delete(paths.orchestrator(self._name))
            self._beats, self._beaten_at = 0, -1e9
