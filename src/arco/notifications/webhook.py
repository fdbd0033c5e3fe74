"""Sending to webhooks: one POST, to an address that was checked, without redirects.

X-Arco-Delivery    the notification's id: the same in every attempt
X-Arco-Attempt     1, 2, …
X-Arco-Timestamp   seconds since 1970
X-Arco-Signature   sha256=HMAC-SHA256(secret, timestamp + "." + body), as hex digits
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, Self
from urllib.parse import SplitResult, urlsplit

from arco.errors import Error, Unavailable
from arco.notifications.addresses import not_public
from arco.notifications.message import plain

MAX_ANSWER_BYTES: Final = 4096


def signature(secret: str, timestamp: str, body: bytes) -> str:
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    allow_private: bool = False,
) -> str:
    """The answer of the receiver, if successful. Raises Unavailable, without the URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        with _connected(parts, timeout_s, allow_private=allow_private) as connection:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, dict(headers))
            answer = connection.getresponse()
            answer.read(MAX_ANSWER_BYTES)
            status, reason = answer.status, plain(answer.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"{host}: {explained(error)}") from None
    if 200 <= status < 300:
        return f"{status} {reason}"
    more = "; redirects are not followed" if 300 <= status < 400 else ""
    raise Unavailable(f"{host} responded with {status} {reason}{more}")


@contextmanager
def _connected(
    parts: SplitResult, timeout_s: float, *, allow_private: bool
) -> Iterator[http.client.HTTPConnection]:
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection.sock = _socket(host, port, timeout_s, allow_private=allow_private)
    with TimeLimit(timeout_s) as limit:
        limit.connection = connection
        try:
            if parts.scheme == "https":
                secured = ssl.create_default_context().wrap_socket(
                    connection.sock, server_hostname=host, do_handshake_on_connect=False
                )
                connection.sock = secured
                secured.do_handshake()
            yield connection
        finally:
            connection.close()


def _socket(host: str, port: int, timeout_s: float, *, allow_private: bool) -> socket.socket:
    """A socket to a current address of the host, if that is allowed."""
    refused, failure = "", None
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        ip = str(address[0])
        reason = "" if allow_private else not_public(ipaddress.ip_address(ip.partition("%")[0]))
        if reason:
            refused = f"it has {reason}, which the channel does not allow"
            continue
        try:
            return socket.create_connection((ip, port), timeout_s)
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure
    raise OSError(refused or "it has no address")


class HasSocket(Protocol):
    sock: Any


class TimeLimit:
    """Ends a connection after a total time: the timeout of a socket is for each read."""

    def __init__(self, seconds: float) -> None:
        self.connection: HasSocket | None = None
        self._is_over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._timer.cancel()
        if self._is_over and isinstance(error, Exception):
            raise TimeoutError from None

    def _end(self) -> None:
        self._is_over = True
        raw = getattr(self.connection, "sock", None)
        if raw is not None:
            with suppress(OSError, ValueError):
                socket.socket.shutdown(raw, socket.SHUT_RDWR)


def explained(error: Exception) -> str:
    """An error in a few words, without data of the other side."""
    if isinstance(error, Error):
        return error.message
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
        return "no answer in time"  # smtplib makes a lost connection of it
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    if isinstance(error, OSError) and (error.strerror or error.args):
        return plain(error.strerror or str(error.args[0]))
    return type(error).__name__
