"""Builds everything once: a workspace, with its log, its state and its readers."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from arco.catalog import events as catalog_events
from arco.catalog import fold as catalog_fold
from arco.catalog.commands import CatalogCommands
from arco.catalog.reader import CatalogReader
from arco.clock import Clock, SystemClock
from arco.dispatch.orchestrator import Orchestrator
from arco.dispatch.queues.memory import MemoryQueue
from arco.dispatch.queues.objectstore import ObjectStoreQueue
from arco.dispatch.queues.port import Queue
from arco.dispatch.reports import Reports
from arco.dispatch.requests import Requests
from arco.execution import events as execution_events
from arco.execution import fold as execution_fold
from arco.execution.collect import DataCollector, DataGcReport
from arco.execution.commands import ExecutionCommands
from arco.execution.expiry import Kept
from arco.execution.reader import ExecutionReader
from arco.lineage import fold as lineage_fold
from arco.lineage.reader import LineageReader
from arco.log.append import Ledger, Signal
from arco.log.commit import Committed, Committer
from arco.log.envelope import EventTypes, Payload
from arco.log.head import AGE_GATE, Head, Manifests
from arco.log.inbox import Inbox, Limits
from arco.log.publish import Publisher
from arco.orchestration import derived, states
from arco.orchestration import events as orchestration_events
from arco.orchestration import fold as orchestration_fold
from arco.orchestration.commands import OrchestrationCommands
from arco.orchestration.in_use import runs_of
from arco.orchestration.limits import Limits as OrchestrationLimits
from arco.orchestration.limits import Timing
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.tables import RUNS
from arco.quality import fold as quality_fold
from arco.spark.host import SparkHost
from arco.spark.settings import SparkSettings
from arco.state import system
from arco.state.backup import CopyReport, back_up, restore
from arco.state.compactor import Compactor
from arco.state.diff import RowDiff, diff
from arco.state.fold import Chain
from arco.state.fsck import Checker, FsckReport
from arco.state.gc import Collector, GcReport, Retention
from arco.state.merge import Merger
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.project import StateProjector
from arco.state.rebuild import EmbeddedEngine, Engine, Rebuild, Rebuilder
from arco.state.replay import Progress, silent
from arco.state.rollback import Rollback, RolledBack
from arco.state.snapshot import At, Snapshot
from arco.state.sql import SqlEngine
from arco.state.sqlprocess import SqlLimits, SqlProcess
from arco.state.table import Table
from arco.state.tier1 import Tier1
from arco.state.warm import Warm
from arco.storage.cloud import Option
from arco.storage.lease import Leases
from arco.storage.open import open_store
from arco.storage.port import Store
from arco.storage.scoped import ScopedStore
from arco.storage.store_clock import StoreClock
from arco.worker.artifact import ArtifactCache
from arco.worker.envelope import EnvelopeKey, EnvelopeSigner
from arco.worker.execute import Executor
from arco.worker.keys import task_keys
from arco.worker.pricing import Pricing
from arco.worker.service import Worker
from arco.worker.staleness import Staleness
from servo.contract.task import TaskRequest
from servo.contract.ulid import system_ulids

EVENTS: tuple[type[Payload], ...] = (
    *catalog_events.EVENTS,
    *orchestration_events.EVENTS,
    *execution_events.EVENTS,
    RolledBack,
)
"""Every event type that this program knows."""


def chain() -> Chain:
    """The stages of all domains, in their order."""
    commands = [event for event in EVENTS if event.COMMAND]
    stages = (
        system.admission(commands),
        *orchestration_fold.STAGES,
        *execution_fold.STAGES,
        derived.DECISIONS,
        *quality_fold.STAGES,
        *lineage_fold.STAGES,
        *catalog_fold.STAGES,
        system.OUTCOME_STAGE,
    )
    return Chain(stages, EVENTS)


@functools.cache
def _spark_host(settings: bytes) -> SparkHost:
    return SparkHost(msgspec.json.decode(settings, type=SparkSettings))


def _never(request: TaskRequest) -> bool:
    return False


class Workspace:
    """One tenant's workspace on one store.

    `store` is already scoped. Everything that decides by time, chance or new ids
    is given its source here.
    """

    def __init__(
        self,
        store: Store,
        tenant: str,
        name: str,
        *,
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
        rng: random.Random | None = None,
        age_gate: timedelta = AGE_GATE,
        limits: Limits | None = None,
        source: str = "arco",
        actor: str = "",
        warm_budget_bytes: int = 192 << 20,
        cache_budget_bytes: int = 32 << 20,
        spark: SparkSettings | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.name = name
        self.clock: Clock = clock or SystemClock()
        self.ids = ids or system_ulids()
        self.chain = chain()
        self.types = EventTypes(EVENTS)
        self.signal = Signal()
        self.store_clock = StoreClock(store, self.clock)
        self.manifests = Manifests(store, tenant, name, self.clock, age_gate=age_gate)
        self.files = Files(store, budget_bytes=cache_budget_bytes)
        self.ledger = Ledger(
            store,
            tenant,
            name,
            self.clock,
            self.ids,
            self.types,
            self.store_clock,
            source=source,
            actor=actor,
            signal=self.signal,
        )
        self.publisher = Publisher(
            store, self.manifests, self.clock, self.ids, self.store_clock, rng=rng
        )
        warm = Warm(self.files, budget_bytes=warm_budget_bytes)
        self.projector = StateProjector(self.manifests, self.chain, warm, self.files, self.ids)
        inbox = Inbox(store, self.types, self.store_clock, limits=limits)
        self.committer = Committer(self.publisher, inbox, self.projector, self.ids)
        self.leases = Leases(store, self.clock, self.store_clock, source, self.ids)
        self.merger = Merger(
            self.publisher, self.tables, self.files, self.clock, self.ids, self.leases
        )
        self.tier1 = Tier1(
            self.ledger,
            self.committer,
            self.manifests,
            self.files,
            self.chain,
            self.store_clock,
        )
        self.catalog = CatalogCommands(self.tier1, actor)
        self.execution = ExecutionCommands(self.tier1, actor)
        self.pricing = pricing or Pricing()
        self._spark_settings = spark or SparkSettings()
        self.library = Library(store)
        self.orchestration = OrchestrationCommands(
            store, self.tier1, self.library, self.snapshot, self.clock, self.ids, actor
        )

    @classmethod
    def open(
        cls,
        url: str,
        tenant: str,
        name: str,
        *,
        options: Mapping[str, Option] | None = None,
        **settings: Any,
    ) -> Workspace:
        """The workspace at a store's URL (`file:///…`, `s3://…`, `gs://…`, `az://…`).

        `options` go to the store's client; by default it asks the environment.
        """
        store = ScopedStore(open_store(url, **(options or {})), tenant, name)
        return cls(store, tenant, name, **settings)

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        return (*self.chain.tables, *system.OWN_TABLES)

    def snapshot(self, at: At | None = None) -> Snapshot:
        return Snapshot.open(self.manifests, self.files, at)

    def read_catalog(self, at: At | None = None) -> CatalogReader:
        return CatalogReader(self.snapshot(at))

    def read_orchestration(self, at: At | None = None) -> OrchestrationReader:
        return OrchestrationReader(self.snapshot(at))

    def read_execution(self, at: At | None = None) -> ExecutionReader:
        return ExecutionReader(self.snapshot(at))

    def read_lineage(self, at: At | None = None) -> LineageReader:
        return LineageReader(self.snapshot(at))

    def sql(self, limits: SqlLimits | None = None, process: SqlProcess | None = None) -> SqlEngine:
        """An engine for SQL over snapshots of this workspace; close it after use."""
        return SqlEngine(self.tables, limits, process)

    def diff(self, before: At, after: At | None = None) -> list[RowDiff]:
        """What changed in the domains' tables between two generations."""
        tables = [table for table in self.tables if table.domain != "log"]
        return diff(self.snapshot(before), self.snapshot(after), tables)

    @property
    def pins(self) -> Pins:
        return Pins(self.manifests, self.store_clock)

    def fsck(self, *, deep: bool = True, progress: Progress = silent) -> FsckReport:
        return Checker(self.manifests, self.tables, deep=deep, progress=progress).check()

    def gc(
        self,
        retention: Retention | None = None,
        *,
        dry_run: bool = True,
        progress: Progress = silent,
    ) -> GcReport:
        collector = Collector(self.manifests, self.files, self.pins, self.store_clock, self.leases)
        report = collector.collect(retention, dry_run=dry_run, progress=progress)
        if not dry_run and isinstance(self.store, ScopedStore):
            self.store.sweep(self.manifests.age_gate)
        return report

    def collect_data(
        self, kept: Kept | None = None, *, dry_run: bool = True, progress: Progress = silent
    ) -> DataGcReport:
        """Give up versions, and delete the files that nobody can read any more."""
        while not dry_run and isinstance(self.committer.commit(), Committed):
            pass  # so that no run waits in the inbox that nobody sees
        collector = DataCollector(
            self.manifests,
            self.files,
            self.pins,
            self.store_clock,
            self.leases,
            runs_of(self.library),
            self.execution.expire,
        )
        report = collector.collect(kept, dry_run=dry_run, progress=progress)
        if not dry_run and isinstance(self.store, ScopedStore):
            self.store.sweep(self.manifests.age_gate)
        return report

    def rebuild(
        self, engine: Engine | None = None, *, publish: bool = True, progress: Progress = silent
    ) -> Rebuild:
        """Fold the log again; the embedded engine unless another is given."""
        embedded = EmbeddedEngine(self.chain, self.types, self.files, self.clock, self.ids)
        rebuilder = Rebuilder(self.publisher, self.files, self.clock, self.ids, self.leases)
        return rebuilder.rebuild(
            self.snapshot(), engine or embedded, publish=publish, progress=progress
        )

    def backup(
        self, target: Store, *, data: bool = False, progress: Progress = silent
    ) -> CopyReport:
        """Commit what waits in the inbox, and copy the head to a store of the same scope.

        With `data`, what assets have written is copied too.
        """
        while isinstance(self.committer.commit(), Committed):
            pass
        return back_up(
            self.manifests,
            self.files,
            self.pins,
            target,
            nonce=self.ids(),
            data=data,
            progress=progress,
        )

    def restore(
        self, backup: Store, *, generation: int | None = None, progress: Progress = silent
    ) -> CopyReport:
        """Fill this workspace, which must be empty, from a backup and all that it has."""
        return restore(
            backup,
            self.store,
            self.tenant,
            self.name,
            self.clock,
            generation=generation,
            progress=progress,
        )

    def rollback(self, generation: int, *, reason: str, actor: str = "") -> Head:
        """Publish the state of an older generation as a new one."""
        rollback = Rollback(self.publisher, self.pins, self.clock, self.ids)
        return rollback.roll_back(generation, reason=reason, actor=actor)

    def compactor(self, stop: threading.Event, **settings: Any) -> Compactor:
        return Compactor(self.committer, self.merger, self.signal, stop, self.clock, **settings)

    # -- running tasks -------------------------------------------------------------------

    def spark(self) -> SparkHost:
        """Spark, for all workers of this process that have the same settings."""
        return _spark_host(msgspec.json.encode(self._spark_settings))

    def warm_spark(self) -> bool:
        """Start Spark in the background if the deployed assets seem to need it."""
        deployed = self.read_orchestration().current_deployment()
        if deployed is None:
            return False
        assets = self.library.manifest(deployed.manifest).assets
        needed = any(asset.engine == "spark" for asset in assets)
        if needed:
            self.spark().warm()
        return needed

    def reports(self, timing: Timing | None = None) -> Reports:
        linger_s = (timing or Timing()).linger_s
        return Reports(self.ledger, self.clock, linger_s=linger_s)

    def memory_queue(self, timing: Timing | None = None) -> MemoryQueue:
        return MemoryQueue(self.clock, (timing or Timing()).claim_s)

    def store_queue(self, worker: str, timing: Timing | None = None) -> ObjectStoreQueue:
        """The queue that lives in the workspace's own store."""
        claim_s = (timing or Timing()).claim_s
        return ObjectStoreQueue(self.store, self.clock, worker, self.ids, claim_s=claim_s)

    def signer(self, keys: Sequence[EnvelopeKey] = ()) -> EnvelopeSigner:
        """Signs and opens envelopes; with the workspace's own keys unless others are given."""
        return EnvelopeSigner(keys or task_keys(self.store), self.clock)

    def orchestrator(
        self,
        queue: Queue,
        reports: Reports,
        signer: EnvelopeSigner,
        *,
        limits: OrchestrationLimits | None = None,
        timing: Timing | None = None,
        pool: str = "",
        slots: int = 0,
        name: str = "",
    ) -> Orchestrator:
        """One of this workspace; `name` is the process's own, by default a new one."""
        return Orchestrator(
            self.store,
            self.manifests,
            self.files,
            self.committer,
            self.projector,
            reports,
            queue,
            signer,
            Requests(self.tenant, self.name, self.library),
            self.clock,
            self.signal,
            self.types,
            self.store_clock,
            limits=limits,
            timing=timing,
            pool=pool,
            slots=slots,
            name=name or f"orchestrator-{self.ids().lower()}",
        )

    def worker(
        self,
        worker_id: str,
        queue: Queue,
        reports: Reports,
        signer: EnvelopeSigner,
        cache: Path,
        *,
        slots: int = 4,
        timing: Timing | None = None,
        drain_s: float = 30.0,
    ) -> Worker:
        """A worker of this workspace; `cache` is where it keeps code on this machine."""
        executor = Executor(
            self.store,
            self.tenant,
            self.name,
            signer,
            ArtifactCache(self.store, cache),
            self.clock,
            self.ids,
            worker_id,
            spark=self.spark(),
            pricing=self.pricing,
        )
        staleness = Staleness(self.snapshot, self.clock)
        return Worker(
            worker_id,
            executor,
            queue,
            reports,
            self.store,
            self.clock,
            slots=slots,
            timing=timing,
            is_stale=staleness.is_stale,
            # Nobody but this process can put a message into a queue in memory.
            is_over=_never if isinstance(queue, MemoryQueue) else staleness.is_over,
            cancelled=self._cancelled,
            drain_s=drain_s,
        )

    def _cancelled(self, runs: Collection[str]) -> set[str]:
        snapshot = self.snapshot()
        rows = {run: snapshot.get(RUNS, run) for run in runs}
        active = (states.RUN_PLANNING, states.RUN_RUNNING)
        return {run for run, row in rows.items() if row is None or row.state not in active}
