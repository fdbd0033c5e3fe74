"""S3, GCS and Azure through obstore: one class, since obstore gives them one interface. Notes:

A create is sent once. The client would repeat it when the response is lost; by then the object may
have been deleted (a batch that was consumed, a claim that was released), and the second create
would succeed. So a create whose response is lost is Unavailable, "unknown", and the caller, who can
recognise its own object by an id, decides. Everything else may be repeated, and is. S3 answers a
create with a conflict, which comes here as AlreadyExists, also while another create of the same key
is in progress, which may still fail: a caller that needs the object reads it.

Not every server lists in the order of the keys' bytes: some S3-compatible ones
and Azure accounts with hierarchical namespaces walk a tree, where `a/b` comes
before `a.b`. Listings from those are collected and sorted here; only AWS and
GCS, which promise the order, are streamed.

obstore starts threads of its own and hangs after fork: use spawn.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from arco.errors import AlreadyExists, Corrupt, Denied, Error, Invalid, NotFound, Unavailable
from arco.storage import keys
from arco.storage.port import Mode, Object, ObjectMeta

if TYPE_CHECKING:
    from obstore import ObjectMeta as ObstoreMeta
    from obstore.store import RetryConfig

Option: TypeAlias = str | bool
_Client: TypeAlias = S3Store | GCSStore | AzureStore

CLIENTS: Mapping[str, type[_Client]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}

_HTTP_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "root_certificate",
        "timeout",
    }
)
_HTTP_DEFAULTS: Mapping[str, Option] = {"connect_timeout": "5s", "timeout": "30s"}
# With the timeouts above, no call takes much longer than a minute to raise Unavailable.
_RETRY: RetryConfig = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=3),
        "base": 2,
    },
}
_NO_RETRY: RetryConfig = {**_RETRY, "max_retries": 0}
PART_BYTES = 8 << 20
"""Of an object that is written in parts; no store takes smaller ones than 5 MiB."""


class SignedPut(NamedTuple):
    """Lets its bearer write one object."""

    url: str
    headers: dict[str, str]


class CloudStore:
    """A bucket, or the part of it below a prefix.

    `options` are obstore's, by name (`endpoint`, `region`, `access_key_id`, `account_name`, ...)
    and of its HTTP client (`timeout`, `allow_http`, ...); others come from the environment. They
    may contain secrets, so they are never shown.
    """

    parallelism = 32

    def __init__(self, scheme: str, bucket: str, prefix: str, **options: Option) -> None:
        keys.check_prefix(prefix)
        self._bucket_url = f"{scheme}://{bucket}"
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._options = options
        self._client = _connect(scheme, bucket, options, _RETRY)
        self._creating = _connect(scheme, bucket, options, _NO_RETRY)
        self.in_order = _lists_in_order(self._client)

    @property
    def url(self) -> str:
        return f"{self._bucket_url}/{self._prefix}".rstrip("/")

    @property
    def options(self) -> dict[str, Option]:
        """With `url`, all that `open_store` needs in another process. Holds secrets."""
        return dict(self._options)

    def __repr__(self) -> str:
        return f"CloudStore({self.url})"

    def get(self, path: str) -> Object:
        key = self._key(path)
        with _mapping(path):
            response = obstore.get(self._client, key)
            data = response.bytes().to_bytes()
        return Object(data, self._meta(response.meta))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_range(path, start, length)
        key = self._key(path)
        data = b""
        failure: Error | None = None
        if length:
            try:
                data = obstore.get_range(self._client, key, start=start, length=length).to_bytes()
            except Exception as error:
                failure = _mapped(error, path)
                if not isinstance(failure, Unavailable):
                    raise failure from error
            if len(data) == length:
                return data
        # Backends report reads past the end differently, so the size is checked here.
        size = self.head(path).size
        if start + length > size:
            raise keys.past_the_end(path, start, length, size)
        if length:
            raise failure or Unavailable(
                f"{path}: {len(data)} bytes were received instead of {length}"
            )
        return data

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        key = self._key(path)
        overwrite = mode is Mode.OVERWRITE
        client = self._client if overwrite else self._creating
        how: Literal["create", "overwrite"] = "overwrite" if overwrite else "create"
        with _mapping(path):
            # In one request, always: only that is atomic and can carry the condition.
            obstore.put(client, key, data, mode=how, use_multipart=False)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        key = self._key(path)
        passing = _Passing(parts)
        try:
            obstore.put(self._client, key, iter(passing), chunk_size=PART_BYTES, use_multipart=True)
        except Exception as error:
            if passing.failed is not None:
                raise passing.failed from None
            raise _mapped(error, path) from error

    def head(self, path: str) -> ObjectMeta:
        key = self._key(path)
        with _mapping(path):
            return self._meta(obstore.head(self._client, key))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_prefix(prefix)
        if start_after is not None:
            keys.check_prefix(start_after)
        if self.in_order:
            return self._stream(prefix, start_after or "")
        return self._collected(prefix, start_after or "")

    def delete(self, path: str) -> None:
        key = self._key(path)
        with _mapping(path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._client, key)

    def copy(self, source: str, target: str) -> None:
        with _mapping(source):
            obstore.copy(self._client, self._key(source), self._key(target), overwrite=True)

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._signed("GET", path, expiry)

    def sign_put(self, path: str, expiry: timedelta) -> SignedPut:
        """A URL to put this object, and the headers that the request needs."""
        url = self._signed("PUT", path, expiry)
        azure = isinstance(self._client, AzureStore)
        return SignedPut(url, {"x-ms-blob-type": "BlockBlob"} if azure else {})

    def _signed(self, method: Literal["GET", "PUT"], path: str, expiry: timedelta) -> str:
        key = self._key(path)
        with _mapping(path):
            url = obstore.sign(self._client, method, key, expiry)
        if isinstance(self._client, AzureStore) and "%" in urlsplit(url).path:
            # obstore 0.12 signs the encoded path, and Azure verifies the decoded one.
            raise Invalid(
                f"{path}: obstore cannot sign Azure names that a URL has to encode",
                hint="serve this object's bytes through the API",
            )
        return url

    def _key(self, path: str) -> str:
        keys.check_key(path)
        key = self._prefix + path
        if self._prefix:
            keys.check_key(key)
        return key

    def _meta(self, meta: ObstoreMeta) -> ObjectMeta:
        # Headers give whole seconds and some listings give more: one object, one time.
        moment = meta["last_modified"].astimezone(UTC).replace(tzinfo=None, microsecond=0)
        return ObjectMeta(meta["path"][len(self._prefix) :], meta["size"], moment)

    def _stream(self, prefix: str, after: str) -> Iterator[ObjectMeta]:
        last = ""
        for meta in self._listed(prefix, max(after, _just_before(prefix))):
            if meta.path <= last:
                raise Corrupt(
                    f"{self.url} lists {meta.path!r} after {last!r}",
                    hint="this server does not list in order; name its endpoint in the options",
                )
            last = meta.path
            if meta.path.startswith(prefix):
                if meta.path > after:
                    yield meta
            elif meta.path > prefix:
                return

    def _collected(self, prefix: str, after: str) -> Iterator[ObjectMeta]:
        metas = [
            meta
            for meta in self._listed(prefix, "")
            if meta.path > after and meta.path.startswith(prefix)
        ]
        metas.sort(key=attrgetter("path"))
        yield from metas

    def _listed(self, prefix: str, offset: str) -> Iterator[ObjectMeta]:
        """What lies in the directory of `prefix`: obstore takes whole segments only."""
        directory = self._prefix + prefix.rpartition("/")[0]
        offset = self._prefix + offset if offset else ""
        with _mapping(prefix or self.url):
            pages = obstore.list(
                self._client, directory or None, offset=offset or None, chunk_size=1000
            )
            for page in pages:
                for meta in page:
                    yield self._meta(meta)


def _lists_in_order(client: _Client) -> bool:
    """True for GCS and AWS itself, not for S3-compatible servers."""
    if isinstance(client, S3Store):
        elsewhere = any(name.upper().startswith("AWS_ENDPOINT") for name in os.environ)
        return "endpoint" not in client.config and not elsewhere
    return isinstance(client, GCSStore)


def _just_before(prefix: str) -> str:
    """A name that sorts right before the keys with `prefix`, approximately."""
    start, last = prefix[:-1], prefix[-1:]
    if "1" <= last <= "9" or "b" <= last <= "z" or "B" <= last <= "Z":
        return f"{start}{chr(ord(last) - 1)}~"
    return start.rstrip("/")


def _connect(
    scheme: str, bucket: str, options: Mapping[str, Option], retry: RetryConfig
) -> _Client:
    config: dict[str, Any] = {k: v for k, v in options.items() if k not in _HTTP_OPTIONS}
    http: dict[str, Any] = {k: v for k, v in options.items() if k in _HTTP_OPTIONS}
    if os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true":
        http.setdefault("allow_http", True)  # the client ignores it where it is given options
    client: Any = CLIENTS[scheme]
    try:
        store: _Client = client(
            bucket, config=config, client_options={**_HTTP_DEFAULTS, **http}, retry_config=retry
        )
    except (exceptions.BaseError, ValueError) as error:
        raise Invalid(
            f"{scheme}://{bucket} cannot be opened: {_first_line(error)}",
            hint="check the options' names, and the credentials in the environment",
        ) from None
    return store


class _Passing:
    """Passes parts to the client, and keeps the original error that ended them."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts
        self.failed: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._parts
        except BaseException as error:
            self.failed = error
            raise


@contextlib.contextmanager
def _mapping(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _mapped(error, path) from error


def _mapped(error: Exception, path: str) -> Error:
    """obstore's error in our terms, by its type. Ours pass through."""
    reason = f"{path}: {_first_line(error)}"
    match error:
        case Error():
            return error
        case FileNotFoundError():
            return NotFound(f"{path} does not exist", hint="check that its bucket exists too")
        case exceptions.AlreadyExistsError() | exceptions.PreconditionError():
            return AlreadyExists(f"{path} exists")
        case exceptions.PermissionDeniedError() | exceptions.UnauthenticatedError():
            return Denied(reason, hint="check the credentials and their permissions")
        case exceptions.InvalidPathError() | exceptions.NotSupportedError():
            return Invalid(reason)
        case exceptions.BaseError():
            return Unavailable(reason, hint="the store did not respond as expected; try again")
    raise error


def _first_line(error: Exception) -> str:
    """Without the debug part below it, which is long and shows request headers."""
    return str(error).partition("\n")[0][:300]
