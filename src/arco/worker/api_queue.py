"""The queue of a worker that has no access to the store: a server claims messages for it.

One thread sends requests, which wait at the server for messages: an idle worker sends a few
requests a minute. Slot threads wait for these messages; capacity is reserved before a request.

- A request whose answer was lost is sent again with the same token, and gets the same messages.
- Messages that arrive after the worker was stopped are released at once.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence

from arco.errors import Error, Invalid
from arco.storage.http_client import HttpClient
from arco.transport.queues.capacity import Capacity
from arco.transport.queues.port import Admission, Delivery, Message
from arco.transport.work_messages import ClaimRequest, HeartbeatRequest
from arco.worker.api_client import Claims, WorkApi

log = logging.getLogger(__name__)

IDLE_WAIT_S = 20.0
BUSY_WAIT_S = 2.0
"""A worker with tasks sends its next request soon: it may have more capacity by then."""
RETRY_S = 0.5
MOST_AT_ONCE = 16


class ApiQueue:
    def __init__(
        self,
        api: WorkApi,
        claims: Claims,
        capacity: Capacity,
        ids: Callable[[], str],
        polling: HttpClient,
    ) -> None:
        """`polling` is the client for requests that wait; it is closed at the end."""
        self._api = api
        self._claims = claims
        self._capacity = capacity
        self._ids = ids
        self._polling = polling
        self._changed = threading.Condition()
        self._arrived: deque[Delivery] = deque()
        self._waiting = 0
        self._stopped = False
        self._failed: Error | None = None
        """Why nothing could be claimed; raised in the next thread that waits."""
        self._thread: threading.Thread | None = None

    # -- the worker's side ---------------------------------------------------------------

    def take(
        self, limit: int, timeout_s: float, admission: Admission | None = None
    ) -> list[Delivery]:
        """Messages whose capacity is reserved. `admission` is the worker's own."""
        with self._changed:
            self._begin()
            self._waiting += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._arrived or self._failed, timeout_s)
            finally:
                self._waiting -= 1
            if not self._arrived and self._failed is not None:
                error, self._failed = self._failed, None
                raise error
            return [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        claims = self._claims.tokens(deliveries)
        if claims:
            self._api.heartbeat(HeartbeatRequest(claims=claims, renew=True))

    def done(self, deliveries: Sequence[Delivery]) -> None:
        claims = self._claims.tokens(deliveries)
        if claims:
            self._api.done(claims)
        self._claims.remove(deliveries)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        claims = self._claims.tokens(deliveries)
        self._claims.remove(deliveries)
        if claims:
            self._api.release(claims)

    def stop(self) -> None:
        """Claim nothing more, and release messages that no slot has started."""
        with self._changed:
            self._stopped = True
            left = list(self._arrived)
            self._arrived.clear()
            self._changed.notify_all()
        self._polling.close()
        self._give_back(left)

    # -- requests ------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._poll, name="claims-poll", daemon=True)
            self._thread.start()

    def _poll(self) -> None:
        token = self._ids()
        while True:
            request = self._next_request(token)
            if request is None:
                return
            try:
                tasks = self._api.claim(request, self._polling).tasks
                deliveries = [self._claims.add(task) for task in tasks]
            except Error as error:
                self._fail(error)
                continue  # with the same token
            except Exception as error:
                log.exception("a request for tasks failed and is repeated")
                self._fail(Error(f"{type(error).__name__}: {error}"))
                continue
            token = self._ids()
            self._hand_over(deliveries)

    def _next_request(self, token: str) -> ClaimRequest | None:
        """The next request, when a thread waits and there is capacity; None at the end."""
        capacity = self._capacity
        with self._changed:
            while not self._stopped:
                idle_threads = self._waiting - len(self._arrived)
                reserved = capacity.reserved
                free = capacity.slots - reserved.slots
                if idle_threads > 0 and free > 0:
                    return ClaimRequest(
                        token=token,
                        limit=min(idle_threads, free, MOST_AT_ONCE),
                        slots=capacity.slots,
                        memory_mib=capacity.memory_mib,
                        free_slots=free,
                        free_memory_mib=max(0, capacity.memory_mib - reserved.memory_mib),
                        wait_s=BUSY_WAIT_S if reserved.slots else IDLE_WAIT_S,
                    )
                self._changed.wait(0.5)
        return None

    def _hand_over(self, deliveries: Sequence[Delivery]) -> None:
        refused = []
        with self._changed:
            for delivery in deliveries:
                message = delivery.message
                if self._stopped or not self._capacity.reserve(message.name, message.weight):
                    refused.append(delivery)
                else:
                    self._arrived.append(delivery)
            self._failed = None
            self._changed.notify_all()
        self._give_back(refused)

    def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        with contextlib.suppress(Error):  # then the claims expire
            self.release(deliveries)

    def _fail(self, error: Error) -> None:
        with self._changed:
            if self._stopped:
                return
            self._failed = error
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped, RETRY_S)

    # -- the dispatcher's side, which a worker does not have -------------------------------

    def put(self, messages: Sequence[Message]) -> None:
        raise Invalid("a worker with --api cannot enqueue messages")

    def withdraw(self, names: Sequence[str]) -> None:
        raise Invalid("a worker with --api cannot remove messages")

    def held(self, names: Collection[str]) -> set[str]:
        raise Invalid("a worker with --api cannot read the queue")
