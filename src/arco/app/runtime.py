"""Running tasks: the orchestrators, workers and queues of a workspace, built here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from arco.app.remote_work import RemoteWork
from arco.dispatch.orchestrator import Orchestrator
from arco.dispatch.request_planner import RequestPlanner
from arco.dispatch.requests import Requests
from arco.dispatch.sender import Sender
from arco.dispatch.sensor_sender import SensorSender
from arco.notifications.delivery import Courier
from arco.orchestration.board import Board
from arco.orchestration.cancel_notes import Cancellations
from arco.orchestration.limits import Timing
from arco.orchestration.plan import PlanSpec
from arco.orchestration.reader import Library, OrchestrationReader
from arco.spark.host import SparkHost
from arco.spark.session import require
from arco.spark.settings import SparkSettings
from arco.state.core import Core
from arco.state.writer import LogWriter
from arco.tasks import private
from arco.tasks.failure import SparkUnavailable
from arco.transport.liveness import StoreLiveness
from arco.transport.queues.capacity import Capacity
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.objectstore import ObjectStoreQueue
from arco.transport.queues.port import Queue
from arco.transport.reports import Reports
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner
from arco.transport.task_keys import task_keys
from arco.transport.work_grants import GrantSigner
from arco.worker.artifact import ArtifactCache
from arco.worker.execute import Executor
from arco.worker.pricing import Pricing
from arco.worker.secret_log import SecretLog
from arco.worker.service import Worker
from arco.worker.staleness import Staleness
from arco.worker.worker_core import WorkerCore
from servo.contract.manifest import Manifest, SecretRef
from servo.contract.task import TaskRequest


@functools.cache
def _spark_host(settings: bytes) -> SparkHost:
    return SparkHost(msgspec.json.decode(settings, type=SparkSettings))


def _never(request: TaskRequest) -> bool:
    return False


class Runtime:
    def __init__(
        self,
        core: Core,
        writer: LogWriter,
        library: Library,
        *,
        spark: SparkSettings | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        self._core = core
        self._writer = writer
        self._library = library
        self._spark_settings = spark or SparkSettings()
        self.pricing = pricing or Pricing()

    def spark(self) -> SparkHost:
        """Spark, for all workers of this process that have the same settings."""
        return _spark_host(msgspec.json.encode(self._spark_settings))

    def _manifests(self) -> Iterator[Manifest]:
        for row in OrchestrationReader(self._core.snapshot()).current_deployments():
            yield self._library.outline(row.manifest)

    def secret_variables(self) -> set[str]:
        """The variables of the environment that deployed code names as secrets."""
        refs: list[SecretRef] = []
        for manifest in self._manifests():
            refs += [ref for asset in manifest.assets for ref in asset.secrets.values()]
            refs += [ref for sensor in manifest.sensors for ref in sensor.secrets.values()]
        return {ref.path for ref in refs if ref.provider == "env"}

    def warm_spark(self) -> bool:
        """Start Spark in the background if the deployed assets seem to need it."""
        needed = self.needs_spark()
        if needed:
            private.add_secrets(self.secret_variables())
            self.spark().warm()
        return needed

    def needs_spark(self) -> bool:
        """Whether the deployed assets seem to use Spark."""
        return any(a.engine == "spark" for each in self._manifests() for a in each.assets)

    def require_engines(self, manifest: Manifest, spec: PlanSpec) -> None:
        """Raises SparkUnavailable if a task needs Spark, and this machine cannot have it."""
        needing = {asset.key for asset in manifest.assets if asset.engine == "spark"}
        running = (task.asset for task in spec.tasks if task.action == "run")
        first = next((key for key in running if key in needing), None)
        if first is not None:
            try:
                require(self._spark_settings)
            except SparkUnavailable as error:
                message = f"{first} needs Spark: {error.message}"
                raise SparkUnavailable(message, hint=error.hint, permanent=True) from None

    def reports(self, timing: Timing | None = None) -> Reports:
        """Urgent ones wake the orchestrator of this process."""
        return Reports(
            self._writer.ledger,
            self._core.clock,
            wake=self._writer.signal.wake,
            linger_s=(timing or Timing()).linger_s,
        )

    def memory_queue(self, timing: Timing | None = None) -> MemoryQueue:
        return MemoryQueue(self._core.clock, (timing or Timing()).claim_s)

    def store_queue(self, worker: str, timing: Timing | None = None) -> ObjectStoreQueue:
        """The queue that lives in the workspace's own store."""
        core, claim_s = self._core, (timing or Timing()).claim_s
        return ObjectStoreQueue(core.store, core.clock, worker, core.ids, claim_s=claim_s)

    def signer(self, keys: Sequence[EnvelopeKey] = ()) -> EnvelopeSigner:
        """Signs and opens envelopes; with the workspace's own keys unless others are given."""
        return EnvelopeSigner(keys or task_keys(self._core.store), self._core.clock)

    def remote_work(self, timing: Timing | None = None) -> RemoteWork:
        """What a server does for workers that have no access to the store."""
        secrets = [key.secret for key in task_keys(self._core.store)]
        return RemoteWork(
            self._core,
            self._writer.ledger,
            self.signer(),
            GrantSigner(secrets),
            claim_s=(timing or Timing()).claim_s,
        )

    def orchestrator(
        self,
        queue: Queue,
        reports: Reports,
        signer: EnvelopeSigner,
        *,
        timing: Timing | None = None,
        courier: Courier | None = None,
        engine_id: str = "",
        slots: int = 0,
        name: str = "",
        interrupt: Callable[[str], None] = lambda attempt_id: None,
        on_board: Callable[[Board], None] = lambda board: None,
    ) -> Orchestrator:
        """One of this workspace; `name` is the process's own, by default a new one. With a
        `courier` it sends notifications."""
        requests = Requests(self._core, self._library)
        sender = Sender(self._core, queue, signer, requests, timing=timing, slots=slots)
        return Orchestrator(
            self._core,
            self._writer,
            reports,
            sender,
            timing=timing,
            planner=None if engine_id else RequestPlanner(self._core, self._writer, self._library),
            courier=courier,
            sensors=None if engine_id else SensorSender(self._core, queue, signer, timing=timing),
            engine_id=engine_id,
            name=name or f"orchestrator-{self._core.ids().lower()}",
            interrupt=interrupt,
            on_board=on_board,
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
        memory_mib: int = 0,
        timing: Timing | None = None,
        drain_s: float = 30.0,
        beats_always: bool = False,
    ) -> Worker:
        """A worker of this workspace; `cache` is where it keeps code on this machine.

        `slots` and `memory_mib` are what its tasks share; 0: memory is not counted.
        """
        core = self._core
        in_memory = isinstance(queue, MemoryQueue)
        executor = Executor(
            WorkerCore(
                store=core.store,
                tenant=core.manifests.tenant,
                workspace=core.manifests.workspace,
                worker_id=worker_id,
                clock=core.clock,
                ids=core.ids,
                spark=self.spark(),
            ),
            None if in_memory else signer,
            ArtifactCache(core.store, cache),
            secret_log=SecretLog(reports, core.clock),
            slots=slots,
            private=self.secret_variables,
            pricing=self.pricing,
        )
        staleness = Staleness(core.snapshot, core.clock)
        return Worker(
            worker_id,
            executor,
            queue,
            reports,
            StoreLiveness(core.store),
            core.clock,
            capacity=Capacity(slots, core.clock, memory_mib=memory_mib, alone=in_memory),
            timing=timing,
            is_stale=staleness.is_stale,
            # Only this process can put messages into a queue in memory.
            is_over=_never if in_memory else staleness.is_over,
            cancelled=Cancellations(core.store, core.snapshot).among,
            drain_s=drain_s,
            beats_always=beats_always,
        )
