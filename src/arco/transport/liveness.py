"""Liveness: one small object for each process that has work, outside the log.

    liveness/{worker}.json                 while it works on something
    liveness/orchestrators/{name}.json     while there are active runs
    liveness/cancelled/{run}.json          see `orchestration/cancel_notes.py`
    liveness/sensors/{sensor}.json         see `transport/sensor_turns.py`
    liveness/logins/{session}.json         see `api/login.py`

A record is rewritten every `heartbeat_s`, and deleted when there is nothing left to do. That of a
process which died stays, with the time of its last heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from arco.clock import Clock
from arco.errors import Invalid, NotFound
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.storage import parallel, paths
from arco.storage.outage import PastOutage
from arco.storage.port import Mode, ObjectMeta, Store
from arco.storage.store_clock import StoreClock


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: str
    task_id: str
    percent: int = 0
    message: str = ""


class LivenessRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    worker_id: str
    beat: int
    attempts: dict[str, Progress] = {}
    """What it works on, by attempt."""
    slots: int = 0
    """Maximum of concurrent tasks of one slot from the workspace's queue."""
    memory_mib: int = 0
    """Its memory for them; 0: memory is not counted."""
    busy: int = 0
    """How many of the slots are taken."""
    heartbeat_s: float = 0.0
    outage: PastOutage | None = None
    """The last time that its store failed, once that was over."""


class OrchestratorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    beat: int
    heartbeat_s: float = 0.0
    runs: int = 0
    """How many it serves."""
    adopted: tuple[str, ...] = ()
    """Runs of other processes that it serves, because those have ended."""
    outage: PastOutage | None = None


R = TypeVar("R", LivenessRecord, OrchestratorRecord)


class DatedRecord(NamedTuple, Generic[R]):
    """A record, and when it was written by the store's clock."""

    record: R
    at: datetime


_records = msgspec.json.Decoder(LivenessRecord)
_orchestrators = msgspec.json.Decoder(OrchestratorRecord)


def beat(store: Store, record: LivenessRecord) -> None:
    store.put(paths.liveness(record.worker_id), msgspec.json.encode(record), Mode.OVERWRITE)


class LivenessWriter(Protocol):
    """Writes a worker's liveness record."""

    def beat(self, record: LivenessRecord) -> None: ...

    def end(self, worker_id: str) -> None:
        """Delete the record: it has nothing to do any more."""


class StoreLiveness:
    """In the workspace's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def beat(self, record: LivenessRecord) -> None:
        beat(self._store, record)

    def end(self, worker_id: str) -> None:
        self._store.delete(paths.liveness(worker_id))


def beat_orchestrator(store: Store, record: OrchestratorRecord) -> None:
    store.put(paths.orchestrator(record.name), msgspec.json.encode(record), Mode.OVERWRITE)


def records(store: Store) -> list[LivenessRecord]:
    """Every worker's record, as it is now."""
    return [sign.record for sign in worker_signs(store)]


def worker_signs(store: Store) -> list[DatedRecord[LivenessRecord]]:
    return _signs(store, list(_workers(store)), _records)


def orchestrator_signs(store: Store) -> list[DatedRecord[OrchestratorRecord]]:
    return _signs(store, list(store.list(paths.ORCHESTRATORS)), _orchestrators)


def _signs(
    store: Store, metas: list[ObjectMeta], decoder: msgspec.json.Decoder[R]
) -> list[DatedRecord[R]]:
    records = parallel.each(store, lambda meta: _read(store, meta.path, decoder), metas)
    pairs = zip(records, metas, strict=True)
    return [DatedRecord(record, meta.last_modified) for record, meta in pairs if record is not None]


def _workers(store: Store) -> Iterator[ObjectMeta]:
    others = (paths.ORCHESTRATORS, paths.CANCELLED, paths.SENSOR_TURNS, paths.LOGIN_CODES)
    return (meta for meta in store.list(paths.LIVENESS) if not meta.path.startswith(others))


def _read(store: Store, path: str, decoder: msgspec.json.Decoder[R]) -> R | None:
    """A record; None if it is missing or invalid."""
    try:
        return decoder.decode(store.get(path).data)
    except (NotFound, Invalid, msgspec.DecodeError):
        return None


class Watch:
    """Observes when records change, by its own clock.

    A record that it sees for the first time may be that of a worker which died long ago. That alone
    does not make the worker dead; but its slots count only if the record is no older than
    `silent_s`, by the store's clock, or once it has changed.
    """

    def __init__(
        self, store: Store, clock: Clock, store_clock: StoreClock, silent_s: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._store_clock = store_clock
        self._silent = timedelta(seconds=silent_s)
        self._seen: dict[str, tuple[tuple[datetime, int], WorkerState]] = {}

    def read_workers(self) -> dict[str, WorkerState]:
        now = self._clock.now()
        listed = {
            meta.path.removeprefix(paths.LIVENESS).removesuffix(".json"): meta
            for meta in _workers(self._store)
        }
        seen = {
            worker: self._seen[worker]
            for worker, meta in listed.items()
            if worker in self._seen and self._seen[worker][0] == _state(meta)
        }
        changed = [(worker, meta) for worker, meta in listed.items() if worker not in seen]
        records = parallel.each(
            self._store, lambda item: _read(self._store, item[1].path, _records), changed
        )
        for (worker, meta), record in zip(changed, records, strict=True):
            if record is not None:
                slots = record.slots if worker in self._seen or self._is_recent(meta) else 0
                alive = WorkerState(now, frozenset(record.attempts), slots, record.memory_mib)
                seen[worker] = (_state(meta), alive)
        self._seen = seen
        return {worker: alive for worker, (_, alive) in seen.items()}

    def _is_recent(self, meta: ObjectMeta) -> bool:
        return self._store_clock.estimate() - meta.last_modified <= self._silent


def _state(meta: ObjectMeta) -> tuple[datetime, int]:
    """What changes when a record does: some stores' times are whole seconds."""
    return meta.last_modified, meta.size
