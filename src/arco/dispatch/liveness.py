"""Liveness: one small object for each process that has work, outside the log.

    liveness/{worker}.json                 while it works on something
    liveness/orchestrators/{name}.json     while there are active runs

A record is rewritten every `heartbeat_s`. It goes when there is nothing left to do; that of
a process which died stays, and tells since when it has been silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

import msgspec

from arco.clock import Clock
from arco.errors import Invalid, NotFound
from arco.orchestration.controllers.zombies import Alive
from arco.storage import paths
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
    """How many tasks of the workspace's queue it works on at a time."""
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
    """Runs of other processes that it serves: theirs are gone."""
    outage: PastOutage | None = None


R = TypeVar("R", LivenessRecord, OrchestratorRecord)


class Sign(NamedTuple, Generic[R]):
    """A record, and when it was written by the store's clock."""

    record: R
    at: datetime


_records = msgspec.json.Decoder(LivenessRecord)
_orchestrators = msgspec.json.Decoder(OrchestratorRecord)


def beat(store: Store, record: LivenessRecord) -> None:
    store.put(paths.liveness(record.worker_id), msgspec.json.encode(record), Mode.OVERWRITE)


def beat_orchestrator(store: Store, record: OrchestratorRecord) -> None:
    store.put(paths.orchestrator(record.name), msgspec.json.encode(record), Mode.OVERWRITE)


def records(store: Store) -> list[LivenessRecord]:
    """Every worker's record, as it is now."""
    return [sign.record for sign in worker_signs(store)]


def worker_signs(store: Store) -> list[Sign[LivenessRecord]]:
    signs = [(_read(store, meta.path, _records), meta) for meta in _workers(store)]
    return [Sign(record, meta.last_modified) for record, meta in signs if record is not None]


def orchestrator_signs(store: Store) -> list[Sign[OrchestratorRecord]]:
    metas = list(store.list(paths.ORCHESTRATORS))
    signs = [(_read(store, meta.path, _orchestrators), meta) for meta in metas]
    return [Sign(record, meta.last_modified) for record, meta in signs if record is not None]


def _workers(store: Store) -> Iterator[ObjectMeta]:
    return (
        meta for meta in store.list(paths.LIVENESS) if not meta.path.startswith(paths.ORCHESTRATORS)
    )


def _read(store: Store, path: str, decoder: msgspec.json.Decoder[R]) -> R | None:
    """A record; None if it is gone, or is no record: a stranger's file hides nobody."""
    try:
        return decoder.decode(store.get(path).data)
    except (NotFound, Invalid, msgspec.DecodeError):
        return None


class Watch:
    """Sees records change, and remembers when, by its own clock.

    A record that it sees for the first time may be that of a worker which died long ago.
    Nobody is declared dead for that; but its slots count only if it is no older than
    `silent_s`, by the store's clock, or once it is seen to change.
    """

    def __init__(
        self, store: Store, clock: Clock, store_clock: StoreClock, silent_s: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._store_clock = store_clock
        self._silent = timedelta(seconds=silent_s)
        self._seen: dict[str, tuple[tuple[datetime, int], Alive]] = {}

    def look(self) -> dict[str, Alive]:
        now = self._clock.now()
        seen: dict[str, tuple[tuple[datetime, int], Alive]] = {}
        for meta in _workers(self._store):
            worker = meta.path.removeprefix(paths.LIVENESS).removesuffix(".json")
            known = self._seen.get(worker)
            state = (meta.last_modified, meta.size)  # some stores' times are whole seconds
            if known is not None and known[0] == state:
                seen[worker] = known
                continue
            record = _read(self._store, meta.path, _records)
            if record is not None:
                slots = record.slots if known is not None or self._is_recent(meta) else 0
                seen[worker] = (state, Alive(now, frozenset(record.attempts), slots))
        self._seen = seen
        return {worker: alive for worker, (_, alive) in seen.items()}

    def _is_recent(self, meta: ObjectMeta) -> bool:
        return self._store_clock.estimate() - meta.last_modified <= self._silent
