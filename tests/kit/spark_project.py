"""A project on real Spark: deployed to a workspace on disk, and run by an engine."""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, MaterializationRow
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RunRow, TaskRow
from arco.spark.settings import SparkSettings
from arco.worker.artifact import digest
from arco.worker.packing import pack
from arco.worker.pricing import Pricing
from servo.discover import build_manifest, discover

HEADER = """
from __future__ import annotations
import time
from pyspark.sql import functions as F
from servo import *
NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")
"""
FAST = SparkSettings(master="local[2]", fast_start=True, conf={"spark.driver.memory": "1g"})


class SparkProject:
    def __init__(self, folder: Path, spark: SparkSettings = FAST, *, slots: int = 2) -> None:
        self.folder = folder
        self.workspace = Workspace.open(
            f"file://{folder}/store", "acme", "main", spark=spark, pricing=PRICES
        )
        self._slots = slots
        self._engine: LocalEngine | None = None

    def deploy(self, source: str) -> SparkProject:
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        (project / "assets.py").write_text(HEADER + textwrap.dedent(source))
        artifact = pack(project)
        manifest = build_manifest(discover(project), digest(artifact))
        self.workspace.commands.orchestration.deploy(manifest, artifact, allow_removals=True)
        return self

    @contextlib.contextmanager
    def engine(self) -> Iterator[LocalEngine]:
        if self._engine is not None:
            yield self._engine
            return
        with LocalEngine(self.workspace, slots=self._slots).running() as made:
            self._engine = made
            try:
                yield made
            finally:
                self._engine = None

    def trigger(self, *selection: str, partitions: tuple[str, ...] = (), **more: Any) -> str:
        request = PlanRequest(selection=selection or ("*",), partitions=partitions, **more)
        return self.workspace.commands.orchestration.trigger(request).run_id

    def run(self, *selection: str, **more: Any) -> RunRow:
        with self.engine() as engine:
            return engine.wait(self.trigger(*selection, **more))

    def task(self, run: RunRow | str, asset: str) -> TaskRow:
        id = run if isinstance(run, str) else run.run_id
        tasks = self.workspace.read.orchestration().tasks(id)
        return next(task for task in tasks if task.asset_key == f"shop.{asset}")

    def versions(self, asset: str) -> list[MaterializationRow]:
        rows = self.workspace.read.snapshot().rows(MATERIALIZATIONS, self._id(asset))
        return sorted(rows, key=lambda row: row.position)

    def rows(self, asset: str, sql: str = "SELECT * FROM data ORDER BY ALL") -> list[Any]:
        """Of the current version of all partitions."""
        found = self.workspace.read.snapshot().rows(PARTITIONS, self._id(asset))
        root = self.folder / "store/acme/main"
        files = [f"{root}/{row.path}/*.parquet" for row in found]
        if not files:
            return []
        with duckdb.connect() as db:
            listed = ", ".join(f"'{file}'" for file in files)
            source = f"read_parquet([{listed}], hive_partitioning=false)"
            db.execute(f"CREATE VIEW data AS SELECT * FROM {source}")
            return db.execute(sql).fetchall()

    def _id(self, asset: str) -> str:
        return self.workspace.read.orchestration().deployed_assets()[f"shop.{asset}"].asset_id


PRICES = Pricing.parse(
    b'[prices]\ncpu_hour = "0.36"\nmemory_gib_hour = "0.01"\nwritten_gib = "1"\n', "prices"
)


def wait_for_jobs(engine: LocalEngine, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not any(p.message for p in engine.worker.progress().values()):
        assert time.monotonic() < deadline, "no job was seen"
        time.sleep(0.05)
