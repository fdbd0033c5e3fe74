"""API keys and role bindings: created, verified, revoked; nobody gives more than he has."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from arco.app import Workspace
from arco.errors import Conflict, Denied, Invalid, NotFound, Refused, Unauthenticated
from arco.security.api_keys import KeyText, parse_key, verify_key
from arco.security.caller import Caller, Grant, Scope
from arco.security.directory import TENANT_WORKSPACE, Directory
from arco.security.key_usage import PRECISION, KeyUsage
from arco.security.permissions import Permission, Role
from arco.security.tables import API_KEYS, ROLE_BINDINGS
from arco.security.visibility import Visible
from tests.kit.clocks import SimClock
from tests.kit.workspace import NAME, TENANT, make_workspace

P = Permission


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def w(clock: SimClock) -> Workspace:
    return make_workspace(clock=clock, actor="ann")


def acting(w: Workspace, *grants: Grant, scopes: frozenset[Permission] | None = None) -> Workspace:
    """The workspace with commands of somebody else."""
    caller = Caller(kind="user", id="u1", email="bob@example.com", grants=grants, scopes=scopes)
    w.commands = w.acting(caller)
    return w


def everything_stored(w: Workspace) -> bytes:
    return b"".join(w.store.get(meta.path).data for meta in w.store.list(""))


def test_a_key_is_shown_once_and_its_secret_is_nowhere(w: Workspace) -> None:
    new = w.commands.security.create_key("ci", Role.OPERATOR, namespaces=["sales"])
    text = str(new.text)
    assert text.startswith(f"arco_{new.row.key_id}_")
    assert new.text.secret not in repr(new)
    assert new.text.secret.encode() not in everything_stored(w)
    assert w.read.security().api_keys() == [new.row]


def test_a_key_is_verified_by_its_secret(w: Workspace, clock: SimClock) -> None:
    new = w.commands.security.create_key("ci", Role.VIEWER)
    directory = w.read.security().directory()
    key = parse_key(str(new.text))
    assert key == new.text
    assert verify_key(key, directory.keys[key.key_id], clock.now()) == new.row
    wrong = KeyText(key.key_id, "0" * 64)
    with pytest.raises(Unauthenticated, match="not valid"):
        verify_key(wrong, directory.keys[key.key_id], clock.now())
    with pytest.raises(Unauthenticated, match="not valid"):
        verify_key(key, None, clock.now())


@pytest.mark.parametrize("text", ["", "arco_", "arco_01_x", "Bearer x", "arco_local_abc"])
def test_other_texts_are_no_keys(text: str) -> None:
    assert parse_key(text) is None


def test_a_revoked_key_and_an_expired_one_let_nobody_in(w: Workspace, clock: SimClock) -> None:
    soon = clock.now() + timedelta(days=1)
    expiring = w.commands.security.create_key("a", Role.VIEWER, expires_at=soon)
    revoked = w.commands.security.create_key("b", Role.VIEWER)
    w.commands.security.revoke_key(revoked.row.prefix, reason="lost")
    keys = w.read.security().directory().keys
    assert verify_key(expiring.text, keys[expiring.row.key_id], clock.now()) == expiring.row
    with pytest.raises(Unauthenticated, match="expired"):
        verify_key(expiring.text, keys[expiring.row.key_id], soon)
    with pytest.raises(Unauthenticated, match="revoked"):
        verify_key(revoked.text, keys[revoked.row.key_id], clock.now())
    row = keys[revoked.row.key_id]
    assert (row.revoked_by, row.revoke_reason) == ("ann", "lost")


def test_a_key_is_a_caller_with_its_role_and_what_is_bound_to_it(w: Workspace) -> None:
    new = w.commands.security.create_key(
        "ci", Role.OPERATOR, namespaces=["sales"], scopes=[P.RUNS_TRIGGER, P.ASSETS_READ]
    )
    w.commands.security.grant(f"key:{new.row.key_id}", Role.VIEWER, namespace="hr")
    directory = w.read.security().directory()
    caller = directory.key_caller(directory.keys[new.row.key_id], TENANT, NAME)
    assert caller == Caller(
        kind="api_key",
        id=new.row.key_id,
        name="ci",
        grants=(
            Grant(Role.OPERATOR, Scope(TENANT, NAME, "sales")),
            Grant(Role.VIEWER, Scope(TENANT, NAME, "hr")),
        ),
        scopes=frozenset({P.RUNS_TRIGGER, P.ASSETS_READ}),
    )
    here = caller.at(TENANT, NAME)
    assert here.may(P.RUNS_TRIGGER, "sales") and not here.may(P.RUNS_TRIGGER, "hr")


def test_a_key_of_the_tenants_workspace_holds_in_all_of_them(clock: SimClock) -> None:
    tenant = Workspace(make_workspace(clock=clock).store, TENANT, TENANT_WORKSPACE, clock=clock)
    new = tenant.commands.security.create_key("ci", Role.VIEWER)
    directory = tenant.read.security().directory()
    caller = directory.key_caller(new.row, TENANT, TENANT_WORKSPACE)
    assert caller.grants == (Grant(Role.VIEWER, Scope(TENANT)),)
    with pytest.raises(Invalid, match="cannot have a namespace"):
        tenant.commands.security.create_key("ci", Role.VIEWER, namespaces=["sales"])


def test_nobody_creates_a_key_that_may_more_than_he(w: Workspace) -> None:
    owner = Grant(Role.OWNER, Scope(TENANT, NAME, "sales"))
    sales = acting(w, owner)
    sales.commands.security.create_key("mine", Role.OWNER, namespaces=["sales"])
    with pytest.raises(Denied, match="the workspace"):
        sales.commands.security.create_key("all", Role.VIEWER)
    with pytest.raises(Denied, match="namespace hr"):
        sales.commands.security.create_key("hr", Role.VIEWER, namespaces=["sales", "hr"])
    admin = acting(w, Grant(Role.ADMIN, Scope(TENANT, NAME)))
    with pytest.raises(Denied, match="may not grant"):
        admin.commands.security.create_key("a", Role.VIEWER)
    narrow = acting(
        w, Grant(Role.OWNER, Scope(TENANT, NAME)), scopes=frozenset({P.KEYS_MANAGE, P.ASSETS_READ})
    )
    with pytest.raises(Denied, match=r"you do not have \w+\.\w+"):
        narrow.commands.security.create_key("a", Role.VIEWER)
    narrow.commands.security.create_key("a", Role.VIEWER, scopes=[P.ASSETS_READ])


def test_a_repeated_creation_does_not_show_a_second_secret(w: Workspace) -> None:
    w.commands.security.create_key("ci", Role.VIEWER, idempotency_key="k")
    with pytest.raises(Conflict, match="was created"):
        w.commands.security.create_key("ci", Role.VIEWER, idempotency_key="k")
    assert len(w.read.security().api_keys()) == 1


@pytest.mark.parametrize(
    "arguments",
    [{"name": " "}, {"name": "a\nb"}, {"scopes": ["runs.fly"]}, {"namespaces": ["Sales!"]}],
)
def test_bad_arguments_create_no_key(w: Workspace, arguments: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        w.commands.security.create_key(**{"name": "ci", "role": Role.VIEWER, **arguments})  # type: ignore[arg-type]


def test_keys_are_named_by_id_prefix_or_name_and_errors_hold_no_secret(w: Workspace) -> None:
    new = w.commands.security.create_key("ci", Role.VIEWER)
    w.commands.security.create_key("twin", Role.VIEWER)
    w.commands.security.create_key("twin", Role.VIEWER)
    reader = w.read.security()
    for text in (new.row.key_id, new.row.prefix, "ci", str(new.text)):
        assert reader.key(text) == new.row
    with pytest.raises(NotFound, match="several"):
        reader.key("twin")
    other = KeyText("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ab" * 32)
    with pytest.raises(NotFound) as error:
        reader.key(str(other))
    assert other.secret not in str(error.value)


def test_who_sees_some_namespaces_sees_their_keys_and_bindings(w: Workspace) -> None:
    w.commands.security.create_key("all", Role.VIEWER)
    sales = w.commands.security.create_key("sales", Role.VIEWER, namespaces=["sales"])
    w.commands.security.create_key("both", Role.VIEWER, namespaces=["sales", "hr"])
    w.commands.security.grant("user:ann@example.com", Role.OWNER)
    w.commands.security.grant("group:sales", Role.EDITOR, namespace="sales")
    visible = Visible(frozenset({"sales"}))
    reader = w.read.security()
    assert reader.api_keys(visible) == [sales.row]
    assert [row.subject for row in reader.bindings(visible)] == ["group:sales"]


def test_uses_are_recorded_once_an_hour_for_all_keys_together(
    w: Workspace, clock: SimClock
) -> None:
    rows = [w.commands.security.create_key(name, Role.VIEWER).row for name in "ab"]
    usage = KeyUsage(w.ledger, clock.now)
    clock.advance(timedelta(minutes=5))
    used_at = clock.now()
    for row in (*rows, *rows):
        usage.note(row)
    assert usage.flush() == 2
    clock.advance(timedelta(minutes=5))
    usage.note(rows[0])
    assert usage.flush() == 0
    w.writer.drain()
    assert [row.last_used_at for row in w.read.security().api_keys()] == [used_at, used_at]
    clock.advance(PRECISION)
    usage.note(rows[0])
    assert usage.flush() == 1


def test_the_directory_is_read_anew_only_when_keys_or_roles_changed(w: Workspace) -> None:
    w.commands.security.create_key("ci", Role.VIEWER)
    first = Directory.read(w.read.snapshot())
    assert Directory.read(w.read.snapshot(), first) is first
    w.commands.catalog.create_namespace("sales")
    assert Directory.read(w.read.snapshot(), first) is first
    w.commands.security.grant("group:x", Role.VIEWER)
    assert Directory.read(w.read.snapshot(), first) is not first


# -- roles --------------------------------------------------------------------------------


def test_a_subject_has_one_role_in_a_place(w: Workspace) -> None:
    w.commands.security.grant("user:Ann@Example.com", Role.OWNER)
    w.commands.security.grant("group:data", Role.VIEWER)
    w.commands.security.grant("group:data", Role.EDITOR, reason="promoted")
    w.commands.security.grant("group:data", Role.ADMIN, namespace="sales")
    directory = w.read.security().directory()
    assert directory.grants(["group:data", "user:x@y"], TENANT, NAME) == (
        Grant(Role.EDITOR, Scope(TENANT, NAME)),
        Grant(Role.ADMIN, Scope(TENANT, NAME, "sales")),
    )
    assert "user:ann@example.com" in directory.bindings


def test_the_last_owner_stays(w: Workspace) -> None:
    grant, revoke = w.commands.security.grant, w.commands.security.revoke
    grant("user:ann@example.com", Role.OWNER)
    with pytest.raises(Refused, match="last owner"):
        revoke("user:ann@example.com")
    with pytest.raises(Refused, match="last owner"):
        grant("user:ann@example.com", Role.ADMIN)
    grant("user:bob@example.com", Role.OWNER)
    revoke("user:ann@example.com")
    assert [row.subject for row in w.read.security().bindings()] == ["user:bob@example.com"]


def test_an_owner_of_a_namespace_may_leave_it(w: Workspace) -> None:
    w.commands.security.grant("group:sales", Role.OWNER, namespace="sales")
    w.commands.security.revoke("group:sales", namespace="sales")
    assert w.read.snapshot().all(ROLE_BINDINGS) == []


def test_what_was_not_granted_cannot_be_revoked(w: Workspace) -> None:
    with pytest.raises(Refused) as refused:
        w.commands.security.revoke("group:sales", namespace="sales")
    assert refused.value.code == "role_not_granted"


def test_nobody_grants_or_takes_more_than_he_has(w: Workspace) -> None:
    w.commands.security.grant("user:ann@example.com", Role.OWNER)
    owner_of_sales = acting(w, Grant(Role.OWNER, Scope(TENANT, NAME, "sales")))
    owner_of_sales.commands.security.grant("group:x", Role.OWNER, namespace="sales")
    with pytest.raises(Denied):
        owner_of_sales.commands.security.grant("group:x", Role.VIEWER)
    with pytest.raises(Denied):
        owner_of_sales.commands.security.grant("group:x", Role.VIEWER, namespace="hr")
    with pytest.raises(Denied):
        owner_of_sales.commands.security.revoke("user:ann@example.com")
    assert len(w.read.security().bindings()) == 2


@pytest.mark.parametrize("subject", ["ann", "user:ann", "role:x", "group:", "group:a\nb"])
def test_subjects_have_a_form(w: Workspace, subject: str) -> None:
    with pytest.raises(Invalid):
        w.commands.security.grant(subject, Role.VIEWER)


def test_rows_are_the_same_after_a_rebuild(w: Workspace) -> None:
    new = w.commands.security.create_key("ci", Role.VIEWER)
    w.commands.security.grant("group:data", Role.EDITOR)
    w.commands.security.revoke_key(new.row.key_id)
    before = [w.read.snapshot().all(table) for table in (API_KEYS, ROLE_BINDINGS)]
    w.upkeep.rebuild()
    assert [w.read.snapshot().all(table) for table in (API_KEYS, ROLE_BINDINGS)] == before
    assert msgspec.structs.replace(new.row, revoked_at=None) == new.row
