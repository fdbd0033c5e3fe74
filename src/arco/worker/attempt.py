"""One attempt of one task: its steps, and what each of them makes of a failure.

    committed already? ─► secrets ─► code ─► checks of inputs ─► call ─► files ─► checks
        ─► lineage ─► marker

Spark starts when something asks for it: the function, a query, or a check that needs it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from arco.clock import Clock
from arco.errors import Corrupt, Denied, Invalid, NotFound
from arco.spark.failed import SparkUnavailable
from arco.spark.host import SparkHost
from arco.spark.query import Query
from arco.spark.read import read_frame
from arco.spark.write import write_frame
from arco.storage import paths
from arco.storage.port import Store
from arco.worker.artifact import ArtifactCache
from arco.worker.capture import LogCapture
from arco.worker.commit import commit_output, committed
from arco.worker.envelope import check_request
from arco.worker.failures import TaskFailed, TaskTimeout, classify, encodable, failed
from arco.worker.inputs import read_input
from arco.worker.inspection import STOPPING, Inspection, SparkHooks, refusal, strongest
from arco.worker.interrupt import Control, Interruption
from arco.worker.loader import Loaded, Loader
from arco.worker.output import (
    Written,
    check_secrets,
    folder,
    materialization,
    metadata_of,
    summed_up,
    tables_of,
    too_deep,
    write,
)
from arco.worker.pricing import Pricing
from arco.worker.recordable import commit_of, recordable
from arco.worker.seat import Seat
from arco.worker.secrets import NO_REDACTION, NO_SECRETS, Redactor, SecretRegistry, SecretValues
from arco.worker.tracing import Tracing
from arco.worker.usage import Meter
from servo.context import AssetContext, AssetIn, AssetOut
from servo.contract.manifest import Action
from servo.contract.partition import PartitionKey
from servo.contract.task import (
    CheckResult,
    ErrorInfo,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    OutputCommit,
    TaskRequest,
    TaskResult,
    personal,
)

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
    spark: SparkHost | None = None
    pricing: Pricing = Pricing()


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
        self._spark = Seat(shared.spark, request, control, interruption, shared.clock)
        self._checks: list[CheckResult] = []
        self._tracing = Tracing(request)
        self._sql: Query | None = None
        self._silent = False

    def run(self, *, again: bool = False) -> TaskResult:
        try:
            found = self._done_before(again)
            if found is not None:
                adopted = found.materialization.attempt_id != self._request.attempt_id
                return self._priced(self._succeeded(found, adopted))
        except Exception as error:
            return self._priced(self._failed(error))
        return self._priced(self._captured())

    def _done_before(self, again: bool) -> OutputCommit | None:
        """What was committed by another attempt, or delivery; the first one need not ask."""
        shared, request = self._shared, self._request
        try:
            check_request(request, tenant=shared.tenant, workspace=shared.workspace)
        except (Denied, Invalid) as error:
            raise failed("configuration", "envelope.refused", error.message, error.hint) from None
        if not request.output:
            raise failed("configuration", "envelope.refused", "the task has no place to write to")
        again = again or request.attempt > 1 or request.redelivery > 0
        return committed(shared.store, request) if again else None

    def _captured(self) -> TaskResult:
        log = self._log()
        with log.active():
            try:
                with self._spark.taken():
                    result = self._worked(log)
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

    def _worked(self, log: LogCapture) -> TaskResult:
        self._interruption.check()
        self._resolve_secrets(log)
        inspection = self._inspection()
        work = self._work(log)
        self._checks.extend(inspection.before())
        gate = strongest(self._checks)
        if gate in STOPPING:
            return self._refused(gate)
        self._interruption.check()
        returned = work()
        metadata: Mapping[str, object] = {}
        if isinstance(returned, AssetOut):
            returned, metadata = returned.data, returned.metadata
        return self._output(returned, metadata, inspection)

    def _resolve_secrets(self, log: LogCapture) -> None:
        """Before any user code runs: from here on all that it says is redacted."""
        if self._request.secrets:
            self._secrets = self._shared.secrets.resolve(self._request.secrets)
            self._redact = log.redact = Redactor(self._secrets.values())

    # -- code and arguments ---------------------------------------------------------------

    def _work(self, log: LogCapture) -> Callable[[], Any]:
        """The code is there, and so are its arguments; what is returned does the work."""
        self._folder = self._artifact(self._request.code.artifact)
        if self._request.engine == "spark" and self._spark.available:
            # `F.col`, or a UDF at the top of a module, needs it. Whether the function really
            # does is a guess: what cannot start now is told when it is asked for by name.
            with contextlib.suppress(SparkUnavailable):
                self._spark.session()
        match self._request.kind:
            case "python":
                loaded = self._load()
                self._spark.ship()
                function = functools.partial(loaded.function, **self._arguments(loaded, log))
                self._silent = loaded.silent
                return lambda: self._call(function)
            case "sql":
                return self._query
        raise failed("configuration", "code.kind", f"what is {self._request.kind!r}?")

    def _load(self) -> Loaded:
        """Never interrupted: a library that is imported by half is broken for all tasks."""
        return _as_user_code(
            lambda: self._shared.loader.load(self._request.code, self._folder_of())
        )

    def _query(self) -> Any:
        request, code = self._request, self._request.code
        query = self._sql = Query(
            request.sql,
            partition=request.partition,
            config=request.config,
            file=code.file,
            line=code.line,
        )
        frames = {
            ref.parameter: self._read(ref, "spark") for ref in request.inputs if ref.parameter
        }
        return self._call(lambda: query.run(self._spark.task, frames))

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
            reader=lambda _, kind, columns=(): self._read(ref, kind, columns),
        )

    def _read(self, ref: InputRef, kind: str, columns: Sequence[str] = ()) -> Any:
        with self._interruption.shielded():
            if kind != "spark":
                data = read_input(
                    self._shared.store, ref, kind, columns=columns, on_bytes=self._count_read
                )
            else:
                data = read_frame(self._spark.task, self._shared.store, ref)
            self._tracing.read(ref, data)
            return data

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
            spark=self._spark.session,
        )

    def _progress(self, percent: int, message: str) -> None:
        self._spark.shows_progress = False
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

    def _inspection(self) -> Inspection:
        request, shared = self._request, self._shared
        hooks = None
        if self._spark.available:
            hooks = SparkHooks(
                lambda ref: read_frame(self._spark.task, shared.store, ref),
                self._spark.cancel_running,
                self._spark.hurt,
                self._spark.broken_off,
            )
        return Inspection(
            request,
            shared.store,
            shared.clock,
            self._interruption,
            self._redact,
            self._read_for_check,
            hooks,
            self._folder_of,
        )

    def _read_for_check(self, ref: InputRef, kind: str, columns: Sequence[str] = ()) -> Any:
        if kind != "spark":
            return read_input(self._shared.store, ref, kind, columns=columns)
        return read_frame(self._spark.task, self._shared.store, ref)

    def _output(
        self, data: object, metadata: Mapping[str, object], inspection: Inspection
    ) -> TaskResult:
        request, id = self._request, self._shared.ids()
        recorded = metadata_of(metadata, self._redact)
        written = Written() if data is None else self._write(id, data)
        if not written.files and not self._silent:
            raise failed(
                "user_code",
                "output.none",
                f"{request.asset} returned nothing",
                "return its data, if only a table without rows; "
                "if there is none ever, say so: `def f(...) -> None`",
            )
        self._meter.bytes_written = written.bytes
        made = materialization(request, id, written, recorded)
        self._interruption.check()
        self._checks.extend(inspection.after(_ref(made), written.footers))
        gate = strongest(self._checks)
        lineage = self._tracing.lineage(written.schema)
        if gate in ("fail_task", "fail_run"):
            return recordable(self._shared.store, self._refused(gate, made, lineage))
        mine = OutputCommit(
            materialization=made,
            checks=tuple(self._checks),
            gate=gate,
            instead=request.previous if gate == "quarantine" else None,
            lineage=lineage,
        )
        # What the log cannot take must be known before the marker says that this output counts.
        fitting = recordable(self._shared.store, self._succeeded(mine, adopted=False))
        self._interruption.begin_commit()
        return self._succeeded(*commit_output(self._shared.store, request, commit_of(fitting)))

    def _write(self, id: str, data: object) -> Written:
        store, target = self._shared.store, folder(self._request, id)
        if _is_frame(data):
            return self._write_frame(target, data)
        return write(
            store,
            target,
            self._pulled(tables_of(data)),
            redact=self._redact,
            io=self._request.io,
            target_bytes=self._shared.target_file_bytes,
            check=self._interruption.check,
            pii=personal(self._request.columns),
        )

    def _write_frame(self, target: str, frame: Any) -> Written:
        """The write runs the function's plan: what fails in it is the user's code."""
        try:
            columns = frame.schema.jsonValue()["fields"]
        except RecursionError:
            raise too_deep() from None
        check_secrets(columns, self._redact)
        self._tracing.plan(frame)
        footers = _as_user_code(
            lambda: write_frame(
                self._spark.task,
                self._shared.store,
                target,
                frame,
                io=self._request.io,
                target_bytes=self._shared.target_file_bytes,
                check=self._interruption.check,
            )
        )
        return summed_up(footers, self._redact, pii=personal(self._request.columns))

    # -- results --------------------------------------------------------------------------

    def _succeeded(self, found: OutputCommit, adopted: bool) -> TaskResult:
        return self._result(
            outcome="succeeded",
            materialization=found.materialization,
            adopted=adopted,
            checks=found.checks,
            gate=found.gate,
            instead=found.instead,
            lineage=found.lineage,
            truncated=found.truncated,
        )

    def _refused(
        self, gate: Action, made: Materialization | None = None, lineage: Lineage | None = None
    ) -> TaskResult:
        error = refusal(self._request, self._checks, gate)
        return self._result(
            outcome="failed",
            materialization=made,
            checks=tuple(self._checks),
            gate=gate,
            lineage=lineage,
            error=classify(error, redact=self._redact, folder=self._folder, request=self._request),
        )

    def _failed(self, error: BaseException) -> TaskResult:
        """A failure on the way to an end that was asked for is that end."""
        if isinstance(error, _UserCode):
            error = error.error
        reason = self._interruption.reason()
        if reason is not None:
            error = reason.with_traceback(error.__traceback__)
        elif self._sql is not None:
            error = self._sql.failure(error) or error
        spark = self._spark.failure(error) if reason is None else None
        info = classify(
            error, redact=self._redact, folder=self._folder, spark=spark, request=self._request
        )
        outcome = "cancelled" if info.category == "cancelled" else "failed"
        return self._result(outcome=outcome, error=info, checks=tuple(self._checks))

    def _result(self, **fields: Any) -> TaskResult:
        request = self._request
        return TaskResult(
            run_id=request.run_id,
            task_id=request.task_id,
            attempt=request.attempt,
            attempt_id=request.attempt_id,
            worker_id=self._shared.worker_id,
            **fields,
        )

    def _priced(self, result: TaskResult) -> TaskResult:
        """With what the attempt took; asked last, when Spark has said its part."""
        self._meter.spark = self._spark.usage
        usage = self._meter.usage()
        return msgspec.structs.replace(
            result, usage=usage, cost=self._shared.pricing.cost(usage, self._shared.tenant)
        )


def _ref(made: Materialization) -> MaterializationRef:
    return MaterializationRef(
        partition=made.partition,
        materialization_id=made.materialization_id,
        path=made.path,
        rows=made.rows,
        bytes=made.bytes,
    )


def _is_frame(data: object) -> bool:
    """Whether it is a DataFrame of Spark's, which can only be if that was imported."""
    pyspark = sys.modules.get("pyspark.sql")
    return pyspark is not None and isinstance(data, pyspark.DataFrame)


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


def _left_out(result: TaskResult) -> str:
    parts = ", ".join(f"{t.part} {t.kept:,} of {t.total:,}" for t in result.truncated)
    made = result.materialization
    where = "" if made is None or made.details is None else f"; all of it is in {made.details.path}"
    return f"the result is too large to be recorded whole: {parts}{where}"


def _tell(log: LogCapture, result: TaskResult) -> None:
    error: ErrorInfo | None = result.error
    if result.truncated:
        log.line("WARNING", _left_out(result))
    if error is None:
        log.close("succeeded" if not result.adopted else "succeeded; another attempt was first")
        return
    log.line("ERROR", error.traceback.rstrip("\n") or error.message)
    hint = f" ({error.hint})" if error.hint else ""
    log.close(f"{result.outcome}: {error.message}{hint}", always=True)
