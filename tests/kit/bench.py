"""An executor over a store in memory, and a project to deploy to it."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

from arco.clock import SystemClock
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from arco.worker.artifact import ArtifactCache, digest, pack
from arco.worker.execute import Executor
from servo.contract.identity import attempt_id
from servo.contract.task import CodeRef, Materialization, TaskRequest, TaskResult
from tests.kit.workspace import seeded_ulids

HEADER = """
import pyarrow as pa
from servo.asset import asset
from servo.context import AssetContext, AssetIn, AssetOut
NAMESPACE = "sales"
"""


class NoControl:
    """Nobody interferes, and nobody watches."""

    def cancelled(self) -> bool:
        return False

    def timed_out(self) -> bool:
        return False

    def progress(self, percent: int, message: str) -> None:
        pass


class Switch(NoControl):
    """A control whose ends a test holds."""

    def __init__(self) -> None:
        self.stop = False
        self.late = False
        self.reports: list[tuple[int, str]] = []

    def cancelled(self) -> bool:
        return self.stop

    def timed_out(self) -> bool:
        return self.late

    def progress(self, percent: int, message: str) -> None:
        self.reports.append((percent, message))


class Bench:
    """An executor over a store, and a project to deploy to it."""

    def __init__(self, folder: Path, store: Store | None = None, **settings: Any) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.plain = MemoryStore(self.clock)
        self.store = store or self.plain
        self.artifact = ""
        settings.setdefault("signer", None)
        seed = settings.pop("seed", 0)
        self.executor = Executor(
            self.store,
            "acme",
            "prod",
            settings.pop("signer"),
            ArtifactCache(self.plain, folder / "cache"),
            self.clock,
            seeded_ulids(self.clock, seed),
            "w1",
            **settings,
        )

    def deploy(self, source: str, **files: str) -> Bench:
        project = self.folder / f"project-{random.randbytes(4).hex()}"
        project.mkdir()
        (project / "assets.py").write_text(HEADER + textwrap.dedent(source))
        for name, text in files.items():
            (project / f"{name}.py").write_text(text)
        data = pack(project)
        self.artifact = digest(data)
        self.plain.put(paths.artifact(self.artifact), data, Mode.OVERWRITE)
        return self

    def request(self, name: str = "f", **changes: Any) -> TaskRequest:
        run, task = changes.pop("run_id", "r1"), changes.pop("task_id", "t1")
        attempt = changes.get("attempt", 1)
        fields: dict[str, Any] = {
            "tenant_id": "acme",
            "workspace_id": "prod",
            "run_id": run,
            "task_id": task,
            "plan_id": "p1",
            "attempt": attempt,
            "attempt_id": attempt_id(run, task, attempt),
            "asset": f"sales.{name}",
            "asset_id": "01J00000000000000000000000",
            "code": CodeRef(artifact=self.artifact, module="assets", name=name),
            "output": f"data/sales/{name}/_",
            "fingerprint": "fp",
        }
        return TaskRequest(**(fields | changes))

    def run(self, name: str = "f", control: Any = None, **changes: Any) -> TaskResult:
        return self.executor.run(self.request(name, **changes), control or Switch())

    def log(self, run: str = "r1", task: str = "t1", attempt: int = 1) -> str:
        return self.plain.get(paths.attempt_log(run, task, attempt)).data.decode()

    def listed(self, prefix: str) -> list[str]:
        """Of the store that tasks write to."""
        return [meta.path for meta in self.store.list(prefix)]

    def objects(self, prefix: str) -> list[str]:
        return [meta.path for meta in self.plain.list(prefix)]


def problem(result: TaskResult) -> tuple[str, str, str]:
    assert result.error is not None and result.materialization is None
    return result.outcome, result.error.category, result.error.code


def version(result: TaskResult) -> Materialization:
    assert result.error is None, result.error
    assert result.materialization is not None
    return result.materialization
