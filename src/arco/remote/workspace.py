"""A workspace that is reached through the API: `ARCO_API` and `ARCO_TOKEN`, and no credentials of
the store.

The same readers work on objects that the API returns, and the server executes commands. For callers
with a role on some namespaces, snapshots request rows instead of table files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from arco.app.reading import Reading
from arco.app.workspace import Workspace
from arco.clock import Clock, SystemClock
from arco.config import Config
from arco.errors import Denied, NotFound
from arco.orchestration.reader import Library
from arco.remote.client import Client
from arco.remote.commands import remote_commands
from arco.remote.remote_sql import RemoteSql
from arco.remote.snapshot import ScopedSnapshot
from arco.remote.store import ApiStore, refuse
from arco.security.reader import SecurityReader
from arco.security.stored_tokens import TokenFile
from arco.state.snapshot import At, Snapshot
from arco.state.sql import SqlEngine
from arco.state.sqlprocess import SqlLimits, SqlProcess
from arco.storage import paths
from arco.storage.port import Store


class RemoteWorkspace(Workspace):
    def __init__(self, client: Client, *, clock: Clock, **settings: Any) -> None:
        self.client = client
        self.is_scoped = not _reads_files(client)
        """The caller does not see the whole workspace: rows are requested, not read from files."""
        self.snapshots = ScopedSnapshot if self.is_scoped else Snapshot
        super().__init__(ApiStore(client), client.tenant, client.workspace, clock=clock, **settings)
        reading = _ScopedReading if self.is_scoped else _RemoteReading
        self.read = reading(self.core, self.tables)
        self.commands = remote_commands(self.commands, client, is_scoped=self.is_scoped)
        self.upkeep = _NeedsTheStore()  # type: ignore[assignment]
        self.runtime = _NeedsTheStore()  # type: ignore[assignment]

    def of_all_namespaces(self, what: str) -> Self:
        if self.is_scoped:
            raise Denied(
                f"{what} need a role on the whole workspace",
                hint="ask an owner for a role on the workspace",
            )
        return self

    def open_library(self, store: Store) -> Library:
        return _ScopedLibrary(store) if self.is_scoped else Library(store)


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
    """A placeholder for parts that need the store itself."""

    def __getattr__(self, name: str) -> Any:
        refuse()


class _ScopedReading(Reading):
    def sql(self, limits: SqlLimits | None = None, process: SqlProcess | None = None) -> SqlEngine:
        if process is not None:
            process.close()
        return RemoteSql(self._tables, limits)


class _ScopedLibrary(Library):
    """Manifests and plans without what the caller does not see; their bytes and digests differ."""

    def _encoded(self, digest: str) -> bytes:
        return self._store.get(paths.manifest(digest)).data


def _reads_files(client: Client) -> bool:
    """Whether the server returns table files, which contain all namespaces."""
    try:
        client.list_stored_objects(prefix=f"{paths.STATE}~")
    except NotFound:
        return False
    return True
