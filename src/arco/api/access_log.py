"""The access log: a JSON object for each request, written several at a time.

It has the route as it is declared, never the path or the query that a client sent: those may hold
tokens, signed URLs, or line breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from arco.api.exchange import Exchange
from arco.clock import Clock
from arco.times import iso

BUFFERED: Final = 500


class AccessLine(msgspec.Struct, frozen=True):
    time: str
    request_id: str
    method: str
    route: str
    workspace: str
    caller: str
    address: str
    status: int
    code: str
    bytes: int
    ms: float


class AccessLog:
    """Used by the event loop alone. Lines are written when there are many, and by `flush`."""

    def __init__(self, clock: Clock, write: Callable[[str], object] | None = None) -> None:
        """Without `write` nothing is logged."""
        self._clock = clock
        self._write = write
        self._encoder = msgspec.json.Encoder()
        self._lines: list[bytes] = []

    def note(self, exchange: Exchange, took_s: float) -> None:
        if self._write is None:
            return
        line = AccessLine(
            iso(self._clock.now()),
            exchange.request_id,
            exchange.method,
            exchange.route or "(none)",
            exchange.workspace,
            "" if exchange.who is None else exchange.who.actor,
            exchange.address,
            exchange.status,
            exchange.error_code,
            exchange.bytes,
            round(took_s * 1000, 1),
        )
        self._lines.append(self._encoder.encode(line))
        if len(self._lines) >= BUFFERED:
            self.flush()

    def flush(self) -> None:
        if self._lines and self._write is not None:
            lines, self._lines = self._lines, []
            self._write(b"\n".join([*lines, b""]).decode())
