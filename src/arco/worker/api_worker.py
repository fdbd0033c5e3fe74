"""A worker that has no access to the store: everything goes through a server of the API.

    supervisor  API key      claims, heartbeats, reports, logs, artifacts
    slot        task token   the inputs of its task, its own output, its commit marker

The key stays in the supervisor: slots and Spark start without it, and cannot read the memory of a
process of another kind unless they run as root.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from arco.clock import Clock
from arco.errors import Unavailable
from arco.orchestration.limits import Timing
from arco.spark.host import SparkHost
from arco.storage import paths
from arco.storage.http import HttpStore
from arco.storage.http_client import HttpClient, checked_api_url
from arco.transport.queues.capacity import Capacity
from arco.transport.reports import Reports
from arco.transport.work_messages import WorkSettings
from arco.worker.api_client import ApiLedger, ApiLiveness, Claims, WorkApi
from arco.worker.api_queue import ApiQueue
from arco.worker.artifact import ArtifactCache
from arco.worker.execute import Executor, TaskAccess
from arco.worker.pricing import Pricing
from arco.worker.secret_log import SecretLog
from arco.worker.service import Worker
from arco.worker.worker_core import WorkerCore
from servo.contract.task import TaskRequest

SHORT_PATIENCE_S = 5.0
"""How long claims, heartbeats and reports are retried: their callers repeat them anyway."""


class ApiAddress(NamedTuple):
    """The address of a server, the workspace, and the credentials of the worker."""

    url: str
    tenant: str
    workspace: str
    name: str
    """Of the worker."""
    key: str
    ca_file: str = ""
    """Certificates to trust besides the usual ones."""

    def __repr__(self) -> str:
        return f"ApiAddress({self.url}, {self.tenant}/{self.workspace}, {self.name})"


class ApiWorker:
    def __init__(
        self,
        address: ApiAddress,
        cache: Path,
        clock: Clock,
        ids: Callable[[], str],
        *,
        spark: SparkHost | None = None,
        pricing: Pricing | None = None,
        data_url: str = "",
        slots: int = 4,
        memory_mib: int = 0,
        timing: Timing | None = None,
        drain_s: float = 30.0,
    ) -> None:
        """`data_url` is the URL of the store, for Spark, which has credentials of its own.

        Raises if the server does not let the worker in.
        """
        timing = timing or Timing()
        url, tenant, workspace, name, key, ca_file = address
        client = HttpClient(patience_s=SHORT_PATIENCE_S, clock=clock, ca_file=ca_file)
        self._api = WorkApi(checked_api_url(url), tenant, workspace, name, key, client)
        self.settings: WorkSettings = self._api.settings()
        timing = msgspec.structs.replace(timing, claim_s=min(timing.claim_s, self.settings.claim_s))
        self.claims = Claims()
        at_data = f"{data_url.rstrip('/')}/{tenant}/{workspace}" if data_url else ""
        store = HttpStore(self._api.url, self._headers, data_url=at_data, ca_file=ca_file)
        ledger = ApiLedger(self._api, self.claims, self.settings, ids, clock)
        self.reports = Reports(ledger, clock, linger_s=timing.linger_s)
        capacity = Capacity(slots, clock, memory_mib=memory_mib)
        self._queue = ApiQueue(
            self._api,
            self.claims,
            capacity,
            ids,
            HttpClient(patience_s=0.0, clock=clock, ca_file=ca_file),
        )
        liveness = ApiLiveness(self._api, self.claims)
        worker_id = self.settings.worker_id
        executor = Executor(
            WorkerCore(
                store=store,
                tenant=tenant,
                workspace=workspace,
                worker_id=worker_id,
                clock=clock,
                ids=ids,
                spark=spark,
            ),
            None,  # the server has verified the envelopes, and is known by its certificate
            ArtifactCache(store, cache),
            secret_log=SecretLog(self.reports, clock),
            slots=slots,
            private=lambda: set(self.settings.secret_variables),
            pricing=pricing,
            access=self._access,
        )
        self.worker = Worker(
            worker_id,
            executor,
            self._queue,
            self.reports,
            liveness,
            clock,
            capacity=capacity,
            timing=timing,
            cancelled=liveness.cancelled,
            drain_s=drain_s,
        )

    @property
    def url(self) -> str:
        return self._api.url

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then drain."""

        def end_claiming() -> None:
            stop.wait()
            self._queue.stop()

        threading.Thread(target=end_claiming, name="claims-stop", daemon=True).start()
        self.worker.run(stop)

    def _headers(self, path: str) -> Mapping[str, str]:
        """What proves to the server that the supervisor may use a path."""
        headers = self._api.headers
        if path.startswith((paths.LOGS, paths.COMMITS)):
            task = self.claims.find(lambda claim: claim.lets_use(path))
            if task is not None:
                headers["Arco-Claim"] = task.claim
        return headers

    def _access(self, request: TaskRequest) -> TaskAccess:
        task = self.claims.of_attempt(request.attempt_id)
        if task is None:  # it was released meanwhile
            raise Unavailable(f"the claim on attempt {request.attempt_id} has ended")
        return TaskAccess(task.access, task.version)
