"""HTTP calls to secret managers: with limits of time and size, and retries.

No error contains the server's answer: it may be the secret.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import httpx
import msgspec

from arco.clock import Clock, SystemClock
from arco.errors import Invalid, Unavailable
from arco.tasks import private

TIMEOUT_S: Final = 5.0
"""Timeout to connect, and between two parts of an answer."""
DEADLINE_S: Final = 20.0
"""Timeout for a complete answer."""
PAUSES_S: Final = (0.2, 1.0)
"""Pauses before retries."""
MAX_BYTES: Final = 2 << 20
RENEW_S: Final = 60.0
"""An access token is renewed this long before it expires."""

CLOCK: Final = SystemClock()


class Reply(NamedTuple):
    status: int
    document: Mapping[str, Any]
    """Empty if it is no JSON object."""


def call(
    service: str,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    json: Mapping[str, Any] | None = None,
    ca_file: str = "",
    is_local: bool = False,
    clock: Clock = CLOCK,
) -> Reply:
    """The answer of the service. Raises Unavailable if it does not answer, or is overloaded.

    `is_local`: a server on this machine or its network, which is called without a proxy.
    """
    trouble = ""
    for pause in (*PAUSES_S, None):
        try:
            with httpx.Client(
                timeout=TIMEOUT_S, trust_env=not is_local, verify=_verify(ca_file)
            ) as client:
                request = client.build_request(
                    method, url, headers=headers, params=params, data=form, json=json
                )
                reply = _read(client, request, clock)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise Invalid(f"the address of {service} is not a URL", hint="correct it") from None
        except httpx.TimeoutException:
            trouble = "did not answer in time"
        except httpx.TransportError as error:
            trouble = f"cannot be reached ({type(error).__name__})"
        else:
            if not _is_passing(reply.status):
                return reply
            trouble = f"answered with status {reply.status}"
        if pause is not None:
            clock.sleep(pause)
    raise Unavailable(f"{service} {trouble}", hint="the task's retries try it again")


def _is_passing(status: int) -> bool:
    return status in (408, 412, 429) or status >= 500


def _verify(ca_file: str) -> Any:
    if not ca_file:
        return True
    context = httpx.create_ssl_context()
    try:
        context.load_verify_locations(ca_file)
    except OSError:
        raise Invalid(f"cannot read certificates from {ca_file}", hint="correct it") from None
    return context


def _read(client: httpx.Client, request: httpx.Request, clock: Clock) -> Reply:
    """Redirects are not followed: a token is for the server that the settings name."""
    end = clock.monotonic() + DEADLINE_S
    body = b""
    response = client.send(request, stream=True)
    try:
        for piece in response.iter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise httpx.RemoteProtocolError("the answer is too large")
            if clock.monotonic() > end:
                raise httpx.ReadTimeout("the answer takes too long")
    finally:
        response.close()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = None
    return Reply(response.status_code, document if isinstance(document, dict) else {})


class AccessToken(NamedTuple):
    value: str
    lifetime_s: float


class TokenCache:
    """A token that is fetched when there is none, or when it expires soon."""

    def __init__(self, fetch: Callable[[], AccessToken], clock: Clock = CLOCK) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def get(self) -> str:
        with self._lock:
            if not self._token or self._clock.monotonic() >= self._until:
                token = self._fetch()
                self._token = token.value
                cached_s = max(token.lifetime_s - RENEW_S, token.lifetime_s / 2)
                self._until = self._clock.monotonic() + cached_s
            return self._token

    def drop(self) -> None:
        """The token was refused: fetch another one next time."""
        with self._lock:
            self._token = ""


def setting(name: str, default: str = "") -> str:
    return private.variable(name) or default


def text_field(document: Mapping[str, Any], *names: str) -> str | None:
    """The text under names within each other; None if there is none."""
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def lifetime(document: Mapping[str, Any], name: str = "expires_in") -> float:
    """In seconds; also as text, as Azure's App Service has it. Otherwise the token counts once."""
    try:
        return max(0.0, float(document.get(name) or 0))
    except (TypeError, ValueError):
        return 0.0
