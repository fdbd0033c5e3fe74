"""The context of a write: the caller, the commands in its name, and its permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from arco.api.problems import ApiError
from arco.api.views import View, require_asset, require_namespace
from arco.app.commands import Commands
from arco.errors import Denied
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import Visible

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True)
class WriteAnswer(Generic[R]):
    """The answer to a write."""

    body: R
    generation: int
    """The first that has its effect."""
    location: str = ""
    """Of what was created or changed, below the workspace."""
    version: int | None = None
    """The row's version after the write."""


@dataclass(frozen=True, kw_only=True)
class Writing:
    caller: Caller
    permission: Permission
    commands: Commands
    """The first of them has the request's key."""
    unkeyed: Commands
    """For what is told apart in another way."""
    view: View
    """The newest generation when the request came."""
    fresh: Callable[[], View]
    """The newest generation now: what was just committed is in it."""
    visible: Visible
    """What the caller sees of the workspace at all."""
    key: str
    """The idempotency key, as the log has it; empty if the client gave none."""
    dataset_namespaces: Mapping[str, str]
    """Of OpenLineage, to namespaces of assets."""
    if_match: int | None
    """The version of the row that the client has seen."""

    def allow(self, namespace: str) -> None:
        """Raise Denied without the permission in a namespace; NotFound if the namespace is
        hidden."""
        require_namespace(self.visible, namespace)
        if not self.caller.may(self.permission, namespace):
            raise Denied(
                f"you do not have this permission in the namespace {namespace}",
                hint=f"ask an owner for a role there that has {self.permission}",
            )

    def allow_asset(self, key: str) -> None:
        """The same for an asset, with the answer that an absent one gets."""
        require_asset(self.visible, key)
        self.allow(key.partition(".")[0])

    def allow_workspace(self) -> None:
        """Raise unless the caller may do this in the whole workspace."""
        if not self.caller.may(self.permission):
            raise Denied(
                "you do not have this permission for the whole workspace",
                hint=f"ask an owner for a role on the workspace that has {self.permission}",
            )


def check_key(key: str) -> str:
    if len(key) > 200 or not key.isprintable():
        raise ApiError(
            "invalid",
            "the Idempotency-Key is not 1 to 200 printable characters",
            code="invalid_idempotency_key",
        )
    return key
