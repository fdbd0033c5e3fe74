"""OpenLineage run events (spec 2-0-2) as reports of outputs, and which asset a dataset is.

Facets that are used: `schema`, `columnLineage` and `outputStatistics` of outputs,
`dataQualityAssertions` of any dataset that is an output, `errorMessage` of the run.
Others may be anything. A dataset is the asset with its name: of `arco://tenant/workspace` the name
is the key; of any other namespace the last two parts of it, in lower case, unless the namespace
was given another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from arco.catalog.events import Column
from arco.errors import Invalid
from arco.ingest.events import OutputReported, ReportedColumnEdge, ReportState
from arco.times import utc
from servo.contract.keys import AssetKey, check_name
from servo.contract.manifest import Severity
from servo.contract.task import CheckResult, Influence

MAX_DATASETS: Final = 200
MAX_COLUMNS: Final = 5_000
MAX_TEXT: Final = 4_000
_STATES: Final[Mapping[str, ReportState]] = {
    "START": "running",
    "RUNNING": "running",
    "COMPLETE": "succeeded",
    "FAIL": "failed",
    "ABORT": "aborted",
    "OTHER": "running",
}
_KINDS: Final[Mapping[str, Influence]] = {
    "IDENTITY": "identity",
    "TRANSFORMATION": "transformation",
    "AGGREGATION": "aggregation",
    "JOIN": "join",
    "GROUP_BY": "group_by",
    "FILTER": "filter",
    "SORT": "sort",
    "WINDOW": "window",
    "CONDITIONAL": "conditional",
}
_SEVERITIES: Final[Mapping[str, Severity]] = {
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "critical": "critical",
}
_INVALID: Final = re.compile(r"[^a-z0-9_]+")


class ReportedDataset(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ReportedDatasetFacets(NamedTuple):
    """An output, with what is said of it."""

    dataset: ReportedDataset
    facets: dict[str, Any]
    statistics: dict[str, Any]


class EventRun(Struct, frozen=True):
    run_id: str = msgspec.field(name="runId")
    facets: dict[str, Any] = {}


class EventJob(Struct, frozen=True):
    namespace: str
    name: str


class EventDataset(Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    facets: dict[str, Any] = {}
    output_facets: dict[str, Any] = {}
    input_facets: dict[str, Any] = {}


class OpenLineageEvent(Struct, frozen=True, rename="camel"):
    """A run event; a dataset or job event has no run."""

    event_time: datetime
    event_type: str = "OTHER"
    producer: str = ""
    run: EventRun | None = None
    job: EventJob | None = None
    inputs: list[EventDataset] = []
    outputs: list[EventDataset] = []


class RunReport(NamedTuple):
    run_id: str
    job: str
    producer: str
    state: ReportState
    reported_at: datetime
    message: str
    inputs: list[ReportedDataset]
    outputs: list[ReportedDatasetFacets]

    def event(
        self, output: ReportedDatasetFacets, key: str, ids: Mapping[ReportedDataset, str]
    ) -> OutputReported:
        statistics = output.statistics
        return OutputReported(
            asset_id="",
            asset_key=key,
            report_id=self.run_id,
            reported_at=self.reported_at,
            state=self.state,
            producer=self.producer,
            job=self.job,
            rows=_count(statistics.get("rowCount")),
            bytes=_count(statistics.get("size")),
            files=_count(statistics.get("fileCount")),
            message=self.message,
            columns=tuple(columns_of(output.facets)),
            checks=tuple(_checks(output.facets)),
            input_ids=tuple(
                ids[each] for each in self.inputs if each in ids and each != output.dataset
            ),
            column_edges=tuple(_column_edges(output.facets, ids)),
        )


def run_report(event: OpenLineageEvent) -> RunReport | None:
    """None for an event without a run. Raises Invalid for an invalid one."""
    if event.run is None or event.job is None:
        return None
    state = _STATES.get(event.event_type.upper())
    if state is None:
        raise Invalid(
            f"{event.event_type[:50]!r} is not the type of a run event",
            hint=f"one of {', '.join(_STATES)}",
        )
    if len(event.inputs) + len(event.outputs) > MAX_DATASETS:
        raise Invalid(f"the event has more than {MAX_DATASETS} datasets")
    time = event.event_time
    error = event.run.facets.get("errorMessage")
    return RunReport(
        run_id=event.run.run_id,
        job=_text(f"{event.job.namespace}/{event.job.name}"),
        producer=_text(event.producer),
        state=state,
        reported_at=utc(time),
        message=_text(error.get("message")) if isinstance(error, dict) else "",
        inputs=[ReportedDataset(each.namespace, each.name) for each in event.inputs],
        outputs=[
            ReportedDatasetFacets(
                ReportedDataset(each.namespace, each.name),
                {**each.facets, **_assertions(event.inputs, each)},
                _facet(each.output_facets, "outputStatistics"),
            )
            for each in event.outputs
        ],
    )


def _assertions(inputs: list[EventDataset], output: EventDataset) -> dict[str, Any]:
    """Results of checks may be facets of a dataset as input, by which a test has read it."""
    for each in inputs:
        if (each.namespace, each.name) == (output.namespace, output.name):
            facet = each.input_facets.get("dataQualityAssertions")
            return {} if facet is None else {"dataQualityAssertions": facet}
    return {}


# -- names ------------------------------------------------------------------------------------


def asset_key_of(dataset: ReportedDataset, own: str, namespaces: Mapping[str, str]) -> str | None:
    """The key that a dataset has as an asset; None if it cannot have one.

    `own` is the namespace of this workspace, `namespaces` those of assets by that of datasets.
    """
    if dataset.namespace == own:
        return _key(*dataset.name.partition(".")[::2])
    parts = [_INVALID.sub("_", part.lower()).strip("_") for part in re.split(r"[./]", dataset.name)]
    parts = [part for part in parts if part]
    if not parts:
        return None
    schema = parts[-2] if len(parts) > 1 else ""
    qualified = f"{dataset.namespace}/{schema}" if schema else dataset.namespace
    namespace = namespaces.get(qualified) or namespaces.get(dataset.namespace) or schema
    return _key(namespace, parts[-1])


def parse_namespaces(texts: Iterable[str]) -> dict[str, str]:
    """`postgres://db:5432=shop`, or with a schema: `postgres://db:5432/public=shop`."""
    namespaces: dict[str, str] = {}
    for text in texts:
        datasets, equals, namespace = text.rpartition("=")
        if not equals or not datasets:
            raise Invalid(
                f"{text!r} is not a map of datasets to a namespace",
                hint="write postgres://db:5432/public=shop",
            )
        namespaces[datasets.rstrip("/")] = check_name(namespace, "namespace")
    return namespaces


def _key(namespace: str, name: str) -> str | None:
    try:
        return str(AssetKey.parse(f"{namespace}.{name}"))
    except Invalid:
        return None


# -- facets -----------------------------------------------------------------------------------


def _facet(facets: Mapping[str, Any], name: str) -> dict[str, Any]:
    facet = facets.get(name)
    return facet if isinstance(facet, dict) else {}


def _items(facet: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    items = facet.get(name)
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value < 1 << 53 else None  # type: ignore[operator,return-value]


def columns_of(facets: Mapping[str, Any]) -> list[Column]:
    """Of the facet `schema`; of two of one name the first."""
    columns = {each.name: each for each in reversed(list(_columns(facets)))}
    return list(reversed(columns.values()))


def _columns(facets: Mapping[str, Any]) -> Iterator[Column]:
    for field in _items(_facet(facets, "schema"), "fields")[:MAX_COLUMNS]:
        if name := _text(field.get("name")):
            yield Column(
                name=name,
                type=_text(field.get("type")) or "unknown",
                description=_text(field.get("description")),
            )


def _checks(facets: Mapping[str, Any]) -> Iterator[CheckResult]:
    for each in _items(_facet(facets, "dataQualityAssertions"), "assertions")[:MAX_COLUMNS]:
        name, column = _text(each.get("assertion")), _text(each.get("column"))
        if name:
            passed = each.get("success") is True
            yield CheckResult(
                name=f"{name}({column})" if column else name,
                passed=passed,
                severity=_SEVERITIES.get(_text(each.get("severity")), "error"),
                kind="reported",
                columns=(column,) if column else (),
                status="passed" if passed else "failed",
                action="continue",
            )


def _column_edges(
    facets: Mapping[str, Any], ids: Mapping[ReportedDataset, str]
) -> Iterator[ReportedColumnEdge]:
    facet = _facet(facets, "columnLineage")
    fields = _facet(facet, "fields")
    for column, described in list(fields.items())[:MAX_COLUMNS]:
        if isinstance(described, dict):
            for source in _items(described, "inputFields"):
                yield from _edge(column, source, ids, "transformation")
    for source in _items(facet, "dataset"):
        yield from _edge("", source, ids, "filter")


def _edge(
    column: str,
    source: Mapping[str, Any],
    ids: Mapping[ReportedDataset, str],
    default: Influence,
) -> Iterator[ReportedColumnEdge]:
    dataset = ReportedDataset(_text(source.get("namespace")), _text(source.get("name")))
    field = _text(source.get("field"))
    if dataset not in ids or not field:
        return
    transformations = _items(source, "transformations") or [{}]
    for each in transformations:
        yield ReportedColumnEdge(
            column=column,
            source_id=ids[dataset],
            source_column=field,
            kind=_KINDS.get(_text(each.get("subtype")).upper(), default),
            masked=each.get("masking") is True,
        )
