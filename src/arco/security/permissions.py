"""What a caller can be allowed to do, and which role is allowed what: a table, as data.

Each role has everything that the role before it has. `docs/guides/security.md` shows the same
table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Permission(StrEnum):
    ASSETS_READ = "assets.read"
    """Assets, columns, schemas, lineage, quality, contracts, health."""
    RUNS_READ = "runs.read"
    """Runs, tasks, logs, plans, schedules, sensors, backfills, costs, events."""
    QUERY_RUN = "query.run"
    """SQL over the metadata, filtered by what the caller sees."""
    METADATA_READ_ALL = "metadata.read_all"
    """The metadata's own files, by signed URL. Only a role on a whole workspace gives it."""

    RUNS_TRIGGER = "runs.trigger"
    RUNS_CANCEL = "runs.cancel"
    RUNS_RETRY = "runs.retry"
    AUTOMATION_MANAGE = "automation.manage"
    """Pause, resume and call schedules, sensors, freshness policies and assets' automation."""
    SENSORS_PUSH = "sensors.push"
    NOTIFICATIONS_MANAGE = "notifications.manage"

    DATA_READ = "data.read"
    """Rows of assets: previews, versions, differences."""
    ASSETS_DEPLOY = "assets.deploy"
    ASSETS_EDIT = "assets.edit"
    """Descriptions, owners, tags, terms, columns' classes, edges of lineage."""
    PARTITIONS_EDIT = "partitions.edit"
    """Dynamic partition keys."""
    BACKFILLS_CREATE = "backfills.create"
    BACKFILLS_MANAGE = "backfills.manage"
    FACTS_INGEST = "facts.ingest"
    """Materializations, checks and lineage of what others have written."""

    ASSETS_DELETE = "assets.delete"
    CONTRACTS_MANAGE = "contracts.manage"
    QUARANTINE_MANAGE = "quarantine.manage"
    LIMITS_MANAGE = "limits.manage"
    AUDIT_READ = "audit.read"
    WORKERS_WORK = "workers.work"
    """Take tasks of all namespaces and report on them."""
    WORKSPACE_MAINTAIN = "workspace.maintain"
    """Rebuild, roll back, merge, collect, pin."""

    KEYS_MANAGE = "keys.manage"
    ROLES_MANAGE = "roles.manage"


class Role(StrEnum):
    """From the least to the most."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"
    OWNER = "owner"


_P = Permission

ADDED: Final[Mapping[Role, tuple[Permission, ...]]] = MappingProxyType(
    {
        Role.VIEWER: (_P.ASSETS_READ, _P.RUNS_READ, _P.QUERY_RUN, _P.METADATA_READ_ALL),
        Role.OPERATOR: (
            _P.RUNS_TRIGGER,
            _P.RUNS_CANCEL,
            _P.RUNS_RETRY,
            _P.AUTOMATION_MANAGE,
            _P.SENSORS_PUSH,
            _P.NOTIFICATIONS_MANAGE,
        ),
        Role.EDITOR: (
            _P.DATA_READ,
            _P.ASSETS_DEPLOY,
            _P.ASSETS_EDIT,
            _P.PARTITIONS_EDIT,
            _P.BACKFILLS_CREATE,
            _P.BACKFILLS_MANAGE,
            _P.FACTS_INGEST,
        ),
        Role.ADMIN: (
            _P.ASSETS_DELETE,
            _P.CONTRACTS_MANAGE,
            _P.QUARANTINE_MANAGE,
            _P.LIMITS_MANAGE,
            _P.AUDIT_READ,
            _P.WORKERS_WORK,
            _P.WORKSPACE_MAINTAIN,
        ),
        Role.OWNER: (_P.KEYS_MANAGE, _P.ROLES_MANAGE),
    }
)
"""What each role adds to the role before it."""


def _cumulated() -> dict[Role, frozenset[Permission]]:
    table: dict[Role, frozenset[Permission]] = {}
    so_far: frozenset[Permission] = frozenset()
    for role in Role:
        so_far |= frozenset(ADDED[role])
        table[role] = so_far
    return table


PERMISSIONS: Final[Mapping[Role, frozenset[Permission]]] = MappingProxyType(_cumulated())
"""All that each role may do."""


OF_WORKSPACES: Final = frozenset(
    {_P.METADATA_READ_ALL, _P.LIMITS_MANAGE, _P.WORKERS_WORK, _P.WORKSPACE_MAINTAIN}
)
"""What concerns all namespaces at once: a role in one of them does not give it."""


def permissions_of(role: Role, namespace: str = "") -> frozenset[Permission]:
    """What a role may do in a namespace that it was granted in; empty: in a whole workspace."""
    return PERMISSIONS[role] - OF_WORKSPACES if namespace else PERMISSIONS[role]


def rank(role: Role) -> int:
    """A role's place from the least to the most."""
    return tuple(Role).index(role)
