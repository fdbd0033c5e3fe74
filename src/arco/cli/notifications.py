"""`servo notifications`: notifications, their delivery, alerts and rules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import Limit, argument, command, group, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.channel_courier import channel_courier
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Error, Invalid
    from arco.notifications.channels import SmtpChannel
    from arco.notifications.message import NotificationText, message_of
    from arco.notifications.tables import NotificationRow, NotificationState, decode_items
    from servo.contract.address import is_address

app = group("notifications", "Show notifications and open alerts; test channels.")

Id = Annotated[str, argument("NOTIFICATION", "The id of a notification, or its first characters.")]


@command(app, "list", example="servo notifications list --state FAILED", takes=["at"])
def list_(
    session: Session,
    limit: Limit = 20,
    state: Annotated[str | None, option("STATE", "Only notifications in this state.")] = None,
) -> None:
    """List notifications and their delivery state, newest first.

    A notification is PENDING, then SENDING, then DELIVERED, or FAILED after its last attempt.
    """
    if state is not None and state.upper() not in NotificationState.__members__:
        states = ", ".join(NotificationState)
        raise Invalid(f"{state!r} is not a state of a notification", hint=f"one of {states}")
    workspace = session.open().of_all_namespaces("notifications")
    reader = workspace.read.notifications(session.at())
    rows = reader.notifications(limit, () if state is None else (state.upper(),))
    if session.json:
        notifications = [_plain(row) for row in rows]
        render.document({"generation": reader.snapshot.generation, "notifications": notifications})
    elif not rows:
        render.say("there are no notifications" + (f" in state {state.upper()}" if state else ""))
    else:
        headers = ("notification", "state", "rule", "to", "created", "attempts", "what", "answer")
        lines = [
            (
                short(row.notification_id),
                row.state,
                row.rule_id,
                row.receiver,
                row.created_at,
                row.attempts,
                _title(row),
                row.detail or None,
            )
            for row in rows
        ]
        whole = ("notification", "state", "created")
        render.show_table(headers, lines, right=["attempts"], whole=whole)


@command(app, "show", example="servo notifications show 3f9a0c", takes=["at"])
def show(session: Session, notification: Id) -> None:
    """Show a notification: its text, its recipient and its delivery attempts."""
    reader = session.open().read.notifications(session.at())
    row = reader.notification(notification)
    if session.json:
        render.document(_plain(row))
        return
    render.show_fields(
        {
            "notification": row.notification_id,
            "state": row.state,
            "rule": row.rule_id,
            "to": row.receiver,
            "created": row.created_at,
            "attempts": row.attempts,
            "next attempt": row.due_at if row.state == NotificationState.PENDING else None,
            "answer": row.detail or None,
            "finished": row.finished_at,
        }
    )
    render.show_title("message")
    for line in _message(row).text.splitlines():
        render.say(line)


@command(app, "alerts", example="servo notifications alerts", takes=["at"])
def alerts(session: Session) -> None:
    """List open alerts: failures that have not recovered.

    While an alert is open, its subject is not reported again.
    """
    reader = session.open().read.notifications(session.at())
    rows = reader.alerts()
    if session.json:
        render.document({"generation": reader.snapshot.generation, "alerts": rows})
    elif not rows:
        render.say("there are no open alerts")
    else:
        headers = ("rule", "what", "since", "last", "times", "run")
        lines = [
            (
                row.rule_id,
                f"{row.asset or row.subject}: {', '.join(row.events)}",
                row.raised_at,
                row.last_at,
                row.occurrences,
                short(row.last_run_id) or None,
            )
            for row in rows
        ]
        render.show_table(headers, lines, right=["times"], whole=("since", "last", "run"))


@command(app, "rules", example="servo notifications rules", takes=["at"])
def rules(session: Session) -> None:
    """List the rules that deployed projects declare."""
    reader = session.open().read.notifications(session.at())
    rows = reader.rules()
    if session.json:
        render.document({"generation": reader.snapshot.generation, "rules": rows})
    elif not rows:
        render.say("there are no rules; declare one with servo.notify(), and deploy it")
    else:
        headers = ("rule", "on", "assets", "to")
        lines = [
            (r.rule_id, " ".join(r.events), " ".join(r.selection) or "*", " ".join(r.channels))
            for r in rows
        ]
        render.show_table(headers, lines, whole=("rule",))


@command(app, "test", example="servo notifications test ops")
def test(
    session: Session,
    channel: Annotated[str, argument("CHANNEL", "The name of a channel.")],
    to: Annotated[str, option("ADDRESS", "Send to this address, as to an owner.")] = "",
) -> None:
    """Send a test message through a channel of `arco.toml`, and show the response.

    It is sent from this machine, with this machine's secrets. Nothing is stored.
    """
    if to and not is_address(to):
        raise Invalid(f"{to!r} is not an e-mail address", hint="write --to ana@example.org")
    workspace, courier = session.open(), channel_courier(session)
    name = f"{workspace.tenant}/{workspace.name}"
    message = NotificationText(
        id=workspace.ids(),
        rule="",
        workspace=name,
        created_at=workspace.clock.now(),
        attempt=1,
        title=f"[{name}] test of the channel {channel}",
        lines=("This message was sent by servo notifications test.",),
        link=courier.settings.base_url,
    )
    is_mail = isinstance(courier.settings.channel(channel), SmtpChannel)
    if to and not is_mail:
        raise Invalid(f"the channel {channel!r} sends no e-mail", hint="leave out --to")
    try:
        delivered, detail = True, courier.send(channel, message, to)
    except Error as error:
        delivered, detail = False, error.message
    if session.json:
        render.document({"channel": channel, "delivered": delivered, "detail": detail})
    elif delivered:
        render.say(f"delivered: {detail}", "green")
    else:
        render.say(f"not delivered: {detail}", "bold red")
    if not delivered:
        raise typer.Exit(DIFFERENT)


@command(app, "retry", example="servo notifications retry 3f9a0c", takes=["actor"])
def retry(session: Session, notification: Id) -> None:
    """Retry a FAILED notification. An orchestrator sends it."""
    workspace = session.open()
    workspace.commands.notifications.retry(notification)
    row = workspace.read.notifications().notification(notification)
    if session.json:
        render.document(_plain(row))
    else:
        render.say(f"{row.notification_id} is {row.state}")


def _message(row: NotificationRow) -> NotificationText:
    return message_of(row, "")


def _title(row: NotificationRow) -> str:
    return _message(row).title


def _plain(row: NotificationRow) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(row)
    items = [render.plain(item) for item in decode_items(row.items)]
    return {**fields, "items": items, "title": _title(row)}
