"""`servo roles`: role bindings."""

from __future__ import annotations

from typing import Annotated

from arco.cli import deferral
from arco.cli.auth import TenantWide
from arco.cli.options import Reason, argument, command, group, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.security_scope import open_scope
    from arco.cli.session import Session
    from arco.security.caller import Caller
    from arco.security.commands import parse_role
    from arco.security.directory import TENANT_WORKSPACE
    from arco.security.subjects import parse_subject

app = group("roles", "Grant and revoke roles for users, groups and keys.")

Subject = Annotated[
    str, argument("SUBJECT", "user:EMAIL, subject:ID (of the OIDC issuer), group:NAME or key:ID.")
]
Namespace = Annotated[
    str, option("NAME", "In this namespace instead of the whole workspace.", "--namespace", "-n")
]


@command(app, "list", example="servo roles list --namespace sales", takes=["at"])
def list_(session: Session, namespace: Namespace = "", tenant_wide: TenantWide = False) -> None:
    """List role bindings: those of the workspace first, then those of namespaces."""
    workspace = open_scope(session, tenant_wide=tenant_wide)
    reader = workspace.read.security(session.at())
    rows = [row for row in reader.bindings() if not namespace or row.namespace == namespace]
    if session.json:
        render.document({"generation": reader.snapshot.generation, "bindings": rows})
    elif not rows:
        render.say("no roles are granted; see `servo roles grant --help`")
    else:
        headers = ("subject", "role", "namespace", "granted", "by", "reason")
        lines = [
            (r.subject, r.role, r.namespace or "all", r.granted_at, r.granted_by, r.reason or None)
            for r in rows
        ]
        render.show_table(headers, lines, whole=("subject",))


@command(
    app,
    "grant",
    example="servo roles grant user:ann@example.com owner\n"
    "servo roles grant group:sales-team editor --namespace sales",
    takes=["actor"],
)
def grant(
    session: Session,
    subject: Subject,
    role: Annotated[str, argument("ROLE", "viewer, operator, editor, admin or owner.")],
    namespace: Namespace = "",
    reason: Reason = "",
    tenant_wide: TenantWide = False,
) -> None:
    """Grant a role. It replaces the role that the subject has in the same place.

    You can only grant permissions that you have yourself. With direct access to the store you
    have all permissions.
    """
    workspace = open_scope(session, tenant_wide=tenant_wide)
    granted = parse_role(role)
    workspace.commands.security.grant(subject, granted, namespace=namespace, reason=reason)
    row = workspace.read.security().binding(parse_subject(subject), namespace)
    if session.json:
        render.document(row)
    elif row is not None:
        render.say(f"{row.subject} is {row.role} {_where(workspace, namespace)}")


@command(
    app,
    "revoke",
    example="servo roles revoke group:sales-team --namespace sales",
    takes=["actor"],
)
def revoke(
    session: Session,
    subject: Subject,
    namespace: Namespace = "",
    reason: Reason = "",
    tenant_wide: TenantWide = False,
) -> None:
    """Revoke the role that a subject has in the workspace, or in one namespace.

    The last owner of a workspace cannot be removed: add another owner first.
    """
    workspace = open_scope(session, tenant_wide=tenant_wide)
    workspace.commands.security.revoke(subject, namespace=namespace, reason=reason)
    parsed = parse_subject(subject)
    if session.json:
        render.document({"subject": parsed, "namespace": namespace, "role": None})
    else:
        render.say(f"{parsed} has no role {_where(workspace, namespace)} any more")


@command(app, "show", example="servo roles show group:sales-team", takes=["at"])
def show(session: Session, subject: Subject) -> None:
    """Show the roles of a subject in this workspace, and what they allow.

    Tenant-wide roles are included. Roles of a user's groups are not: groups are only known from
    the issuer's token.
    """
    workspace = session.open()
    parsed = parse_subject(subject)
    reader = workspace.read.security(session.at())
    tenant = open_scope(session, tenant_wide=True).read.security()
    grants = (
        *reader.directory().grants([parsed], workspace.tenant, workspace.name),
        *tenant.directory().grants([parsed], workspace.tenant, TENANT_WORKSPACE),
    )
    caller = Caller(kind="user", id=parsed, grants=grants).at(workspace.tenant, workspace.name)
    in_workspace = sorted(caller.permissions())
    places = sorted({grant.scope.namespace for grant in grants} - {""})
    by_namespace = {name: sorted(caller.permissions(name)) for name in places}
    if session.json:
        render.document(
            {
                "subject": parsed,
                "grants": [{"role": g.role, "scope": str(g.scope)} for g in grants],
                "permissions": in_workspace,
                "namespaces": by_namespace,
            }
        )
        return
    if not grants:
        render.say(f"{parsed} has no roles here")
        return
    render.show_fields({"subject": parsed})
    lines = [(str(g.scope), g.role) for g in grants]
    render.show_table(("where", "role"), lines, whole=("where",))
    if in_workspace:
        render.say(f"in all of the workspace: {', '.join(in_workspace)}")
    for name, permissions in by_namespace.items():
        render.say(f"in {name}: {', '.join(permissions)}")


def _where(workspace: Workspace, namespace: str) -> str:
    if workspace.name == TENANT_WORKSPACE:
        return f"in all workspaces of {workspace.tenant}"
    return f"in the namespace {namespace}" if namespace else "in the workspace"
