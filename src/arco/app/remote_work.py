"""The server's side of workers that have no access to the store.

It does for them what a worker with access does itself: claims messages in their names, verifies
envelopes, renews claims and liveness records, appends reports. Its state (a worker's queue and last
answer) can be created again by any server of the store.

- Claims are objects in the queue, with the worker's name. A token that the worker is given names
  one; with it any server goes on with the claim.
- A claim whose answer was lost is given again to a request with the same token. If the server was
  lost with it, the claim expires.
- A report is a batch with a name of the worker's choice: the log takes it once.
- A report counts only for an attempt, an asset and a partition that the worker was given.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from arco.automation.sensor_evaluations import definition_of
from arco.automation.sensor_events import SensorEvaluated
from arco.automation.sensor_tables import SENSORS
from arco.clock import Clock
from arco.errors import Corrupt, Denied, Error, Invalid, NotFound, Unauthenticated
from arco.log.append import Ledger
from arco.log.envelope import Event, make_event
from arco.orchestration.cancel_notes import Cancellations
from arco.orchestration.events import TaskFinished, TaskStarted
from arco.orchestration.input_lists import whole
from arco.orchestration.results import whole as whole_result
from arco.security.events import SecretRead
from arco.state.core import Core
from arco.storage import paths
from arco.transport.liveness import beat
from arco.transport.queues.capacity import Capacity, Reserved
from arco.transport.queues.objectstore import ObjectStoreQueue, claimed_message, renewed_at
from arco.transport.queues.port import Delivery
from arco.transport.task_envelope import EnvelopeSigner, UnknownKey, open_unsigned
from arco.transport.work_grants import (
    GrantSigner,
    ObjectRules,
    WorkGrant,
    grant_of,
    is_read_of,
    is_result_of,
    task_grant_of,
    task_rules,
)
from arco.transport.work_messages import (
    ClaimedTask,
    ClaimRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    NewVersions,
    ReportedEvent,
    ReportRequest,
)
from arco.worker.sensor_versions import new_versions
from arco.worker.service import MAX_DELIVERIES, STOP_S
from arco.worker.staleness import Staleness
from servo.contract.task import TaskRequest

log = logging.getLogger(__name__)

WorkerFact = TaskStarted | TaskFinished | SensorEvaluated | SecretRead
"""What a worker may report."""
CHECKED_S: Final = 5.0
"""How long the result of a check of a claim is cached."""
RENEWED_CLAIMS: Final = 10
"""A task token ends when its claim was not renewed for this many times its duration."""
KEPT_WORKERS: Final = 1_000
KEPT_RULES: Final = 1_000


class _Session:
    """A server's state of one worker."""

    def __init__(self, queue: ObjectStoreQueue, clock: Clock) -> None:
        self.queue = queue
        self.clock = clock
        self.lock = threading.Lock()
        self.capacity = Capacity(1, clock)
        self.answered: tuple[str, list[ClaimedTask]] = ("", [])
        self.waits_until = float("-inf")

    def admission(self, request: ClaimRequest) -> Capacity:
        """The capacity that the worker reports; waiting times of messages are kept."""
        capacity = self.capacity
        if (capacity.slots, capacity.memory_mib) != (request.slots, request.memory_mib):
            self.capacity = capacity = Capacity(
                request.slots, self.clock, memory_mib=request.memory_mib
            )
        capacity.reserved = Reserved(
            max(0, request.slots - request.free_slots),
            max(0, request.memory_mib - request.free_memory_mib),
        )
        return capacity


class _CheckedRules(msgspec.Struct):
    rules: ObjectRules
    checked_at: float


