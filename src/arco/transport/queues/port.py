"""The queue port. Delivery is at least once, and in any order.

What every queue promises, and one conformance suite checks:

- A message that was put is delivered until it is done.
- While a worker renews its claim, no other worker gets the message.
- A claim that is neither renewed nor released expires, and the message is delivered again, with a
  greater `delivery`.
- Putting a name that the queue has changes nothing.
- Of ten messages in a row that a worker takes while less urgent ones wait, one is of the least
  urgent: what waits behind a steady stream of others is not starved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence
from typing import Protocol

from msgspec import Struct

from arco.errors import Invalid

NAME = r"[A-Za-z0-9_-]{1,200}"
_NAME = re.compile(NAME)


PASSES = 9
"""Maximum number of consecutive messages that are claimed before less urgent ones."""


class Weight(Struct, frozen=True):
    """The resources of a worker that a task uses."""

    slots: int = 1
    memory_mib: int = 0


class Message(Struct, frozen=True):
    name: str
    """Names the delivery, and makes putting it twice harmless. The same name always goes
    with the same priority and weight."""
    body: bytes
    priority: int = 0
    """Greater is delivered first, as best effort."""
    weight: Weight = Weight()

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise Invalid(
                f"{self.name[:100]!r} cannot name a message",
                hint="use up to 200 of A-Z, a-z, 0-9, '_' and '-'",
            )


class Delivery(Struct, frozen=True):
    message: Message
    number: int
    """1 for the first; greater each time that a claim ended without an answer."""
    lost: int = 0
    """How many earlier claims have expired without a release."""


class Admission(Protocol):
    """Decides which messages a queue may claim for a worker."""

    def reserve(self, name: str, weight: Weight) -> bool:
        """Reserve capacity for a message until `release`. False if there is none."""

    def release(self, weight: Weight) -> None:
        """Release the capacity of a message."""

    def keep(self, names: Container[str]) -> None:
        """Forget all messages but these, which can be claimed."""


class Queue(Protocol):
    def put(self, messages: Sequence[Message]) -> None:
        """Enqueue messages. Raises Unavailable if the outcome is unknown for some."""

    def take(
        self, limit: int, timeout_s: float, admission: Admission | None = None
    ) -> list[Delivery]:
        """Claim up to `limit` messages, waiting for the first no longer than `timeout_s`.

        With an `admission`, only messages for which it has room, which they then take.
        """

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        """Keep claims. Best effort: a claim may have ended."""

    def done(self, deliveries: Sequence[Delivery]) -> None:
        """Messages are finished, and not to be delivered again."""

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Release claims, so that others get the messages at once."""

    def withdraw(self, names: Sequence[str]) -> None:
        """Remove messages that are not needed any more. Best effort."""

    def held(self, names: Collection[str]) -> set[str]:
        """Those of the names whose messages are waiting, or claimed."""
