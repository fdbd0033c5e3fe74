"""The backends of the conformance suite. See tests/kit/backends.py for the servers."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from arco.storage.port import Store
from tests.kit.backends import CLOUDS, Servers
from tests.kit.object_server import serving_objects
from tests.kit.scratch import ON_DISK
from tests.kit.stores import Address

CREW = 4

_LOCAL = ("local", "local-named")
_HERE = ("memory", "scoped", "faulty")
_HTTP = "http"
"""A store behind a server of the API, as workers without access to the store have it."""


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="arco-conformance-", dir=ON_DISK) as folder:
        yield Path(folder)


@pytest.fixture(params=[*_LOCAL, *_HERE, _HTTP, *CLOUDS])
def address(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Address]:
    """An empty store of each backend; in the clouds, a prefix of its own."""
    kind: str = request.param
    if kind == _HTTP:
        with serving_objects(tmp_path) as url:
            yield Address(kind, url, {})
        return
    yield _address(kind, request, servers, tmp_path)


def _address(
    kind: str, request: pytest.FixtureRequest, servers: Servers, tmp_path: Path
) -> Address:
    if kind in _LOCAL:
        return Address(kind, f"file://{request.getfixturevalue('disk')}/store", {})
    if kind in _HERE:
        return Address(kind, f"file://{tmp_path}/store", {})
    backend = servers.get(kind)
    return Address(kind, f"{backend.url}/{tmp_path.parent.name}/{tmp_path.name}", backend.options)


@pytest.fixture
def store(address: Address) -> Store:
    return address.open()


@pytest.fixture(scope="session")
def processes() -> Iterator[Executor]:
    # spawn: after fork, obstore hangs.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(CREW, mp_context=context) as pool:
        yield pool


@pytest.fixture
def crew(address: Address, request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Workers who share a store: processes, except for memory, which has only threads."""
    if address.kind == "memory":
        with ThreadPoolExecutor(CREW) as threads:
            yield threads
    else:
        yield request.getfixturevalue("processes")
