"""The state of one request while it is answered, and its answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from litestar.datastructures import Cookie
from litestar.types import Scope

from arco.security.caller import Caller
from arco.security.visibility import NOTHING, Visible

SCOPE_KEY = "arco.exchange"


@dataclass
class Exchange:
    """Filled in while the request is processed, for the access log."""

    request_id: str
    address: str
    method: str
    route: str = ""
    """As it is declared: a path that a client sends may hold anything."""
    operation: str = ""
    permission: str = ""
    who: Caller | None = None
    workspace: str = ""
    status: int = 0
    bytes: int = 0
    error_code: str = ""
    body_bytes: int = 0
    """Of the request, in memory."""
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """What is done when it has been answered."""
    visible: Visible = NOTHING
    """What the caller sees of the workspace, once that is known."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[Cookie, ...] = ()


def exchange_of(scope: Scope) -> Exchange:
    exchange = scope[SCOPE_KEY]  # type: ignore[literal-required]
    assert isinstance(exchange, Exchange)
    return exchange


def header(scope: Scope, name: bytes) -> str | None:
    """A header of a request, if it is there once."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def raw_rest(scope: Scope, segments: int) -> str:
    """What follows the first `segments` of a path, as the client sent it."""
    parts = scope["raw_path"].decode("latin-1").split("/", segments + 1)
    return parts[segments + 1] if len(parts) > segments + 1 else ""


class RequestHeaders:
    """The headers of a request by their names."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def get(self, name: str, /) -> str | None:
        return header(self._scope, name.encode())


def client_address(scope: Scope, trusted: Sequence[str]) -> str:
    """The address of the peer; behind a trusted proxy the one that the proxy saw."""
    client = scope.get("client")
    peer = client[0] if client else ""
    forwarded = header(scope, b"x-forwarded-for") if trusted else None
    if forwarded is None or not is_in(peer, trusted):
        return peer
    hops = [hop.strip() for hop in forwarded.split(",")]
    for hop in reversed(hops):  # the last that is not a proxy of ours
        if not is_in(hop, trusted):
            return hop if _is_address(hop) else peer
    return peer


def is_in(address: str, networks: Sequence[str]) -> bool:
    """Whether an address is one of these, or in one of these networks."""
    if not _is_address(address):
        return False
    ip = ipaddress.ip_address(address)
    return any(ip in ipaddress.ip_network(network, strict=False) for network in networks)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
