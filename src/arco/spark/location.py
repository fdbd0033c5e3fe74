"""A store's objects for Spark: their Hadoop URLs, and the options to access them."""

from __future__ import annotations

import os
from typing import Final

from arco.errors import Invalid
from arco.storage.open import options_of
from arco.storage.port import Store

_AZURE_HOST: Final = "dfs.core.windows.net"
_ACCOUNT: Final = ("azure_storage_account_name", "account_name")

_S3A: Final = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}


def spark_url(store: Store, path: str) -> str:
    """The Hadoop URL of an object or a folder of the store.

    Not percent-encoded: Hadoop takes names as they are. Raises Invalid for a store that
    no other process can reach.
    """
    scheme, _, location = data_url(store).partition("://")
    match scheme:
        case "file":
            return f"file://{location}/{path}"
        case "s3":
            return f"s3a://{location}/{path}"
        case "gs":
            return f"gs://{location}/{path}"
        case "az":
            container, _, prefix = location.partition("/")
            at = f"{container}@{_account(store)}.{_AZURE_HOST}"
            return "/".join(filter(None, (f"abfss://{at}", prefix, path)))
    raise Invalid(
        f"Spark cannot reach {store.url}",
        hint="keep the workspace on a disk or in a bucket, or return Arrow tables",
    )


def data_url(store: Store) -> str:
    """The URL of the workspace's data for Spark; behind a server, the worker's setting."""
    return str(getattr(store, "data_url", "")) or store.url


def local_path(store: Store, path: str) -> str | None:
    """The file's name in this machine's file system, if the store is there."""
    scheme, _, root = data_url(store).partition("://")
    return f"{root}/{path}" if scheme == "file" else None


def hadoop_options(store: Store) -> dict[str, str]:
    """Hadoop's settings for the store's own options, for one read or write. Holds secrets."""
    if not data_url(store).startswith("s3://"):
        return {}
    store_options = {
        name.removeprefix("aws_"): str(value) for name, value in options_of(store).items()
    }
    options = {_S3A[name]: value for name, value in store_options.items() if name in _S3A}
    if "endpoint" in store_options:
        options["fs.s3a.path.style.access"] = "true"
        options["fs.s3a.connection.ssl.enabled"] = str(
            store_options["endpoint"].startswith("https")
        ).lower()
    return options


def _account(store: Store) -> str:
    options = {name.lower(): str(value) for name, value in options_of(store).items()}
    for name in _ACCOUNT:
        account = options.get(name) or os.environ.get(name.upper())
        if account:
            return account
    raise Invalid(
        f"Spark needs the storage account of {store.url}",
        hint="give the store's option account_name, or set AZURE_STORAGE_ACCOUNT_NAME",
    )
