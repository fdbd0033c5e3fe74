"""The supervisor's handling of one envelope, from its bytes to its result.

    open ─► committed already? ─► artifact, secrets ─► slot (`supervise.py`) ─► result

`Executor.run` does not raise for a task's failure: it returns a result with the error. After a
cancellation or a timeout nothing is committed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from arco.automation.sensor_events import SensorEvaluated
from arco.errors import Corrupt, Denied, Error, Invalid, NotFound
from arco.security.events import SecretRead
from arco.storage import paths
from arco.storage.http import HttpStore
from arco.storage.open import options_of
from arco.transport.sensor_turns import SensorTurn, record_turn
from arco.transport.task_envelope import EnvelopeSigner, check_request, open_unsigned
from arco.worker import slot_messages as messages
from arco.worker.artifact import ArtifactCache
from arco.worker.capture import INTERVAL_S, LIMIT_BYTES, LogCapture
from arco.worker.commit import committed
from arco.worker.evaluations import SILENT_S, evaluated
from arco.worker.failures import Interrupted, classify, failed
from arco.worker.output import TARGET_FILE_BYTES
from arco.worker.pricing import Pricing
from arco.worker.recordable import committed_result, failed_result
from arco.worker.secret_log import SecretLog, secret_read
from arco.worker.secrets import NO_REDACTION, Redactor, SecretRegistry
from arco.worker.slots import SlotPool, slot_host
from arco.worker.supervise import Control, Supervision
from arco.worker.worker_core import WorkerCore
from servo.contract.sensing import SensorAnswer
from servo.contract.task import ErrorInfo, OutputCommit, TaskRequest, TaskResult, Usage

process_log = logging.getLogger(__name__)


class _SlotRun(NamedTuple):
    """The outcome of an attempt in a slot."""

    result: TaskResult
    answer: SensorAnswer | None
    is_over: bool
    """Whether the slot has ended."""


class TaskAccess(NamedTuple):
    """The access of an attempt to a store behind a server."""

    token: str
    version: str
    """The id of the version that it writes."""


def _opened_store(request: TaskRequest) -> TaskAccess:
    """A slot opens the store itself, with credentials."""
    return TaskAccess("", "")


class Executor:
    """Runs the tasks of one workspace, each in a slot, for threads of the caller's.

    Without a signer, envelopes of this workspace are not verified: for a worker in the dispatcher's
    own process. Without a secret log, reads of secrets are not recorded.
    """

    def __init__(
        self,
        core: WorkerCore,
        signer: EnvelopeSigner | None,
        artifacts: ArtifactCache,
        *,
        secrets: SecretRegistry | None = None,
        secret_log: SecretLog | None = None,
        slots: int = 4,
        private: Callable[[], set[str]] = set,
        log_limit_bytes: int = LIMIT_BYTES,
        log_interval_s: float = INTERVAL_S,
        target_file_bytes: int = TARGET_FILE_BYTES,
        pricing: Pricing | None = None,
        access: Callable[[TaskRequest], TaskAccess] = _opened_store,
    ) -> None:
        self._core = core
        self._access = access
        self._signer = signer
        self._artifacts = artifacts
        self._secrets = secrets or SecretRegistry()
        self._secret_log = secret_log
        self._log_limit_bytes = log_limit_bytes
        self._log_interval_s = log_interval_s
        self._pricing = pricing or Pricing()
        setup = messages.Setup(
            store_url=core.store.url,
            store_options=dict(options_of(core.store)),
            worker_id=core.worker_id,
            target_file_bytes=target_file_bytes,
            spark=b"" if core.spark is None else msgspec.json.encode(core.spark.settings),
        )
        self._slots = SlotPool(slot_host(), setup, slots, core.clock)
        self._private: Callable[[], set[str]] | None = private
        """Returns the variables of the environment that are secrets; None after its first call."""

    def end_idle(self) -> None:
        self._slots.end_idle()

    def close(self) -> None:
        """End all slots that wait for tasks."""
        self._slots.close()

    def open(self, raw: bytes) -> TaskRequest:
        """The request in an envelope. Raises Denied or Invalid if it is not for this worker."""
        tenant, workspace = self._core.tenant, self._core.workspace
        if self._signer is None:
            return open_unsigned(raw, tenant=tenant, workspace=workspace)
        return self._signer.open(raw, tenant=tenant, workspace=workspace)

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        """Run the attempt, or return what was committed before. Blocks; `control` may end it.

        `again`: a worker may have started this request before.
        """
        began = self._core.clock.monotonic()
        log = self._log(request)
        try:
            marker = self._done_before(request, again)
            if marker is not None:
                result = self._succeeded(request, marker)
            else:
                result = self._run(request, control, log)
                _tell(log, result)
        except Exception as error:
            info = classify(error, redact=log.redact, request=request)
            result = failed_result(request, self._core.worker_id, info)
            _tell(log, result)
        usage = result.usage
        if not usage.wall_ms:
            usage = Usage(wall_ms=round((self._core.clock.monotonic() - began) * 1000))
        cost = self._pricing.cost(usage, self._core.tenant)
        return msgspec.structs.replace(result, usage=usage, cost=cost)

    def evaluate(self, request: TaskRequest, control: Control) -> SensorEvaluated | None:
        """Evaluate a sensor: what is to be recorded of it, if anything. Blocks, like `run`.

        Raises Interrupted if `control` has ended it.
        """
        log = self._log(request, interval_s=SILENT_S)
        error: ErrorInfo | None
        began = self._core.clock.monotonic()
        answer: SensorAnswer | None = None
        try:
            result, answer, _ = self._in_slot(request, control, log)
            error = result.error
        except Exception as problem:
            error = classify(problem, redact=log.redact, request=request)
        if error is not None and error.category == "cancelled":
            log.discard()
            raise Interrupted()
        wall_ms = round((self._core.clock.monotonic() - began) * 1000)
        event = evaluated(request, log, answer, error, self._core.worker_id, wall_ms)
        if event is None and answer is not None:
            self._leave_trace(request, answer, wall_ms)
        return event

    def _leave_trace(self, request: TaskRequest, answer: SensorAnswer, wall_ms: int) -> None:
        """Store the log of an evaluation that is not recorded. Failures are ignored."""
        assert request.sensor is not None
        turn = SensorTurn(
            request.sensor.sensor_id, self._core.worker_id, wall_ms, answer.skip_reason
        )
        try:
            record_turn(self._core.store, request.task_id, turn)
        except Error as error:
            process_log.warning("the trace of %s is not written: %s", request.asset, error)

    def _done_before(self, request: TaskRequest, again: bool) -> OutputCommit | None:
        """The output that another attempt or delivery committed. The first does not look."""
        try:
            check_request(request, tenant=self._core.tenant, workspace=self._core.workspace)
        except (Denied, Invalid) as error:
            raise failed("configuration", "envelope.refused", error.message, error.hint) from None
        if not request.output:
            raise failed(
                "configuration", "envelope.refused", "the task request has no output folder"
            )
        again = again or request.attempt > 1 or request.redelivery > 0
        return committed(self._core.store, request) if again else None

    def _run(self, request: TaskRequest, control: Control, log: LogCapture) -> TaskResult:
        result, _, is_over = self._in_slot(request, control, log)
        if result.outcome == "succeeded" or not is_over:
            return result
        # It may have ended during the commit.
        marker = committed(self._core.store, request)
        if marker is None or marker.materialization.attempt_id != request.attempt_id:
            return result
        return self._succeeded(request, marker)

    def _in_slot(self, request: TaskRequest, control: Control, log: LogCapture) -> _SlotRun:
        if control.cancelled():
            raise Interrupted()
        self._check_spark(request)
        access = self._access(request)
        secrets = self._resolved(request, control, log)
        needs_code = request.sensor is None or request.sensor.has_function
        artifact = request.code.artifact if needs_code else ""
        with self._artifacts.using(artifact) if needs_code else contextlib.nullcontext():
            folder = str(self._folder(artifact)) if needs_code else ""
            task = messages.Task(request, folder, secrets, access.token, access.version)
            if (store := self._core.store).url.startswith("memory:"):
                raise failed(
                    "configuration",
                    "store.memory",
                    f"a task runs in a process of its own, which cannot open {store.url}",
                    "use a store on a disk, or in a bucket",
                )
            slot = self._slots.take(artifact)
            try:
                supervision = Supervision(self._core, slot, task, control, log)
                result = supervision.run()
            finally:
                self._slots.give_back(slot)
        return _SlotRun(result, supervision.answer, slot.is_over)

    def _check_spark(self, request: TaskRequest) -> None:
        """Spark opens files itself: it needs the store, which an API server does not give."""
        needed, store = request.engine == "spark" or request.kind == "sql", self._core.store
        if needed and isinstance(store, HttpStore) and not store.data_url:
            raise failed(
                "configuration",
                "spark.data_url",
                f"{request.asset} runs on Spark, and this worker has no access to the data",
                "start the worker with --data-url URL, and give Spark credentials for the data "
                "there; or run it on a worker that has access to the store",
            )

    def _resolved(self, request: TaskRequest, control: Control, log: LogCapture) -> dict[str, str]:
        """The task's secrets, for its slot alone. From here on its log is redacted."""
        if self._private is not None:
            self._slots.hide(self._private())
            self._private = None
        if not request.secrets:
            return {}
        self._slots.hide({r.path for r in request.secrets.values() if r.provider == "env"})
        reads: list[SecretRead] = []
        try:
            secrets = dict(
                self._secrets.resolve(
                    request.secrets,
                    lambda *read: reads.append(secret_read(request, self._core.worker_id, *read)),
                )
            )
        finally:
            if self._secret_log is not None:
                self._secret_log.record(reads, control)
        log.redact = Redactor(secrets.values())
        return secrets

    def _folder(self, digest: str) -> Path:
        try:
            return self._artifacts.folder(digest)
        except NotFound:
            raise failed(
                "configuration",
                "artifact.missing",
                f"the artifact {digest} does not exist",
                "deploy the project again",
            ) from None
        except (Invalid, Corrupt) as error:  # another attempt would fail in the same way
            raise failed(
                "configuration", "artifact.invalid", error.message, "deploy the project again"
            ) from None

    def _log(self, request: TaskRequest, *, interval_s: float | None = None) -> LogCapture:
        return LogCapture(
            self._core.store,
            paths.attempt_log(request.run_id, request.task_id, request.attempt, self._core.ids()),
            self._core.clock,
            NO_REDACTION,
            limit_bytes=self._log_limit_bytes,
            interval_s=self._log_interval_s if interval_s is None else interval_s,
        )

    def _succeeded(self, request: TaskRequest, marker: OutputCommit) -> TaskResult:
        adopted = marker.materialization.attempt_id != request.attempt_id
        return committed_result(request, self._core.worker_id, marker, adopted=adopted)


def _left_out(result: TaskResult) -> str:
    parts = ", ".join(f"{t.part} {t.kept:,} of {t.total:,}" for t in result.truncated)
    output = result.materialization
    where = (
        "" if output is None or output.details is None else f"; all of it: {output.details.path}"
    )
    return f"the result is too large to be recorded in full: {parts}{where}"


def _tell(log: LogCapture, result: TaskResult) -> None:
    error: ErrorInfo | None = result.error
    if result.truncated:
        log.line("WARNING", _left_out(result))
    if error is None:
        adopted = "; adopted the output of another attempt" if result.adopted else ""
        log.close(f"succeeded{adopted}")
        return
    log.line("ERROR", error.traceback.rstrip("\n") or error.message)
    hint = f" ({error.hint})" if error.hint else ""
    log.close(f"{result.outcome}: {error.message}{hint}", always=True)