class RemoteWork:
    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        signer: EnvelopeSigner,
        grants: GrantSigner,
        *,
        claim_s: float = 60.0,
    ) -> None:
        self._core = core
        self._ledger = ledger
        self._signer = signer
        self._grants = grants
        self.claim_s = claim_s
        self._staleness = Staleness(core.snapshot, core.clock)
        self._cancellations = Cancellations(core.store, core.snapshot)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._rules: OrderedDict[tuple[str, int, str], _CheckedRules] = OrderedDict()

    @property
    def _tenant(self) -> str:
        return self._core.manifests.tenant

    @property
    def _workspace(self) -> str:
        return self._core.manifests.workspace

    # -- claims --------------------------------------------------------------------------

    def claim(self, worker: str, caller: str, request: ClaimRequest) -> list[ClaimedTask]:
        """Claim messages that exist now, for a worker. Does not wait."""
        session = self._session(worker)
        with session.lock:
            token, tasks = session.answered
            if token == request.token and tasks:
                return tasks
            if self._core.clock.monotonic() < session.waits_until or not request.free_slots:
                return []
            limit = min(request.limit, request.free_slots)
            # Not 0: that would list each time, and many requests come together.
            deliveries = session.queue.take(limit, 0.001, session.admission(request))
            tasks = []
            for delivery in deliveries:
                task = self._claimed(session, worker, caller, delivery)
                if task is not None:
                    tasks.append(task)
            session.answered = (request.token, tasks)
            return tasks

    def _claimed(
        self, session: _Session, worker: str, caller: str, delivery: Delivery
    ) -> ClaimedTask | None:
        """The task for the worker; None for a message that no worker can run."""
        queue, message = session.queue, delivery.message
        try:
            request = self._opened(message.body)
            if self._is_over(delivery, request):
                log.info("message %s belongs to an attempt that has ended", message.name)
                queue.done([delivery])
                return None
            nonce = queue.nonce(delivery)
        except UnknownKey as error:
            log.error("cannot open message %s: %s", message.name, error)
            session.waits_until = self._core.clock.monotonic() + STOP_S
            act = queue.done if delivery.number >= MAX_DELIVERIES else queue.release
            act([delivery])
            return None
        except (Denied, Invalid) as error:
            log.error("refused message %s: %s", message.name, error)
            queue.done([delivery])
            return None
        except Error:  # of the store: others, or the next request, look again
            with contextlib.suppress(Error):
                queue.release([delivery])
            return None
        version = self._core.ids()
        grant = grant_of(
            request,
            delivery,
            worker=worker,
            caller=caller,
            version=version,
            nonce=nonce,
            now=self._core.clock.now(),
        )
        return ClaimedTask(
            name=message.name,
            priority=message.priority,
            slots=message.weight.slots,
            memory_mib=message.weight.memory_mib,
            number=delivery.number,
            lost=delivery.lost,
            envelope=message.body.decode(),
            attempt_id=request.attempt_id,
            version=version,
            claim=self._grants.sign(grant),
            access=self._grants.sign(task_grant_of(grant, request)),
        )

    def _opened(self, body: bytes) -> TaskRequest:
        return self._signer.open(body, tenant=self._tenant, workspace=self._workspace)

    def _is_over(self, delivery: Delivery, request: TaskRequest) -> bool:
        if request.sensor is not None:
            return False
        if delivery.number > 1 or request.redelivery > 0:
            return self._staleness.is_stale(request)
        return self._staleness.is_over(request)

    def done(self, worker: str, caller: str, claims: Sequence[str]) -> None:
        """Acknowledge tasks: their results are in the log."""
        deliveries = [grant.delivery for grant in self._held(worker, caller, claims)]
        self._session(worker).queue.done(deliveries)

    def release(self, worker: str, caller: str, claims: Sequence[str]) -> None:
        """Release claims, so that other workers get the tasks at once."""
        session = self._session(worker)
        claimed = []
        for grant in self._held(worker, caller, claims):
            # A release puts the claim: it would create an ended one again.
            with contextlib.suppress(NotFound):
                renewed_at(self._core.store, grant.delivery)
                claimed.append(grant.delivery)
        session.queue.release(claimed)

    def heartbeat(self, worker: str, caller: str, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Renew the worker's claims and its liveness record."""
        held = []
        for token in request.claims:
            # An invalid one must not end the others.
            with contextlib.suppress(Denied):
                held.append(self.claim_grant(worker, caller, token))
        if request.renew:
            queue = self._session(worker).queue
            for grant in held:
                queue.adopt(grant.delivery, grant.nonce)
            queue.renew([grant.delivery for grant in held])
        if request.record is not None:
            attempts = {grant.attempt_id for grant in held}
            # It cannot renew what it was not given.
            own = {id: each for id, each in request.record.attempts.items() if id in attempts}
            record = msgspec.structs.replace(request.record, worker_id=worker, attempts=own)
            beat(self._core.store, record)
        elif request.idle:
            self._core.store.delete(paths.liveness(worker))
        runs = {grant.run_id for grant in held if not grant.sensor_id}
        cancelled = self._cancellations.among(runs) if runs else set()
        return HeartbeatAnswer(cancelled_runs=sorted(cancelled))

    def _held(self, worker: str, caller: str, tokens: Sequence[str]) -> list[WorkGrant]:
        return [self.claim_grant(worker, caller, token) for token in tokens]

    def claim_grant(self, worker: str, caller: str, token: str) -> WorkGrant:
        """The grant of a claim token of this worker. Raises Denied."""
        grant = self._grants.read(token, "claim", self._core.clock.now())
        if (grant.tenant, grant.workspace) != (self._tenant, self._workspace):
            raise Denied("this claim belongs to another workspace")
        if (grant.worker, grant.caller) != (worker, caller):
            raise Denied("this claim belongs to another worker")
        return grant

    def _session(self, worker: str) -> _Session:
        with self._lock:
            session = self._sessions.pop(worker, None)
            if session is None:
                core = self._core
                queue = ObjectStoreQueue(
                    core.store, core.clock, worker, core.ids, claim_s=self.claim_s
                )
                session = _Session(queue, core.clock)
            self._sessions[worker] = session
            if len(self._sessions) > KEPT_WORKERS:
                self._sessions.popitem(last=False)
            return session

    # -- reports -------------------------------------------------------------------------

    def report(self, worker: str, caller: str, request: ReportRequest) -> None:
        """Append events of attempts that the worker was given. Raises Denied for others."""
        held = self._held(worker, caller, request.claims)
        events = [self._event(worker, held, each) for each in request.events]
        self._ledger.append(events, batch=request.batch)

    def _event(self, worker: str, held: Sequence[WorkGrant], reported: ReportedEvent) -> Event:
        payload = self._decoded(reported)
        if isinstance(payload, SensorEvaluated):
            right = any(g.sensor_id and g.sensor_id == payload.sensor_id for g in held)
            own = payload.worker_id == worker
        elif isinstance(payload, TaskStarted):
            named = (payload.run_id, payload.task_id, payload.attempt_id)
            right, own = any(grant.names == named for grant in held), payload.worker_id == worker
        elif isinstance(payload, SecretRead):
            right = any(is_read_of(grant, payload) for grant in held)
            own = payload.worker_id == worker
        else:
            result = whole_result(payload)
            right = any(is_result_of(grant, result) for grant in held)
            own = result.worker_id == worker
        if not right:
            raise Denied(f"event {reported.id} does not belong to an attempt of this worker")
        if not own:
            raise Denied(f"event {reported.id} names another worker")
        event = make_event(
            payload,
            id=reported.id,
            time=reported.time,
            source="worker",
            tenant=self._tenant,
            workspace=self._workspace,
            actor=f"worker:{worker}",
        )
        return msgspec.structs.replace(event, data=reported.data, version=reported.version)

    def _decoded(self, reported: ReportedEvent) -> WorkerFact:
        try:
            payload = self._core.types.decode(reported.type, reported.version, reported.data)
        except Corrupt as error:
            raise Invalid(f"event {reported.id}: {error.message}") from None
        if isinstance(payload, WorkerFact):
            return payload
        raise Denied(f"a worker does not report events of type {reported.type[:100]!r}")

    # -- objects -------------------------------------------------------------------------

    def new_versions(self, sensor_id: str, cursor: str) -> NewVersions:
        """The new versions for a sensor of an asset of this workspace, after its cursor."""
        snapshot = self._core.snapshot()
        row = snapshot.get(SENSORS, sensor_id)
        if row is None:
            raise NotFound(f"there is no sensor {sensor_id}")
        sensor = definition_of(row)
        if sensor.type != "asset" or sensor.workspace not in ("", self._workspace):
            raise Denied(f"{sensor_id} waits for no asset of this workspace")
        return new_versions(snapshot, self._workspace, sensor.asset, cursor)

    def is_task_token(self, token: str) -> bool:
        return self._grants.is_task_token(token)

    def task_grant(self, token: str) -> WorkGrant:
        """The grant of a task token. Raises Denied."""
        grant = self._grants.read(token, "task", self._core.clock.now())
        if (grant.tenant, grant.workspace) != (self._tenant, self._workspace):
            raise Unauthenticated("this token belongs to another workspace")
        return grant

    def task_rules(self, grant: WorkGrant) -> ObjectRules:
        """The objects of an attempt, as long as the claim on it counts. Raises Denied."""
        key = (grant.message, grant.number, grant.nonce)
        now = self._core.clock.monotonic()
        with self._lock:
            checked = self._rules.get(key)
        if checked is not None and now - checked.checked_at < CHECKED_S:
            return checked.rules
        try:
            age = self._core.store_clock.estimate() - renewed_at(self._core.store, grant.delivery)
            if age > timedelta(seconds=RENEWED_CLAIMS * self.claim_s):
                raise NotFound("the claim was not renewed")
            if checked is None:
                checked = _CheckedRules(self._rules_of(grant), now)
        except NotFound:
            raise Denied(
                "the attempt has ended, or another worker has it",
                hint="no action is needed: the task continues on another worker, or has ended",
            ) from None
        checked.checked_at = now
        with self._lock:
            self._rules[key] = checked
            if len(self._rules) > KEPT_RULES:
                self._rules.popitem(last=False)
        return checked.rules

    def _rules_of(self, grant: WorkGrant) -> ObjectRules:
        body = claimed_message(self._core.store, grant.delivery, grant.nonce)
        # Its signature was verified when it was claimed; a token that is signed names it.
        request = open_unsigned(body, tenant=self._tenant, workspace=self._workspace)
        if request.attempt_id != grant.attempt_id:
            raise NotFound("the message is another attempt's")
        full = msgspec.structs.replace(
            request,
            inputs=tuple(whole(self._core.store, ref) for ref in request.inputs),
            references=tuple(whole(self._core.store, ref) for ref in request.references),
        )
        return task_rules(grant, full)
