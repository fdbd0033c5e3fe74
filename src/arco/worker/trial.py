"""Calls one asset with data in memory, for `servo.testing`.

The steps are those of an attempt, with its code: inputs as files of a store, which is in memory,
checks of inputs, the call, files, checks of the output. There is no signed request, no commit
marker and no lineage, and Spark DataFrames are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from arco.clock import SystemClock
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from arco.tasks.failure import TaskFailed
from arco.worker.frames import is_frame
from arco.worker.inputs import asset_in, read_input
from arco.worker.inspection import STOPPING, Inspection, strongest
from arco.worker.lazy_frames import LazyInputs, is_lazy_frame, lazy_tables
from arco.worker.loader import Loader
from arco.worker.output import Written, metadata_of, tables_of, write
from arco.worker.secrets import NO_REDACTION, Redactor
from arco.worker.stopping import Stopping
from servo.asset import AnyAsset, AssetDefinition
from servo.check import CheckDefinition
from servo.context import AssetContext, AssetIn, AssetOut
from servo.contract.config_values import from_wire
from servo.contract.manifest import Asset, Code
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import (
    CheckResult,
    CodeRef,
    InputRef,
    MaterializationRef,
    TaskRequest,
    personal,
)
from servo.declare import declare
from servo.errors import Invalid
from servo.project import Project
from servo.signature import returns_nothing
from servo.suggest import did_you_mean
from servo.testing import AssetResult, CheckOutcome

ID: Final = "TRIAL"
OUTPUT: Final = "output"


def run_trial(
    definition: AnyAsset,
    inputs: Mapping[str, Any],
    *,
    partition: Mapping[str, Scalar],
    config: Mapping[str, Any],
    secrets: Mapping[str, str],
    references: Mapping[str, Any],
    previous_rows: int | None,
    spark: Any,
) -> AssetResult:
    if not isinstance(definition, AssetDefinition):
        raise Invalid(
            f"{definition!r} is not an asset with a function",
            hint="a query runs on Spark: test it with `servo run --store` in a temporary folder",
        )
    asset = _declared(definition)
    trial = _Trial(definition, asset, partition, config, secrets, previous_rows, spark)
    try:
        return trial.run(inputs, references)
    except TaskFailed as error:
        raise Invalid(error.info.message, hint=error.info.hint) from None


def _declared(definition: AnyAsset) -> Asset:
    declared = declare(definition, Project(Path(definition.code.file).parent))
    if declared.flaws:
        flaw = declared.flaws[0]
        raise Invalid(f"{definition.key}: {flaw.message}", hint=flaw.hint)
    return declared.asset


class _TrialLoader(Loader):
    """Python checks are the functions of the definition itself."""

    def __init__(self, definition: AssetDefinition[Any, Any]) -> None:
        super().__init__(Path(definition.code.file).parent)
        checks = definition.settings.get("checks", ())
        self._checks = {
            (code.module, code.name): each.__wrapped__
            for each in checks
            if isinstance(each, CheckDefinition) and (code := each.check.code) is not None
        }

    def check(self, asset: CodeRef, check: Code) -> Any:
        return self._checks[check.module, check.name]


class _Trial:
    def __init__(
        self,
        definition: AssetDefinition[Any, Any],
        asset: Asset,
        partition: Mapping[str, Scalar],
        config: Mapping[str, Any],
        secrets: Mapping[str, str],
        previous_rows: int | None,
        spark: Any,
    ) -> None:
        self._definition = definition
        self._asset = asset
        self._partition = PartitionKey(partition)
        self._secrets = secrets
        self._redact = Redactor(secrets.values()) if secrets else NO_REDACTION
        self._previous_rows = previous_rows
        self._spark = spark
        self._store: Store = MemoryStore(SystemClock())
        self._lazy = LazyInputs(self._store, lambda size: None)
        self._config = _configuration(asset, config)
        self._frames: dict[str, Any] = {}

    def run(self, inputs: Mapping[str, Any], references: Mapping[str, Any]) -> AssetResult:
        refs = self._inputs(inputs)
        request = self._request(refs, references)
        inspection = Inspection(
            request,
            self._store,
            SystemClock(),
            Stopping(),
            self._redact,
            self._read,
            None,
            _TrialLoader(self._definition),
        )
        results = list(inspection.before())
        if strongest(results) in STOPPING:
            return AssetResult(None, {}, _outcomes(results), strongest(results))
        returned = self._definition(**self._arguments(refs))
        metadata: Mapping[str, object] = {}
        if isinstance(returned, AssetOut):
            returned, metadata = returned.data, returned.metadata
        recorded = metadata_of(metadata, self._redact)
        written = self._write(OUTPUT, returned, personal(self._asset.columns))
        if not written.files and not returns_nothing(self._definition.__wrapped__):
            raise Invalid(
                f"{self._asset.key} returned nothing",
                hint="return its data, or annotate the function with `-> None`",
            )
        output = self._ref(OUTPUT, written, str(self._partition))
        results += inspection.after(output, written.footers)
        return AssetResult(
            self._read_back(output, written), recorded, _outcomes(results), strongest(results)
        )

    def _read(self, ref: InputRef, kind: str, columns: Sequence[str] = ()) -> Any:
        return read_input(self._store, ref, kind, columns=columns)

    # -- what goes in -------------------------------------------------------------------------

    def _inputs(self, given: Mapping[str, Any]) -> dict[str, InputRef]:
        declared = {each.parameter: each.asset for each in self._asset.inputs if each.parameter}
        unknown = sorted(given.keys() - declared.keys())
        if unknown:
            hint = did_you_mean(unknown[0], declared) or f"it reads {', '.join(declared) or 'none'}"
            raise Invalid(f"{self._asset.key} has no input {unknown[0]!r}", hint=hint)
        missing = sorted(declared.keys() - given.keys())
        if missing:
            name = missing[0]
            raise Invalid(
                f"{self._asset.key} reads {declared[name]}, and the test gives no {name!r}",
                hint=f"pass {{{name!r}: …}}: an Arrow table, a DataFrame, or a list of rows",
            )
        return {name: self._input(name, key, given[name]) for name, key in declared.items()}

    def _input(self, parameter: str, asset: str, data: Any) -> InputRef:
        if is_frame(data, "pyspark.sql"):
            self._frames[parameter] = data
        ref = self._stored(f"inputs/{parameter}", data, asset)
        return InputRef(asset=asset, parameter=parameter, materializations=(ref,))

    def _stored(self, folder: str, data: Any, asset: str) -> MaterializationRef:
        try:
            return self._ref(folder, self._write(folder, data, ()), "")
        except TaskFailed as error:
            raise Invalid(
                f"the data for {asset}: {error.info.message}", hint=error.info.hint
            ) from None

    def _arguments(self, refs: Mapping[str, InputRef]) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            name: asset_in(ref, self._reader(ref)) for name, ref in refs.items()
        }
        context = self._definition.signature.context
        if context:
            session = self._spark
            arguments[context] = AssetContext(
                asset=self._asset.key,
                partition=self._partition,
                config=self._config,
                secrets=self._secrets,
                spark=None if session is None else lambda: session,
            )
        return arguments

    def _reader(self, ref: InputRef) -> Any:
        def read(_: AssetIn, shape: str, columns: Sequence[str] = ()) -> Any:
            if shape == "lazy":
                return self._lazy.scan(ref, columns)[0]
            if shape != "spark":
                return read_input(self._store, ref, shape, columns=columns)
            if ref.parameter in self._frames:
                return self._frames[ref.parameter]
            if self._spark is None:
                raise Invalid(
                    f"{self._asset.key} reads {ref.asset} as a Spark DataFrame",
                    hint="give a session: run_asset(…, spark=session)",
                )
            return self._spark.createDataFrame(read_input(self._store, ref, "pandas"))

        return read

    def _request(self, refs: Mapping[str, InputRef], references: Mapping[str, Any]) -> TaskRequest:
        asset = self._asset
        previous = None
        if self._previous_rows is not None:
            previous = MaterializationRef(
                partition=str(self._partition),
                materialization_id=ID,
                path="previous",
                rows=self._previous_rows,
            )
        looked_up = [
            InputRef(asset=key, materializations=(self._stored(f"references/{key}", data, key),))
            for key, data in references.items()
        ]
        return TaskRequest(
            tenant_id="test",
            workspace_id="test",
            run_id="test",
            task_id="test",
            plan_id="test",
            attempt=1,
            attempt_id="test",
            asset=asset.key,
            asset_id=ID,
            partition=str(self._partition),
            code=CodeRef(module=asset.code.module, name=asset.code.name, artifact=""),
            inputs=tuple(refs.values()),
            output=OUTPUT,
            checks=asset.checks,
            gating=asset.gating,
            references=tuple(looked_up),
            previous=previous,
            columns=asset.columns,
            extra=asset.extra,
            io=asset.io,
        )

    # -- what comes out -----------------------------------------------------------------------

    def _write(self, folder: str, data: Any, pii: Sequence[str]) -> Written:
        if data is None:
            return Written()
        if is_frame(data, "pyspark.sql"):
            data = data.toPandas()
        io = {k: v for k, v in self._asset.io.items() if k not in ("files", "sort_by")}
        lazy = is_lazy_frame(data)
        tables = lazy_tables(data, self._lazy) if lazy else tables_of(data)
        return write(self._store, folder, tables, redact=self._redact, io=io, pii=tuple(pii))

    def _ref(self, folder: str, written: Written, partition: str) -> MaterializationRef:
        return MaterializationRef(
            partition=partition,
            materialization_id=ID,
            path=folder,
            rows=written.rows,
            bytes=written.bytes,
        )

    def _read_back(self, output: MaterializationRef, written: Written) -> Any:
        if not written.files:
            return None
        ref = InputRef(asset=self._asset.key, materializations=(output,))
        names = [column.name for column in written.schema]
        return read_input(self._store, ref, "arrow", columns=names)


def _configuration(asset: Asset, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is declared, with what a test gives in its place, as a run may."""
    names = {*asset.config, *asset.config_read}
    unknown = sorted(given.keys() - names)
    if unknown:
        hint = did_you_mean(unknown[0], names) or "declare it in config="
        raise Invalid(f"{asset.key} has no configuration value {unknown[0]!r}", hint=hint)
    return {name: from_wire(value) for name, value in asset.config.items()} | dict(given)


def _outcomes(results: Sequence[CheckResult]) -> tuple[CheckOutcome, ...]:
    return tuple(
        CheckOutcome(
            name=each.name,
            status=each.status,
            action=each.action,
            message=each.message,
            failing=each.failing,
            input=each.input,
        )
        for each in results
    )
