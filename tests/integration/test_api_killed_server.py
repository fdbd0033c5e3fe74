"""`servo serve` killed with -9 in the middle of a write: the retry on another server gives the
first answer, and the effect is there once."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from arco.app import Workspace
from arco.catalog.tables import AssetRow
from servo.contract.ulid import system_ulids
from tests.kit import forkserver
from tests.kit.depth import KILL_SEED, scaled
from tests.kit.flows import project
from tests.kit.forkserver import Forked
from tests.kit.invariants import check_chain, check_fsck

pytestmark = pytest.mark.xdist_group("processes")

BASE = "/api/v1/workspaces/acme/prod"
WRITES = 8
"""Of one request, about: batch, segment, change file, manifest, hint, removal of the batch."""
FLOW = "from servo import *\n@asset(namespace='sales')\ndef total() -> None: ..."


class Server:
    """A process that serves, on a store that may kill it."""

    def __init__(self, folder: Path, *dying: str) -> None:
        kept = ("PATH", "HOME", "LANG", "TMPDIR")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env |= {"ARCO_STORE": str(folder / "lake"), "ARCO_TENANT": "acme"}
        env |= {"ARCO_WORKSPACE": "prod", "ARCO_ACTOR": "ana"}
        module = "tests.kit.dying" if dying else "arco.cli"
        self._said, saying = os.pipe()
        with os.fdopen(saying, "wb") as out, tempfile.TemporaryFile() as errors:
            self.process: Forked = forkserver.shared().start(
                module,
                *(*dying, "serve", "--port", "0", "--json", "--rate", "100000"),
                env=env,
                cwd=folder,
                stdout=out,
                stderr=errors,
            )
        with os.fdopen(self._said, "rb") as said:
            started = json.loads(said.readline())
        self.port = int(urlsplit(started["url"]).port or 0)
        self.token = started["token"]

    def post(self, path: str, body: object, key: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            content = json.dumps(body).encode()
            connection.request("POST", f"{BASE}{path}", content, headers | {"Idempotency-Key": key})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


class Place(NamedTuple):
    folder: Path
    survivor: Server

    def open(self) -> Workspace:
        return Workspace.open(str(self.folder / "lake"), "acme", "prod", actor="ana")

    def assets(self) -> list[AssetRow]:
        return self.open().read.catalog().assets("sales")

    def check(self) -> None:
        w = self.open()
        w.writer.drain()
        check_chain(w)
        check_fsck(w)
        assert w.upkeep.rebuild(publish=False).same


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("killed")
    (folder / "lake").mkdir()
    w = Workspace.open(str(folder / "lake"), "acme", "prod", actor="ana")
    w.commands.catalog.create_namespace("sales")
    w.commands.orchestration.deploy(*project(FLOW))
    survivor = Server(folder)
    yield Place(folder, survivor)
    survivor.process.terminate()
    survivor.process.wait(60)


@contextlib.contextmanager
def doomed(place: Place, number: int, when: str) -> Iterator[Server]:
    server = Server(place.folder, str(number), when)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(60)


def points(count: int) -> list[tuple[int, str]]:
    every = [(number, when) for number in range(1, WRITES) for when in ("before", "after")]
    return random.Random(KILL_SEED).sample(every, min(count, len(every)))


def test_a_retry_elsewhere_gives_the_first_answer(place: Place) -> None:
    deaths = 0
    for number, when in points(scaled(5, 100)):
        name = f"t{system_ulids()().lower()}"
        body = {"asset": f"sales.{name}"}
        with doomed(place, number, when) as server:
            try:
                assert server.post("/assets", body, name)[0] == 201  # it has fewer writes
            except (http.client.HTTPException, ConnectionError):
                deaths += 1
        answers = [place.survivor.post("/assets", body, name) for _ in range(2)]
        assert [status for status, _ in answers] == [201, 201], (number, when)
        first, second = (answer for _, answer in answers)
        assert second["replayed"]
        assert first["row_version"] == second["row_version"]
        assert [row.name for row in place.assets()].count(name) == 1
    assert deaths, "no server died"


def test_a_trigger_that_is_repeated_elsewhere_starts_one_run(place: Place) -> None:
    for number, when in points(scaled(2, 100)):
        key, body = system_ulids()(), {"selection": ["sales.total"], "force": True}
        said: list[str] = []
        gone = contextlib.suppress(http.client.HTTPException, ConnectionError)
        with doomed(place, number, when) as server, gone:
            said.append(server.post("/runs", body, key)[1]["run_id"])
        for _ in range(2):
            status, answer = place.survivor.post("/runs", body, key)
            assert status == 202, (number, when)
            said.append(answer["run_id"])
        assert len(set(said)) == 1, (number, when)
        requests = place.open().read.orchestration().run_requests(limit=1_000)[0]
        assert [row.run_id for row in requests].count(said[0]) == 1


def test_writes_of_a_server_that_is_killed_again_and_again_are_there_once(place: Place) -> None:
    """A client that goes to the next server when one does not answer, with the same key."""
    rng = random.Random(KILL_SEED)
    written: list[str] = []
    for _ in range(scaled(2, 25)):
        server = Server(place.folder)
        dies_at = time.monotonic() + rng.uniform(0.0, 0.3)
        while True:
            name = f"t{system_ulids()().lower()}"
            written.append(name)
            if time.monotonic() >= dies_at:
                os.kill(server.process.pid, 9)
            try:
                status, _ = server.post("/assets", {"asset": f"sales.{name}"}, name)
                assert status == 201
            except (http.client.HTTPException, ConnectionError):
                break
        server.process.wait(60)
        status, answer = place.survivor.post("/assets", {"asset": f"sales.{written[-1]}"}, name)
        assert (status, answer["subject"]) == (201, f"sales.{name}")
    names = [row.name for row in place.assets()]
    assert sorted(set(written) - set(names)) == []
    assert len(names) == len(set(names))
    place.check()
