"""The fold of reports, with one key for each asset.

Reports of one id are merged: sets are joined, and of two values of a field the later one counts, by
the reporter's clock. So the same reports give the same row, in any order and with repetitions. A
run that has ended does not run again. Changes are emitted to other domains: checks to quality,
edges to lineage, sizes to the catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from arco.catalog.events import AssetObserved
from arco.ingest.events import OutputReported, ReportedColumnEdge
from arco.ingest.tables import (
    NEWEST_REPORTS,
    REPORTED_OUTPUTS,
    NewestReportRow,
    ReportedOutputRow,
)
from arco.lineage.events import LineageImported
from arco.quality.events import ChecksEvaluated
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied
from servo.contract.task import CheckResult, ColumnLineage, ColumnSource, Lineage

VALUES: Final = (
    "partition_key",
    "producer",
    "job",
    "rows",
    "bytes",
    "files",
    "location",
    "message",
    "columns",
)
"""Fields of which the later value counts."""
_ENDS: Final = ("succeeded", "failed", "aborted")
_checks = msgspec.json.Decoder(tuple[CheckResult, ...])
_edges = msgspec.json.Decoder(tuple[ReportedColumnEdge, ...])


def _report(rows: Rows, fact: Fact, e: OutputReported) -> Iterator[Change]:
    before = rows.get(REPORTED_OUTPUTS, e.asset_id, e.report_id)
    now = merged(before, _row(fact, e))
    if before is None or _facts(before) != _facts(now):
        yield Put(REPORTED_OUTPUTS, now)
        yield from _checked(before, now)
        yield from _succeeded(rows, before, now)
    yield applied(fact)


def _row(fact: Fact, e: OutputReported) -> ReportedOutputRow:
    values: dict[str, Any] = {
        "partition_key": e.partition,
        "producer": e.producer,
        "job": e.job,
        "rows": e.rows,
        "bytes": e.bytes,
        "files": e.files,
        "location": e.location,
        "message": e.message,
        "columns": _json(e.columns) if e.columns else "",
    }
    times = {name: e.reported_at for name, value in values.items() if value not in (None, "")}
    times |= {f"check:{each.name}": e.reported_at for each in e.checks}
    return ReportedOutputRow(
        asset_id=e.asset_id,
        report_id=e.report_id,
        asset_key=e.asset_key,
        state=e.state,
        checks=_json(sorted(e.checks, key=lambda each: each.name)),
        input_ids=sorted(set(e.input_ids)),
        column_edges=_json(sorted(set(e.column_edges))),
        times=times | {"state": e.reported_at},
        first_reported_at=e.reported_at,
        last_reported_at=e.reported_at,
        recorded_at=fact.received_at,
        recorded_by=fact.actor,
        **values,
    )


def merged(first: ReportedOutputRow | None, second: ReportedOutputRow) -> ReportedOutputRow:
    """The merged row of two reports, in any order."""
    if first is None:
        return second
    times = dict(first.times)
    fields: dict[str, Any] = {}
    for name in VALUES:
        if name in second.times and _is_later(first, second, name):
            fields[name] = getattr(second, name)
            times[name] = second.times[name]
    if _state_key(second) > _state_key(first):
        fields["state"], times["state"] = second.state, second.times["state"]
    checks = {each.name: each for each in _checks.decode(first.checks)}
    for check in _checks.decode(second.checks):
        name = f"check:{check.name}"
        if check.name not in checks or (second.times[name], _json(check)) > (
            times[name],
            _json(checks[check.name]),
        ):
            checks[check.name], times[name] = check, second.times[name]
    edges = {*_edges.decode(first.column_edges), *_edges.decode(second.column_edges)}
    return msgspec.structs.replace(
        first,
        asset_key=second.asset_key,
        checks=_json([checks[name] for name in sorted(checks)]),
        input_ids=sorted({*first.input_ids, *second.input_ids}),
        column_edges=_json(sorted(edges)),
        times=times,
        first_reported_at=min(first.first_reported_at, second.first_reported_at),
        last_reported_at=max(first.last_reported_at, second.last_reported_at),
        recorded_at=second.recorded_at,
        recorded_by=second.recorded_by,
        **fields,
    )


def _is_later(first: ReportedOutputRow, second: ReportedOutputRow, name: str) -> bool:
    if name not in first.times:
        return True
    key = (second.times[name], _json(getattr(second, name)))
    return key > (first.times[name], _json(getattr(first, name)))


def _state_key(row: ReportedOutputRow) -> tuple[bool, datetime, str]:
    return row.state in _ENDS, row.times["state"], row.state


def _facts(row: ReportedOutputRow) -> ReportedOutputRow:
    """Without fields that differ between a report and its repetition."""
    epoch = row.first_reported_at
    return msgspec.structs.replace(row, recorded_at=epoch, recorded_by="", asset_key="")


# -- facts for other domains ------------------------------------------------------------------


def _checked(before: ReportedOutputRow | None, now: ReportedOutputRow) -> Iterator[Emit]:
    if now.checks == ("[]" if before is None else before.checks):
        return
    digest = hashlib.sha256(now.checks.encode()).hexdigest()[:12]
    yield Emit(
        ChecksEvaluated(
            asset_id=now.asset_id,
            asset=now.asset_key,
            partition=now.partition_key,
            materialization_id="",
            run_id="",
            task_id="",
            attempt_id=f"{now.report_id}:{digest}",
            results=_checks.decode(now.checks),
            is_reported=True,
        )
    )


def _succeeded(
    rows: Rows, before: ReportedOutputRow | None, now: ReportedOutputRow
) -> Iterator[Change]:
    if now.state != "succeeded":
        return
    newest = rows.get(NEWEST_REPORTS, now.asset_id)
    edges = _edges.decode(now.column_edges)
    key = (now.times["state"], now.report_id)
    is_newest = newest is None or key >= (newest.reported_at, newest.report_id)
    tells_lineage = bool(now.input_ids or edges) and (
        newest is None or newest.lineage_at is None or key >= (newest.lineage_at, newest.lineage_id)
    )
    row = newest or NewestReportRow(now.asset_id, now.report_id, now.times["state"])
    if is_newest:
        row = msgspec.structs.replace(row, report_id=now.report_id, reported_at=now.times["state"])
    if tells_lineage:
        row = msgspec.structs.replace(row, lineage_id=now.report_id, lineage_at=now.times["state"])
    if row != newest:
        yield Put(NEWEST_REPORTS, row)
    was_newest = newest is not None and newest.report_id == now.report_id
    has_sizes = now.rows is not None or now.bytes is not None
    is_reported = was_newest and before is not None and _sizes(before) == _sizes(now)
    if is_newest and has_sizes and not is_reported:
        yield Emit(
            AssetObserved(
                asset_id=now.asset_id,
                row_count=now.rows or 0,
                size_bytes=now.bytes or 0,
                files=now.files or 0,
            )
        )
    if tells_lineage:
        yield Emit(
            LineageImported(
                asset_id=now.asset_id,
                inputs=tuple(sorted({*now.input_ids, *(edge.source_id for edge in edges)})),
                lineage=_lineage(edges),
                origin="openlineage",
            )
        )


def _sizes(row: ReportedOutputRow) -> tuple[int | None, int | None, int | None]:
    return row.rows, row.bytes, row.files


def _lineage(edges: tuple[ReportedColumnEdge, ...]) -> Lineage:
    columns: dict[str, list[ColumnSource]] = {}
    influences: list[ColumnSource] = []
    for edge in edges:
        source = ColumnSource(edge.source_id, edge.source_column, edge.kind, edge.masked)
        (columns.setdefault(edge.column, []) if edge.column else influences).append(source)
    return Lineage(
        columns=tuple(
            ColumnLineage(
                column=column, sources=tuple(sources), method="openlineage", confidence="medium"
            )
            for column, sources in sorted(columns.items())
        ),
        influences=tuple(influences),
        method="openlineage",
        confidence="medium" if columns else "low",
        reason="others have reported it",
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


STAGE = Stage(
    "ingest",
    (REPORTED_OUTPUTS, NEWEST_REPORTS),
    [On(OutputReported, by("asset_id"), _report)],
)
