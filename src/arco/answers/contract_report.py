"""Whether the current version of an asset keeps its contract, without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from arco.answers.partition_names import deployed
from arco.automation.freshness_reader import FreshnessReader
from arco.automation.freshness_tables import FreshnessStatus
from arco.catalog.contract_changes import age_text
from arco.catalog.contract_checks import contract_checks
from arco.catalog.contract_reader import ContractReader
from arco.clock import Clock
from arco.columns.promises import PromisedColumns, broken, promised_columns, with_dimensions
from arco.columns.schema_columns import actual_columns
from arco.errors import Invalid
from arco.execution.reader import ExecutionReader
from arco.execution.tables import MaterializationRow
from arco.execution.version_lookup import VersionLookup
from arco.orchestration.reader import Library
from arco.state.snapshot import Snapshot
from arco.storage.port import Store
from arco.tasks.failure import TaskFailed
from arco.worker.checks import CheckContext, Subject, evaluate
from arco.worker.contract_check import evaluable
from servo.contract.manifest import ContractStatement, FreshnessSpec, Retention
from servo.contract.partition import PartitionKey
from servo.contract.task import CheckResult, InputRef, MaterializationRef
from servo.rules.contracts import retention_flaws

PromiseStatus = Literal["kept", "broken", "unknown"]


class PromiseResult(msgspec.Struct, frozen=True, kw_only=True):
    promise: str
    """`columns`, the name of a check, `freshness` or `retention`."""
    status: PromiseStatus
    message: str = ""
    method: str = ""
    """How it was evaluated: catalog, footer, duckdb."""


class ContractReport(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    version: str
    partition: str
    materialization_id: str
    promises: list[PromiseResult]

    @property
    def is_kept(self) -> bool:
        return all(each.status != "broken" for each in self.promises)


class ContractJudge:
    """Reads the catalog at one generation, and files as they are."""

    def __init__(self, snapshot: Snapshot, library: Library, store: Store, clock: Clock) -> None:
        self._snapshot = snapshot
        self._library = library
        self._store = store
        self._clock = clock

    def report(
        self,
        key: str,
        *,
        partition: Sequence[str] = (),
        contract: ContractStatement | None = None,
        now: datetime,
        hidden: frozenset[str] = frozenset(),
    ) -> ContractReport:
        """Of the partition that was written last, unless one is given.

        `contract` is the current one, unless another is given. Raises NotFound without a contract
        or a current version.
        """
        reader = ContractReader(self._snapshot)
        if contract is None:
            contract = reader.statement(key)
            excused = tuple(reader.contract(key).accepted)
        else:
            excused = ()
        asset_id = reader.asset_id(key)
        lookup = VersionLookup(self._snapshot, key, asset_id)
        version = lookup.version(partition, None)
        before = lookup.before(version)
        promises = [
            *self._data(contract, excused, version, before, hidden),
            *self._freshness(contract.freshness, asset_id, version, now),
            *self._retention(contract.retention, key),
        ]
        return ContractReport(
            asset=key,
            version=contract.version,
            partition=version.partition_key,
            materialization_id=version.materialization_id,
            promises=promises,
        )

    def _data(
        self,
        contract: ContractStatement,
        excused: tuple[str, ...],
        version: MaterializationRow,
        before: MaterializationRow | None,
        hidden: frozenset[str],
    ) -> Iterator[PromiseResult]:
        infos = ExecutionReader(self._snapshot).columns_of(version)
        promised = PromisedColumns(promised_columns(contract.columns), excused)
        dimensions = dict(PartitionKey.parse(version.partition_key).dimensions)
        columns = with_dimensions(actual_columns(infos), dimensions)
        all_breaks = broken(msgspec.structs.replace(promised, excused=()), columns)
        if contract.columns:
            breaks = [str(each) for each in all_breaks if each.column not in excused]
            yield PromiseResult(
                promise="columns",
                status="broken" if breaks else "kept",
                message="; ".join(breaks),
                method="catalog",
            )
        checks = evaluable(contract_checks(contract, excused), all_breaks)
        ref = InputRef(
            asset=contract.name,
            materializations=(
                MaterializationRef(
                    partition=version.partition_key,
                    materialization_id=version.materialization_id,
                    path=version.path,
                    rows=version.rows,
                    bytes=version.bytes,
                ),
            ),
        )
        context = CheckContext(
            self._store,
            self._clock,
            previous=None if before is None else before.rows,
            pii=hidden,
        )
        try:
            results = evaluate(checks, Subject.read(self._store, ref), context)
        except TaskFailed as error:
            raise Invalid(error.info.message, hint=error.info.hint) from None
        yield from map(_promise, results)

    def _freshness(
        self, spec: FreshnessSpec | None, asset_id: str, version: MaterializationRow, now: datetime
    ) -> Iterator[PromiseResult]:
        if spec is None:
            return
        reader = FreshnessReader(self._snapshot)
        policy = reader.policy(asset_id)
        if policy is None:
            late = now - version.created_at > timedelta(seconds=spec.max_age_s)
            yield PromiseResult(
                promise="freshness",
                status="broken" if late else "kept",
                message=f"the asset has no freshness=, so nothing monitors {age_text(spec)}",
                method="catalog",
            )
            return
        stale = [
            each for each in reader.series_of(policy, now) if each.status == FreshnessStatus.STALE
        ]
        yield PromiseResult(
            promise="freshness",
            status="broken" if stale else "kept",
            message=stale[0].reason if stale else "",
            method="catalog",
        )

    def _retention(self, promised: Retention, key: str) -> Iterator[PromiseResult]:
        if promised == Retention():
            return
        asset = deployed(self._snapshot, self._library, key)
        if asset is None:
            message = "the asset is not deployed"
            yield PromiseResult(promise="retention", status="unknown", message=message)
            return
        flaws = [flaw.message for flaw in retention_flaws(promised, asset.retention)]
        yield PromiseResult(
            promise="retention",
            status="broken" if flaws else "kept",
            message="; ".join(flaws),
            method="catalog",
        )


def _promise(result: CheckResult) -> PromiseResult:
    status: PromiseStatus = "kept" if result.passed else "broken"
    if result.status == "error":
        status = "unknown"
    return PromiseResult(
        promise=result.name, status=status, message=result.message, method=result.method
    )
