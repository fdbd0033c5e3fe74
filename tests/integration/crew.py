"""Starts the processes of a busy workspace, kills them, and looks at what is left."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from arco.log.commit import Committed
from arco.state.replay import read_log
from tests.integration.roles import NAMESPACES, Setup
from tests.kit import forkserver
from tests.kit.invariants import check_chain, check_snapshot

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


class Member:
    """One process, which is started again whenever it ends."""

    def __init__(
        self, setup: Setup, role: str, number: int, module: str = "tests.integration.roles"
    ) -> None:
        self.role = role
        self._module = module
        self.name = f"{role}{number}"
        self.kills = 0
        self._setup = setup
        self._log = Path(setup.folder) / f"{self.name}.log"
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        name = f"{self.name}_{self._starts}"  # a new life has a file and a chance of its own
        self._ready = Path(self._setup.folder) / f"ready-{name}"
        raw = msgspec.json.encode(self._setup).decode()
        with open(self._log, "a") as log:
            self._process = forkserver.shared().start(
                *(self._module, self.role, name, raw),
                env=os.environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    @property
    def ready(self) -> bool:
        """Whether it is past its imports, which nobody needs to see killed."""
        return self._ready.exists()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def watch(self) -> None:
        """Start it again if it has given up."""
        if self._process.poll() is not None:
            self.start()

    def wait(self) -> None:
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(
                f"{self.name} did not stop: {self._log.read_text()[-2000:]}"
            ) from None


@contextmanager
def at_work(setup: Setup, roles: dict[str, int]) -> Iterator[list[Member]]:
    """A crew on a new workspace; told to stop, and waited for, at the end."""
    workspace = setup.open()
    for namespace in NAMESPACES:
        workspace.commands.catalog.create_namespace(namespace)
    members = [Member(setup, role, n) for role, count in roles.items() for n in range(count)]
    with stopped_at_the_end(setup, members):
        yield members


@contextmanager
def stopped_at_the_end(setup: Setup, members: list[Member]) -> Iterator[None]:
    """Tell all members to stop, and wait for them, whatever happens meanwhile."""
    try:
        yield
    finally:
        (Path(setup.folder) / "stop").touch()
        for member in members:
            member.wait()


def let_work(setup: Setup, members: list[Member], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check_violations(setup)
        for member in members:
            member.watch()
        time.sleep(0.2)


def kill_now_and_then(
    setup: Setup,
    members: list[Member],
    seconds: float,
    rng: random.Random,
    every_s: tuple[float, float] = (0.3, 1.5),
    at_least: int = 1,
) -> None:
    """kill -9, at random instants, one after the other, each started again at once.

    It goes on until there were `at_least` so many: a busy machine starts processes slowly.
    """
    start, kills = time.monotonic(), 0
    while time.monotonic() < start + seconds or kills < at_least:
        assert time.monotonic() < start + seconds + PATIENCE_S, f"only {kills} processes got ready"
        let_work(setup, members, rng.uniform(*every_s))
        ready = [member for member in members if member.ready]
        if ready:
            victim = rng.choice(ready)
            victim.kill()
            victim.start()
            kills += 1


def let_commit(setup: Setup, members: list[Member], generations: int) -> None:
    """Let them go on until there are so many generations, at the pace of a busy machine."""
    workspace = setup.open()
    start = time.monotonic()
    while workspace.read.snapshot().generation < generations:
        assert time.monotonic() < start + PATIENCE_S, "next to nothing was committed"
        let_work(setup, members, 0.5)


def check_violations(setup: Setup) -> None:
    found = Path(setup.folder) / "violations"
    assert not found.exists(), found.read_text()


def check_whole(setup: Setup) -> dict[str, int]:
    """Everything acknowledged is there once; all checks are clean; a rebuild agrees."""
    check_violations(setup)
    # Nobody collects any more: what is left to commit may take longer than the gate allows.
    workspace = msgspec.structs.replace(setup, age_gate_s=3600.0).open()
    while isinstance(workspace.committer.commit(), Committed):
        pass
    snapshot = workspace.read.snapshot()
    logged = Counter(r.event.id for r in read_log(snapshot, workspace.core.types))
    acknowledged = setup.acknowledged()
    lost = [event for event in acknowledged if event not in logged]
    twice = [event for event, count in logged.items() if count > 1]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged events are lost: {lost[:5]}"
    assert not twice, f"{len(twice)} events are in the log twice: {twice[:5]}"
    check_snapshot(snapshot)
    check_chain(workspace)
    report = workspace.upkeep.fsck()
    assert report.clean, [f for f in report.findings if f.severity == "error"][:10]
    rebuilt = workspace.upkeep.rebuild(publish=False)
    assert rebuilt.same, rebuilt.differences
    return {
        "acknowledged": len(acknowledged),
        "logged": sum(logged.values()),
        "generations": snapshot.generation,
        "floor": workspace.manifests.floor().generation,
    }
