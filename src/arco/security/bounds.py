"""Callers cannot grant permissions that they do not have."""

from __future__ import annotations

from collections.abc import Iterable

from arco.errors import Denied
from arco.security.caller import Caller
from arco.security.permissions import Permission, Role, permissions_of


def check_gift(
    caller: Caller,
    needed: Permission,
    role: Role,
    namespaces: Iterable[str],
    scopes: frozenset[Permission] | None = None,
) -> None:
    """Raise Denied unless the caller may give a role, narrowed to `scopes`, in all namespaces.

    `needed` is what giving takes; an empty namespace is the whole workspace.
    """
    for namespace in namespaces:
        allowed = permissions_of(role, namespace)
        granted = allowed if scopes is None else allowed & scopes
        where = f"the namespace {namespace}" if namespace else "the workspace"
        own = caller.permissions(namespace or None)
        if needed not in own:
            raise Denied(
                f"you may not grant roles or create keys in {where}",
                hint=f"ask somebody who has {needed} there",
            )
        if missing := sorted(granted - own):
            raise Denied(
                f"you may not grant the role {role} in {where}: you do not have {missing[0]} there",
                hint="grant a role that you have yourself",
            )
