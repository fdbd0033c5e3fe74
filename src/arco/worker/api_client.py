"""The routes of a server for workers, as calls; and what a worker has claimed through them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from arco.automation.sensor_events import SensorEvaluated
from arco.clock import Clock
from arco.errors import Corrupt, Denied, Error, Invalid, NotFound, Unauthenticated, Unavailable
from arco.log.append import Receipt
from arco.log.envelope import Event, Payload, make_event
from arco.orchestration.events import TaskFinished, TaskStarted
from arco.security.events import SecretRead
from arco.storage import paths
from arco.storage.http import problem_in
from arco.storage.http_client import HttpAnswer, HttpClient
from arco.transport.liveness import LivenessRecord
from arco.transport.queues.port import Delivery, Message, Weight
from arco.transport.work_messages import (
    ClaimAnswer,
    ClaimedTask,
    ClaimRequest,
    ClaimsRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    ReportedEvent,
    ReportRequest,
    WorkDone,
    WorkSettings,
)

CALL_S = 30.0
WAIT_MARGIN_S = 15.0
"""How much longer than the requested time a server may take to answer."""

S = TypeVar("S", bound=msgspec.Struct)


class WorkApi:
    """Calls of one worker. Each can be repeated: the server performs it once."""

    def __init__(
        self, url: str, tenant: str, workspace: str, name: str, key: str, client: HttpClient
    ) -> None:
        self.url = f"{url.rstrip('/')}/api/v1/workspaces/{tenant}/{workspace}/work"
        self.name = name
        self._key = key
        self._client = client

    def __repr__(self) -> str:
        return f"WorkApi({self.url})"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}", "Arco-Worker": self.name}

    def settings(self) -> WorkSettings:
        return self._call("GET", "settings", None, WorkSettings)

    def claim(self, request: ClaimRequest, client: HttpClient) -> ClaimAnswer:
        """Blocks for `wait_s`; closing `client` ends it."""
        timeout_s = request.wait_s + WAIT_MARGIN_S
        return self._call("POST", "claims", request, ClaimAnswer, client, timeout_s)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        return self._call("POST", "heartbeat", request, HeartbeatAnswer)

    def report(self, request: ReportRequest) -> None:
        self._call("POST", "reports", request, WorkDone)

    def done(self, claims: Sequence[str]) -> None:
        self._call("POST", "done", ClaimsRequest(claims=list(claims)), WorkDone)

    def release(self, claims: Sequence[str]) -> None:
        self._call("POST", "releases", ClaimsRequest(claims=list(claims)), WorkDone)

    def _call(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None,
        answer_type: type[S],
        client: HttpClient | None = None,
        timeout_s: float = CALL_S,
    ) -> S:
        headers = {**self.headers, "Content-Type": "application/json"}
        raw = None if body is None else msgspec.json.encode(body)
        url = f"{self.url}/{self.name}/{path}"
        answer = (client or self._client).send(
            method, url, headers=headers, body=raw, repeat=True, timeout_s=timeout_s
        )
        if answer.status != 200:
            raise _failure(answer, url)
        try:
            return msgspec.json.decode(answer.body, type=answer_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"the answer of {url} cannot be read: {error}") from None


def _failure(answer: HttpAnswer, url: str) -> Error:
    problem = problem_in(answer)
    text = f"{url}: {problem.detail or f'the server answered {answer.status}'}"
    match answer.status:
        case 401:
            return Unauthenticated(text, hint="ARCO_TOKEN must be a valid API key")
        case 403:
            return Denied(text, hint=problem.hint)
        case 404:
            return NotFound(text, hint="check --api, --tenant and --workspace")
        case 400 | 409 | 413 | 415:
            return Invalid(text, hint=problem.hint)
    return Unavailable(text, hint=problem.hint or "try again")


class _Sensor(msgspec.Struct, frozen=True):
    sensor_id: str


class _Request(msgspec.Struct, frozen=True):
    run_id: str
    task_id: str
    attempt: int
    sensor: _Sensor | None = None


class _Envelope(msgspec.Struct, frozen=True):
    request: _Request


class HeldClaim(NamedTuple):
    """A claim of this worker, and its message."""

    task: ClaimedTask
    request: _Request

    @property
    def sensor_id(self) -> str:
        return "" if self.request.sensor is None else self.request.sensor.sensor_id

    def lets_use(self, path: str) -> bool:
        """Whether a path is of the attempt's log, or the marker of its task."""
        of = self.request
        log = f"{paths.LOGS}{of.run_id}/{of.task_id}/{of.attempt}."
        return path.startswith(log) or path == paths.output_commit(of.run_id, of.task_id)


