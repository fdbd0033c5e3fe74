"""What sends notifications, as orchestrators know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from arco.errors import Unavailable
from arco.notifications.tables import NotificationRow


class DeliveryOutcome(NamedTuple):
    delivered: bool
    detail: str
    """What the receiver answered, or what went wrong."""


class Courier(Protocol):
    @property
    def has_channels(self) -> bool:
        """Whether there is anything that it could send to."""

    def serves(self, receiver: str) -> bool:
        """Whether the configuration of this process has the channel of a receiver."""

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        """Send a notification, and call `done` with what became of it, from any thread."""

    def close(self) -> None:
        """Begin nothing any more."""


class NoCourier:
    """Of a process that has no channels."""

    has_channels = False

    def serves(self, receiver: str) -> bool:
        return False

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        raise Unavailable(f"no channel for {row.receiver}")

    def close(self) -> None:
        pass
