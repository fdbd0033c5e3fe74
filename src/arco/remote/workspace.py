"""A workspace that is reached through the API: `ARCO_API` and `ARCO_TOKEN`, and no credentials of
the store.

Readers are the same, over the objects that the API hands out; commands are carried out by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arco.app.reading import Reading
from arco.app.workspace import Workspace
from arco.clock import Clock, SystemClock
from arco.config import Config
from arco.errors import Denied
from arco.remote.client import Client
from arco.remote.commands import remote_commands
from arco.remote.store import ApiStore, refuse
from arco.security.reader import SecurityReader
from arco.security.stored_tokens import TokenFile
from arco.state.snapshot import At


class RemoteWorkspace(Workspace):
    def __init__(self, client: Client, *, clock: Clock, **settings: Any) -> None:
        _require_access(client)
        super().__init__(ApiStore(client), client.tenant, client.workspace, clock=clock, **settings)
        self.client = client
        self.read = _RemoteReading(self.core, self.tables)
        self.commands = remote_commands(self.commands, client)
        self.upkeep = _NeedsTheStore()  # type: ignore[assignment]
        self.runtime = _NeedsTheStore()  # type: ignore[assignment]


def connected(config: Config, env: Mapping[str, str], **settings: Any) -> RemoteWorkspace:
    """The workspace at the API that `config.store` names, with `ARCO_TOKEN` or the token of
    `servo auth login`."""
    token = env.get("ARCO_TOKEN", "")
    client = Client(
        config.store,
        token or TokenFile.of_user(env).token_for(config.store, SystemClock().now()),
        tenant=config.tenant,
        workspace=config.workspace,
        ca_file=env.get("ARCO_CA_FILE") or None,
    )
    return RemoteWorkspace(client, **settings)


class _RemoteReading(Reading):
    def security(self, at: At | None = None) -> SecurityReader:
        snapshot = self.snapshot(at)
        if "security" not in {name.partition(".")[0] for name in snapshot.contents.names()}:
            raise Denied(
                "you may not read keys, roles and the audit log of this workspace",
                hint="ask an owner for a role that has keys.manage, roles.manage and audit.read",
            )
        return super().security(at)


class _NeedsTheStore:
    """In place of what works on the store itself."""

    def __getattr__(self, name: str) -> Any:
        refuse()


def _require_access(client: Client) -> None:
    """Who sees some namespaces alone cannot read the tables, in which all of them are."""
    try:
        client.list_stored_objects(prefix="manifests/head.json")
    except Denied:
        raise Denied(
            "`servo` through the API is for those who may read the whole workspace",
            hint="ask an owner for a role on the workspace, or use the API itself: "
            "docs/guides/client.md",
        ) from None
