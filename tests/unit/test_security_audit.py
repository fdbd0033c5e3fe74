"""The audit log: every command and every refusal, chained, the same after a rebuild."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from arco.app import EVENTS, Workspace
from arco.app.domains import event_types
from arco.catalog.events import NamespaceCreated
from arco.errors import Refused, Unavailable
from arco.log.envelope import Recorded
from arco.security.actions import ACTIONS
from arco.security.audit import GENESIS, chained, hash_of, request_text
from arco.security.audit_verify import Anchor, AuditProblem, AuditReport, verify_audit
from arco.security.caller import Caller, Grant, Scope
from arco.security.denials import MAX_FACTS, WINDOW, DenialLog
from arco.security.events import AccessDenied, ApiKeyCreated, SecretRead
from arco.security.permissions import Role
from arco.security.reader import AuditFilter
from arco.security.tables import AUDIT, AUDIT_HEAD, CHAIN, KEPT_HOT, AuditRow
from arco.security.visibility import EVERYTHING, Visible
from arco.state.replay import read_log
from arco.state.snapshot import Snapshot
from arco.state.table import Key, Table, Versioned
from servo.contract import canonical
from tests.kit.clocks import SimClock
from tests.kit.runs import Folding
from tests.kit.workspace import NAME, TENANT, make_workspace

replace = msgspec.structs.replace
BOB = Caller(
    kind="user",
    id="sub-7",
    email="bob@example.com",
    grants=(Grant(Role.OWNER, Scope(TENANT, NAME)),),
    request_id="req-1",
    address="203.0.113.9",
    user_agent="curl/8",
)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def w(clock: SimClock) -> Workspace:
    return make_workspace(clock=clock, actor="ann")


def verify(w: Workspace, anchor: Anchor | None = None) -> AuditReport:
    return verify_audit(w.read.snapshot(), event_types(), anchor=anchor)


def records(w: Workspace) -> list[AuditRow]:
    return w.read.security().audit()[::-1]


def test_every_command_has_an_action() -> None:
    assert {event.TYPE for event in EVENTS if event.COMMAND} == ACTIONS.keys()


def test_a_command_is_recorded_with_its_caller_and_what_it_changed(w: Workspace) -> None:
    w.commands.catalog.create_namespace("sales", description="old")
    commands = w.acting(BOB)
    commands.catalog.update_namespace("sales", description="new")
    row = records(w)[1]
    changes = msgspec.json.decode(row.changes)
    assert changes[0]["table"] == "catalog.namespaces"
    assert changes[0]["before"]["description"] == "old"
    assert changes[0]["after"]["description"] == "new"
    assert "tags" not in changes[0]["after"]
    assert row == chained(
        AuditRow(
            record_id=f"{row.position:020d}",
            position=row.position,
            recorded_at=row.recorded_at,
            event_id=row.event_id,
            action="UpdateNamespace",
            command="catalog.namespace_updated",
            outcome="applied",
            code="",
            actor="user:bob@example.com",
            actor_kind="user",
            actor_id="sub-7",
            email="bob@example.com",
            namespace="sales",
            resource_type="namespace",
            resource_id="sales",
            resource_name="sales",
            request_id="req-1",
            address="203.0.113.9",
            user_agent="curl/8",
            idempotency_key=row.event_id,
            request='{"description":"new","namespace":"sales"}',
            changes=row.changes,
            prev_hash=records(w)[0].hash,
            hash="",
            seal="",
        )
    )


def test_records_are_chained_and_the_head_is_the_last(w: Workspace) -> None:
    for name in ("a", "b", "c"):
        w.commands.catalog.create_namespace(name)
    rows = records(w)
    assert [row.prev_hash for row in rows] == [GENESIS, rows[0].hash, rows[1].hash]
    assert [row.hash for row in rows] == [hash_of(row) for row in rows]
    head = w.read.security().audit_head()
    assert head is not None
    assert (head.position, head.hash, head.records) == (rows[2].position, rows[2].hash, 3)
    assert verify(w) == AuditReport(
        generation=w.read.snapshot().generation,
        records=3,
        head=f"{rows[2].position}:{rows[2].hash}",
        commands=3,
        uncovered=0,
        rollbacks=(),
        problems=(),
    )


def test_a_refusal_that_lost_a_race_is_recorded(w: Workspace, clock: SimClock) -> None:
    other = make_workspace(w.store, 7, clock=clock, actor="bob")
    w.commands.catalog.create_namespace("sales")
    w.ledger.append([NamespaceCreated(namespace="sales")])
    w.writer.drain()
    assert [(row.outcome, row.code) for row in records(w)] == [
        ("applied", ""),
        ("refused", "namespace_exists"),
    ]
    with pytest.raises(Refused):
        other.commands.catalog.create_namespace("sales")
    assert verify(w).intact


def test_a_command_that_is_repeated_under_its_key_is_one_record(w: Workspace) -> None:
    for _ in range(2):
        w.commands.catalog.create_namespace("sales", idempotency_key="k")
    event = w.ledger.event(NamespaceCreated(namespace="sales"), idempotency_key="k")
    w.ledger.append([event])
    w.writer.drain()
    assert len(records(w)) == 1
    assert verify(w).intact


def test_no_record_holds_a_secret_or_what_is_derived_from_it(w: Workspace) -> None:
    new = w.commands.security.create_key("ci", Role.VIEWER)
    stored = w.read.security().key(new.row.key_id).secret_hash
    (row,) = records(w)
    assert row.action == "CreateApiKey"
    assert stored not in repr(row) and new.text.secret not in repr(row)
    assert "secret_hash" not in row.request + row.changes


def test_large_and_deep_values_are_replaced_by_their_digest() -> None:
    payload = ApiKeyCreated(
        key_id="K",
        name="x" * 5_000,
        secret_hash="s",
        role=Role.VIEWER,
        namespaces=tuple(f"n{i}" for i in range(60)),
    )
    request = msgspec.json.decode(request_text(payload))
    assert request["name"]["bytes"] == 5_000
    assert len(request["namespaces"]) == 51 and set(request["namespaces"][-1]) == {
        "sha256",
        "bytes",
    }
    assert request["role"] == "viewer"


def test_refused_calls_are_recorded_with_their_caller_and_counted(
    w: Workspace, clock: SimClock
) -> None:
    log = DenialLog(w.ledger, clock.now)
    denied = AccessDenied(
        operation="get_asset",
        permission="assets.read",
        namespace="hr",
        resource_type="asset",
        resource="hr.people",
        code="not_visible",
    )
    for _ in range(3):
        log.note(BOB, denied)
    assert log.flush() == 0
    clock.advance(WINDOW)
    assert log.flush() == 1
    w.writer.drain()
    (row,) = records(w)
    assert (row.action, row.outcome, row.code) == ("AccessDenied", "denied", "not_visible")
    assert (row.email, row.address, row.namespace) == ("bob@example.com", "203.0.113.9", "hr")
    assert msgspec.json.decode(row.request)["count"] == 3
    assert verify(w).intact


def test_refusals_wait_while_the_store_is_away(w: Workspace, clock: SimClock) -> None:
    class Away:
        def append(self, events: object) -> None:
            raise Unavailable("away")

        def event(self, payload: Any) -> Any:
            return payload

        def acting(self, actor: str, origin: object) -> Away:
            return self

    ledgers: list[Any] = [Away(), w.ledger]

    class Ledgers:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledgers[0], name)

    log = DenialLog(Ledgers(), clock.now)  # type: ignore[arg-type]
    log.note(BOB, AccessDenied(operation="get_asset"))
    with pytest.raises(Unavailable):
        log.flush(everything=True)
    log.note(BOB, AccessDenied(operation="get_asset"))
    ledgers.pop(0)
    assert log.flush(everything=True) == 1
    w.writer.drain()
    assert msgspec.json.decode(records(w)[0].request)["count"] == 2


def test_a_flood_of_refusals_is_bounded(w: Workspace, clock: SimClock) -> None:
    log = DenialLog(w.ledger, clock.now)
    for i in range(10 * MAX_FACTS):
        log.note(BOB, AccessDenied(operation="get_asset", resource=f"hr.a{i}"))
    assert log.flush(everything=True) == MAX_FACTS + 1
    w.writer.drain()
    last = records(w)[-1]
    assert msgspec.json.decode(last.request)["count"] == 9 * MAX_FACTS


def test_records_are_the_same_after_a_rebuild_and_in_batches_of_any_size(w: Workspace) -> None:
    w.commands.catalog.create_namespace("sales")
    w.acting(BOB).security.grant("group:x", Role.OWNER)
    w.commands.security.create_key("ci", Role.VIEWER)
    before = records(w), w.read.security().audit_head()
    w.upkeep.rebuild()
    assert (records(w), w.read.security().audit_head()) == before
    assert verify(w).intact


def test_old_records_leave_for_history_and_are_verified_there(
    w: Workspace, clock: SimClock
) -> None:
    for day in range(10):
        w.commands.catalog.create_namespace(f"n{day}")
        clock.advance(timedelta(days=2))
    w.upkeep.merger.merge(everything=True)
    w.commands.catalog.create_namespace("last")
    snapshot = w.read.snapshot()
    assert len(snapshot.hot(AUDIT)) < 11 == len(snapshot.all(AUDIT))
    assert timedelta(days=20) > KEPT_HOT
    assert verify(w).intact
    since = AuditFilter(since=clock.now() - timedelta(days=5))
    assert len(w.read.security().audit(since)) == 3


def test_pages_of_records_make_up_the_whole(w: Workspace, clock: SimClock) -> None:
    for day in range(9):
        w.commands.catalog.create_namespace(f"n{day}")
        clock.advance(timedelta(days=2))
        if day == 5:
            w.upkeep.merger.merge(everything=True)
    reader = w.read.security()
    whole, pages = reader.audit(), reader.audit(limit=2)
    while page := reader.audit(limit=2, before=pages[-1].position):
        pages += page
    assert pages == whole and len(whole) == 9


def test_filters_and_visibility(w: Workspace) -> None:
    w.commands.catalog.create_namespace("sales")
    w.commands.catalog.create_namespace("hr")
    w.acting(BOB).security.grant("group:x", Role.OWNER)
    reader = w.read.security()

    def actions(visible: Visible = EVERYTHING, **conditions: Any) -> list[tuple[str, str]]:
        rows = reader.audit(AuditFilter(**conditions), visible=visible)
        return [(row.action, row.resource_name) for row in rows]

    created = [("CreateNamespace", "hr"), ("CreateNamespace", "sales")]
    assert actions(actor="bob@example.com") == [("UpdateRoles", "group:x")]
    assert actions(action="createnamespace") == created
    assert actions(resource="hr") == created[:1]
    assert actions(request_id="req-1") == [("UpdateRoles", "group:x")]
    assert actions(outcome="refused") == []
    assert actions(Visible(frozenset({"hr"}))) == created[:1]
    assert len(reader.audit(limit=2)) == 2


def test_an_older_generation_has_its_own_head(w: Workspace) -> None:
    w.commands.catalog.create_namespace("a")
    first = w.read.snapshot()
    w.commands.catalog.create_namespace("b")
    report = verify_audit(first, event_types())
    assert report.records == 1 and report.intact


def test_a_rollback_is_reported_and_the_chain_goes_on(w: Workspace) -> None:
    w.commands.catalog.create_namespace("a")
    generation = w.read.snapshot().generation
    w.commands.catalog.create_namespace("b")
    w.upkeep.rollback(generation, reason="a mistake", actor="ann")
    w.commands.catalog.create_namespace("c")
    report = verify(w)
    assert report.intact and len(report.rollbacks) == 1
    assert [row.resource_id for row in records(w)] == ["a", "c"]
    w.upkeep.rebuild()
    assert verify(w).head == report.head


# -- tampering ----------------------------------------------------------------------------


class Tampered(Snapshot):
    """A snapshot of which somebody has changed rows, manifests and digests included."""

    def __init__(self, snapshot: Snapshot, rows: list[AuditRow], head_of: list[AuditRow]) -> None:
        self.__dict__.update(snapshot.__dict__)
        self.rows_now = rows
        last = head_of[-1]
        head = snapshot.get(AUDIT_HEAD, CHAIN)
        assert head is not None
        self.head_row = replace(
            head,
            position=last.position,
            hash=last.hash,
            records=len(head_of),
        )

    def scan(self, table: Table[Any]) -> Any:
        if table is not AUDIT:
            return super().scan(table)
        rows: dict[Key, Versioned[AuditRow]] = {
            (row.record_id,): (row.position, row) for row in self.rows_now
        }
        return AUDIT.to_arrow(rows)

    def get(self, table: Table[Any], *key: Any) -> Any:
        if table is AUDIT_HEAD:
            return self.head_row
        if table is AUDIT:
            return next((row for row in self.rows_now if row.record_id == key[0]), None)
        return super().get(table, *key)


def rechained(rows: list[AuditRow]) -> list[AuditRow]:
    """What an attacker does who knows how it works."""
    chain: list[AuditRow] = []
    for row in rows:
        prev = chain[-1].hash if chain else GENESIS
        chain.append(chained(replace(row, prev_hash=prev)))
    return chain


@pytest.fixture
def history(w: Workspace) -> Workspace:
    for name in ("a", "b", "c", "d"):
        w.acting(BOB).catalog.create_namespace(name)
    return w


def problems(w: Workspace, rows: list[AuditRow], anchor: Anchor | None = None) -> list[int]:
    snapshot = Tampered(w.read.snapshot(), rows, rows)
    report = verify_audit(snapshot, event_types(), anchor=anchor)
    return sorted({problem.position for problem in report.problems})


@pytest.mark.parametrize(
    "field", [f for f in AuditRow.__struct_fields__ if f not in ("record_id", "position")]
)
def test_a_changed_field_of_any_record_is_found(history: Workspace, field: str) -> None:
    rows = records(history)
    value = getattr(rows[1], field)
    other = value + timedelta(seconds=1) if field == "recorded_at" else value + "x"
    rows[1] = replace(rows[1], **{field: other})
    assert rows[1].position in problems(history, rows)


@pytest.mark.parametrize("field", ["actor", "address", "action", "request", "recorded_at"])
def test_a_chain_that_was_made_anew_differs_from_the_log(history: Workspace, field: str) -> None:
    rows = records(history)
    value = getattr(rows[1], field)
    other = value + timedelta(seconds=1) if field == "recorded_at" else value + "x"
    changed = rechained([rows[0], replace(rows[1], **{field: other}), *rows[2:]])
    assert problems(history, changed) == [rows[1].position]


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_missing_record_is_found_although_the_chain_was_made_anew(
    history: Workspace, missing: int
) -> None:
    rows = records(history)
    expected = rows[missing].position
    rest = rechained(rows[:missing] + rows[missing + 1 :])
    report = verify_audit(Tampered(history.read.snapshot(), rest, rest), event_types())
    if missing == 0:  # as if the audit log had begun later: an anchor tells
        assert report.uncovered == 1
        anchor = Anchor(rows[-1].position, rows[-1].hash)
        assert problems(history, rest, anchor) == [rows[-1].position]
    else:
        assert expected in {problem.position for problem in report.problems}


def test_an_outcome_that_was_changed_everywhere_differs_from_a_noted_head(
    history: Workspace,
) -> None:
    rows = records(history)
    anchor = Anchor.parse(verify(history).head)
    changed = rechained([replace(rows[0], outcome="refused", code="x"), *rows[1:]])
    assert problems(history, changed) == []
    assert problems(history, changed, anchor) == [rows[3].position]


def test_a_damaged_segment_is_found(history: Workspace) -> None:
    store: Any = history.store
    (path, *_) = [meta.path for meta in store.list("ledger/segments/")]
    data = bytearray(store.get(path).data)
    data[len(data) // 2] ^= 1
    store.delete(path)
    store.put(path, bytes(data))
    report = verify(history)
    assert not report.intact
    assert [type(problem) for problem in report.problems] == [AuditProblem]
    assert "segment" in report.problems[0].problem


def test_the_fold_gives_the_same_records_event_by_event(history: Workspace) -> None:
    """One commit for each event, or one for all of them."""
    events: list[Recorded] = list(read_log(history.read.snapshot(), event_types()))
    together = Folding()
    together.fold(events)
    apart = Folding()
    for event in events:
        apart.fold([event])
    assert together.all(AUDIT) == apart.all(AUDIT) == records(history)


def test_a_hash_is_over_canonical_json(history: Workspace) -> None:
    first, second, *_ = records(history)
    event_fields = {
        name: getattr(second, name)
        for name in (
            *("position", "event_id", "command", "outcome", "code", "actor", "actor_kind"),
            *("actor_id", "email", "request_id", "address", "user_agent", "idempotency_key"),
            "request",
        )
    }
    event = canonical.encode({**event_fields, "recorded_at": second.recorded_at.isoformat()})
    assert second.hash == hashlib.sha256(first.hash.encode() + event).hexdigest()


def test_a_read_of_a_secret_is_seen_where_its_asset_is(w: Workspace) -> None:
    read = SecretRead(
        reference="env:A",
        provider="env",
        name="a",
        worker_id="box",
        asset="sales.orders",
        run_id="r",
        task_id="t",
        attempt=1,
        attempt_id="a",
    )
    of_sensor = SecretRead(
        reference="env:A", provider="env", name="a", worker_id="box", sensor_id="main/poll"
    )
    missing = replace(read, asset="hr.people", code="secret.missing")
    w.ledger.append([read, of_sensor, missing])
    w.writer.drain()
    seen = w.read.security().audit(
        AuditFilter(action="readsecret"), visible=Visible(frozenset({"sales"}))
    )
    assert [(row.resource_id, row.resource_name, row.outcome) for row in seen] == [
        ("env:A", "sales.orders", "applied")
    ]
    by_worker = w.read.security().audit(AuditFilter(actor="box", resource="env:A"))
    assert [(row.namespace, row.outcome, row.code) for row in by_worker[::-1]] == [
        ("sales", "applied", ""),
        ("", "applied", ""),
        ("hr", "failed", "secret.missing"),
    ]
    assert verify(w).intact and verify(w).commands == 3