class Claims:
    """What a worker has claimed, and the tokens for it: a few at a time. Shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[tuple[str, int], HeldClaim] = {}
        """By message and delivery."""

    def add(self, task: ClaimedTask) -> Delivery:
        """Remember a claim; the delivery that it is."""
        try:
            request = msgspec.json.decode(task.envelope, type=_Envelope).request
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"the server gave an envelope that cannot be read: {error}") from None
        with self._lock:
            self._claims[task.name, task.number] = HeldClaim(task, request)
        weight = Weight(task.slots, task.memory_mib)
        message = Message(task.name, task.envelope.encode(), task.priority, weight)
        return Delivery(message, task.number, task.lost)

    def remove(self, deliveries: Iterable[Delivery]) -> None:
        with self._lock:
            for delivery in deliveries:
                self._claims.pop((delivery.message.name, delivery.number), None)

    def tokens(self, deliveries: Iterable[Delivery] | None = None) -> list[str]:
        """The tokens of these deliveries; of all if none are given."""
        with self._lock:
            if deliveries is None:
                return [claim.task.claim for claim in self._claims.values()]
            claims = [self._claims.get((d.message.name, d.number)) for d in deliveries]
        return [claim.task.claim for claim in claims if claim is not None]

    def find(self, is_it: Callable[[HeldClaim], bool]) -> ClaimedTask | None:
        """The newest that it is."""
        with self._lock:
            claims = list(self._claims.values())
        return next((claim.task for claim in reversed(claims) if is_it(claim)), None)

    def of_attempt(self, attempt_id: str) -> ClaimedTask | None:
        return self.find(lambda claim: claim.task.attempt_id == attempt_id)


class ApiLedger:
    """Appends a worker's events to the log, through the server."""

    def __init__(
        self,
        api: WorkApi,
        claims: Claims,
        settings: WorkSettings,
        ids: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._api = api
        self._claims = claims
        self._settings = settings
        self._ids = ids
        self._clock = clock
        self._tokens: dict[str, str] = {}
        """By event: the claim on the attempt that it is about."""

    def event(self, payload: Payload) -> Event:
        event = make_event(
            payload,
            id=self._ids(),
            time=self._clock.now(),
            source="worker",
            tenant=self._settings.tenant,
            workspace=self._settings.workspace,
        )
        task = self._claims.find(lambda claim: _is_about(payload, claim))
        if task is not None:
            self._tokens[event.id] = task.claim
        return event

    def new_batch(self) -> str:
        return self._ids()

    def append(self, events: Sequence[Event], *, batch: str, notify: bool = True) -> Receipt:
        tokens = dict.fromkeys(
            self._tokens[event.id] for event in events if event.id in self._tokens
        )
        reported = [
            ReportedEvent(
                id=event.id,
                type=event.type,
                version=event.version,
                time=event.time,
                data=event.data,
            )
            for event in events
        ]
        try:
            self._api.report(ReportRequest(batch=batch, events=reported, claims=list(tokens)))
        except Unauthenticated as error:  # the key may be given back, or replaced
            raise Unavailable(error.message, hint=error.hint) from None
        except Denied as error:  # the server will refuse it again
            raise Invalid(error.message, hint=error.hint) from None
        for event in events:
            self._tokens.pop(event.id, None)
        return Receipt(batch, tuple(event.id for event in events))


def _is_about(payload: Payload, claim: HeldClaim) -> bool:
    match payload:
        case TaskStarted():
            return payload.attempt_id == claim.task.attempt_id
        case TaskFinished():
            return payload.result.attempt_id == claim.task.attempt_id
        case SensorEvaluated():
            return payload.sensor_id == claim.sensor_id
        case SecretRead(sensor_id=""):
            return payload.attempt_id == claim.task.attempt_id
        case SecretRead():
            return payload.sensor_id == claim.sensor_id
    return False


class ApiLiveness:
    """Sends heartbeats through the server; the answer contains the cancelled runs."""

    def __init__(self, api: WorkApi, claims: Claims) -> None:
        self._api = api
        self._claims = claims

    def beat(self, record: LivenessRecord) -> None:
        self._api.heartbeat(HeartbeatRequest(claims=self._claims.tokens(), record=record))

    def end(self, worker_id: str) -> None:
        self._api.heartbeat(HeartbeatRequest(idle=True))

    def cancelled(self, runs: Iterable[str]) -> set[str]:
        answer = self._api.heartbeat(HeartbeatRequest(claims=self._claims.tokens()))
        return set(runs) & set(answer.cancelled_runs)
