"""Messages to webhook sensors from programs that sign them, and have no API key.

Signatures are those of the Standard Webhooks specification: `webhook-id`, `webhook-timestamp` and
`webhook-signature`, which is HMAC-SHA256 over `{id}.{timestamp}.{body}` with the sensor's secret.
The body is signed as it was sent. A timestamp is good for five minutes, and an id counts once.

Only a caller with a valid signature learns whether a sensor exists: all other answers are the same.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import logging
from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final, NamedTuple

import msgspec
from litestar import Request

from arco.api.exchange import Answer, RequestHeaders, exchange_of
from arco.api.problems import ApiError
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.clock import Clock
from arco.errors import NotFound
from arco.plain_json import plain
from arco.security.caller import Caller
from arco.tasks.failure import TaskFailed
from arco.worker.secrets import SecretRegistry
from servo.contract.manifest import SecretRef
from servo.contract.sensing import MAX_MESSAGE_ID_BYTES, MAX_PAYLOAD_BYTES

log = logging.getLogger("arco.api")

OPERATION: Final = "receive_event"
WINDOW_S: Final = 300
"""Maximum difference of a timestamp from the server's time."""
KEPT_S: Final = 60.0
"""How long a resolved secret is cached."""
FAILED_S: Final = 5.0
"""How long a failed resolution is cached: anybody can send unsigned events."""
MAX_SIGNATURES: Final = 10
_PREFIX: Final = "whsec_"
_NOBODY: Final = b"no sensor has this secret"


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    message_id: str
    state: str
    is_repeated: bool
    """Whether an event of this id was received before; then nothing has changed."""


class SignedEvent(NamedTuple):
    id: str
    timestamp: str
    signatures: list[bytes]
    body: bytes

    def is_signed_with(self, key: bytes) -> bool:
        """In constant time, whatever is wrong with the signature."""
        signed = f"{self.id}.{self.timestamp}.".encode() + self.body
        expected = hmac.digest(key, signed, hashlib.sha256)
        matches = [hmac.compare_digest(expected, each) for each in self.signatures]
        return any(matches)


class _CachedKey(NamedTuple):
    until: float
    key: bytes | None
    """None: it could not be resolved."""


class WebhookSecrets:
    """Resolves references that the server's settings allow, so that the author of a sensor cannot
    make the server read other variables, files or secrets."""

    def __init__(
        self, allowed: Sequence[str], clock: Clock, registry: SecretRegistry | None = None
    ) -> None:
        self._allowed = allowed
        self._clock = clock
        self._registry = registry or SecretRegistry()
        self._cache: dict[str, _CachedKey] = {}

    def key(self, ref: SecretRef) -> bytes | None:
        """None, and a line in the server's log, if it cannot be resolved.

        While a manager is down, the key that it gave before counts.
        """
        name = str(ref)
        if not any(is_allowed(name, pattern) for pattern in self._allowed):
            log.warning("the secret %s of a webhook is not allowed by --webhook-secret", name)
            return None
        cached = self._cache.get(name)
        if cached is not None and self._clock.monotonic() < cached.until:
            return cached.key
        try:
            key: bytes | None = signing_key(self._registry.resolve({"secret": ref})["secret"])
            valid_s = KEPT_S
        except TaskFailed as error:
            log.warning("the secret %s of a webhook: %s", name, error.info.code)
            is_down = error.info.category == "transient"
            key = cached.key if cached is not None and is_down else None
            valid_s = FAILED_S
        self._cache[name] = _CachedKey(self._clock.monotonic() + valid_s, key)
        return key


def is_allowed(name: str, pattern: str) -> bool:
    """`*`, `?` and `[…]` stand for characters within one part of a path; a last part `**` for
    all parts that follow."""
    names, patterns = name.split("/"), pattern.split("/")
    if patterns[-1] == "**" and len(names) >= len(patterns):
        names, patterns = names[: len(patterns) - 1], patterns[:-1]
    pairs = zip(names, patterns, strict=False)
    return len(names) == len(patterns) and all(fnmatch.fnmatchcase(*pair) for pair in pairs)


