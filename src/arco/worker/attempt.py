"""One attempt of one task, within its slot: its steps, and how each handles a failure.

    code ─► checks of inputs ─► call ─► files ─► checks ─► lineage ─► marker

Spark starts when the function, a query or a check first needs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from arco.clock import Clock
from arco.errors import Corrupt, NotFound
from arco.orchestration.input_lists import whole
from arco.spark.error_info import SparkFailure
from arco.spark.host import SparkHost
from arco.spark.query import TaskQuery
from arco.spark.read import read_frame
from arco.spark.write import write_frame
from arco.storage.open import open_store
from arco.storage.port import Store
from arco.tasks.failure import SparkUnavailable, UserCodeRaised, as_user_code
from arco.worker.attempt_spark import AttemptSpark, Process
from arco.worker.commit import commit_output
from arco.worker.contract_check import compared
from arco.worker.failures import TaskTimeout, classify, encodable, failed
from arco.worker.frames import is_frame
from arco.worker.inputs import asset_in, read_input
from arco.worker.inspection import STOPPING, Inspection, SparkHooks, refusal, strongest
from arco.worker.lazy_frames import LazyInputs, is_lazy_frame, lazy_tables
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
from arco.worker.personal_check import personal_data_check
from arco.worker.recordable import commit_of, committed_result, failed_result, recordable
from arco.worker.schema_check import schema_results
from arco.worker.secrets import NO_REDACTION, Redactor, SecretValues
from arco.worker.stopping import Stopping
from arco.worker.tracing import Tracing
from arco.worker.usage import Meter
from servo.context import AssetContext, AssetIn, AssetOut
from servo.contract.config_values import from_wire
from servo.contract.manifest import GateAction
from servo.contract.partition import PartitionKey
from servo.contract.task import (
    CheckResult,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    OutputCommit,
    TaskRequest,
    TaskResult,
    personal,
)

log = logging.getLogger("servo")

MAX_PROGRESS_CHARS: Final = 1_000

_END = object()


class Shared(NamedTuple):
    """What all attempts of a slot have in common."""

    store: Store
    clock: Clock
    ids: Callable[[], str]
    worker_id: str
    target_file_bytes: int
    process: Process
    spark: SparkHost | None = None
    open_store: Callable[[str], Store] = open_store
    """Opens another store by its URL."""


class Assignment(NamedTuple):
    """What an attempt is given: for a task, or for the evaluation of a sensor."""

    shared: Shared
    request: TaskRequest
    stopping: Stopping
    loader: Loader
    secrets: SecretValues

    @property
    def redact(self) -> Redactor:
        return Redactor(self.secrets.values()) if self.secrets else NO_REDACTION


class Attempt:
    """Runs once, in the main thread."""

    def __init__(self, assignment: Assignment) -> None:
        self._shared, self._request, self._stopping, self._loader, self._secrets = assignment
        # The request as received; `_read_lists` completes its lists of inputs.
        self._meter = Meter(assignment.shared.clock)
        self._redact = assignment.redact
        process = assignment.shared.process
        self._spark = AttemptSpark(
            assignment.shared.spark, assignment.request, assignment.stopping, process
        )
        self._checks: list[CheckResult] = []
        self._tracing = Tracing(assignment.request)
        self._lazy = LazyInputs(assignment.shared.store, self._count_read)
        self._sql: TaskQuery | None = None
        self._silent = False

    def run(self) -> TaskResult:
        try:
            self._read_lists()
            with self._spark.open_scope():
                result = self._worked()
        except (Exception, TaskTimeout) as error:
            result = self._failed(error)
        self._meter.spark = self._spark.usage
        return msgspec.structs.replace(result, usage=self._meter.usage())

    def _read_lists(self) -> None:
        """Read complete lists of inputs: long ones are objects that the envelope refers to."""
        request = self._request
        if not any(ref.listed_in for ref in (*request.inputs, *request.references)):
            return
        self._request = self._spark.request = msgspec.structs.replace(
            request,
            inputs=tuple([self._whole(ref) for ref in request.inputs]),
            references=tuple([self._whole(ref) for ref in request.references]),
        )

    def _whole(self, ref: InputRef) -> InputRef:
        try:
            return whole(self._shared.store, ref)
        except (NotFound, Corrupt) as error:
            raise failed(
                "infrastructure",
                "input.list",
                f"the list of the {ref.count:,} versions of {ref.asset} cannot be read: "
                f"{error.message}",
                "the next attempt gets a new list",
            ) from None

    def _worked(self) -> TaskResult:
        self._stopping.check()
        inspection = self._inspection()
        work = self._work()
        self._checks.extend(inspection.before())
        gate = strongest(self._checks)
        if gate in STOPPING:
            return self._refused(gate)
        self._stopping.check()
        returned = work()
        metadata: Mapping[str, object] = {}
        if isinstance(returned, AssetOut):
            returned, metadata = returned.data, returned.metadata
        return self._output(returned, metadata, inspection)

    # -- code and arguments ---------------------------------------------------------------

    def _work(self) -> Callable[[], Any]:
        """Load the code and its arguments. The returned function does the work."""
        if self._request.engine == "spark" and self._spark.available:
            # `F.col`, or a UDF at the top of a module, needs it. Whether the function really does
            # is a guess: if Spark cannot start now, its first explicit use reports that.
            with contextlib.suppress(SparkUnavailable):
                self._spark.session()
        match self._request.kind:
            case "python":
                loaded = self._load()
                function = functools.partial(loaded.function, **self._arguments(loaded))
                self._silent = loaded.silent
                return lambda: self._call(function)
            case "sql":
                return self._query
        raise failed(
            "configuration",
            "code.kind",
            f"unknown asset kind {self._request.kind!r}",
            "upgrade the worker",
        )

    def _load(self) -> Loaded:
        """Never interrupted: a library that is imported by half is broken for later tasks."""
        loaded = as_user_code(lambda: self._loader.asset(self._request.code))
        self._spark.ship(self._loader.names)
        self._shared.process.loaded()
        return loaded

    def _query(self) -> Any:
        request, code = self._request, self._request.code
        query = self._sql = TaskQuery(
            request.sql,
            partition=request.partition,
            config=self._config,
            file=code.file,
            line=code.line,
        )
        frames = {
            ref.parameter: self._read(ref, "spark") for ref in request.inputs if ref.parameter
        }
        return self._call(lambda: query.run(self._spark.task, frames))

    @property
    def _config(self) -> dict[str, Any]:
        return {name: from_wire(value) for name, value in self._request.config.items()}

    def _arguments(self, loaded: Loaded) -> dict[str, Any]:
        inputs = {ref.parameter: ref for ref in self._request.inputs if ref.parameter}
        missing = sorted(loaded.required - inputs.keys())
        if missing:
            raise failed(
                "configuration",
                "code.parameters",
                f"{self._request.asset}: the plan has no input for the parameter {missing[0]!r}",
                "deploy the project again",
            )
        arguments: dict[str, Any] = {name: self._input(ref) for name, ref in inputs.items()}
        if loaded.context:
            arguments[loaded.context] = self._context()
        return arguments

    def _input(self, ref: InputRef) -> AssetIn:
        return asset_in(ref, lambda _, kind, columns=(): self._read(ref, kind, columns))

    def _read(self, ref: InputRef, kind: str, columns: Sequence[str] = ()) -> Any:
        with self._stopping.shielded():
            if kind == "lazy":
                data, header = self._lazy.scan(ref, columns)
            else:
                data = header = self._data(ref, kind, columns, on_bytes=self._count_read)
            self._tracing.read(ref, header)
            return data

    def _data(
        self,
        ref: InputRef,
        kind: str,
        columns: Sequence[str] = (),
        on_bytes: Callable[[int], None] | None = None,
    ) -> Any:
        if kind == "spark":
            return read_frame(self._spark.task, self._shared.store, ref)
        return read_input(self._shared.store, ref, kind, columns=columns, on_bytes=on_bytes)

    def _count_read(self, size: int) -> None:
        self._meter.bytes_read += size

    def _context(self) -> AssetContext:
        request = self._request
        return AssetContext(
            tenant_id=request.tenant_id,
            workspace_id=request.workspace_id,
            run_id=request.run_id,
            task_id=request.task_id,
            attempt=request.attempt,
            asset=request.asset,
            partition=PartitionKey.parse(request.partition),
            config=self._config,
            secrets=self._secrets,
            log=self._shared.process.logger(request.asset),
            on_progress=self._progress,
            is_cancelled=self._stopping.stopping,
            spark=self._spark.session,
        )

    def _progress(self, percent: int, message: str) -> None:
        self._spark.shows_progress = False
        with self._stopping.shielded():
            text = encodable(self._redact(message))[:MAX_PROGRESS_CHARS]
            self._shared.process.progress(percent, text)

    # -- user code ------------------------------------------------------------------------

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return as_user_code(lambda: self._stopping.call(function))
        finally:
            self._shared.process.called()

    def _pulled(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same tables. Their iterator may be a generator of the user."""
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
            self._stopping,
            self._redact,
            self._data,
            hooks,
            self._loader,
        )

    def _output(
        self, data: object, metadata: Mapping[str, object], inspection: Inspection
    ) -> TaskResult:
        request, id = self._request, self._shared.ids()
        recorded = metadata_of(metadata, self._redact)
        if data is not None and self._silent:
            log.warning(
                "%s is annotated with `-> None` and returned data: it is kept", request.asset
            )
        written = Written() if data is None else self._write(id, data)
        if not written.files and not self._silent:
            raise failed(
                "user_code",
                "output.none",
                f"{request.asset} returned nothing",
                "return its data, also if it has no rows (a generator yields an empty table); "
                "annotate a function that returns nothing with `-> None`",
            )
        self._meter.bytes_written = written.bytes
        output = materialization(request, id, written, recorded)
        self._stopping.check()
        store = self._shared.store
        promised = compared(request, written.schema, self._redact, store)
        inspection = dataclasses.replace(inspection, request=promised.request)
        self._checks.extend(inspection.after(_ref(output), written.footers))
        self._checks.extend(promised.results)
        self._checks.extend(schema_results(request, written.schema, self._redact, store))
        lineage = self._tracing.lineage(written.schema)
        self._checks.extend(personal_data_check(request, lineage))
        gate = strongest(self._checks)
        if gate in ("fail_task", "fail_run"):
            return recordable(self._shared.store, self._refused(gate, output, lineage))
        commit = OutputCommit(
            materialization=output,
            checks=tuple(self._checks),
            gate=gate,
            instead=request.previous if gate == "quarantine" else None,
            lineage=lineage,
        )
        # The result must fit into the log before the marker commits this output.
        fitting = recordable(self._shared.store, self._succeeded(commit, adopted=False))
        self._stopping.check()
        return self._succeeded(*commit_output(self._shared.store, request, commit_of(fitting)))

    def _write(self, id: str, data: object) -> Written:
        store, target = self._shared.store, folder(self._request, id)
        if is_frame(data, "pyspark.sql"):
            return self._write_frame(target, data)
        if is_lazy_frame(data):
            self._tracing.lazy_plan(data, self._lazy.asset_of)
            tables = lazy_tables(data, self._lazy)
        else:
            tables = tables_of(data)
        return write(
            store,
            target,
            self._pulled(tables),
            redact=self._redact,
            io=self._request.io,
            target_bytes=self._shared.target_file_bytes,
            check=self._stopping.check,
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
        footers = as_user_code(
            lambda: write_frame(
                self._spark.task,
                self._shared.store,
                target,
                frame,
                io=self._request.io,
                target_bytes=self._shared.target_file_bytes,
                check=self._stopping.check,
            )
        )
        return summed_up(footers, self._redact, pii=personal(self._request.columns))

    # -- results --------------------------------------------------------------------------

    def _succeeded(self, marker: OutputCommit, adopted: bool) -> TaskResult:
        return committed_result(self._request, self._shared.worker_id, marker, adopted=adopted)

    def _refused(
        self,
        gate: GateAction,
        output: Materialization | None = None,
        lineage: Lineage | None = None,
    ) -> TaskResult:
        error = refusal(self._request, self._checks, gate)
        return self._failure(error, materialization=output, gate=gate, lineage=lineage)

    def _failed(self, error: BaseException) -> TaskResult:
        """A failure after a cancellation or timeout is reported as that cancellation or timeout."""
        if isinstance(error, UserCodeRaised):
            error = error.error
        reason = self._stopping.reason()
        if reason is not None:
            error = reason.with_traceback(error.__traceback__)
        elif self._sql is not None:
            error = self._sql.failure(error) or error
        return self._failure(error, self._spark.failure(error) if reason is None else None)

    def _failure(
        self, error: BaseException, spark: SparkFailure | None = None, **fields: Any
    ) -> TaskResult:
        request, folder = self._request, self._loader.folder
        info = classify(error, redact=self._redact, folder=folder, spark=spark, request=request)
        checks = tuple(self._checks)
        return failed_result(request, self._shared.worker_id, info, checks=checks, **fields)


def _ref(output: Materialization) -> MaterializationRef:
    return MaterializationRef(
        partition=output.partition,
        materialization_id=output.materialization_id,
        path=output.path,
        rows=output.rows,
        bytes=output.bytes,
    )
