"""Tier 1: append, commit inline, and answer from what the fold decided.

The caller reads its own write at the generation that it is given. Concurrent
callers share commits: whoever wins takes the whole inbox, and each finds its own
outcome under its idempotency key, whoever committed it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from arco.errors import Conflict, Corrupt, Refused
from arco.log.append import Ledger
from arco.log.commit import Committer
from arco.log.envelope import Payload
from arco.state.snapshot import At as SnapshotAt
from arco.state.snapshot import Generation, Snapshot
from arco.state.system import COMMANDS, OUTCOMES, OutcomeRow, fingerprint


class Acknowledged(msgspec.Struct, frozen=True):
    generation: int
    """The first generation to read that has this command's effect."""
    event_id: str
    replayed: bool
    """Whether the idempotency key had been used for the same request before."""


class Tier1:
    def __init__(
        self,
        ledger: Ledger,
        committer: Committer,
        snapshot: Callable[[SnapshotAt | None], Snapshot],
    ) -> None:
        self._ledger = ledger
        self._committer = committer
        self._snapshot = snapshot

    def execute(
        self, payload: Payload, *, idempotency_key: str = "", actor: str = ""
    ) -> Acknowledged:
        """Have a command decided. Raises Refused, or Conflict if its key was used otherwise."""
        before = self._snapshot(None)
        if idempotency_key and before.get(OUTCOMES, idempotency_key) is not None:
            return self._answer(before, payload, idempotency_key, "")
        event = self._ledger.event(payload, idempotency_key=idempotency_key, actor=actor)
        receipt = self._ledger.append([event])
        head = self._committer.commit_batch(receipt.batch, before.generation)
        after = self._snapshot(Generation(head.generation))
        return self._answer(after, payload, event.key, event.id)

    def _answer(self, at: Snapshot, payload: Payload, key: str, event_id: str) -> Acknowledged:
        admitted, outcome = at.get(COMMANDS, key), at.get(OUTCOMES, key)
        if admitted is None or outcome is None:
            raise Corrupt(
                f"command {key} was committed in generation {at.generation} without an outcome",
                hint="a fold failed on it: look for `skipped` in the manifest",
            )
        if admitted.fingerprint != fingerprint(payload):
            raise Conflict(
                f"idempotency key {key!r} was used for another request ({admitted.type})",
                hint="use a new key for a new request",
            )
        return self._acknowledged(at, outcome, event_id)

    def _acknowledged(self, at: Snapshot, outcome: OutcomeRow, event_id: str) -> Acknowledged:
        if outcome.status == "refused":
            raise Refused(outcome.code, outcome.message)
        replayed = outcome.event_id != event_id
        return Acknowledged(at.generation, outcome.event_id, replayed)
