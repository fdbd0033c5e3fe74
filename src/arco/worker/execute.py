"""One envelope, from its bytes to its result.

    open ─► attempt (`attempt.py`) ─► result

`Executor.run` never raises for a task's failure: it answers with a result that says
what happened. After a cancellation or a time-out nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable

from arco.clock import Clock
from arco.spark.host import SparkHost
from arco.storage.port import Store
from arco.worker.artifact import ArtifactCache
from arco.worker.attempt import Attempt, Shared
from arco.worker.capture import INTERVAL_S, LIMIT_BYTES
from arco.worker.envelope import EnvelopeSigner, open_unsigned
from arco.worker.interrupt import Control, Interruption, Watchdog
from arco.worker.loader import Loader
from arco.worker.output import TARGET_FILE_BYTES
from arco.worker.pricing import Pricing
from arco.worker.secrets import SecretRegistry
from servo.contract.task import TaskRequest, TaskResult


class Executor:
    """Runs the tasks of one workspace, any number of them at once on threads of the caller's.

    Without a signer every envelope of this workspace is believed: for a worker within
    the dispatcher's own process.
    """

    def __init__(
        self,
        store: Store,
        tenant: str,
        workspace: str,
        signer: EnvelopeSigner | None,
        artifacts: ArtifactCache,
        clock: Clock,
        ids: Callable[[], str],
        worker_id: str,
        secrets: SecretRegistry | None = None,
        *,
        log_limit_bytes: int = LIMIT_BYTES,
        log_interval_s: float = INTERVAL_S,
        target_file_bytes: int = TARGET_FILE_BYTES,
        spark: SparkHost | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        self._signer = signer
        self._shared = Shared(
            store=store,
            tenant=tenant,
            workspace=workspace,
            artifacts=artifacts,
            loader=Loader(),
            clock=clock,
            ids=ids,
            worker_id=worker_id,
            secrets=secrets or SecretRegistry(),
            log_limit_bytes=log_limit_bytes,
            log_interval_s=log_interval_s,
            target_file_bytes=target_file_bytes,
            spark=spark,
            pricing=pricing or Pricing(),
        )
        self._watchdog = Watchdog()
        self._running: dict[str, Interruption] = {}

    def open(self, raw: bytes) -> TaskRequest:
        """The request in an envelope. Denied or Invalid if it is not one for us."""
        tenant, workspace = self._shared.tenant, self._shared.workspace
        if self._signer is None:
            return open_unsigned(raw, tenant=tenant, workspace=workspace)
        return self._signer.open(raw, tenant=tenant, workspace=workspace)

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        """Do the work, or find it done. Blocks; `control` may end it.

        `again` says that somebody may have begun with this very request before.
        """
        interruption = Interruption(control, self._shared.clock, request.timeout_s)
        self._running[request.attempt_id] = interruption
        self._watchdog.add(interruption)
        try:
            return Attempt(self._shared, request, control, interruption).run(again=again)
        finally:
            self._watchdog.remove(interruption)
            if self._running.get(request.attempt_id) is interruption:
                del self._running[request.attempt_id]

    def abandon(self, attempt_id: str) -> bool:
        """Give up an attempt that does not stop, such as one that is stuck in C code.

        True: whatever it does from now on, it commits nothing, and its result means
        nothing. False: it is not running, or is committing; its result is on the way.
        """
        interruption = self._running.get(attempt_id)
        return interruption is not None and interruption.abandon()
