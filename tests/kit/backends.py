"""The cloud servers that a session of tests shares, each started when it is first needed.

A server that cannot be started fails the tests that need it. To go on without it,
name it in ARCO_ALLOW_MISSING_BACKENDS (`azure,gcs`): its tests are skipped then,
and the summary of the run says NOT COVERED, so that nobody takes it for green.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.kit.proxy import Proxy, proxied
from tests.kit.servers import Backend, CannotStart, azurite, fake_gcs, seaweedfs

SERVERS: dict[str, Callable[[], AbstractContextManager[Backend]]] = {
    "s3": seaweedfs,
    "gcs": fake_gcs,
    "azure": azurite,
}
# One worker runs all tests of a server under --dist loadgroup.
CLOUDS = [
    pytest.param(name, marks=[pytest.mark.cloud, pytest.mark.xdist_group(name)]) for name in SERVERS
]
"""A test's parameters: the name of each server."""


class Servers:
    """Each is started once, and stopped at the end of the session."""

    def __init__(self, running: contextlib.ExitStack) -> None:
        self._running = running
        self._started: dict[str, Backend | CannotStart] = {}

    def get(self, name: str) -> Backend:
        if name not in self._started:
            try:
                self._started[name] = self._running.enter_context(SERVERS[name]())
            except CannotStart as error:
                self._started[name] = error
        backend = self._started[name]
        if isinstance(backend, CannotStart):
            _report_missing(name, str(backend))
        assert isinstance(backend, Backend)
        return backend

    def proxied(self, name: str) -> AbstractContextManager[tuple[Backend, Proxy]]:
        """The server behind a new proxy."""
        return proxied(self.get(name))


def _report_missing(name: str, reason: str) -> None:
    allowed = os.environ.get("ARCO_ALLOW_MISSING_BACKENDS", "").split(",")
    line = f"NOT COVERED: {name} ({' '.join(reason.split())})"
    if name in (each.strip() for each in allowed):
        pytest.skip(line)
    pytest.fail(f"{line}; ARCO_ALLOW_MISSING_BACKENDS={name} accepts that", pytrace=False)
