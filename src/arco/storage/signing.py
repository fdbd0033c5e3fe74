"""Signed URLs for stores without a server of their own, and the answers to them.

A signed URL lets its bearer GET one object until it expires, as a cloud's
presigned URL does, so that the browser's way to the files is the same
everywhere. Keys rotate: put the new one first, and keep the old ones in the
list until the URLs that they signed have expired.

    {base_url}/signed/{path}?expires=1767225600&key_id=2026a&signature=...

`respond` decides the whole answer; an HTTP server only forwards to it.

`TokenSigner` signs tokens that contain a text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from arco.clock import Clock
from arco.errors import Denied, Error, Invalid
from arco.storage.port import Store

SIGNED = "/signed/"

_MIN_SECRET_BYTES = 16
_MAC_BYTES = 32
_MAX_EXPIRY = timedelta(days=7)
_PARAMETERS = ("expires", "key_id", "signature")
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))", re.ASCII)
_STATUS = {"invalid": 400, "denied": 403, "not_found": 404, "unavailable": 503}


class SigningKey(NamedTuple):
    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id!r}, secret=***)"


class Signer:
    """Signs with the first key and accepts all of them."""

    def __init__(self, base_url: str, signing_keys: Sequence[SigningKey], clock: Clock) -> None:
        if not signing_keys:
            raise Invalid("a signer needs a key", hint="give it at least one SigningKey")
        for key in signing_keys:
            if len(key.secret) < _MIN_SECRET_BYTES:
                raise Invalid(f"signing key {key.id} is short: use {_MIN_SECRET_BYTES} bytes")
        self._base_url = base_url.rstrip("/")
        self._current = signing_keys[0]
        self._secrets = {key.id: key.secret for key in signing_keys}
        self._clock = clock

    def sign(self, path: str, expiry: timedelta) -> str:
        if not timedelta(0) < expiry <= _MAX_EXPIRY:
            raise Invalid(f"a signed URL cannot be valid for {expiry}", hint="use up to seven days")
        expires = str(math.ceil(_unix(self._clock.now() + expiry)))
        values = (expires, self._current.id, _signature(self._current.secret, path, expires))
        query = urlencode(dict(zip(_PARAMETERS, values, strict=True)))
        return f"{self._base_url}{SIGNED}{quote(path)}?{query}"

    def verify(self, url: str, now: datetime) -> str:
        """The path of the object that `url` grants at `now`. Raises Denied.

        `url` may lack its scheme and host: what an HTTP request names is enough. The signature is
        checked before the expiry, so that an invalid URL reveals nothing.
        """
        parts = urlsplit(url)
        _, marker, encoded = parts.path.partition(SIGNED)
        if not marker:
            raise Denied("this is not a signed URL")
        path = _decoded(encoded)
        query = parse_qs(parts.query, keep_blank_values=True)
        expires, key_id, signature = (_single(query, name) for name in _PARAMETERS)
        secret = self._secrets.get(key_id)
        is_signed = secret is not None and hmac.compare_digest(
            _signature(secret, path, expires).encode(), signature.encode()
        )
        if not is_signed:  # do not reveal which keys are in use
            raise Denied(f"{path}: the signature does not match the URL, or its key is not in use")
        if _unix(now) >= int(expires):
            raise Denied(f"{path}: the URL has expired", hint="ask for a new one")
        return path


class TokenSigner:
    """Tokens of one purpose. Signs with the first secret and accepts all of them."""

    def __init__(self, purpose: str, secrets: Sequence[bytes]) -> None:
        """`secrets` may have other uses: a token of one purpose is none of another."""
        self._prefix = f"arco_{purpose}_"
        label = f"arco {purpose} tokens\0".encode()
        self._keys = [hmac.new(secret, label, hashlib.sha256).digest() for secret in secrets]

    def signs(self, token: str) -> bool:
        """Whether a text looks like a token of this purpose."""
        return token.startswith(self._prefix)

    def sign(self, body: bytes) -> str:
        return self._prefix + _base64(self._mac(self._keys[0], body) + body)

    def verify(self, token: str) -> bytes | None:
        """The text of a token; None if its signature is invalid."""
        if not self.signs(token):
            return None
        encoded = token.removeprefix(self._prefix)
        try:
            raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        except ValueError:
            return None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        accepted = any(hmac.compare_digest(self._mac(key, body), mac) for key in self._keys)
        return body if accepted and _base64(raw) == encoded else None

    def _mac(self, key: bytes, body: bytes) -> bytes:
        return hmac.new(key, self._prefix.encode() + body, hashlib.sha256).digest()


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def respond(
    store: Store,
    signer: Signer,
    target: str,
    *,
    range_header: str | None,
    origin: str | None,
    now: datetime,
    origins: Sequence[str] = ("*",),
) -> Response:
    """The answer to GET `target`, path and query as they stood in the request.

    `store` is the one that signed: it sees whole paths, with tenant and workspace. Objects are
    served as bytes that browsers do not execute.
    """
    try:
        path = signer.verify(target, now)
        answer = _whole(store, path) if range_header is None else _part(store, path, range_header)
    except Error as error:
        body = str(error).encode()
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        answer = Response(_STATUS.get(error.kind, 500), headers, body)
    return answer._replace(headers=answer.headers | _cors(origin, origins))


def preflight(origin: str | None, origins: Sequence[str] = ("*",)) -> Response:
    """The answer to OPTIONS: browsers ask before they send a Range to another origin."""
    headers = {"Content-Length": "0"} | _cors(origin, origins)
    if "Access-Control-Allow-Origin" in headers:
        headers["Access-Control-Allow-Methods"] = "GET"
        headers["Access-Control-Allow-Headers"] = "Range"
        headers["Access-Control-Max-Age"] = "3600"
    return Response(204, headers, b"")


def byte_range(data: bytes, range_header: str | None) -> Response:
    """The answer to GET of bytes that are in memory."""
    bounds = None if range_header is None else _bounds(range_header, lambda: len(data))
    if bounds is None:
        return Response(200, _bytes_headers(len(data)), data)
    return _partial(bounds, lambda start, length: data[start : start + length])


def plain_range(range_header: str) -> tuple[int, int] | None:
    """Start and length, of a range that names both ends; None for any other header."""
    match = _RANGE.fullmatch(range_header.strip())
    if match is None or not match[1] or not match[2] or int(match[2]) < int(match[1]):
        return None
    return int(match[1]), int(match[2]) - int(match[1]) + 1


def _whole(store: Store, path: str) -> Response:
    data = store.get(path).data
    return Response(200, _bytes_headers(len(data)), data)


def _part(store: Store, path: str, range_header: str) -> Response:
    bounds = _bounds(range_header, lambda: store.head(path).size)
    if bounds is None:
        return _whole(store, path)
    return _partial(bounds, lambda start, length: store.get_range(path, start, length))


class _Bounds(NamedTuple):
    start: int
    end: int
    size: int


def _bounds(range_header: str, size_of: Callable[[], int]) -> _Bounds | None:
    """RFC 9110: one range is honoured, and a header that makes no sense is ignored (None)."""
    match = _RANGE.fullmatch(range_header.strip())
    if match is None:
        return None
    first, last, suffix = match.groups()
    if first and last and int(last) < int(first):
        return None
    size = size_of()
    if suffix is not None:
        return _Bounds(max(size - int(suffix), 0), size, size)
    return _Bounds(int(first), min(int(last) + 1, size) if last else size, size)


def _partial(bounds: _Bounds, read: Callable[[int, int], bytes]) -> Response:
    start, end, size = bounds
    if start >= end:
        headers = {"Content-Range": f"bytes */{size}", "Content-Length": "0"}
        return Response(416, headers, b"")
    data = read(start, end - start)
    content_range = f"bytes {start}-{end - 1}/{size}"
    return Response(206, _bytes_headers(len(data)) | {"Content-Range": content_range}, data)


def _bytes_headers(size: int) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "Content-Length": str(size),
        "Content-Type": "application/octet-stream",
        "X-Content-Type-Options": "nosniff",
    }


def _cors(origin: str | None, origins: Sequence[str]) -> dict[str, str]:
    headers = {"Vary": "Origin"}
    if origin is not None and ("*" in origins or origin in origins):
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = "Accept-Ranges, Content-Length, Content-Range"
    return headers


def _signature(secret: bytes, path: str, expires: str) -> str:
    # No key has a line break in it, so the parts cannot run into one another.
    message = f"GET\n{path}\n{expires}".encode(errors="surrogatepass")
    return _base64(hmac.new(secret, message, hashlib.sha256).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _single(query: dict[str, list[str]], name: str) -> str:
    match query.get(name):
        case [value]:
            return value
    raise Denied(f"the URL needs one parameter {name!r}", hint="ask for a new one")


def _decoded(encoded: str) -> str:
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise Denied("the path of the URL is not UTF-8 text") from None


def _unix(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
