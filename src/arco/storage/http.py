"""A store behind an HTTP server: objects of one workspace, as far as a token allows.

    GET, PUT, DELETE  {url}/objects/{path}       one object; `If-None-Match: *` creates
    GET               {url}/metadata/{path}      its size and its time
    GET               {url}/objects?prefix=...   a listing, in pages
    POST              {url}/uploads/{path}       where to put a large object

A server whose store is a cloud's answers a GET with a redirect to a URL of that cloud, which lets
its bearer read this object alone, and names such a URL for a large PUT: the bytes do not pass
through the server.

A create is sent once, as for other stores: if its answer is lost, it raises Unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote, urlencode, urljoin

import msgspec

from arco.errors import AlreadyExists, Corrupt, Denied, Error, Invalid, NotFound, Unavailable
from arco.storage import keys
from arco.storage.http_client import HttpAnswer, HttpClient
from arco.storage.port import Mode, Object, ObjectMeta

MODIFIED = "arco-last-modified"
"""The header with the time of an object, as ISO 8601 without a zone."""
DIRECT_BYTES = 4 << 20
"""Larger objects are put to a signed URL of the cloud, if the store is there."""
_OCTETS = "application/octet-stream"

S = TypeVar("S", bound=msgspec.Struct)
HeadersOf = Callable[[str], Mapping[str, str]]
"""Returns the headers that authorize the use of a path."""


class ListedObject(msgspec.Struct, frozen=True):
    path: str
    size: int
    last_modified: datetime


class ObjectListing(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ListedObject]
    start_after: str = ""
    """Where the next page begins; empty at the end."""


class Upload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str = ""
    """Where to PUT the object; empty: to the server."""
    headers: dict[str, str] = {}


class HttpStore:
    parallelism = 8

    def __init__(
        self,
        url: str,
        headers: HeadersOf | None = None,
        *,
        data_url: str = "",
        ca_file: str = "",
        client: HttpClient | None = None,
    ) -> None:
        """`data_url` is where Spark finds the same workspace, with credentials of its own;
        `ca_file` has certificates to trust besides the usual ones."""
        self._url = url.rstrip("/")
        self.data_url = data_url
        self._headers = headers or (lambda path: {})
        self._ca_file = ca_file
        self._client = client or HttpClient(ca_file=ca_file)

    @property
    def url(self) -> str:
        return self._url

    @property
    def options(self) -> dict[str, str]:
        """Without a token: each process has its own."""
        options = {"data_url": self.data_url, "ca_file": self._ca_file}
        return {name: value for name, value in options.items() if value}

    def __repr__(self) -> str:
        return f"HttpStore({self._url})"

    def use_token(self, token: str) -> None:
        """Use this token from now on."""
        self._headers = lambda path: {"Authorization": f"Bearer {token}"}

    # -- reading -------------------------------------------------------------------------

    def get(self, path: str) -> Object:
        answer = self._fetched(path, {})
        return Object(answer.body, ObjectMeta(path, len(answer.body), _modified(answer, path)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_range(path, start, length)
        if length:
            span = f"bytes={start}-{start + length - 1}"
            answer = self._fetched(path, {"Range": span})
            data = answer.body[start : start + length] if answer.status == 200 else answer.body
            if answer.status in (200, 206) and len(data) == length:
                return data
        size = self.head(path).size
        if start + length > size:
            raise keys.past_the_end(path, start, length, size)
        if length:
            raise Unavailable(f"{path}: not all of {length} bytes were received")
        return b""

    def _fetched(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        answer = self._call("GET", path, headers=headers, accept=(200, 206, 307, 416))
        if answer.status != 307:
            return answer
        location = urljoin(self._url, answer.headers.get("location", ""))
        answer = self._client.send("GET", location, headers=headers, repeat=True)
        if answer.status not in (200, 206, 416):
            raise _failure(answer, path)
        return answer

    def look_up(self, name: str, query: Mapping[str, str]) -> bytes:
        """A request to the server that is not about objects."""
        url = f"{self._url}/{name}?{urlencode(query)}"
        answer = self._client.send("GET", url, headers=self._headers(""), repeat=True)
        if answer.status == 404:
            problem = problem_in(answer)
            raise NotFound(problem.detail, hint=problem.hint)
        if answer.status != 200:
            raise _failure(answer, name)
        return answer.body

    def head(self, path: str) -> ObjectMeta:
        listed = _decoded(self._call("GET", path, at="metadata"), ListedObject)
        return ObjectMeta(path, listed.size, listed.last_modified)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_prefix(prefix)
        if start_after is not None:
            keys.check_prefix(start_after)
        return self._pages(prefix, start_after or "")

    def _pages(self, prefix: str, start_after: str) -> Iterator[ObjectMeta]:
        while True:
            query = urlencode({"prefix": prefix, "start_after": start_after})
            answer = self._client.send(
                "GET", f"{self._url}/objects?{query}", headers=self._headers(prefix), repeat=True
            )
            if answer.status != 200:
                raise _failure(answer, prefix)
            page = _decoded(answer, ObjectListing)
            for each in page.items:
                yield ObjectMeta(each.path, each.size, each.last_modified)
            if not page.start_after:
                return
            start_after = page.start_after

    # -- writing -------------------------------------------------------------------------

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        if len(data) > DIRECT_BYTES and mode is not Mode.CREATE:
            upload = self._upload(path)
            if upload.url:
                answer = self._client.send(
                    "PUT", upload.url, headers=upload.headers, body=data, repeat=True
                )
                if answer.status not in (200, 201, 204):
                    raise _failure(answer, path)
                return
        overwrite = mode is Mode.OVERWRITE
        headers = {} if overwrite else {"If-None-Match": "*"}
        self._call("PUT", path, headers=headers, body=data, repeat=overwrite)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._call("PUT", path, body=_SentParts(parts), repeat=False)

    def _upload(self, path: str) -> Upload:
        return _decoded(self._call("POST", path, at="uploads", body=b""), Upload)

    def delete(self, path: str) -> None:
        self._call("DELETE", path, accept=(204,))

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source).data, Mode.OVERWRITE)

    def sign(self, path: str, expiry: timedelta) -> str:
        raise Invalid(f"{self._url} signs no URLs for others", hint="ask the API for a file")

    # -- calling -------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        path: str,
        *,
        at: str = "objects",
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        repeat: bool = True,
        accept: tuple[int, ...] = (200, 201, 204),
    ) -> HttpAnswer:
        keys.check_key(path)
        sent = {**self._headers(path), **(headers or {})}
        if body is not None:
            sent["Content-Type"] = _OCTETS
        url = f"{self._url}/{at}/{quote(path)}"
        answer = self._client.send(method, url, headers=sent, body=body, repeat=repeat)
        if answer.status not in accept:
            raise _failure(answer, path)
        return answer


class _SentParts:
    """Parts of a body. An error ends the connection before the body has ended."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return (part for part in self._parts if part)  # an empty one would be the end


