"""Verifies the audit log against the log, record by record.

1. Each record has the hash of the record before it, its own hash and its own seal.
2. Each command of the log that was admitted has its record, with the same actor, origin and
   request; each record has its event.
3. The head is the last record, and a head that was noted outside is in the chain.

Segments are read with their digests. Somebody with write access to the store can replace all of
it, including digests and chain, but cannot make the chain end in a hash that was noted before.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from arco.errors import Corrupt, Invalid
from arco.log.envelope import EventTypes, Recorded
from arco.security.audit import GENESIS, chained, hash_of, record, record_id, seal_of
from arco.security.events import AUDITED_FACTS
from arco.security.reader import records_in_order
from arco.security.tables import AUDIT, AUDIT_HEAD, CHAIN, AuditRow
from arco.state.replay import ReportProgress, read_log, segments, silent
from arco.state.snapshot import Snapshot
from arco.state.system import REMEMBERED

MAX_PROBLEMS = 100
_REMEMBERED_KEYS = 20_000

replace = msgspec.structs.replace


class AuditProblem(msgspec.Struct, frozen=True):
    position: int
    problem: str


class Anchor(msgspec.Struct, frozen=True):
    """A head that was noted outside the store: `POSITION:HASH`."""

    position: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Anchor:
        position, colon, digest = text.partition(":")
        if not colon or not position.isdecimal() or len(digest) != 64:
            raise Invalid(
                f"{text[:100]!r} is not a head of the audit log",
                hint="write POSITION:HASH, as `servo audit verify` prints it",
            )
        return cls(int(position), digest)

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"


class AuditReport(msgspec.Struct, frozen=True):
    generation: int
    records: int
    head: str
    """As an anchor; empty if there is no record."""
    commands: int
    """Admitted commands, refusals and reads of secrets that the log has since the first record."""
    uncovered: int
    """Commands of before the first record: a rebuild records them too."""
    rollbacks: tuple[int, ...]
    """Positions of rollbacks. Records of what they undid are only in the log."""
    problems: tuple[AuditProblem, ...]

    @property
    def intact(self) -> bool:
        return not self.problems


class _Stop(Exception):
    """Ends the verification: there are enough problems."""


class _Verification:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.problems: list[AuditProblem] = []
        self.records = self.commands = self.uncovered = 0
        self.last: AuditRow | None = None
        self._admitted: dict[str, datetime] = {}

    def report(self, position: int, problem: str) -> None:
        self.problems.append(AuditProblem(position, problem))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Stop

    def run(self, types: EventTypes, anchor: Anchor | None, progress: ReportProgress) -> None:
        rows = records_in_order(self._snapshot)
        row = next(rows, None)
        first = self._snapshot.position + 1 if row is None else row.position
        for recorded in read_log(self._snapshot, types, progress=progress):
            if not self._is_audited(recorded):
                continue
            if recorded.position < first:
                self.uncovered += 1
                continue
            self.commands += 1
            while row is not None and row.position < recorded.position:
                self.report(row.position, "the log has no command for this record")
                row = self._next(rows, row, anchor)
            if row is None or row.position > recorded.position:
                self.report(recorded.position, f"{recorded.event.type} has no record")
                continue
            self._compare(recorded, row)
            row = self._next(rows, row, anchor)
        while row is not None:
            self.report(row.position, "the log has no command for this record")
            row = self._next(rows, row, anchor)
        self._check_head(anchor)

    def _next(
        self, rows: Iterator[AuditRow], row: AuditRow, anchor: Anchor | None
    ) -> AuditRow | None:
        """The record after one that is done with; that one is checked as a link of the chain."""
        before = GENESIS if self.last is None else self.last.hash
        if row.prev_hash != before:
            self.report(row.position, "the chain is broken: it does not continue the record before")
        if row.hash != hash_of(row):
            self.report(row.position, "its hash does not fit: it was changed")
        elif row.seal != seal_of(row):
            self.report(row.position, "its seal does not fit: it was changed")
        if anchor is not None and anchor.position == row.position and anchor.hash != row.hash:
            self.report(row.position, f"its hash is {row.hash}, and {anchor.hash} was noted")
        self.records += 1
        self.last = row
        return next(rows, None)

    def _is_audited(self, recorded: Recorded) -> bool:
        """Whether there must be a record: of a command, once for each key within a day."""
        payload = recorded.payload
        if payload is None or isinstance(payload, AUDITED_FACTS):
            return payload is not None
        if not payload.COMMAND:
            return False
        key, now = recorded.event.key, recorded.received_at
        before = self._admitted.get(key)
        if before is not None and before >= now - REMEMBERED:
            return False
        self._admitted[key] = now
        if len(self._admitted) > _REMEMBERED_KEYS:
            self._forget(now)
        return True

    def _forget(self, now: datetime) -> None:
        recent = {key: at for key, at in self._admitted.items() if at >= now - REMEMBERED}
        self._admitted = recent

    def _compare(self, recorded: Recorded, row: AuditRow) -> None:
        assert recorded.payload is not None
        event = recorded.event
        expected = record(
            recorded.payload,
            position=recorded.position,
            recorded_at=recorded.received_at,
            event_id=event.id,
            actor=event.actor,
            origin=event.origin,
            idempotency_key=event.key,
            prev_hash=row.prev_hash,
        )
        decided = {} if expected.outcome else {"outcome": row.outcome, "code": row.code}
        expected = chained(replace(expected, changes=row.changes, **decided))
        for field in AuditRow.__struct_fields__:
            if field not in ("hash", "seal") and getattr(expected, field) != getattr(row, field):
                self.report(row.position, f"{field} is not what the log says")

    def _check_head(self, anchor: Anchor | None) -> None:
        head = self._snapshot.get(AUDIT_HEAD, CHAIN)
        last = self.last
        end = None if last is None else (last.position, last.hash)
        if end != (None if head is None else (head.position, head.hash)):
            at = last or head
            assert at is not None
            self.report(at.position, "the head is not the last record")
        if head is not None and head.records != self.records:
            self.report(head.position, f"the head counts {head.records} records of {self.records}")
        if anchor is not None and self._snapshot.get(AUDIT, record_id(anchor.position)) is None:
            self.report(anchor.position, "a record that was noted is missing")


def verify_audit(
    snapshot: Snapshot,
    types: EventTypes,
    *,
    anchor: Anchor | None = None,
    progress: ReportProgress = silent,
) -> AuditReport:
    """Compare the audit log of a generation with the log. Reads both whole."""
    verification = _Verification(snapshot)
    rollbacks: tuple[int, ...] = ()
    try:
        rows = segments(snapshot)
        rollbacks = tuple(r.first_position for r in rows if r.rolled_back_to is not None)
        verification.run(types, anchor, progress)
    except _Stop:
        pass
    except Corrupt as error:
        verification.problems.append(AuditProblem(0, f"it cannot be read: {error.message}"))
    last = verification.last
    return AuditReport(
        snapshot.generation,
        verification.records,
        "" if last is None else str(Anchor(last.position, last.hash)),
        verification.commands,
        verification.uncovered,
        rollbacks,
        tuple(verification.problems),
    )
