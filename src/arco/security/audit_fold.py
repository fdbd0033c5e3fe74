"""The fold of the audit log: every command that was admitted, every refusal of the API, and every
secret that a worker read.

Records are derived automatically. The stage gets the commands of the log, their outcomes, and the
rows that the stages before it changed: those stages are *watched*. One key for all, so that the
records are chained in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from arco.log.envelope import Payload
from arco.security.audit import GENESIS, bounded_text, chained, given, record, record_id, sealed
from arco.security.events import AUDITED_FACTS, RowsChanged
from arco.security.tables import AUDIT, AUDIT_HEAD, CHAIN, AuditHeadRow, AuditRow
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, always
from arco.state.system import Decided

MAX_CHANGES: Final = 20
"""Maximum number of rows of one stage, and of one record, that are recorded before and after."""

replace = msgspec.structs.replace
_encoder = msgspec.json.Encoder(order="sorted")


def watched(stage: Stage) -> Stage:
    """A stage that also emits which rows it changed on a command."""

    def watching(on: On[Any]) -> On[Any]:
        if not on.payload.COMMAND:
            return on

        def fold(rows: Rows, fact: Fact, payload: Any) -> Sequence[Change]:
            changes = list(on.fold(rows, fact, payload))
            return [*changes, *_rows_changed(rows, changes)]

        return On(on.payload, on.key, fold)

    return Stage(stage.name, stage.tables, map(watching, stage.on.values()))


def audit_stage(commands: Iterable[type[Payload]]) -> Stage:
    one_key = always(CHAIN)
    return Stage(
        "audit",
        (AUDIT, AUDIT_HEAD),
        (
            *(On(command, one_key, _begin) for command in commands),
            *(On(fact, one_key, _begin) for fact in AUDITED_FACTS),
            On(RowsChanged, one_key, _add_changes),
            On(Decided, one_key, _decide),
        ),
    )


def _begin(rows: Rows, fact: Fact, payload: Payload) -> Iterator[Change]:
    head = rows.get(AUDIT_HEAD, CHAIN)
    if head is not None and head.position >= fact.position:
        return
    row = record(
        payload,
        position=fact.position,
        recorded_at=fact.received_at,
        event_id=fact.id,
        actor=fact.actor,
        origin=fact.origin,
        idempotency_key=fact.idempotency_key,
        prev_hash=GENESIS if head is None else head.hash,
    )
    records, first = (0, fact.position) if head is None else (head.records, head.first_position)
    yield Put(AUDIT, row)
    yield Put(AUDIT_HEAD, AuditHeadRow(CHAIN, row.position, row.hash, records + 1, first))


def _add_changes(rows: Rows, fact: Fact, e: RowsChanged) -> Iterator[Change]:
    row = rows.get(AUDIT, record_id(fact.position))
    if row is not None:
        changes = [*msgspec.json.decode(row.changes), *msgspec.json.decode(e.changes)]
        text = _encoder.encode(changes[:MAX_CHANGES]).decode()
        yield Put(AUDIT, sealed(replace(row, changes=text)))


def _decide(rows: Rows, fact: Fact, e: Decided) -> Iterator[Change]:
    row = rows.get(AUDIT, record_id(fact.position))
    head = rows.get(AUDIT_HEAD, CHAIN)
    if row is None or head is None or head.position != fact.position:
        return
    decided: AuditRow = chained(replace(row, outcome=e.status, code=e.code))
    yield Put(AUDIT, decided)
    yield Put(AUDIT_HEAD, replace(head, hash=decided.hash))


# -- rows before and after ----------------------------------------------------------------


def _rows_changed(rows: Rows, changes: Sequence[Change]) -> Iterator[Emit]:
    entries: list[msgspec.Raw] = []
    for change in changes:
        if isinstance(change, Emit) or len(entries) == MAX_CHANGES:
            continue
        after = change.row if isinstance(change, Put) else None
        key = change.table.key_of(change.row) if isinstance(change, Put) else change.key
        before = rows.get(change.table, *key)
        if before != after:
            entry = {"table": str(change.table), "key": list(key), **_difference(before, after)}
            entries.append(msgspec.Raw(bounded_text(entry).encode()))
    if entries:
        yield Emit(RowsChanged(changes=_encoder.encode(entries).decode()))


def _difference(before: msgspec.Struct | None, after: msgspec.Struct | None) -> dict[str, Any]:
    """The fields that differ; all of a row that is new, or deleted."""
    old = {} if before is None else given(before)
    new = {} if after is None else given(after)
    if before is not None and after is not None:
        differ = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        old = {name: old.get(name) for name in differ}
        new = {name: new.get(name) for name in differ}
    return {
        "before": None if before is None else old,
        "after": None if after is None else new,
    }
