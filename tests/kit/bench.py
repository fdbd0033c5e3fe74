"""An executor over a store, and a project to deploy to it."""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arco.app import Workspace
from arco.clock import Clock, SystemClock
from arco.errors import NotFound
from arco.spark.host import SparkHost
from arco.storage import paths
from arco.storage.local import LocalStore
from arco.storage.port import Mode, Store
from arco.transport.task_envelope import EnvelopeSigner
from arco.worker.artifact import ArtifactCache, digest
from arco.worker.attempt import Assignment, Attempt, Shared
from arco.worker.execute import Executor
from arco.worker.loader import Loader
from arco.worker.log_parts import RunLogs
from arco.worker.packing import pack
from arco.worker.secrets import SecretValues
from arco.worker.stopping import Stopping
from arco.worker.supervise import Control
from arco.worker.worker_core import WorkerCore
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

    def progress(self, percent: int, message: str) -> None:
        pass


class Switch(NoControl):
    """A control whose ends a test holds."""

    def __init__(self) -> None:
        self.stop = False
        self.reports: list[tuple[int, str]] = []

    def cancelled(self) -> bool:
        return self.stop

    def progress(self, percent: int, message: str) -> None:
        self.reports.append((percent, message))


class NoProcess:
    """An attempt's process, where nobody looks at what becomes of it."""

    def logger(self, name: str) -> logging.Logger:
        return logging.Logger(name)

    def progress(self, percent: int, text: str) -> None:
        pass

    @contextlib.contextmanager
    def own_changes(self) -> Iterator[None]:
        yield

    def loaded(self) -> None:
        pass

    def called(self) -> None:
        pass


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """What is imported meanwhile from new places is forgotten, and so are the places."""
    path, modules = list(sys.path), dict(sys.modules)
    try:
        yield
    finally:
        new = tuple(place for place in sys.path if place not in path)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
            if any(str(place).startswith(new) for place in places if new):
                del sys.modules[name]
        sys.modules.update(modules)


def attempt_here(
    request: TaskRequest, store: Store, clock: Clock, artifacts: ArtifactCache
) -> TaskResult:
    """An attempt in this process, for stores that no other one can open."""
    shared = Shared(
        store=store,
        clock=clock,
        ids=seeded_ulids(clock, random.randrange(1 << 30)),
        worker_id="w1",
        target_file_bytes=1 << 20,
        process=NoProcess(),
    )
    loader, stopping = Loader(artifacts.folder(request.code.artifact)), Stopping(request.timeout_s)
    with stopping.listening(), importing():
        return Attempt(Assignment(shared, request, stopping, loader, SecretValues())).run()


class HereExecutor:
    """Runs tasks in this process, one at a time."""

    def __init__(self, workspace: Workspace, signer: EnvelopeSigner, cache: Path) -> None:
        self._workspace = workspace
        self._signer = signer
        self._artifacts = ArtifactCache(workspace.store, cache)

    def open(self, raw: bytes) -> TaskRequest:
        w = self._workspace
        return self._signer.open(raw, tenant=w.tenant, workspace=w.name)

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        w = self._workspace
        return attempt_here(request, w.store, w.clock, self._artifacts)

    def end_idle(self) -> None:
        pass

    def close(self) -> None:
        pass


def worker_core(
    store: Store, worker_id: str, seed: int = 0, spark: SparkHost | None = None
) -> WorkerCore:
    clock = SystemClock()
    return WorkerCore(
        store=store,
        tenant="acme",
        workspace="prod",
        worker_id=worker_id,
        clock=clock,
        ids=seeded_ulids(clock, seed),
        spark=spark,
    )


class Bench:
    """An executor over a store, and a project to deploy to it."""

    def __init__(self, folder: Path, store: Store | None = None, **settings: Any) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.plain: Store = LocalStore(folder / "store")
        self.store = store or self.plain
        self.artifact = ""
        seed, spark = settings.pop("seed", 0), settings.pop("spark", None)
        self.executor = Executor(
            worker_core(self.store, "w1", seed, spark),
            settings.pop("signer", None),
            ArtifactCache(self.plain, folder / "cache"),
            **settings,
        )
        weakref.finalize(self, self.executor.close)

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

    def run_here(self, name: str = "f", **changes: Any) -> TaskResult:
        """An attempt in this process, for stores that no other one can open."""
        artifacts = ArtifactCache(self.plain, self.folder / "cache")
        return attempt_here(self.request(name, **changes), self.store, self.clock, artifacts)

    def log(self, run: str = "r1", task: str = "t1", attempt: int = 1) -> str:
        """What an attempt has logged; NotFound if nothing."""
        texts = [log.text for log in RunLogs(self.plain, run).new([task]) if log.attempt == attempt]
        if not texts:
            raise NotFound(f"attempt {attempt} of {run} {task} has no log")
        return texts[0]

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
