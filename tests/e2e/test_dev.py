"""`servo dev` as a process: saves, runs, broken saves, its end, and its death."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Servo
from tests.kit.depth import DEEP
from tests.kit.forkserver import Forked

API = "/api/v1/workspaces/default/main"
PATIENCE_S = 120.0
FIRST = """
from servo import asset

NAMESPACE = "main"


@asset
def first() -> list[dict[str, int]]:
    return [{"id": 1}]
"""
SECOND = """

@asset
def second() -> list[dict[str, int]]:
    return [{"id": 2}]
"""
SLOW = """
import time
from pathlib import Path

from servo import asset

NAMESPACE = "main"


@asset(retry=3)
def slow() -> list[dict[str, int]]:
    Path({started!r}).touch()
    while not Path({may_end!r}).exists():
        time.sleep(0.05)
    return [{{"id": 1}}]
"""


class Dev:
    """A running `servo dev --json`, and what it has said."""

    def __init__(self, process: Forked) -> None:
        self.process = process
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()
        started = self.until(lambda line: line.get("state") == "started")
        parts = urlsplit(started["url"])
        self.address = (str(parts.hostname), int(parts.port or 0))
        self.token: str = started["token"]
        self.link: str = urlsplit(started["link"]).path

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next line of this kind."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it did not say so: {self.seen}") from None
            self.seen.append(line)
            if wanted(line):
                return line

    def saved(self, state: str) -> dict[str, Any]:
        return self.until(lambda line: line.get("event") == "save" and line["state"] == state)

    def ended(self, run_id: str, state: str = "SUCCEEDED") -> None:
        def is_end(line: dict[str, Any]) -> bool:
            return line.get("run_id") == run_id and line["state"] == state

        if not any(map(is_end, self.seen)):  # it may have ended before the last line
            self.until(is_end)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            content = response.read()
            found = {key.lower(): value for key, value in response.getheaders()}
            return response.status, json.loads(content) if content else None, found
        finally:
            connection.close()

    def trigger(self, asset: str) -> str:
        body = {"selection": [asset], "force": True}
        status, answer, _ = self.ask("POST", f"{API}/runs", body)
        assert status == 202, answer
        return str(answer["run_id"])

    def development(self) -> dict[str, Any]:
        _, session, _ = self.ask("GET", "/auth/session")
        status, answer, _ = self.ask("GET", session["development"])
        assert status == 200
        found: dict[str, Any] = answer
        return found

    def descendants(self) -> set[int]:
        """The processes that it has started, and those that they have."""
        left, pids = [self.process.pid], set[int]()
        while left:
            for file in Path(f"/proc/{left.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    children = {int(pid) for pid in file.read_text().split()} - pids
                    pids |= children
                    left += children
        return pids


def gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/stat").exists() and not _is_zombie(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


class DevProject:
    """A folder without an `arco.toml`, in which `servo dev` is typed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.servo = Servo(folder)
        del self.servo.env["ARCO_STORE"]
        self.code = folder / "assets.py"

    def start(self) -> Dev:
        return Dev(self.servo.start("dev", "--port", "0", "--no-open", "--json"))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[DevProject]:
    made = DevProject(tmp_path / "project")
    yield made
    made.servo.end()


def test_saves_are_deployed_and_run_and_broken_ones_change_nothing(project: DevProject) -> None:
    project.code.write_text(FIRST)
    dev = project.start()
    assert dev.saved("DEPLOYED")["deployment"] == 1
    assert (project.folder / ".arco" / ".gitignore").read_text() == "*\n"

    status, _, headers = dev.ask("GET", dev.link)
    assert (status, headers["location"]) == (303, "/")
    assert dev.ask("GET", dev.link)[0] == 404

    project.code.write_text(FIRST + SECOND)
    assert dev.saved("DEPLOYED")["deployment"] == 2
    dev.ended(dev.trigger("main.second"))

    project.code.write_text(FIRST + SECOND + "\nbroken = (\n")
    broken = dev.saved("BROKEN")
    lines = len(project.code.read_text().splitlines())
    (problem,) = broken["problems"]
    assert (problem["file"], problem["line"]) == ("assets.py", lines)
    assert "never closed" in problem["message"]
    answer = dev.development()
    assert (answer["state"], answer["deployment"]) == ("BROKEN", 2)
    assert answer["problems"] == broken["problems"]
    dev.ended(dev.trigger("main.second"))

    project.code.write_text("import os\nfrom servo import asset\nos._exit(3)\n")
    (problem,) = dev.saved("BROKEN")["problems"]
    assert problem["message"] == "importing assets: the process ended with exit status 3"

    project.code.write_text("print('{')\n" + FIRST)
    assert dev.saved("DEPLOYED")["deployment"] == 3
    answer = dev.development()
    assert (answer["state"], answer["problems"], answer["message"]) == ("DEPLOYED", [], "")

    error = project.servo.error("dev", code=5)
    assert f"servo dev is running in {project.folder}: http://127.0.0.1:" in error["message"]
    # Other commands find the store where nothing is configured.
    assert project.servo.json("status")["assets"] == 1

    children = dev.descendants()
    assert children
    dev.process.send_signal(signal.SIGINT)
    dev.until(lambda line: line.get("state") == "stopped")
    assert dev.process.wait(60) == 0
    assert gone(children)


def test_a_run_survives_the_death_of_the_server(project: DevProject, tmp_path: Path) -> None:
    started, may_end = tmp_path / "started", tmp_path / "may_end"
    project.code.write_text(SLOW.format(started=str(started), may_end=str(may_end)))
    dev = project.start()
    dev.saved("DEPLOYED")
    run_id = dev.trigger("main.slow")
    deadline = time.monotonic() + PATIENCE_S
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    children = dev.descendants()
    os.kill(dev.process.pid, signal.SIGKILL)
    dev.process.wait()
    assert gone(children)
    if not DEEP:  # what the worker had claimed is given to another only after a minute
        return
    may_end.touch()
    again = project.start()
    again.saved("DEPLOYED")
    again.ended(run_id)
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait(60) == 0


def test_it_starts_without_assets_and_refuses_other_machines(project: DevProject) -> None:
    error = project.servo.error("dev", "--host", "0.0.0.0", code=2)
    assert "is not a loopback address" in error["message"]
    assert "servo serve" in error["hint"]
    dev = project.start()
    dev.saved("DEPLOYED")
    project.code.write_text(FIRST)
    assert dev.saved("DEPLOYED")["deployment"] >= 1
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0


def test_a_configured_store_is_used(servo: Servo) -> None:
    (servo.directory / "assets.py").write_text(FIRST)
    dev = Dev(servo.start("dev", "--port", "0", "--json"))
    dev.saved("DEPLOYED")
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0
    assert (servo.store / "default" / "main" / "manifests").is_dir()
    assert not (servo.directory / ".arco" / "default").exists()
