"""Runs of no-op assets, in the shapes that the peers' scripts have.

`fan`: one root, N in the middle, one sink. `chain`: N in a row.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Literal, NamedTuple

from arco.app import Workspace
from arco.engine import Engine
from arco.orchestration.plan import PlanRequest
from arco.worker.artifact import pack
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


def run(engine: Engine, mark: Path, n: int) -> Measured:
    """Trigger everything, and wait for its success."""
    started = time.time()
    request = PlanRequest(selection=("*",), force=True, max_tasks=50_000)
    triggered = engine.workspace.orchestration.trigger(request)
    row = engine.wait(triggered.run_id)
    wall = time.time() - started
    assert row.state == "SUCCEEDED", row
    first = float(mark.read_text()) - started if mark.exists() else 0.0
    return Measured(triggered.tasks, wall, first)


def measure(folder: Path, shape: Shape, n: int, *, runs: int = 1, slots: int = 4) -> list[Measured]:
    """Runs of one shape in a fresh workspace on a local disk, one after the other."""
    mark = folder / "mark"
    workspace = Workspace.open(f"file://{folder}/store", "bench", "main")
    manifest, artifact = project(source(shape, n, mark))
    workspace.orchestration.deploy(manifest, artifact)
    with Engine(workspace, slots=slots).running() as engine:
        return [run(engine, mark, n) for _ in range(runs)]
