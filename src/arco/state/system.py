"""The log's own tables: its segments, and the outcome of each command.

    commands   each idempotency key that was admitted, with a fingerprint of the
               request: the stage that lets a command through once
    outcomes   applied, or refused and why, under the same key
    segments   the segments that make up the log, written by the commit itself
    batches    the names of the batches that were consumed, written by the commit itself:
               what a batch that arrives again, however late, is recognised by

A command is admitted once for each key within a day; after that the key is forgotten, on both
engines alike. The domains' stages decide, and emit a `Decided` fact, which the last stage records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from arco.log.envelope import Payload, encode_payload
from arco.log.manifest import SegmentRef
from arco.state.fold import Chain, Change, Emit, Fact, On, Put, Rows, Stage
from arco.state.table import History, Key, Row, Table, Versioned

OutcomeStatus = Literal["applied", "refused"]
REMEMBERED = timedelta(days=1)


class CommandRow(Row, frozen=True):
    idempotency_key: str
    event_id: str
    type: str
    fingerprint: str
    received_at: datetime


class OutcomeRow(Row, frozen=True):
    idempotency_key: str
    event_id: str
    type: str
    status: OutcomeStatus
    code: str
    message: str
    decided_at: datetime


class SegmentRow(Row, frozen=True):
    first_position: int
    last_position: int
    path: str
    sha256: str
    bytes: int
    first_received_at: datetime
    last_received_at: datetime
    rolled_back_to: int | None = None
    """Of a rollback, the last position that still counts before it."""
    joined_at: datetime | None = None
    """Of a segment that was joined from several, when that was."""


class BatchRow(Row, frozen=True):
    batch: str
    position: int
    """The last position of the commit that consumed it."""
    consumed_at: datetime


COMMANDS = Table(
    "log",
    "commands",
    CommandRow,
    key=["idempotency_key"],
    history=History("received_at", REMEMBERED),
)
OUTCOMES = Table(
    "log",
    "outcomes",
    OutcomeRow,
    key=["idempotency_key"],
    history=History("decided_at", REMEMBERED),
)
SEGMENTS = Table(
    "log",
    "segments",
    SegmentRow,
    key=["first_position"],
    history=History("last_received_at", timedelta(hours=1)),
)
BATCHES = Table(
    "log", "batches", BatchRow, key=["batch"], history=History("consumed_at", timedelta(hours=1))
)
OWN_TABLES = (SEGMENTS, BATCHES)


def all_tables(chain: Chain) -> tuple[Table[Any], ...]:
    """The tables of a chain's domains, and those that commits themselves keep."""
    return (*chain.tables, *OWN_TABLES)


"""Written by commits, not by folds: a rebuild and a rollback leave them as they are."""


class Decided(Payload, frozen=True, kw_only=True):
    """A stage has applied or refused a command."""

    TYPE: ClassVar[str] = "log.decided"
    command: str
    status: OutcomeStatus
    code: str = ""
    message: str = ""


def applied(fact: Fact) -> Emit:
    return Emit(Decided(command=fact.payload.TYPE, status="applied"))


def refused(fact: Fact, code: str, message: str) -> Emit:
    return Emit(Decided(command=fact.payload.TYPE, status="refused", code=code, message=message))


def fingerprint(payload: Payload) -> str:
    """Distinguishes requests under the same idempotency key."""
    return hashlib.sha256(
        payload.TYPE.encode() + b"\0" + bytes(encode_payload(payload))
    ).hexdigest()


def _by_idempotency_key(fact: Fact, payload: Payload) -> str:
    return fact.idempotency_key


def admission(commands: Iterable[type[Payload]]) -> Stage:
    """The first stage: each command goes on to the domains once."""
    on = [On(command, _by_idempotency_key, _admit) for command in commands]
    return Stage("commands", (COMMANDS,), on)


def _admit(rows: Rows, fact: Fact, command: Payload) -> Iterator[Change]:
    if rows.get(COMMANDS, fact.idempotency_key) is not None:
        return
    yield Put(
        COMMANDS,
        CommandRow(
            fact.idempotency_key, fact.id, command.TYPE, fingerprint(command), fact.received_at
        ),
    )
    yield Emit(command)


def _record(rows: Rows, fact: Fact, decided: Decided) -> Iterator[Change]:
    yield Put(
        OUTCOMES,
        OutcomeRow(
            fact.idempotency_key,
            fact.id,
            decided.command,
            decided.status,
            decided.code,
            decided.message,
            fact.received_at,
        ),
    )


OUTCOME_STAGE = Stage("outcomes", (OUTCOMES,), [On(Decided, _by_idempotency_key, _record)])


def segment_row(
    ref: SegmentRef, first: datetime, last: datetime, rolled_back_to: int | None = None
) -> SegmentRow:
    return SegmentRow(
        ref.first, ref.last, ref.path, ref.sha256, ref.bytes, first, last, rolled_back_to
    )


def segment_ref(row: SegmentRow) -> SegmentRef:
    return SegmentRef(row.path, row.sha256, row.bytes, row.first_position, row.last_position)


def batch_rows(names: Iterable[str], last: int, log_time: datetime) -> dict[Key, Versioned[Any]]:
    """The rows of batches that a commit with events up to position `last` consumes."""
    return {(name,): (last, BatchRow(name, last, log_time)) for name in names}
