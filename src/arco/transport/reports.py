"""Reports: appends the events of one process to the log, in batches.

Callers submit events and continue. Urgent events (a task has finished) wake the flushing thread;
others (an acknowledgement) wait a moment for more events. All waiting events are one batch, which
makes many small tasks cheap.

After an append whose outcome is unknown, the same events are appended again under the same batch
name, which the log takes once. While many threads report, there is a pause between batches as long
as a put takes: on a slow store batches are twice as large, and a single reporter does not wait. A
result that the log refuses is replaced by a smaller one; other refused events are dropped, with an
error in the process log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from arco.clock import Clock
from arco.errors import Error, Invalid
from arco.log.append import Receipt
from arco.log.envelope import MAX_BATCH_EVENTS, Event, Payload, encode_payload
from arco.orchestration.events import TaskFinished
from arco.orchestration.results import UNRECORDED, finished, unrecorded, whole
from arco.storage.outage import Outage

log = logging.getLogger(__name__)

BATCH_BYTES = 4 << 20
DRAIN_S = 10.0
"""How long a process retries its reports at its end if the store fails."""
WhenDone = Callable[[], None]
PendingReport = tuple[Event, WhenDone | None]


class AppendedBatch(NamedTuple):
    name: str
    events: Sequence[Event]


class EventLog(Protocol):
    """Where reports go: the log, or a server that appends them."""

    def event(self, payload: Payload) -> Event:
        """Wrap a payload for this workspace."""

    def new_batch(self) -> str:
        """A name for a batch: events that are appended again under it are in the log once."""

    def append(self, events: Sequence[Event], *, batch: str, notify: bool) -> Receipt:
        """Make events durable. Raises Invalid, or Unavailable if the outcome is unknown."""


class Reports:
    def __init__(
        self,
        ledger: EventLog,
        clock: Clock,
        *,
        wake: Callable[[], None] = lambda: None,
        linger_s: float = 0.05,
    ) -> None:
        """`wake` is called for urgent events."""
        self._ledger = ledger
        self._clock = clock
        self._wake = wake
        self._linger_s = linger_s
        self._condition = threading.Condition()
        self._flushing = threading.RLock()
        self._waiting: list[PendingReport] = []
        self._since = 0.0
        self._urgent = False
        self._unknown: tuple[str, int] | None = None
        """The batch whose outcome is unknown, and how many of those that wait it has."""

    def submit(
        self, payloads: Sequence[Payload], *, urgent: bool = True, done: WhenDone | None = None
    ) -> None:
        """Submit events. `done` is called once they are durable, or were replaced or dropped
        because the log refuses them."""
        events = [self._ledger.event(payload) for payload in payloads]
        if not events:
            _call(done)
            return
        with self._condition:
            if not self._waiting:
                self._since = self._clock.monotonic()
            self._waiting += [(event, None) for event in events[:-1]]
            self._waiting.append((events[-1], done))
            self._urgent = self._urgent or urgent
            self._condition.notify_all()
        if urgent:
            self._wake()

    @property
    def due_in_s(self) -> float | None:
        """Seconds until the waiting events are due; None if there are none."""
        with self._condition:
            if not self._waiting:
                return None
            if self._urgent:
                return 0.0
            return max(0.0, self._since + self._linger_s - self._clock.monotonic())

    def flush(self) -> list[AppendedBatch]:
        """Append all waiting events; returns the batches. After Unavailable they wait.

        One thread at a time, so that failed events go before later ones.
        """
        batches: list[AppendedBatch] = []
        with self._flushing:
            with self._condition:
                left = len(self._waiting)
            while left > 0:
                reports = self._take()
                if not reports:
                    break  # one of the callbacks flushed them
                left -= len(reports)
                batches += self._append(reports)
        return batches

    def _take(self) -> list[PendingReport]:
        with self._condition:
            if self._unknown is not None:
                count = self._unknown[1]
                reports, self._waiting = self._waiting[:count], self._waiting[count:]
            else:
                reports, self._waiting = _first(self._waiting)
            if not self._waiting:
                self._urgent = False
            return reports

    def _append(self, reports: list[PendingReport]) -> list[AppendedBatch]:
        """Append events; in halves if the log refuses the batch. After an error the rest waits."""
        batches: list[AppendedBatch] = []
        parts = [reports]
        repeated = self._unknown[0] if self._unknown is not None else ""
        self._unknown = None
        while parts:
            part = parts.pop(0)
            events = [event for event, _ in part]
            batch, repeated = repeated or self._ledger.new_batch(), ""
            try:
                self._ledger.append(events, batch=batch, notify=False)
                batches.append(AppendedBatch(batch, events))
            except Invalid as refused:
                if len(part) > 1:
                    half = len(part) // 2
                    parts[:0] = [part[:half], part[half:]]
                    continue
                event, done = part[0]
                instead = _instead(event, refused)
                if instead is not None:
                    parts.insert(0, [(instead, done)])
                    continue
                log.exception(
                    "report %s (%s) cannot be appended, and is dropped", event.id, event.type
                )
            except BaseException:
                self._unknown = (batch, len(part))  # it may have arrived nevertheless
                self._put_back([each for some in [part, *parts] for each in some])
                raise
            for _, done in part:
                _call(done)
        return batches

    def _put_back(self, reports: list[PendingReport]) -> None:
        with self._condition:
            self._waiting = reports + self._waiting
            self._urgent = True

    def run(self, stop: threading.Event, *, drain_s: float = DRAIN_S) -> None:
        """Flush whenever something is due, until `stop` is set and nothing waits.

        After `stop` is set, failed appends are retried for `drain_s`.
        """
        outage = Outage(self._clock, "reports", patient=True)
        deadline: float | None = None
        resting_until = 0.0
        while True:
            with self._condition:
                due = self.due_in_s
                if due is None and stop.is_set():
                    return
                if due != 0.0 and not stop.is_set():
                    self._condition.wait(0.5 if due is None else min(due, 0.5))
                    continue
            began = self._clock.monotonic()
            if began < resting_until and not stop.is_set():
                stop.wait(resting_until - began)
                continue
            pause_s = self.try_to_flush(outage)
            ended = self._clock.monotonic()
            resting_until = ended + min(self._linger_s, ended - began)
            if not stop.is_set():
                stop.wait(pause_s)
                continue
            now = self._clock.monotonic()
            deadline = now + drain_s if deadline is None else deadline
            if pause_s and now >= deadline:
                log.error("%d reports were not appended: %s", self.waiting, outage.text)
                return
            self._clock.sleep(min(pause_s, 0.5))

    @property
    def waiting(self) -> int:
        """How many events wait to be appended."""
        with self._condition:
            return len(self._waiting)

    def try_to_flush(self, outage: Outage) -> float:
        """How long to wait after it because the store fails."""
        try:
            self.flush()
        except Error as error:
            return outage.failed(error)
        except Exception as error:
            log.exception("will report again")
            return outage.failed(Error(f"{type(error).__name__}: {error}"))
        outage.passed()
        return 0.0


def _instead(event: Event, refused: Invalid) -> Event | None:
    """The replacement of a result that the log refuses.

    An attempt without a result would be waited for until its worker counts as dead.
    """
    if event.type != TaskFinished.TYPE:
        return None
    log.error("the result %s cannot be appended as it is: %s", event.id, refused)
    result = whole(msgspec.json.decode(event.data, type=TaskFinished))
    data = encode_payload(finished(result))
    if len(data) >= len(event.data):
        if result.error is not None and result.error.code == UNRECORDED:
            return None  # this was its replacement
        data = encode_payload(TaskFinished(result=unrecorded(result, refused.message)))
    return msgspec.structs.replace(event, data=data)


def _call(done: WhenDone | None) -> None:
    """An error in one callback does not stop the next ones."""
    if done is None:
        return
    try:
        done()
    except Exception:
        log.exception("what was to happen after a report did not")


def _first(waiting: list[PendingReport]) -> tuple[list[PendingReport], list[PendingReport]]:
    """As many events as fit into one batch (at least one), and the rest."""
    size = 0
    for i, (event, _) in enumerate(waiting):
        size += len(event.data) + 400
        if i >= MAX_BATCH_EVENTS or (size > BATCH_BYTES and i > 0):
            return waiting[:i], waiting[i:]
    return waiting, []
