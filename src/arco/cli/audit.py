"""`servo audit`: records of commands and refusals, and their verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Limit, OptionGroup, argument, command, group, option

if deferral.LOADED:
    import msgspec

    from arco.app.domains import event_types
    from arco.cli import render
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.session import Session
    from arco.remote.data_answers import remote_audit_report
    from arco.security.audit_verify import Anchor, verify_audit
    from arco.security.reader import AuditFilter
    from arco.security.tables import AuditRow
    from arco.times import parse_time

app = group("audit", "List, verify and export records of who did what.")


@dataclass(frozen=True)
class AuditConditions(OptionGroup):
    actor: Annotated[
        str, option("NAME", "Only records of this actor: a name, an id or an address.", "--by")
    ] = ""
    action: Annotated[str, option("NAME", "Only this action: TriggerRun, ReadSecret, ….")] = ""
    outcome: Annotated[str, option("NAME", "Only applied, refused, denied or failed.")] = ""
    resource: Annotated[str, option("NAME", "Only records about this id or name.")] = ""
    namespace: Annotated[str, option("NAME", "Only records about this namespace.")] = ""
    request: Annotated[str, option("ID", "Only records of this request.")] = ""
    since: Annotated[
        str | None, option("TIME", "Only records since this time: 2026-01-31, 3d, ….")
    ] = None
    until: Annotated[str | None, option("TIME", "Only records before this time.")] = None

    def filter(self, session: Session) -> AuditFilter:
        now = session.clock().now()
        return AuditFilter(
            actor=self.actor,
            action=self.action,
            outcome=self.outcome,
            resource=self.resource,
            namespace=self.namespace,
            request_id=self.request,
            since=None if self.since is None else parse_time(self.since, now),
            until=None if self.until is None else parse_time(self.until, now),
        )


@command(
    app,
    "list",
    example=(
        "servo audit list --action TriggerRun --since 3d\n"
        "servo audit list --action ReadSecret --resource env:SHOP_TOKEN"
    ),
    takes=["at"],
)
def list_(session: Session, conditions: AuditConditions, limit: Limit = 50) -> None:
    """List records of commands, refused API calls and secret reads, newest first."""
    reader = session.open().read.security(session.at())
    rows = reader.audit(conditions.filter(session), limit=limit)
    if session.json:
        records = [_plain(row) for row in rows]
        render.document({"generation": reader.snapshot.generation, "records": records})
        return
    if not rows:
        render.say("there are no such records")
        return
    headers = ("record", "time", "actor", "action", "resource", "outcome", "from")
    lines = [
        (
            row.position,
            row.recorded_at,
            row.actor or None,
            row.action,
            _resource(row),
            (row.code and f"{row.outcome}: {row.code}") or row.outcome,
            row.address or row.actor_kind,
        )
        for row in rows
    ]
    render.show_table(headers, lines, right=("record",), whole=("action",))


@command(app, "show", example="servo audit show 42", takes=["at"])
def show(
    session: Session, record: Annotated[int, argument("RECORD", "The number of a record.", min=1)]
) -> None:
    """Show one record: who, what, from where, and the rows before and after."""
    row = session.open().read.security(session.at()).audit_record(record)
    if session.json:
        render.document(_plain(row))
        return
    fields = render.plain(row)
    omitted = ("record_id", "request", "changes")
    render.show_fields(
        {
            name.replace("_", " "): value
            for name, value in fields.items()
            if value and name not in omitted
        }
    )
    render.show_title("request")
    render.document(msgspec.json.decode(row.request))
    changes = msgspec.json.decode(row.changes)
    if changes:
        render.show_title("before and after")
        render.document(changes)


@command(
    app,
    "verify",
    example="servo audit verify\nservo audit verify --head 1042:9f86d081…",
    takes=["at"],
)
def verify(
    session: Session,
    head: Annotated[
        str | None,
        option("POSITION:HASH", "A head that was printed earlier and kept outside the store."),
    ] = None,
) -> None:
    """Verify every record against the log, and the hash chain.

    Prints the head of the chain. Keep it outside the store: somebody with write access to the
    store can replace everything in it, but cannot make the chain end in a head that you have
    kept. The exit code is 1 if something differs.
    """
    workspace = session.open()
    anchor = None if head is None else Anchor.parse(head)
    if session.api:
        generation = workspace.read.security(session.at()).snapshot.generation
        report = remote_audit_report(workspace, generation, anchor)
    else:
        report = verify_audit(workspace.read.snapshot(session.at()), event_types(), anchor=anchor)
    if session.json:
        render.document({**render.plain(report), "intact": report.intact})
    else:
        for each in report.problems:
            render.say(f"record {each.position}: {each.problem}", "red")
        state = "intact" if report.intact else "NOT intact"
        render.say(f"{render.count(report.records, 'record')}: the audit log is {state}")
        if report.uncovered:
            render.note(
                f"{render.count(report.uncovered, 'command')} before the first record are missing; "
                "`servo admin rebuild` adds their records"
            )
        if report.rollbacks:
            render.note(
                f"{render.count(len(report.rollbacks), 'rollback')} removed records "
                f"(position {', '.join(map(str, report.rollbacks))}): see `servo admin log show`"
            )
        if report.head:
            render.say(f"head {report.head}")
    if not report.intact:
        raise typer.Exit(DIFFERENT)


@command(app, "export", example="servo audit export --since 2026-01-01 > audit.jsonl", takes=["at"])
def export(session: Session, conditions: AuditConditions) -> None:
    """Print records with their hashes as JSON lines, oldest first."""
    reader = session.open().read.security(session.at())
    for row in reader.audit_export(conditions.filter(session)):
        render.line(_plain(row))


def _resource(row: AuditRow) -> str | None:
    if row.resource_type == "secret":
        return f"{row.resource_id} for {row.resource_name}"
    return row.resource_name or row.resource_id or None


def _plain(row: AuditRow) -> dict[str, object]:
    """A record with its two documents taken apart."""
    fields: dict[str, object] = render.plain(row)
    request, changes = msgspec.json.decode(row.request), msgspec.json.decode(row.changes)
    return {**fields, "request": request, "changes": changes}
