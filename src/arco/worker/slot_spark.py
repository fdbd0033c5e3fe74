"""The supervisor's side of Spark, for one attempt in one slot. The supervisor owns the JVM.

The Spark jobs of a slot that was killed are cancelled here, by their tags.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from arco.clock import Clock
from arco.errors import Error
from arco.spark.host import SparkHost
from arco.tasks.failure import SparkUnavailable
from arco.worker import slot_messages as messages
from arco.worker.slots import Slot

log = logging.getLogger(__name__)

MAX_START_S: Final = 10.0
"""Maximum start time of Spark that does not count for the task."""


class GuestSpark:
    def __init__(self, host: SparkHost | None, slot: Slot, clock: Clock) -> None:
        self._host = host
        self._slot = slot
        self._clock = clock
        self._pool: int | None = None
        self._requested_at: float | None = None
        self._start_s = 0.0
        self.tags: tuple[str, ...] = ()
        """The tags of the attempt's jobs."""

    def start_s(self, now: float) -> float:
        """How long the attempt waited for the start of Spark, which does not count for the task."""
        requested_at = self._requested_at
        waiting = 0.0 if requested_at is None else now - requested_at
        return min(self._start_s + waiting, MAX_START_S)

    def supply(self) -> None:
        """Start Spark if needed, and send its address to the slot. Does not wait."""
        if self._host is None:
            self._slot.send(messages.SparkAddress(unavailable="this worker has no Spark"))
            return
        if self._pool is None:
            self._pool = self._host.enter()
        self._requested_at = self._clock.monotonic()
        self._answer(functools.partial(self._address, self._host, self._pool))

    def _address(self, host: SparkHost, pool: int) -> messages.SparkAddress:
        try:
            port, token = host.address()
            return messages.SparkAddress(port, token, f"slot-{pool}")
        except Error as error:
            lasting = isinstance(error, SparkUnavailable) and error.permanent
            return messages.SparkAddress(
                unavailable=error.message, hint=error.hint, permanent=lasting
            )
        finally:
            if self._requested_at is not None:
                self._start_s += self._clock.monotonic() - self._requested_at
                self._requested_at = None

    def send_status(self, port: int) -> None:
        host = self._host
        if host is not None:
            self._answer(lambda: messages.SparkStatus(*host.status(port)))

    def _answer(self, ask: Callable[[], messages.ToSlot]) -> None:
        """On a thread that may wait for Spark."""

        def send() -> None:
            try:
                answer = ask()
            except Exception as error:
                log.exception("Spark did not answer")
                answer = messages.SparkAddress(unavailable=f"{type(error).__name__}: {error}")
            self._slot.send(answer)

        _asking().submit(send)

    def leave(self, *, killed: bool) -> None:
        if self._host is not None and self._pool is not None:
            self._host.leave(self._pool, self.tags if killed else ())
            self._pool = None


@functools.cache
def _asking() -> ThreadPoolExecutor:
    """One thread for all slots: each thread that calls the JVM also has a thread in the JVM."""
    return ThreadPoolExecutor(1, thread_name_prefix="spark-guests")
