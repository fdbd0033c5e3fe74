"""Tier 1: append, commit inline, and answer with the decision of the fold.

The caller reads its own write at the returned generation. Concurrent callers share commits: one
commits the whole inbox, and each finds its own outcome under its idempotency key.

A command is folded over the newest snapshot before it is appended, by the same fold that will
decide it. A command that cannot succeed, or cannot be folded, is refused there and not appended.
One that passes may still lose a race; then the log has it, and its refusal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from arco.errors import ClockSkew, Conflict, Corrupt, Refused
from arco.log.envelope import Event, Payload, Recorded
from arco.log.head import Head
from arco.state.core import Core
from arco.state.fold import Chain, fold
from arco.state.snapshot import Snapshot
from arco.state.system import COMMANDS, OUTCOMES, REMEMBERED, OutcomeRow, fingerprint
from arco.state.table import Key, Table, Versioned
from arco.state.writer import LogWriter

PayloadOf = Callable[[Snapshot], Payload]


class Acknowledged(msgspec.Struct, frozen=True):
    generation: int
    """The first generation to read that has this command's effect."""
    event_id: str
    replayed: bool
    """Whether the idempotency key had been used for the same request before."""


class Tier1:
    def __init__(
        self, core: Core, writer: LogWriter, chain: Chain, *, idempotency_key: str = ""
    ) -> None:
        """`idempotency_key` is that of the first command without one of its own; the commands
        after it have keys that follow from it."""
        self._keys = _keys_of(idempotency_key)
        self._ledger = writer.ledger
        self._committer = writer.committer
        self._manifests = core.manifests
        self._files = core.files
        self._store_clock = core.store_clock
        self._chain = chain

    def execute(
        self,
        command: Payload | PayloadOf,
        *,
        idempotency_key: str = "",
        actor: str = "",
        along: Sequence[Payload] = (),
    ) -> Acknowledged:
        """Execute a command. Raises Refused, or Conflict if another request used its key."""
        return self.decide(command, idempotency_key=idempotency_key, actor=actor, along=along)[0]

    def decide(
        self,
        command: Payload | PayloadOf,
        *,
        idempotency_key: str = "",
        actor: str = "",
        along: Sequence[Payload] = (),
        before: Snapshot | None = None,
    ) -> tuple[Acknowledged, Snapshot]:
        """The same, with the generation that has its effect. `before`: the newest one, where it
        has just been read.

        `along` are facts that belong to it: one batch with it, and after it in the log.

        A command may be given as a function that makes it from a snapshot: the newest,
        or, if the key was used before, the one that it was made from then, so that the
        two can be compared.
        """

        def build(snapshot: Snapshot) -> Payload:
            return command if isinstance(command, Payload) else command(snapshot)

        idempotency_key = idempotency_key or next(self._keys)
        before = before or Snapshot.open(self._manifests, self._files)
        if idempotency_key and self._remembered(before, idempotency_key):
            then = self._before_admission(before, idempotency_key)
            return self._answer(before, build(then), idempotency_key, ""), before
        payload = build(before)
        event = self._ledger.event(payload, idempotency_key=idempotency_key, actor=actor)
        self._refuse_if_hopeless(before, event, payload)
        receipt = self._ledger.append([event, *along])
        head = self._commit(receipt.batch, before.generation)
        after = Snapshot(self._manifests, self._files, head)
        return self._answer(after, payload, event.key, event.id), after

    def _commit(self, batch: str, since: int) -> Head:
        try:
            return self._committer.commit_batch(batch, since)
        except ClockSkew as error:
            raise ClockSkew(
                f"the command is in the inbox (batch {batch}), and another process will decide "
                f"it: {error.message}",
                hint="set the clock, and look up the outcome of the command before you repeat it",
            ) from error

    def _remembered(self, at: Snapshot, key: str) -> bool:
        """Whether the fold has a key; an expired key counts as new."""
        # Keys in history have expired before.
        _, outcome = at.versioned(OUTCOMES, (key,), history=False)
        return outcome is not None and outcome.decided_at >= self._store_clock.now() - REMEMBERED

    def _before_admission(self, snapshot: Snapshot, key: str) -> Snapshot:
        position, _ = snapshot.versioned(COMMANDS, (key,), history=False)
        admitted, before = self._manifests.first_where(
            lambda head: head.manifest.position >= position, self._manifests.floor(), snapshot.head
        )
        assert admitted is not None
        earlier = self._manifests.find(before)
        # After a restore there is no earlier generation: use the current names.
        return snapshot if earlier is None else Snapshot(self._manifests, self._files, earlier)

    def _refuse_if_hopeless(self, at: Snapshot, event: Event, payload: Payload) -> None:
        manifest = at.head.manifest
        recorded = Recorded(manifest.position + 1, manifest.log_time, event, payload)
        folded = fold(self._chain, _Committed(at), [recorded])
        for failure in folded.failures:
            raise Refused(
                "cannot_be_folded",
                f"the command was not recorded: its effect cannot be computed; stage "
                f"{failure.stage!r} failed on {failure.type} with {failure.error}",
                hint="this is a bug in arco; report it with the traceback in the log output",
            )
        _, outcome = folded.changes.get(OUTCOMES, {}).get((event.key,), (0, None))
        if outcome is not None:
            _raise_if_refused(outcome)

    def _answer(self, at: Snapshot, payload: Payload, key: str, event_id: str) -> Acknowledged:
        _, admitted = at.versioned(COMMANDS, (key,), history=False)
        _, outcome = at.versioned(OUTCOMES, (key,), history=False)
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
        _raise_if_refused(outcome)
        return Acknowledged(at.generation, outcome.event_id, outcome.event_id != event_id)


def _keys_of(request_key: str) -> Iterator[str]:
    if not request_key:
        return itertools.repeat("")
    others = (f"{request_key}#{number}" for number in itertools.count(2))
    return itertools.chain([request_key], others)


def _raise_if_refused(outcome: OutcomeRow) -> None:
    if outcome.status == "refused":
        raise Refused(outcome.code, outcome.message)


class _Committed:
    """The rows of a snapshot for a fold: without history."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        versioned = self._snapshot.versioned(table, key, history=False)
        return versioned if versioned[0] else None

    def scan(self, table: Table[Any], shard: Key) -> Iterator[tuple[Key, Versioned[Any]]]:
        yield from self._snapshot.rows_versioned(table, shard, history=False).items()
