"""Appends changes that are too large for one event in parts, before a command.

Parts have no effect until the command. If the process ends before, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from arco.log.envelope import MAX_BATCH_BYTES, Payload
from arco.state.replay import ReportProgress
from arco.state.writer import LogWriter

BATCH_BYTES = MAX_BATCH_BYTES * 3 // 4
P = TypeVar("P", bound=Payload)


class Staging:
    """Commits parts in batches. `what` names the work where progress is shown."""

    def __init__(self, writer: LogWriter, actor: str, what: str) -> None:
        self._ledger = writer.ledger
        self._committer = writer.committer
        self._actor = actor
        self._what = what

    def put(self, parts: Sequence[Payload], generation: int, progress: ReportProgress) -> None:
        """`generation` is one from before."""
        done = 0
        for batch in _batches(parts):
            progress(self._what, done, len(parts) + 1)
            events = [self._ledger.event(part, actor=self._actor) for part in batch]
            receipt = self._ledger.append(events)
            self._committer.commit_batch(receipt.batch, generation)
            done += len(batch)
        progress(self._what, done, len(parts) + 1)


def _batches(parts: Iterable[P]) -> Iterator[list[P]]:
    batch: list[P] = []
    size = 0
    for part in parts:
        more = len(msgspec.json.encode(part))
        if batch and size + more > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += more
    if batch:
        yield batch
