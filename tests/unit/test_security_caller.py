"""What callers may do and see."""

from __future__ import annotations

import pytest

from arco.errors import Invalid
from arco.security.caller import Caller, Grant, Scope, local_caller
from arco.security.permissions import ADDED, PERMISSIONS, Permission, Role
from arco.security.visibility import EVERYTHING, NOTHING, Visible
from servo.contract.keys import AssetKey

P = Permission
WORKSPACE = Scope("acme", "prod")
SALES = Scope("acme", "prod", "sales")


def caller(*grants: Grant, scopes: frozenset[Permission] | None = None) -> Caller:
    return Caller(kind="user", id="u1", grants=grants, scopes=scopes).at("acme", "prod")


def test_each_permission_is_added_by_one_role() -> None:
    added = [permission for role in Role for permission in ADDED[role]]
    assert sorted(added) == sorted(Permission)


def test_the_seeds_decisions_hold() -> None:
    assert P.RUNS_RETRY in ADDED[Role.OPERATOR]
    assert P.QUARANTINE_MANAGE in ADDED[Role.ADMIN]
    assert P.ASSETS_DEPLOY in ADDED[Role.EDITOR]
    assert P.ROLES_MANAGE in ADDED[Role.OWNER]
    assert PERMISSIONS[Role.OWNER] == frozenset(Permission)


def test_a_caller_at_no_workspace_may_nothing() -> None:
    nowhere = Caller(kind="user", id="u1", grants=(Grant(Role.OWNER, Scope("acme")),))
    assert not any(nowhere.may(permission) for permission in Permission)


def test_a_role_on_a_namespace_holds_there_alone() -> None:
    bob = caller(Grant(Role.EDITOR, SALES))
    assert bob.may(P.ASSETS_DEPLOY, "sales")
    assert not bob.may(P.ASSETS_DEPLOY, "hr")
    assert not bob.may(P.ASSETS_DEPLOY)
    assert bob.where(P.ASSETS_DEPLOY) == Visible(frozenset({"sales"}))
    assert bob.visible("acme", "prod") == Visible(frozenset({"sales"}))


def test_files_of_metadata_need_a_role_on_the_workspace() -> None:
    assert not caller(Grant(Role.OWNER, SALES)).may(P.METADATA_READ_ALL)
    assert not caller(Grant(Role.OWNER, SALES)).may(P.METADATA_READ_ALL, "sales")
    assert caller(Grant(Role.VIEWER, WORKSPACE)).may(P.METADATA_READ_ALL)


def test_grants_of_another_workspace_or_tenant_say_nothing_here() -> None:
    eve = caller(
        Grant(Role.OWNER, Scope("acme", "dev")),
        Grant(Role.OWNER, Scope("evil")),
        Grant(Role.OWNER, Scope("evil", "prod", "sales")),
    )
    assert eve.permissions("sales") == frozenset()
    assert eve.visible("acme", "prod") == NOTHING


def test_a_role_on_the_tenant_holds_in_each_workspace() -> None:
    ann = caller(Grant(Role.ADMIN, Scope("acme")))
    assert ann.permissions("sales") == PERMISSIONS[Role.ADMIN]
    assert ann.at("acme", "dev").may(P.LIMITS_MANAGE)
    assert ann.visible("acme", "prod") == EVERYTHING


def test_scopes_narrow_a_key() -> None:
    key = caller(Grant(Role.OWNER, WORKSPACE), scopes=frozenset({P.RUNS_TRIGGER}))
    assert key.permissions("sales") == {P.RUNS_TRIGGER}
    assert key.visible("acme", "prod") == EVERYTHING
    viewer = caller(Grant(Role.VIEWER, WORKSPACE), scopes=frozenset({P.RUNS_TRIGGER}))
    assert viewer.permissions("sales") == frozenset()
    assert viewer.visible("acme", "prod") == NOTHING


def test_a_scope_needs_all_that_is_above_it() -> None:
    with pytest.raises(Invalid):
        Scope("acme", "", "sales")
    with pytest.raises(Invalid):
        Scope("")


def test_seen_assets_follow_their_namespace() -> None:
    some = Visible(frozenset({"sales"}))
    assert some.sees_asset("sales.orders")
    assert some.sees_asset(AssetKey("sales", "orders"))
    assert not some.sees_asset("sales_eu.orders")
    assert EVERYTHING.sees_asset("hr.people")
    assert not NOTHING.sees("sales")


def test_actors_tell_the_kind_of_a_caller() -> None:
    user = Caller(kind="user", id="sub-1", email="ann@example.com")
    key = Caller(kind="api_key", id="01K", name="ci")
    assert user.actor == "user:ann@example.com"
    assert key.actor == "api_key:01K"
    assert local_caller("ann", "acme", "prod").actor == "ann"
