"""A queue within one process, and lost with it; anti-entropy enqueues its messages again."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Sequence

from arco.clock import Clock
from arco.transport.queues.port import PASSES, Admission, Delivery, Message


class MemoryQueue:
    def __init__(self, clock: Clock, claim_s: float = 60.0) -> None:
        self._clock = clock
        self._claim_s = claim_s
        self._condition = threading.Condition()
        self._waiting: list[tuple[int, int, str]] = []
        self._messages: dict[str, Message] = {}
        self._deliveries: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._claims: dict[str, tuple[int, float]] = {}
        """By name: the delivery that holds it, and until when."""
        self._count = 0
        self._passes = 0
        """Messages in a row that were taken before less urgent ones."""
        self._expired_at = clock.monotonic()

    def put(self, messages: Sequence[Message]) -> None:
        with self._condition:
            for message in messages:
                if message.name not in self._messages:
                    self._messages[message.name] = message
                    self._wait(message)
            self._condition.notify_all()

    def take(
        self, limit: int, timeout_s: float, admission: Admission | None = None
    ) -> list[Delivery]:
        deliveries: list[Delivery] = []

        def claimed() -> bool:
            deliveries.extend(self._claim(limit, admission))
            return bool(deliveries)

        with self._condition:
            self._condition.wait_for(claimed, timeout_s)
        return deliveries

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        with self._condition:
            until = self._clock.monotonic() + self._claim_s
            for delivery in deliveries:
                if self._is_claimed(delivery):
                    self._claims[delivery.message.name] = (delivery.number, until)

    def done(self, deliveries: Sequence[Delivery]) -> None:
        self.withdraw([delivery.message.name for delivery in deliveries])

    def release(self, deliveries: Sequence[Delivery]) -> None:
        with self._condition:
            for delivery in deliveries:
                if self._is_claimed(delivery):
                    del self._claims[delivery.message.name]
                    self._wait(delivery.message)
            self._condition.notify_all()

    def withdraw(self, names: Sequence[str]) -> None:
        with self._condition:
            for name in names:
                self._messages.pop(name, None)
                self._claims.pop(name, None)
                self._deliveries.pop(name, None)
                self._lost.pop(name, None)

    def held(self, names: Collection[str]) -> set[str]:
        with self._condition:
            return set(names) & self._messages.keys()

    def _wait(self, message: Message) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (-message.priority, self._count, message.name))

    def _claim(self, limit: int, admission: Admission | None) -> list[Delivery]:
        self._expire()
        deliveries: list[Delivery] = []
        refused: list[tuple[int, int, str]] = []
        until = self._clock.monotonic() + self._claim_s
        if admission is not None:
            admission.keep(self._messages)
        while self._waiting and len(deliveries) < limit:
            place = self._next_place()
            name = place[2]
            message = self._messages.get(name)
            if message is None or name in self._claims:
                continue  # withdrawn since
            if admission is not None and not admission.reserve(name, message.weight):
                refused.append(place)
                continue
            number = self._deliveries[name] = self._deliveries.get(name, 0) + 1
            self._claims[name] = (number, until)
            deliveries.append(Delivery(message, number, self._lost.get(name, 0)))
        for place in refused:
            heapq.heappush(self._waiting, place)
        return deliveries

    def _next_place(self) -> tuple[int, int, str]:
        """The place of the most urgent message; of the least urgent if that was passed often."""
        if self._passes < PASSES:
            place = heapq.heappop(self._waiting)
            is_passing = any(-other[0] < -place[0] for other in self._waiting)
            self._passes = self._passes + 1 if is_passing else 0
            return place
        self._passes = 0
        least = max(urgency for urgency, _, _ in self._waiting)
        place = min(place for place in self._waiting if place[0] == least)
        self._waiting.remove(place)
        heapq.heapify(self._waiting)
        return place

    def _expire(self) -> None:
        now = self._clock.monotonic()
        if self._waiting and now - self._expired_at < self._claim_s / 4:
            return  # there is other work
        self._expired_at = now
        for name, (_, until) in list(self._claims.items()):
            if until < now:
                del self._claims[name]
                self._lost[name] = self._lost.get(name, 0) + 1
                self._wait(self._messages[name])

    def _is_claimed(self, delivery: Delivery) -> bool:
        name = delivery.message.name
        return self._claims.get(name, (0, 0.0))[0] == delivery.number
