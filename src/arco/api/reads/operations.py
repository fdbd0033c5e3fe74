"""Deployments, limits, notifications, generations, and what became of commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.api.page_tokens import PageKey
from arco.api.reads.automation_reads import sees_project
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View
from arco.errors import Denied, NotFound
from arco.log.head import KeptGenerations
from arco.notifications.reader import NotificationReader
from arco.notifications.tables import (
    AlertRow,
    NotificationRow,
    NotificationRuleRow,
    NotificationState,
)
from arco.orchestration.limit_report import LimitEntry, limit_entries, named_pools
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.tables import DeploymentRow
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from servo.contract.manifest import Manifest


def require_everything(visible: Visible, what: str) -> None:
    """Raise for who does not see the whole workspace."""
    if not visible.all:
        raise Denied(
            f"{what} need a role on the whole workspace",
            hint="ask an owner for a role on the workspace",
        )


# -- deployments ------------------------------------------------------------------------------


class DeploymentListParameters(PageParameters, frozen=True, kw_only=True):
    project: Annotated[str, Meta(max_length=128, description="Only of this project.")] = ""


def list_deployments(
    view: View, visible: Visible, parameters: DeploymentListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, DeploymentRow]]:
    """List deployments, the newest first."""
    after: Any = window.after
    rows = OrchestrationReader(view.snapshot).deployments(parameters.project or None)
    for row in sorted(rows, key=lambda row: (row.created_at, row.deployment_id), reverse=True):
        key = (row.created_at, row.deployment_id)
        if (after is None or key < after) and sees_project(view, visible, row.project):
            yield key, row


class DeploymentParameters(AtParameters, frozen=True, kw_only=True):
    deployment_id: Annotated[str, Meta(min_length=1, max_length=64)]


def get_deployment(view: View, visible: Visible, parameters: DeploymentParameters) -> DeploymentRow:
    """Show a deployment."""
    return require_deployment(view, visible, parameters.deployment_id)


def require_deployment(view: View, visible: Visible, deployment_id: str) -> DeploymentRow:
    rows = OrchestrationReader(view.snapshot).deployments()
    row = next((row for row in rows if row.deployment_id == deployment_id), None)
    if row is None or not sees_project(view, visible, row.project):
        raise NotFound(f"there is no deployment {deployment_id}")
    return row


class ManifestBody(msgspec.Struct, frozen=True, kw_only=True):
    deployment_id: str
    manifest: Manifest


def get_manifest(view: View, visible: Visible, parameters: DeploymentParameters) -> ManifestBody:
    """Show the manifest of a deployment: all that its code declares."""
    row = require_deployment(view, visible, parameters.deployment_id)
    return ManifestBody(
        deployment_id=row.deployment_id, manifest=view.library.manifest(row.manifest)
    )


# -- limits -----------------------------------------------------------------------------------


class PauseBody(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    by: str
    reason: str


class LimitsBody(msgspec.Struct, frozen=True, kw_only=True):
    paused: PauseBody | None
    """Why no task and no run starts; null if they do."""
    limits: list[LimitEntry]


def get_limits(view: View, visible: Visible, parameters: AtParameters) -> LimitsBody:
    """Show the limits of the workspace with values and use, and whether dispatch is paused."""
    require_everything(visible, "limits")
    return limits_body(view)


def limits_body(view: View) -> LimitsBody:
    reader = OrchestrationReader(view.snapshot)
    control = reader.limits().control
    paused = None
    if control.paused_at is not None:
        paused = PauseBody(at=control.paused_at, by=control.paused_by, reason=control.pause_reason)
    pools = named_pools(reader, view.library)
    return LimitsBody(paused=paused, limits=limit_entries(reader, pools, view.now))


# -- notifications ----------------------------------------------------------------------------


class NotificationListParameters(PageParameters, frozen=True, kw_only=True):
    state: Annotated[list[NotificationState], Meta(max_length=10)] | UnsetType = UNSET


def list_notifications(
    view: View, visible: Visible, parameters: NotificationListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, NotificationRow]]:
    """List notifications and their delivery state, newest first."""
    require_everything(visible, "notifications")
    after: Any = window.after
    states = () if parameters.state is UNSET else tuple(parameters.state)
    if parameters.state is not UNSET and not states:
        return
    # Those before the page are read again: notifications leave for history after days.
    limit = window.limit + (0 if after is None else int(after[3]))
    rows = NotificationReader(view.snapshot).notifications(limit, states)
    for place, row in enumerate(rows):
        key = (row.created_at, row.sequence, row.notification_id)
        if after is None or place >= int(after[3]):
            yield (*key, place + 1), row


def list_alerts(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, AlertRow]]:
    """List open alerts: failures that have not recovered."""
    rows = sorted(
        NotificationReader(view.snapshot).alerts(),
        key=lambda row: (row.raised_at, row.rule_id, row.subject),
        reverse=True,
    )
    after: Any = window.after
    for row in rows:
        key = (row.raised_at, row.rule_id, row.subject)
        is_seen = visible.all or (bool(row.asset) and visible.sees_asset(row.asset))
        if is_seen and (after is None or key < after):
            yield key, row


def list_notification_rules(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, NotificationRuleRow]]:
    """List the rules that deployed projects declare."""
    for row in NotificationReader(view.snapshot).rules():
        after = window.after is None or (row.rule_id,) > window.after
        if after and sees_project(view, visible, row.project):
            yield (row.rule_id,), row


# -- generations ------------------------------------------------------------------------------


class GenerationBody(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    kind: str
    published_at: datetime
    position: int
    """Of the last event of the log that it has."""


def list_generations(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, GenerationBody]]:
    """List the generations that are kept, the newest first."""
    generations = KeptGenerations(view.manifests.floor(), view.generation)
    numbers = reversed(range(len(generations)))
    for place in numbers:
        number = generations[place]
        if window.after is not None and (-number,) <= window.after:
            continue
        head = view.manifests.find(number)
        if head is not None:
            manifest = head.manifest
            yield (
                (-number,),
                GenerationBody(
                    number=manifest.generation,
                    kind=manifest.kind,
                    published_at=manifest.published_at,
                    position=manifest.position,
                ),
            )


class TableBody(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    rows: int
    files: int
    bytes: int


class SnapshotBody(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    published_at: datetime
    log_time: datetime
    position: int
    sha256: str
    tables: list[TableBody]
    """Empty for who does not see the whole workspace. Rows that were changed count twice until
    files are merged."""


def get_snapshot(view: View, visible: Visible, parameters: AtParameters) -> SnapshotBody:
    """Show a generation: its position in the log, and its tables."""
    manifest = view.snapshot.head.manifest
    tables = view.snapshot.tables() if visible.all else {}
    return SnapshotBody(
        kind=manifest.kind,
        published_at=manifest.published_at,
        log_time=manifest.log_time,
        position=manifest.position,
        sha256=view.snapshot.head.sha256,
        tables=[
            TableBody(
                table=name,
                rows=sum(ref.rows for ref in files.files()),
                files=len(files.files()),
                bytes=sum(ref.bytes for ref in files.files() if not ref.table),
            )
            for name, files in tables.items()
        ],
    )


class WorkspaceBody(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    workspace: str
    published_at: datetime
    position: int
    sees: Literal["everything", "namespaces"]
    namespaces: list[str]
    """Those that the caller sees, if that is not everything."""


def get_workspace(view: View, visible: Visible, parameters: AtParameters) -> WorkspaceBody:
    """Show the workspace, and what the caller sees of it."""
    return WorkspaceBody(
        tenant=view.tenant,
        workspace=view.workspace,
        published_at=view.snapshot.published_at,
        position=view.snapshot.position,
        sees="everything" if visible.all else "namespaces",
        namespaces=sorted(visible.namespaces or ()),
    )


_RUNS = Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    read("", Permission.ASSETS_READ, get_workspace),
    listing("/deployments", _RUNS, list_deployments),
    read("/deployments/{deployment_id}", _RUNS, get_deployment),
    read("/deployments/{deployment_id}/manifest", _RUNS, get_manifest),
    read("/limits", _RUNS, get_limits, live=True),
    listing("/notifications", _RUNS, list_notifications),
    listing("/notifications/alerts", _RUNS, list_alerts),
    listing("/notifications/rules", _RUNS, list_notification_rules),
    listing("/generations", Permission.ASSETS_READ, list_generations),
    read("/snapshot", Permission.ASSETS_READ, get_snapshot),
)
