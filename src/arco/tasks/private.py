"""Keeps secrets out of the environment of processes that run user code.

| process | its environment |
|---|---|
| supervisor | its own; others see what the slot host has (`protect`) |
| slot host | what Python itself and its libraries need to start (`of_host`) |
| slot | the worker's, without keys, secrets and the store's credentials (`of_slot`) |
| JVM | the worker's, without keys and secrets (`hidden`): Spark opens the store itself |

A slot has the store's credentials while it opens the store, and not when user code begins.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

TOKEN: Final = "ARCO_TOKEN"
KEYS: Final = frozenset({"ARCO_TASK_KEYS", TOKEN, "VAULT_TOKEN", "VAULT_SECRET_ID"})
"""Keys for envelopes, for the API and for Vault."""
_CREDENTIALS: Final = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_ADDRESSES: Final = ("REGION", "ENDPOINT", "ACCOUNT_NAME")
"""Variables with one of these in their name are addresses, not credentials."""
_HOST: Final = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "TZ"})
_HOST_PREFIXES: Final = (
    "PYTHON",
    "LD_",
    "DYLD_",
    "LC_",
    "MALLOC_",
    "ARROW_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
)

_ENV_START: Final = 47
"""Its place in `/proc/self/stat`, after the name."""
_PR_SET_DUMPABLE: Final = 4

_secrets: set[str] = set()
_away: dict[str, str] = {}
"""Variables that are hidden at this moment."""
_lock = threading.Lock()


def add_secrets(variables: Collection[str]) -> None:
    """Variables that assets name as `env:` secrets: a JVM that starts later does not get them."""
    _secrets.update(variables)


def protect() -> None:
    """Hide the memory and the initial environment of this process from user code in its slots.

    Both can be read through `/proc`, the memory by processes of the same user. Its environment
    does not change, and children that are started by `exec` are not protected. No core is dumped.
    """
    if sys.platform == "linux":
        # Another thread may change the environment meanwhile: LookupError, RuntimeError.
        with contextlib.suppress(OSError, ValueError, LookupError, RuntimeError):
            _erase_environment()
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _erase_environment() -> None:
    """Overwrite what the kernel shows of the initial environment, except for `of_host`."""
    with _lock:
        os.environ.update(dict(os.environ))  # copies, which `getenv` returns from now on
    environment = Path("/proc/self/environ").read_bytes()
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    at = int(fields[_ENV_START])
    if not at:
        return
    for entry in environment.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if not _for_host(os.fsdecode(name)):
            ctypes.memset(at + len(name + equals), 0, len(value))
        at += len(entry) + 1


def of_host(environ: Mapping[str, str]) -> dict[str, str]:
    """The slot host's environment: slots are forks of it, and show it in `/proc/self/environ`."""
    return {name: value for name, value in environ.items() if _for_host(name)}


def _for_host(name: str) -> bool:
    return name in _HOST or name.startswith(_HOST_PREFIXES)


def of_slot(
    environ: Mapping[str, str], store_url: str, secrets: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """A slot's environment, and apart from it the credentials for its store."""
    visible = {k: v for k, v in environ.items() if k not in KEYS and k not in secrets}
    prefix = _CREDENTIALS.get(store_url.partition("://")[0])
    if prefix is None:
        return visible, {}
    credentials = {
        name: value
        for name, value in environ.items()
        if name.startswith(prefix) and not any(word in name for word in _ADDRESSES)
    }
    return {k: v for k, v in visible.items() if k not in credentials}, credentials


@contextlib.contextmanager
def exposed(credentials: Mapping[str, str]) -> Iterator[None]:
    """Within this context the environment has these variables."""
    os.environ.update(credentials)
    try:
        yield
    finally:
        for name in credentials:
            del os.environ[name]


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Processes that are started within this context inherit neither keys nor secrets."""
    with _lock:
        away = {name: os.environ.pop(name) for name in KEYS | _secrets if name in os.environ}
        _away.update(away)
    try:
        yield
    finally:
        with _lock:
            os.environ.update(away)
            _away.clear()


def variable(name: str) -> str | None:
    """Of the environment of this process, also while it is hidden."""
    with _lock:
        return os.environ.get(name, _away.get(name))
