"""The `servo` command in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, Column
from tests.kit import forkserver
from tests.kit.forkserver import Forked


class Servo:
    """Runs commands against one store, in a directory that has no `arco.toml`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[Forked] = []
        self.store = directory / "lake"
        kept = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env |= {
            "ARCO_STORE": str(self.store),
            "ARCO_ACTOR": "tester",
            "COLUMNS": "80",
        }

    def start(self, *arguments: str) -> Forked:
        """A command that goes on while the test does, with pipes for what it prints."""
        process = forkserver.shared().start_piped(
            "arco.cli", *arguments, env=self.env, cwd=self.directory
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what a test has started and left."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command in a process that was forked: it did its imports already."""
        return forkserver.shared().run(
            "arco.cli", *arguments, env=self.env, cwd=self.directory, stdin=stdin
        )

    def text(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """What a command prints for people."""
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (code, ""), done
        assert "\x1b" not in done.stdout
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one document that a command prints."""
        return json.loads(self.text(*arguments, "--json", code=code))

    def error(self, *arguments: str, code: int) -> dict[str, Any]:
        """What a command that fails says, in JSON."""
        done = self.run(*arguments, "--json")
        assert (done.returncode, done.stdout) == (code, ""), done
        found: dict[str, str] = json.loads(done.stderr)["error"]
        return found

    def open(self) -> Workspace:
        return Workspace.open(str(self.store), "default", "main", actor="tester")


@pytest.fixture
def servo(tmp_path: Path) -> Iterator[Servo]:
    made = Servo(tmp_path)
    made.store.mkdir()
    yield made
    made.end()


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """A workspace to read: two namespaces, two assets, an observation, a refusal."""
    made = Servo(tmp_path_factory.mktemp("populated"))
    made.store.mkdir()
    populate(made.open())
    return made


def populate(workspace: Workspace) -> None:
    catalog = workspace.commands.catalog
    catalog.create_namespace("sales", owners=["ana"], tags={"tier": "gold"}, description="Sold")
    columns = [Column(name="id", type="bigint", nullable=False), Column(name="mail", type="string")]
    orders = catalog.create_asset("sales.orders", columns=columns, owners=["ana"])
    catalog.create_namespace("ops")
    catalog.create_asset("ops.hosts", tags={"team": "infra"})
    observed = AssetObserved(asset_id=orders.event_id, row_count=1200, size_bytes=64_000)
    workspace.ledger.append([observed])
    workspace.committer.commit()


def names(rows: Sequence[dict[str, Any]], field: str) -> list[Any]:
    return [row[field] for row in rows]
