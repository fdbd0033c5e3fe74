"""One attempt of one task: its steps, and what each of them makes of a failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from arco.clock import Clock
from arco.errors import Corrupt, Denied, Invalid, NotFound
from arco.storage import paths
from arco.storage.port import Store
from arco.worker.artifact import ArtifactCache
from arco.worker.capture import LogCapture
from arco.worker.commit import commit_output, committed
from arco.worker.envelope import check_request
from arco.worker.failures import TaskFailed, TaskTimeout, classify, encodable, failed
from arco.worker.inputs import read_input
from arco.worker.interrupt import Control, Interruption
from arco.worker.loader import Loaded, Loader
from arco.worker.output import Written, folder, materialization, tables_of, write
from arco.worker.secrets import NO_REDACTION, NO_SECRETS, Redactor, SecretRegistry, SecretValues
from arco.worker.usage import Meter
from servo.context import AssetContext, AssetIn, AssetOut
from servo.contract.partition import PartitionKey
from servo.contract.task import ErrorInfo, InputRef, Materialization, TaskRequest, TaskResult

T = TypeVar("T")

MAX_PROGRESS_CHARS: Final = 1_000

_END = object()


class Shared(NamedTuple):
    """What all attempts of an executor have in common."""

    store: Store
    tenant: str
    workspace: str
    artifacts: ArtifactCache
    loader: Loader
    clock: Clock
    ids: Callable[[], str]
    worker_id: str
    secrets: SecretRegistry
    log_limit_bytes: int
    log_interval_s: float
    target_file_bytes: int


class Attempt:
    """Runs once, on the thread that made it."""

    def __init__(
        self, shared: Shared, request: TaskRequest, control: Control, interruption: Interruption
    ) -> None:
        self._shared = shared
        self._request = request
        self._control = control
        self._interruption = interruption
        self._meter = Meter(shared.clock)
        self._folder: Path | None = None
        self._secrets: SecretValues = NO_SECRETS
        self._redact = NO_REDACTION

    def run(self) -> TaskResult:
        try:
            found = self._done_before()
            if found is not None:
                return self._succeeded(found, found.attempt_id != self._request.attempt_id)
        except Exception as error:
            return self._failed(error)
        return self._captured()

    def _done_before(self) -> Materialization | None:
        """What was committed by another attempt, or delivery; the first one need not ask."""
        shared, request = self._shared, self._request
        try:
            check_request(request, tenant=shared.tenant, workspace=shared.workspace)
        except (Denied, Invalid) as error:
            raise failed("configuration", "envelope.refused", error.message, error.hint) from None
        if not request.output:
            raise failed("configuration", "envelope.refused", "the task has no place to write to")
        again = request.attempt > 1 or request.redelivery > 0
        return committed(shared.store, request) if again else None

    def _captured(self) -> TaskResult:
        log = self._log()
        with log.active():
            try:
                result = self._succeeded(*self._worked(log))
            except (Exception, TaskTimeout) as error:
                result = self._failed(error)
        if self._interruption.abandoned:
            log.closed = True
        else:
            _tell(log, result)
        return result

    def _log(self) -> LogCapture:
        shared, request = self._shared, self._request
        return LogCapture(
            shared.store,
            paths.attempt_log(request.run_id, request.task_id, request.attempt),
            shared.clock,
            self._redact,
            limit_bytes=shared.log_limit_bytes,
            interval_s=shared.log_interval_s,
        )

    def _worked(self, log: LogCapture) -> tuple[Materialization, bool]:
        self._interruption.check()
        self._resolve_secrets(log)
        loaded = self._load()
        arguments = self._arguments(loaded, log)
        self._interruption.check()
        returned = self._call(functools.partial(loaded.function, **arguments))
        metadata: Mapping[str, object] = {}
        if isinstance(returned, AssetOut):
            returned, metadata = returned.data, returned.metadata
        return self._commit(returned, metadata)

    def _resolve_secrets(self, log: LogCapture) -> None:
        """Before any user code runs: from here on all that it says is redacted."""
        if self._request.secrets:
            self._secrets = self._shared.secrets.resolve(self._request.secrets)
            self._redact = log.redact = Redactor(self._secrets.values())

    # -- code and arguments ---------------------------------------------------------------

    def _load(self) -> Loaded:
        """Never interrupted: a library that is imported by half is broken for all tasks."""
        request = self._request
        if request.kind != "python":
            raise failed(
                "configuration",
                "code.kind",
                "SQL assets run on Spark"
                if request.kind == "sql"
                else f"what is {request.kind!r}?",
                "this version runs Python assets only; leave it out of the selection",
            )
        self._folder = self._artifact(request.code.artifact)
        return _as_user_code(lambda: self._shared.loader.load(request.code, self._folder_of()))

    def _artifact(self, digest: str) -> Path:
        try:
            return self._shared.artifacts.folder(digest)
        except NotFound:
            raise failed(
                "configuration",
                "artifact.missing",
                f"the artifact {digest} does not exist",
                "deploy the project again",
            ) from None
        except (Invalid, Corrupt) as error:  # another attempt would find the same
            raise failed(
                "configuration", "artifact.invalid", error.message, "deploy the project again"
            ) from None

    def _folder_of(self) -> Path:
        assert self._folder is not None
        return self._folder

    def _arguments(self, loaded: Loaded, log: LogCapture) -> dict[str, Any]:
        inputs = {ref.parameter: ref for ref in self._request.inputs if ref.parameter}
        missing = sorted(loaded.required - inputs.keys())
        if missing:
            raise failed(
                "configuration",
                "code.parameters",
                f"{self._request.asset}: nothing is planned for the parameter {missing[0]!r}",
                "deploy the project again",
            )
        arguments: dict[str, Any] = {name: self._input(ref) for name, ref in inputs.items()}
        if loaded.context:
            arguments[loaded.context] = self._context(log)
        return arguments

    def _input(self, ref: InputRef) -> AssetIn:
        return AssetIn(
            ref.asset,
            parameter=ref.parameter,
            materializations=ref.materializations,
            paths=[version.path for version in ref.materializations],
            reader=lambda _, kind: self._read(ref, kind),
        )

    def _read(self, ref: InputRef, kind: str) -> Any:
        with self._interruption.shielded():
            return read_input(self._shared.store, ref, kind, on_bytes=self._count_read)

    def _count_read(self, size: int) -> None:
        self._meter.bytes_read += size

    def _context(self, log: LogCapture) -> AssetContext:
        request = self._request
        return AssetContext(
            tenant_id=request.tenant_id,
            workspace_id=request.workspace_id,
            run_id=request.run_id,
            task_id=request.task_id,
            attempt=request.attempt,
            asset=request.asset,
            partition=PartitionKey.parse(request.partition),
            config=request.config,
            secrets=self._secrets,
            log=log.logger(request.asset),
            on_progress=self._progress,
            is_cancelled=self._interruption.stopping,
        )

    def _progress(self, percent: int, message: str) -> None:
        with self._interruption.shielded():
            self._control.progress(percent, encodable(self._redact(message))[:MAX_PROGRESS_CHARS])

    # -- user code ------------------------------------------------------------------------

    def _call(self, function: Callable[[], Any]) -> Any:
        return _as_user_code(lambda: self._interruption.call(function))

    def _pulled(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same tables; what makes them may be a generator of the user's."""
        while (table := self._call(lambda: next(tables, _END))) is not _END:
            yield table

    # -- output ---------------------------------------------------------------------------

    def _commit(self, data: object, metadata: Mapping[str, object]) -> tuple[Materialization, bool]:
        id = self._shared.ids()
        written = Written() if data is None else self._write(id, data)
        self._meter.bytes_written = written.bytes
        made = materialization(self._request, id, written, metadata, self._redact)
        self._interruption.begin_commit()
        return commit_output(self._shared.store, self._request, made)

    def _write(self, id: str, data: object) -> Written:
        return write(
            self._shared.store,
            folder(self._request, id),
            self._pulled(tables_of(data)),
            redact=self._redact,
            target_bytes=self._shared.target_file_bytes,
            check=self._interruption.check,
        )

    # -- results --------------------------------------------------------------------------

    def _succeeded(self, found: Materialization, adopted: bool) -> TaskResult:
        return self._result(outcome="succeeded", materialization=found, adopted=adopted)

    def _failed(self, error: BaseException) -> TaskResult:
        """A failure on the way to an end that was asked for is that end."""
        if isinstance(error, _UserCode):
            error = error.error
        reason = self._interruption.reason()
        if reason is not None:
            error = reason.with_traceback(error.__traceback__)
        info = classify(error, redact=self._redact, folder=self._folder)
        outcome = "cancelled" if info.category == "cancelled" else "failed"
        return self._result(outcome=outcome, error=info)

    def _result(self, **fields: Any) -> TaskResult:
        request = self._request
        return TaskResult(
            run_id=request.run_id,
            task_id=request.task_id,
            attempt=request.attempt,
            attempt_id=request.attempt_id,
            worker_id=self._shared.worker_id,
            usage=self._meter.usage(),
            **fields,
        )


class _UserCode(Exception):
    """Carries whatever user code raised, even an exit, up to where it is reported."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def _as_user_code(function: Callable[[], T]) -> T:
    try:
        return function()
    except TaskFailed:
        raise
    except BaseException as error:
        raise _UserCode(error) from None


def _tell(log: LogCapture, result: TaskResult) -> None:
    error: ErrorInfo | None = result.error
    if error is None:
        log.close("succeeded" if not result.adopted else "succeeded; another attempt was first")
        return
    log.line("ERROR", error.traceback.rstrip("\n") or error.message)
    hint = f" ({error.hint})" if error.hint else ""
    log.close(f"{result.outcome}: {error.message}{hint}", always=True)
