"""Facts from elsewhere: outputs, checks and lineage of tables that Arco did not write."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arco.api.routes import write
from arco.api.views import require_asset
from arco.api.writes.catalog import AssetColumn, AssetWriteParameters
from arco.api.writes.run_writes import NoParameters, ReasonText
from arco.api.writing import WriteAnswer, Writing
from arco.catalog.events import Column
from arco.ingest.commands import ReportOutcome, ReportPolicy
from arco.ingest.events import OutputReported, ReportState
from arco.ingest.openlineage import OpenLineageEvent, run_report
from arco.security.permissions import Permission
from arco.times import utc
from servo.contract.keys import AssetKey
from servo.contract.task import CheckResult

ReportId = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Key = Annotated[str, Meta(min_length=3, max_length=300)]


def ingest_lineage(
    writing: Writing, parameters: NoParameters, body: OpenLineageEvent
) -> WriteAnswer[ReportOutcome]:
    """Record an OpenLineage event, as the HTTP transport of its clients sends it.

    Events of one run are combined, in any order. Datasets that the caller may not report or read
    are skipped; unknown ones become assets if the caller may create assets.
    """
    run = run_report(body)
    if run is None:  # about a dataset or a job alone
        generation = writing.view.generation
        return WriteAnswer(
            ReportOutcome(generation=generation, recorded=[], skipped=[]), generation
        )
    caller = writing.caller
    policy = ReportPolicy(
        may_report=lambda key: caller.may(Permission.FACTS_INGEST, _namespace(key)),
        may_read=lambda key: writing.visible.sees_asset(key),
        may_create=lambda key: caller.may(Permission.ASSETS_EDIT, _namespace(key)),
    )
    outcome = writing.unkeyed.ingest.openlineage(
        run, namespaces=writing.dataset_namespaces, policy=policy
    )
    return WriteAnswer(outcome, outcome.generation)


def _namespace(key: str) -> str:
    return key.partition(".")[0]


class ReportedBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    id: str
    replayed: bool


class MaterializationBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ReportId
    """Of the write elsewhere; each counts once, and reports of one id add up."""
    partition: Annotated[str, Meta(max_length=2000)] = ""
    state: ReportState = "succeeded"
    made_at: datetime | None = None
    """By the clock of who has written; null: now."""
    producer: Annotated[str, Meta(max_length=500)] = ""
    job: Annotated[str, Meta(max_length=500)] = ""
    rows: Count | None = None
    bytes: Count | None = None
    files: Count | None = None
    location: Annotated[str, Meta(max_length=2000)] = ""
    message: ReasonText = ""
    columns: Annotated[tuple[AssetColumn, ...], Meta(max_length=5_000)] = ()
    inputs: Annotated[tuple[Key, ...], Meta(max_length=200)] = ()
    """Keys of the assets that it was made of."""


def report_materialization(
    writing: Writing, parameters: AssetWriteParameters, body: MaterializationBody
) -> WriteAnswer[ReportedBody]:
    """Report an output of an external asset."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    for each in body.inputs:
        require_asset(writing.visible, each)
    event = OutputReported(
        asset_id="",
        asset_key=key,
        report_id=body.id,
        reported_at=_time(writing, body.made_at),
        partition=body.partition,
        state=body.state,
        producer=body.producer,
        job=body.job,
        rows=body.rows,
        bytes=body.bytes,
        files=body.files,
        location=body.location,
        message=body.message,
        columns=tuple(Column(**msgspec.structs.asdict(each)) for each in body.columns),
        input_ids=writing.unkeyed.ingest.input_ids(body.inputs),
    )
    return _reported(writing, event)


class ReportedCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=500)]
    passed: bool
    severity: Literal["info", "warning", "error", "critical"] = "error"
    message: ReasonText = ""
    expected: ReasonText = ""
    actual: ReasonText = ""
    columns: Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=200)] = ()
    rows: Count = 0
    failing: Count | None = None


class CheckResultsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ReportId
    """Of the evaluation; each counts once, and reports of one id add up."""
    results: Annotated[tuple[ReportedCheck, ...], Meta(min_length=1, max_length=1000)]
    partition: Annotated[str, Meta(max_length=2000)] = ""
    made_at: datetime | None = None
    producer: Annotated[str, Meta(max_length=500)] = ""
    job: Annotated[str, Meta(max_length=500)] = ""


def report_check_results(
    writing: Writing, parameters: AssetWriteParameters, body: CheckResultsBody
) -> WriteAnswer[ReportedBody]:
    """Report results of external checks of an asset. They do not gate outputs."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    event = OutputReported(
        asset_id="",
        asset_key=key,
        report_id=body.id,
        reported_at=_time(writing, body.made_at),
        partition=body.partition,
        state="running",  # it says nothing of an output
        producer=body.producer,
        job=body.job,
        checks=tuple(
            CheckResult(
                **msgspec.structs.asdict(each),
                kind="reported",
                status="passed" if each.passed else "failed",
            )
            for each in body.results
        ),
    )
    return _reported(writing, event)


def _reported(writing: Writing, event: OutputReported) -> WriteAnswer[ReportedBody]:
    done = writing.commands.ingest.report(event)
    answer = ReportedBody(asset=event.asset_key, id=event.report_id, replayed=done.replayed)
    return WriteAnswer(answer, done.generation, f"/assets/{event.asset_key}/reports")


def _time(writing: Writing, given: datetime | None) -> datetime:
    if given is None:
        return writing.view.now
    return utc(given)


_INGEST = Permission.FACTS_INGEST
ROUTES: tuple[Any, ...] = (
    write("POST", "/lineage", _INGEST, ingest_lineage),
    write("POST", "/assets/{asset}/materializations", _INGEST, report_materialization, status=201),
    write("POST", "/assets/{asset}/check-results", _INGEST, report_check_results, status=201),
)
