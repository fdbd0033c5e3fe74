"""The courier: sends notifications over their channels, and reports the outcomes.

Each channel has its own thread, so a receiver that hangs delays only its own messages. An attempt
ends within the channel's `timeout_s`, long before its claim does.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

import msgspec

from arco.clock import Clock
from arco.epoch import EPOCH
from arco.errors import Error, Invalid
from arco.notifications.channels import (
    NotificationSettings,
    Resolve,
    SlackChannel,
    SmtpChannel,
    WebhookChannel,
    check_url,
)
from arco.notifications.delivery import DeliveryOutcome
from arco.notifications.mail import send_mail
from arco.notifications.message import NotificationText, message_of
from arco.notifications.tables import NotificationRow
from arco.notifications.webhook import explained, post, signature
from servo.contract.manifest import OWNERS, SecretRef, is_secret_reference

log = logging.getLogger(__name__)


class ChannelCourier:
    def __init__(
        self, settings: NotificationSettings, workspace: str, clock: Clock, resolve: Resolve
    ) -> None:
        """`workspace` is its name in messages."""
        self.settings = settings
        self._workspace = workspace
        self._clock = clock
        self._resolve = resolve
        self._queues: dict[str, queue.SimpleQueue[Callable[[], None] | None]] = {}

    @property
    def has_channels(self) -> bool:
        return bool(self.settings.channels)

    def serves(self, receiver: str) -> bool:
        return self._target(receiver)[0] in self.settings.channels

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        channel, _ = self._target(row.receiver)
        if channel not in self._queues:
            work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
            self._queues[channel] = work
            name = f"notifications-{channel}"
            threading.Thread(target=_serve, args=(work,), name=name, daemon=True).start()
        self._queues[channel].put(lambda: done(self.deliver(row)))

    def close(self) -> None:
        for work in self._queues.values():
            work.put(None)
        self._queues.clear()

    def deliver(self, row: NotificationRow) -> DeliveryOutcome:
        """Send a notification now."""
        name, recipient = self._target(row.receiver)
        try:
            message = message_of(row, self._workspace, self.settings.base_url)
            return DeliveryOutcome(True, self.send(name, message, recipient))
        except Error as error:
            return DeliveryOutcome(False, error.message)
        except Exception as error:
            log.exception("notification %s could not be sent", row.notification_id)
            return DeliveryOutcome(False, explained(error))

    def _target(self, receiver: str) -> tuple[str, str]:
        """The channel's name, and whom it writes to if that is an owner."""
        owners, colon, address = receiver.partition(":")
        if owners == OWNERS and colon:
            return self.settings.owners_channel, address
        return receiver, ""

    def send(self, name: str, message: NotificationText, recipient: str = "") -> str:
        """The answer of the receiver. Raises Invalid or Unavailable, without secrets."""
        channel = self.settings.channel(name)
        if isinstance(channel, SmtpChannel):
            recipients = (recipient,) if recipient else channel.to
            if not recipients:
                raise Invalid(f"the channel {name!r} has no recipients", hint='give it to = ["…"]')
            password = self._value(channel.password) if channel.password else ""
            return send_mail(channel, password, message, recipients)
        return self._post(channel, message)

    def _post(self, channel: WebhookChannel | SlackChannel, message: NotificationText) -> str:
        url = self._value(channel.url)
        check_url(url, allow_private=channel.allow_private)
        timestamp = str(int((self._clock.now() - EPOCH).total_seconds()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "arco",
            "X-Arco-Delivery": message.id,
            "X-Arco-Attempt": str(message.attempt),
            "X-Arco-Timestamp": timestamp,
        }
        if isinstance(channel, SlackChannel):
            body = msgspec.json.encode({"text": _slack(message)})
        else:
            body = message.document()
            if channel.secret:
                key = self._value(channel.secret)
                headers["X-Arco-Signature"] = signature(key, timestamp, body)
        return post(
            url,
            body,
            headers,
            timeout_s=channel.timeout_s,
            allow_private=channel.allow_private,
        )

    def _value(self, text: str) -> str:
        value = self._resolve(SecretRef.parse(text)) if is_secret_reference(text) else text
        if not value:
            raise Invalid(f"{text} is empty", hint="set it, or correct the reference")
        return value


def _slack(message: NotificationText) -> str:
    """Escaped, so that nothing in it is a link or a mention."""
    escaped = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    title, _, rest = escaped.partition("\n")
    return f"*{title.replace('*', ' ')}*\n{rest.lstrip()}"


def _serve(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (send := work.get()) is not None:
        try:
            send()
        except Exception:
            log.exception("the outcome of a notification could not be reported")
