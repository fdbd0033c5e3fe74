"""`servo auth keys`: credentials of programs."""

from __future__ import annotations

from typing import Annotated

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group, option

if deferral.LOADED:
    from datetime import datetime

    from arco.cli import render
    from arco.cli.future_times import parse_coming_time
    from arco.cli.security_scope import open_scope
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.security.commands import parse_role
    from arco.security.tables import ApiKeyRow

app = group("auth", "Log in to an API; create and revoke API keys.")
keys = group("keys", "Create, list and revoke API keys.")
app.add_typer(keys)

TenantWide = Annotated[
    bool, flag("--tenant-wide", "For all workspaces of the storage tenant, not only this one.")
]
Namespaces = Annotated[
    list[str] | None,
    option("NAME", "Only in this namespace. Repeatable.", "--namespace", "-n"),
]
NEVER = "never"


@command(
    keys,
    "create",
    example="servo auth keys create ci --role operator --namespace sales --expires 90d\n"
    "servo auth keys create workers --role admin --scope workers.work --kind worker",
    takes=["actor"],
)
def create(
    session: Session,
    name: Annotated[str, argument("NAME", "The name of the key.")],
    role: Annotated[str, option("ROLE", "viewer, operator, editor, admin or owner.")],
    namespace: Namespaces = None,
    scope: Annotated[
        list[str] | None,
        option("PERMISSION", "Restrict the key to this permission of its role. Repeatable."),
    ] = None,
    expires: Annotated[
        str, option("TIME", "When the key expires: 90d, 12h, 2027-01-31, or never.")
    ] = "90d",
    kind: Annotated[str, option("KIND", "api_key, service or worker.")] = "api_key",
    tenant_wide: TenantWide = False,
) -> None:
    """Create an API key, and print it. It is not shown again: the store has only its hash.

    Send it as `Authorization: Bearer KEY`. The key has the permissions of its role in its
    namespaces, or in the whole workspace if none is given, and no permission that its creator
    does not have.
    """
    if kind not in ("api_key", "service", "worker"):
        raise Invalid(f"{kind!r} is not a kind of key", hint="api_key, service or worker")
    workspace = open_scope(session, tenant_wide=tenant_wide)
    new = workspace.commands.security.create_key(
        name,
        parse_role(role),
        namespaces=namespace or (),
        scopes=scope or (),
        expires_at=_end(expires, workspace.clock.now()),
        kind=kind,  # type: ignore[arg-type]
    )
    if session.json:
        render.document({"key": str(new.text), **_plain(new.row)})
        return
    print(new.text)
    end = "does not expire" if new.row.expires_at is None else f"expires {new.row.expires_at:%F}"
    render.note(f"this is the only time that the key is shown; it {end}")


@command(keys, "list", example="servo auth keys list --json", takes=["at"])
def list_(
    session: Session,
    revoked: Annotated[bool, flag("--all", "Include revoked and expired keys.")] = False,
    tenant_wide: TenantWide = False,
) -> None:
    """List API keys with role, expiry and last use, newest first.

    The time of the last use may be up to an hour too early.
    """
    workspace = open_scope(session, tenant_wide=tenant_wide)
    reader = workspace.read.security(session.at())
    now = workspace.clock.now()
    rows = [row for row in reader.api_keys() if revoked or _state(row, now) == "active"]
    if session.json:
        entries = [{**_plain(row), "state": _state(row, now)} for row in rows]
        render.document({"generation": reader.snapshot.generation, "keys": entries})
        return
    if not rows:
        render.say("there are no API keys; see `servo auth keys create --help`")
        return
    headers = ("key", "name", "kind", "role", "namespaces", "scopes", "state", "expires", "used")
    lines = [
        (
            row.key_id,
            row.name,
            row.kind,
            row.role,
            ", ".join(row.namespaces) or "all",
            ", ".join(row.scopes) or "all",
            _state(row, now),
            row.expires_at,
            row.last_used_at,
        )
        for row in rows
    ]
    render.show_table(headers, lines, whole=("key",))


@command(keys, "revoke", example="servo auth keys revoke ci --reason lost", takes=["actor"])
def revoke(
    session: Session,
    key: Annotated[str, argument("KEY", "The id of a key, its first characters, or its name.")],
    reason: Reason = "",
    tenant_wide: TenantWide = False,
) -> None:
    """Revoke an API key. Servers refuse it when they next read the store."""
    workspace = open_scope(session, tenant_wide=tenant_wide)
    row = workspace.read.security().key(key)
    workspace.commands.security.revoke_key(row.key_id, reason=reason)
    row = workspace.read.security().key(row.key_id)
    if session.json:
        render.document(_plain(row))
    else:
        render.say(f"revoked {row.key_id} ({row.name})")


def _end(text: str, now: datetime) -> datetime | None:
    return None if text == NEVER else parse_coming_time(text, now)


def _state(row: ApiKeyRow, now: datetime) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now else "active"


def _plain(row: ApiKeyRow) -> dict[str, object]:
    """Without the hash, which is never shown."""
    fields: dict[str, object] = render.plain(row)
    del fields["secret_hash"]
    return {**fields, "prefix": row.prefix}
