"""What the parts of one worker share. Built once for each worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arco.clock import Clock
from arco.spark.host import SparkHost
from arco.storage.port import Store


@dataclass(frozen=True, kw_only=True)
class WorkerCore:
    store: Store
    """Already scoped to the workspace; of an API worker: the server's objects."""
    tenant: str
    workspace: str
    worker_id: str
    clock: Clock
    ids: Callable[[], str]
    spark: SparkHost | None = None
    """None: this worker cannot run tasks that need Spark."""