class ServerProblem(msgspec.Struct, frozen=True):
    """A server's description of a failure."""

    detail: str = ""
    hint: str = ""


def problem_in(answer: HttpAnswer) -> ServerProblem:
    """Empty if the answer is not a problem document: it may be of a proxy or a cloud."""
    try:
        return msgspec.json.decode(answer.body or b"{}", type=ServerProblem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ServerProblem()


def _failure(answer: HttpAnswer, path: str) -> Error:
    """The error for a server's answer."""
    problem = problem_in(answer)
    text = problem.detail or f"the server answered {answer.status}"
    match answer.status:
        case 404:
            return NotFound(f"{path} does not exist")
        case 409:
            return AlreadyExists(f"{path} exists")
        case 401 | 403:
            return Denied(f"{path}: {text}", hint=problem.hint)
        case 400 | 413 | 416:
            return Invalid(f"{path}: {text}", hint=problem.hint)
    return Unavailable(f"{path}: {text}", hint=problem.hint or "try again")


def _decoded(answer: HttpAnswer, type_: type[S]) -> S:
    try:
        return msgspec.json.decode(answer.body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"the server's answer cannot be read: {error}") from None


def _modified(answer: HttpAnswer, path: str) -> datetime:
    own = answer.headers.get(MODIFIED)
    try:
        if own is not None:
            return datetime.fromisoformat(own)
        cloud = parsedate_to_datetime(answer.headers.get("last-modified", ""))
        return cloud.replace(tzinfo=None)
    except ValueError:
        raise Unavailable(f"{path}: the server does not say its time") from None
