"""Runs of no-op assets, in the shapes that the peers' scripts have.

`fan`: one root, N in the middle, one sink. `chain`: N in a row.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.orchestration.plan import PlanRequest
from arco.worker.packing import pack
from servo.contract.manifest import Manifest
from servo.discover import build_manifest, discover

Shape = Literal["fan", "chain"]


class Measured(NamedTuple):
    n: int
    wall: float
    first: float

    @property
    def per_task(self) -> float:
        return self.wall / self.n


def source(shape: Shape, n: int, mark: Path | None = None, sleep_s: float = 0.0) -> str:
    """A module with the assets of a shape; the root notes in `mark` when it started."""
    lines = ["import time", "from servo import asset, AssetIn", ""]

    def add(name: str, deps: list[str], body: str) -> None:
        listed = ", ".join(f'"flow.{dep}"' for dep in deps)
        lines.append(f'@asset(namespace="flow", deps=[{listed}])')
        lines.append(f"def {name}() -> None:\n    {body}\n")

    body = f"time.sleep({sleep_s})" if sleep_s else "pass"
    noted = body if mark is None else f"open({str(mark)!r}, 'w').write(repr(time.time()))"
    add("root", [], noted)
    if shape == "fan":
        for i in range(n):
            add(f"m{i}", ["root"], body)
        add("sink", [f"m{i}" for i in range(n)], body)
    else:
        for i in range(n - 1):
            add(f"c{i}", [f"c{i - 1}" if i else "root"], body)
    return "\n".join(lines)


def project(text: str) -> tuple[Manifest, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "flow.py").write_text(text)
        found = discover(root)
        artifact = pack(root, [root / "flow.py"])
        return build_manifest(found, hashlib.sha256(artifact).hexdigest()), artifact


def partitioned(n: int) -> str:
    """The fan with its middle as one asset of `n` partitions."""
    values = [f"k{i:05d}" for i in range(n)]
    return f"""
from servo import asset, static

KEYS = {values!r}

@asset(namespace="flow")
def root() -> None:
    pass

@asset(namespace="flow", deps=["flow.root"], partitions=static("key", KEYS))
def middle() -> None:
    pass

@asset(namespace="flow", deps=["flow.middle"])
def sink() -> None:
    pass
"""


def run(engine: LocalEngine, mark: Path | None = None, selection: str = "*") -> Measured:
    """Trigger a selection, and wait for its success."""
    started = time.time()
    request = PlanRequest(selection=(selection,), force=True, max_tasks=50_000)
    triggered = engine.workspace.commands.orchestration.trigger(request)
    row = engine.wait(triggered.run_id)
    wall = time.time() - started
    if row.state != "SUCCEEDED":
        raise RuntimeError(f"run {row.run_id} ended {row.state}")
    first = float(mark.read_text()) - started if mark is not None else 0.0
    return Measured(triggered.tasks, wall, first)


@contextlib.contextmanager
def engine(folder: Path, text: str, *, slots: int = 4, **settings: Any) -> Iterator[LocalEngine]:
    """A running engine on a local disk, with a project deployed."""
    workspace = Workspace.open(f"file://{folder}/store", "bench", "main", **settings)
    workspace.commands.orchestration.deploy(*project(text))
    with LocalEngine(workspace, slots=slots).running() as made:
        yield made


def measure(folder: Path, shape: Shape, n: int, *, runs: int = 1, slots: int = 4) -> list[Measured]:
    """Runs of one shape in a fresh workspace, one after the other."""
    mark = folder / "mark"
    with engine(folder, source(shape, n, mark), slots=slots) as made:
        return [run(made, mark) for _ in range(runs)]
