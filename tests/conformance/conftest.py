"""The backends of the conformance suite.

A backend whose server cannot be started fails its tests. To go on without it,
name it in ARCO_ALLOW_MISSING_BACKENDS (`azure,gcs`): its tests are skipped then,
and the summary of the run says NOT COVERED, so that nobody takes it for green.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from arco.storage.port import Store
from tests.kit.servers import Backend, CannotStart, azurite, fake_gcs, seaweedfs
from tests.kit.stores import Address

CREW = 4

_SERVERS: dict[str, Callable[[], AbstractContextManager[Backend]]] = {
    "s3": seaweedfs,
    "gcs": fake_gcs,
    "azure": azurite,
}
_HERE = ("memory", "local", "local-named", "scoped", "faulty")
_NOT_COVERED = re.compile(r"NOT COVERED: .*")


class Servers:
    """Each is started when it is first needed, once, and stopped at the end of the session."""

    def __init__(self, running: contextlib.ExitStack) -> None:
        self._running = running
        self._started: dict[str, Backend | CannotStart] = {}

    def get(self, name: str) -> Backend:
        if name not in self._started:
            try:
                self._started[name] = self._running.enter_context(_SERVERS[name]())
            except CannotStart as error:
                self._started[name] = error
        found = self._started[name]
        if isinstance(found, CannotStart):
            _report_missing(name, str(found))
        assert isinstance(found, Backend)
        return found


def _report_missing(name: str, reason: str) -> None:
    allowed = os.environ.get("ARCO_ALLOW_MISSING_BACKENDS", "").split(",")
    line = f"NOT COVERED: {name} ({' '.join(reason.split())})"
    if name in (each.strip() for each in allowed):
        pytest.skip(line)
    pytest.fail(f"{line}; ARCO_ALLOW_MISSING_BACKENDS={name} accepts that", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines: set[str] = set()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
        lines.update(_NOT_COVERED.findall(reason))
    for line in sorted(lines):
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with contextlib.ExitStack() as running:
        yield Servers(running)


@pytest.fixture(
    params=[
        *_HERE,
        *(
            # One worker runs all tests of a server under --dist loadgroup.
            pytest.param(name, marks=[pytest.mark.cloud, pytest.mark.xdist_group(name)])
            for name in _SERVERS
        ),
    ]
)
def address(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Address:
    """An empty store of each backend; in the clouds, a prefix of its own."""
    kind: str = request.param
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
