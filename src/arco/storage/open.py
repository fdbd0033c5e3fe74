"""From a URL to a store, and a check that the store can be trusted."""

from __future__ import annotations

from urllib.parse import urlsplit

from arco.clock import SystemClock
from arco.errors import AlreadyExists, Corrupt, Invalid
from arco.storage.cloud import CLIENTS, CloudStore, Option
from arco.storage.http import HttpStore
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store


def open_store(url: str, **options: Option) -> Store:
    """Open `memory://`, `file:///path` or a plain path, `s3://`, `gs://` or `az://`.

    `url` and `options` are what a store says of itself, so another process can open the same one. A
    `memory://` store is always new and empty; a store behind a server (`https://`) needs a token
    before it is used.
    """
    scheme, separator, location = url.partition("://")
    if not separator:
        scheme, location = "file", url
    if scheme in CLIENTS:
        parts = urlsplit(url)
        return CloudStore(scheme, parts.netloc, parts.path.strip("/"), **options)
    if scheme in ("http", "https"):
        texts = {name: str(options.get(name, "")) for name in ("data_url", "ca_file")}
        return HttpStore(url, data_url=texts["data_url"], ca_file=texts["ca_file"])
    if options:
        raise Invalid(f"{url} takes no options", hint=f"remove {', '.join(sorted(options))}")
    if scheme == "memory":
        return MemoryStore(SystemClock())
    if scheme == "file" and location:
        return LocalStore(location)
    raise Invalid(
        f"{url!r} is not the URL of a store",
        hint="use a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, "
        "az://container/prefix or memory://",
    )


def options_of(store: Store) -> dict[str, Option]:
    """The options to give `open_store` with `store.url`. They may hold secrets."""
    options = getattr(store, "options", None)
    return dict(options) if options else {}


def probe(store: Store, nonce: str) -> None:
    """Raise unless a second create of one path fails, as everything here relies on.

    Some servers ignore the condition without an error. `nonce` must be new: the probe makes, and
    removes, an object of that name.
    """
    path = f"probe/{nonce}"
    store.put(path, b"first", Mode.CREATE)
    try:
        store.put(path, b"second", Mode.CREATE)
    except AlreadyExists:
        if store.get(path).data != b"first":
            raise Corrupt(
                f"{store.url} refused a second create, but stored its bytes",
                hint="this server cannot hold a workspace; use another store",
            ) from None
    else:
        raise Invalid(
            f"{store.url} ignores the condition of a create: it accepted two creates of one path",
            hint="this server cannot hold a workspace; use one that honours If-None-Match: *",
        )
    finally:
        store.delete(path)
