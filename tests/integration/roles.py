"""The processes of a busy workspace: `python -m tests.integration.roles ROLE …`.

Each works until it is killed, or until the file `stop` appears in its folder. What
a writer was told is durable it notes in a file of its own, fsynced, before it goes
on: that is what must be there in the end. A process that sees what must never be
seen ends with an exit code of 1, and says what it was.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from arco.app import Workspace
from arco.catalog.events import AssetCreated, AssetObserved, Column
from arco.clock import SystemClock
from arco.errors import Conflict, Corrupt, Error, Fenced, Unavailable
from arco.log.envelope import Payload
from arco.state.snapshot import Snapshot
from tests.kit.invariants import check_snapshot
from tests.kit.keeping import keeping

NAMESPACES = ("north", "south")
PASSING = (Unavailable, Conflict, Fenced)
"""What a process that lives among others must expect, and try again after."""


class Setup(msgspec.Struct, frozen=True):
    """Where the workspace is, and what all processes of a test agree on."""

    url: str
    options: dict[str, str | bool]
    folder: str
    age_gate_s: float
    """What GC waits for. Attempts may take 0.4 of it: a dozen processes share two cores."""

    def open(self, *, collects: bool = False) -> Workspace:
        pa.array([0])  # Arrow's imports take a second; an attempt must not wait for them
        return Workspace.open(
            self.url,
            "acme",
            "busy",
            options=self.options,
            age_gate=timedelta(seconds=self.age_gate_s * (1 if collects else 4)),
        )

    def stopped(self) -> bool:
        return (Path(self.folder) / "stop").exists()

    def acknowledged(self) -> list[str]:
        """Ids of all events that some writer was told are durable."""
        return [
            line
            for file in sorted(Path(self.folder).glob("acknowledged-*"))
            for line in file.read_text().splitlines()
        ]


def writer(setup: Setup, name: str) -> None:
    """Appends batches, and now and then a command that it waits for."""
    workspace = setup.open()
    rng = random.Random(name)
    with open(Path(setup.folder) / f"acknowledged-{name}", "a") as file:
        number = 0
        while not setup.stopped():
            payloads = [_payload(rng, f"{name}_{number}_{i}") for i in range(rng.randint(1, 8))]
            events = [workspace.ledger.event(payload) for payload in payloads]
            workspace.ledger.append(events)
            file.writelines(f"{event.id}\n" for event in events)
            file.flush()
            os.fsync(file.fileno())
            number += 1
            workspace.clock.sleep(rng.uniform(0, 0.02))


def _payload(rng: random.Random, name: str) -> Payload:
    if rng.random() < 0.5:
        columns = (Column(name="id", type="bigint"), Column(name="at", type="timestamp"))
        return AssetCreated(namespace=rng.choice(NAMESPACES), name=f"a_{name}", columns=columns)
    return AssetObserved(asset_id=f"seen_{rng.randrange(50)}", row_count=1, size_bytes=1)


def compactor(setup: Setup, name: str) -> None:
    stop = threading.Event()
    workspace = setup.open()
    threading.Thread(target=_watch, args=(setup, stop), daemon=True).start()
    workspace.upkeep.compactor(stop, interval_s=0.05, merge_interval_s=0.2).run()


def _watch(setup: Setup, stop: threading.Event) -> None:
    while not setup.stopped():
        SystemClock().sleep(0.1)
    stop.set()


def merger(setup: Setup, name: str) -> None:
    workspace = setup.open()
    rng = random.Random(name)
    while not setup.stopped():
        _trying(lambda: workspace.upkeep.merger.merge(everything=rng.random() < 0.3))
        workspace.clock.sleep(rng.uniform(0, 0.3))


def collector(setup: Setup, name: str) -> None:
    workspace = setup.open(collects=True)
    retention = keeping(
        generations=timedelta(0),
        at_least=2,
        rejected=timedelta(0),
    )
    while not setup.stopped():
        _trying(lambda: workspace.upkeep.gc(retention, dry_run=False))
        workspace.clock.sleep(0.3)


def reader(setup: Setup, name: str) -> None:
    """Reads one snapshot after the other; none may show half a commit, or go back."""
    workspace = setup.open()
    before = 0
    while not setup.stopped():
        snapshot = _open(workspace)
        if snapshot is None:
            continue
        assert snapshot.generation >= before, f"{snapshot.generation} came after {before}"
        before = snapshot.generation
        try:
            check_snapshot(snapshot)
        except (Unavailable, Corrupt):
            # Only a snapshot that has been replaced for longer than the gate may be gone.
            if _still_kept(workspace, snapshot):
                raise
        workspace.clock.sleep(0.05)


def _open(workspace: Workspace) -> Snapshot | None:
    try:
        return workspace.read.snapshot()
    except PASSING:
        return None


def _still_kept(workspace: Workspace, snapshot: Snapshot) -> bool:
    child = workspace.manifests.find(snapshot.generation + 1)
    if child is None:
        return snapshot.generation >= workspace.manifests.floor().generation
    return workspace.clock.now() - child.manifest.published_at < workspace.manifests.age_gate / 4


def _trying(work: Callable[[], Any]) -> None:
    try:
        work()
    except PASSING as error:
        print(f"will try again: {error}", file=sys.stderr)


ROLES = {role.__name__: role for role in (writer, compactor, merger, collector, reader)}


def main() -> int:
    role, name, raw = sys.argv[1:]
    setup = msgspec.convert(json.loads(raw), Setup)
    setup.open().read.snapshot()
    (Path(setup.folder) / f"ready-{name}").touch()
    try:
        ROLES[role](setup, name)
    except PASSING as error:
        print(f"{name} ends: {error}", file=sys.stderr)
        return 3  # started again by whoever watches
    except (AssertionError, Error) as error:
        with open(Path(setup.folder) / "violations", "a") as file:
            file.write(f"{name}: {error!r}\n")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