def signing_key(secret: str) -> bytes:
    """`whsec_` and base64, as the specification has it; any other text as it is."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode("utf-8", "surrogatepass")


async def receive_event(
    server: ApiServer, secrets: WebhookSecrets, request: Request[Any, Any, Any]
) -> Answer:
    exchange = exchange_of(request.scope)
    exchange.route, exchange.operation = "/sensors/{project}/{name}/events", OPERATION
    server.check_address(exchange.address)
    event = _event(RequestHeaders(request.scope), await server.body(request, MAX_PAYLOAD_BYTES))
    path = request.path_params
    served = server.workspaces.get((path["tenant"], path["workspace"]))
    sensor_id = f"{path['project']}/{path['name']}"

    caller = Caller(
        kind="service",
        id=f"webhook:{sensor_id}",
        request_id=exchange.request_id,
        address=exchange.address,
    )
    if served is not None:
        await server.wait_for_key_reads([served])

    def is_signed() -> bool:
        ref = None if served is None else served.webhook_secret(sensor_id)
        key = None if ref is None else secrets.key(ref)
        is_good = event.is_signed_with(_NOBODY if key is None else key)
        return key is not None and is_good and _is_recent(server.clock, event)

    # Not in the threads of the workspace: a store that hangs may have taken all of them.
    if not await server.in_thread(is_signed) or served is None:
        server.failed_login(exchange.address)
        raise NotFound(
            "there is no such sensor, or the event is not signed for it",
            hint="sign `id.timestamp.body` with the sensor's secret; the time must be now",
        )
    answer = await server.in_thread(lambda: _pushed(served, sensor_id, event, caller), served)
    exchange.who = caller
    exchange.workspace = f"{path['tenant']}/{path['workspace']}"
    return Answer(202, msgspec.json.encode(plain(answer)))


def _event(headers: RequestHeaders, body: bytes) -> SignedEvent:
    id = headers.get("webhook-id") or ""
    timestamp = headers.get("webhook-timestamp") or ""
    given = (headers.get("webhook-signature") or "").split(" ")[:MAX_SIGNATURES]
    signatures = [_decoded(each.removeprefix("v1,")) for each in given if each.startswith("v1,")]
    is_id = 1 <= len(id) <= MAX_MESSAGE_ID_BYTES and id.isascii() and id.isprintable()
    is_time = timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12
    if not is_id or not is_time or not signatures:
        raise ApiError(
            "invalid",
            "the event has no webhook-id, webhook-timestamp and webhook-signature",
            code="unsigned_event",
            hint="the timestamp is in seconds, and the signature is v1, and base64",
        )
    return SignedEvent(id, timestamp, signatures, body)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_recent(clock: Clock, event: SignedEvent) -> bool:
    now = clock.now().replace(tzinfo=UTC).timestamp()
    return abs(now - int(event.timestamp)) <= WINDOW_S


def _pushed(
    served: ServedWorkspace, sensor_id: str, event: SignedEvent, caller: Caller
) -> EventAnswer:
    try:
        payload = event.body.decode()
    except UnicodeDecodeError:
        raise ApiError("invalid", "the body is not UTF-8 text", code="invalid_text") from None
    done = served.commands(caller).sensors.push(sensor_id, event.id, payload)
    served.invalidate()
    return EventAnswer(
        message_id=done.message_id, state=str(done.state), is_repeated=done.is_repeated
    )


def webhook_operation(
    answer: dict[str, Any], workspace: list[dict[str, Any]], refusals: dict[str, Any]
) -> dict[str, Any]:
    """For the OpenAPI document."""
    path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }
        for name in ("project", "name")
    ]
    headers = [
        {
            "name": name,
            "in": "header",
            "required": True,
            "description": description,
            "schema": {"type": "string", "minLength": 1, "maxLength": 2000},
        }
        for name, description in (
            ("webhook-id", "The event's id; each counts once."),
            ("webhook-timestamp", "Seconds since 1970, within five minutes of now."),
            ("webhook-signature", "`v1,` and HMAC-SHA256 over `id.timestamp.body` in base64."),
        )
    ]
    return {
        "operationId": OPERATION,
        "summary": "Receive an event for a webhook sensor from a program that signs it.",
        "description": "Needs no API key. An unknown sensor and a wrong signature are answered "
        "alike. The body is the payload, as it is signed.",
        "tags": ["sensors"],
        "x-permission": "a signature",
        "security": [],
        "parameters": [*workspace, *path, *headers],
        "requestBody": {"required": False, "content": {"*/*": {"schema": {"type": "string"}}}},
        "responses": {
            "202": {
                "description": "The message was accepted.",
                "content": {"application/json": {"schema": answer}},
            },
            **refusals,
        },
    }
