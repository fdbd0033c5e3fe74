"""Sending e-mail by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from datetime import UTC
from email.message import EmailMessage
from email.policy import SMTP as POLICY
from email.utils import format_datetime
from typing import Any, cast

from arco.errors import Unavailable
from arco.notifications.channels import SmtpChannel
from arco.notifications.message import NotificationText, plain
from arco.notifications.webhook import HasSocket, TimeLimit, explained


def send_mail(
    channel: SmtpChannel, password: str, message: NotificationText, recipients: Sequence[str]
) -> str:
    """The answer of the server. Raises Unavailable if it refused all recipients.

    If it accepted some of them, the mail counts as sent: these would get it again with each retry.
    """
    try:
        with TimeLimit(channel.timeout_s) as limit, _connected(channel, limit) as server:
            if channel.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if channel.username:
                server.login(channel.username, password)
            refused = server.send_message(
                _email(channel, message, recipients), channel.sender, list(recipients)
            )
    except smtplib.SMTPResponseException as error:
        raise Unavailable(f"{channel.host} responded with {error.smtp_code}") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise Unavailable(_refused(channel, error.recipients)) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Unavailable(f"{channel.host}: {explained(error)}") from None
    if refused:
        return f"taken by {channel.host}, but {_refused(channel, refused)}"
    return f"taken by {channel.host}"


def _refused(channel: SmtpChannel, recipients: dict[str, tuple[int, bytes]]) -> str:
    codes = sorted({code for code, _ in recipients.values()})
    return f"{channel.host} refused {len(recipients)} recipients ({', '.join(map(str, codes))})"


class _Limited:
    """Is known to its time limit before it connects."""

    def __init__(self, limit: TimeLimit, *given: Any, **settings: Any) -> None:
        limit.connection = cast(HasSocket, self)
        super().__init__(*given, **settings)


class _PlainServer(_Limited, smtplib.SMTP):
    pass


class _TlsServer(_Limited, smtplib.SMTP_SSL):
    pass


def _connected(channel: SmtpChannel, limit: TimeLimit) -> smtplib.SMTP:
    settings: dict[str, Any] = {
        "local_hostname": channel.sender.rpartition("@")[2],
        "timeout": channel.timeout_s,
    }
    if channel.security == "tls":
        context = ssl.create_default_context()
        return _TlsServer(limit, channel.host, channel.port, context=context, **settings)
    return _PlainServer(limit, channel.host, channel.port, **settings)


def _email(
    channel: SmtpChannel, message: NotificationText, recipients: Sequence[str]
) -> EmailMessage:
    email = EmailMessage(POLICY)
    email["Subject"] = plain(message.title)
    email["From"] = channel.sender
    email["To"] = ", ".join(recipients)
    email["Date"] = format_datetime(message.created_at.replace(tzinfo=UTC))
    email["Message-ID"] = f"<{message.id}@{channel.sender.rpartition('@')[2]}>"
    email["Auto-Submitted"] = "auto-generated"
    email["X-Arco-Delivery"] = message.id
    email.set_content(message.text)
    return email
