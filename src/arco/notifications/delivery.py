"""The interface for sending notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from arco.errors import Unavailable
from arco.notifications.tables import NotificationRow


class DeliveryOutcome(NamedTuple):
    delivered: bool
    detail: str
    """The answer of the receiver, or the error."""


class Courier(Protocol):
    @property
    def has_channels(self) -> bool:
        """Whether there is anything that it could send to."""

    def serves(self, receiver: str) -> bool:
        """Whether the configuration of this process has the channel of a receiver."""

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        """Send a notification, and call `done` with the outcome, from any thread."""

    def close(self) -> None:
        """Start no further deliveries."""


class NoCourier:
    """Of a process that has no channels."""

    has_channels = False

    def serves(self, receiver: str) -> bool:
        return False

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        raise Unavailable(f"no channel for {row.receiver}")

    def close(self) -> None:
        pass
