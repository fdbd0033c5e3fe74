"""Roles only ever add permissions, and visibility is a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arco.security.caller import Caller, Grant, Scope
from arco.security.permissions import PERMISSIONS, Permission, Role, permissions_of, rank
from arco.security.visibility import EVERYTHING, Visible

NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["x", "y", "z"])
SCOPES = st.one_of(
    st.builds(Scope, NAMES),
    st.builds(Scope, NAMES, NAMES),
    st.builds(Scope, NAMES, NAMES, NAMESPACES),
)
ROLES = st.sampled_from(list(Role))
GRANTS = st.lists(st.builds(Grant, ROLES, SCOPES), max_size=6).map(tuple)
NARROWED = st.none() | st.frozensets(st.sampled_from(list(Permission)))
CALLERS = st.builds(
    Caller,
    kind=st.just("user"),
    id=st.just("u"),
    grants=GRANTS,
    scopes=NARROWED,
    tenant=NAMES,
    workspace=NAMES,
)
VISIBLE = st.just(EVERYTHING) | st.frozensets(NAMESPACES).map(Visible)


@given(ROLES, ROLES)
def test_a_higher_role_may_all_that_a_lower_may(low: Role, high: Role) -> None:
    if rank(low) <= rank(high):
        assert PERMISSIONS[low] <= PERMISSIONS[high]


@given(CALLERS, st.builds(Grant, ROLES, SCOPES), NAMESPACES)
def test_one_more_grant_takes_nothing_away(caller: Caller, grant: Grant, namespace: str) -> None:
    more = Caller(
        kind="user",
        id="u",
        grants=(*caller.grants, grant),
        scopes=caller.scopes,
        tenant=caller.tenant,
        workspace=caller.workspace,
    )
    assert caller.permissions(namespace) <= more.permissions(namespace)
    before = caller.visible(caller.tenant, caller.workspace)
    assert before & more.visible(caller.tenant, caller.workspace) == before


@given(CALLERS, NAMESPACES)
def test_whoever_may_something_in_a_namespace_sees_it_and_nobody_else(
    caller: Caller, namespace: str
) -> None:
    seen = caller.visible(caller.tenant, caller.workspace).sees(namespace)
    assert seen == bool(caller.permissions(namespace))


@given(CALLERS, st.sampled_from(list(Permission)), NAMESPACES)
def test_the_three_questions_agree(caller: Caller, what: Permission, namespace: str) -> None:
    assert caller.where(what).sees(namespace) == caller.may(what, namespace)
    assert caller.where(what).all == caller.may(what)
    if caller.may(what, namespace):
        assert not caller.where(what).nothing


@given(CALLERS, NAMESPACES)
def test_a_caller_has_the_permissions_of_the_grants_that_hold_there(
    caller: Caller, namespace: str
) -> None:
    place = Scope(caller.tenant, caller.workspace, namespace)
    expected: frozenset[Permission] = frozenset()
    for grant in caller.grants:
        if grant.scope.contains(place):
            expected |= permissions_of(grant.role, grant.scope.namespace)
    if caller.scopes is not None:
        expected &= caller.scopes
    assert caller.permissions(namespace) == expected


@given(VISIBLE, VISIBLE, NAMESPACES)
def test_union_and_intersection_are_those_of_sets(a: Visible, b: Visible, namespace: str) -> None:
    assert (a | b).sees(namespace) == (a.sees(namespace) or b.sees(namespace))
    assert (a & b).sees(namespace) == (a.sees(namespace) and b.sees(namespace))
