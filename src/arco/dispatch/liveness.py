"""Liveness: one small object for each worker that has work, outside the log."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arco.clock import Clock
from arco.errors import NotFound
from arco.orchestration.controllers.zombies import Alive
from arco.storage import paths
from arco.storage.port import Mode, Store


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


_records = msgspec.json.Decoder(LivenessRecord)


def beat(store: Store, record: LivenessRecord) -> None:
    store.put(paths.liveness(record.worker_id), msgspec.json.encode(record), Mode.OVERWRITE)


def records(store: Store) -> list[LivenessRecord]:
    """Every worker's record, as it is now."""
    found = []
    for meta in store.list(paths.LIVENESS):
        record = _read(store, meta.path)
        if record is not None:
            found.append(record)
    return found


def _read(store: Store, path: str) -> LivenessRecord | None:
    try:
        return _records.decode(store.get(path).data)
    except (NotFound, msgspec.DecodeError):
        return None


class Watch:
    """Sees records change, and remembers when, by its own clock."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: dict[str, tuple[tuple[datetime, int], Alive]] = {}

    def look(self) -> dict[str, Alive]:
        now = self._clock.now()
        seen: dict[str, tuple[tuple[datetime, int], Alive]] = {}
        for meta in self._store.list(paths.LIVENESS):
            worker = meta.path.removeprefix(paths.LIVENESS).removesuffix(".json")
            known = self._seen.get(worker)
            state = (meta.last_modified, meta.size)  # some stores' times are whole seconds
            if known is not None and known[0] == state:
                seen[worker] = known
                continue
            record = _read(self._store, meta.path)
            if record is not None:
                alive = Alive(now, frozenset(record.attempts), record.slots)
                seen[worker] = (state, alive)
        self._seen = seen
        return {worker: alive for worker, (_, alive) in seen.items()}
