"""Exported events are what OpenLineage says they must be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from arco.openlineage.spec import ColumnEdge, Location, ReadAsset, TaskRun, events_of, run_uuid
from servo.contract.task import CheckResult, ColumnInfo

SCHEMA = json.loads(
    (
        Path(__file__).parents[1] / "golden/lineage/openlineage-schemas/openlineage-2-0-2.json"
    ).read_text(encoding="utf-8")
)
RUN = "01K9Z3V7Q2M4N6P8R0S2T4V6X8"
START = datetime(2026, 1, 31, 12)
PLACE = Location("arco://acme/prod", "s3://bucket/acme/prod")


def validate(value: object, name: str) -> None:
    schema = {**SCHEMA, "$ref": f"#/$defs/{name}"}
    checker = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)


def facets(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from event["run"]["facets"].values()
    yield from event["job"]["facets"].values()
    for dataset in (*event["inputs"], *event["outputs"]):
        for group in ("facets", "inputFacets", "outputFacets"):
            yield from dataset.get(group, {}).values()


def task(**changes: Any) -> TaskRun:
    given: dict[str, Any] = {
        "task_id": "task_0123456789abcdef",
        "asset": "shop.daily",
        "state": "SUCCEEDED",
        "started_at": START,
        "finished_at": START + timedelta(seconds=3),
        "partition": "date=d:2026-01-30",
        "materialization_id": "01K9Z3V7Q2M4N6P8R0S2T4V6X9",
        "rows": 10,
        "bytes": 2_000,
        "columns": (ColumnInfo(name="day", type="date"), ColumnInfo(name="total", type="double")),
        "fields": (
            ColumnEdge("day", "shop.orders", "day", "identity"),
            ColumnEdge("total", "shop.orders", "amount", "aggregation"),
            ColumnEdge("total", "shop.orders", "status", "conditional"),
            ColumnEdge("total", "shop.orders", "amount", "conditional"),
            ColumnEdge("", "shop.orders", "day", "group_by"),
            ColumnEdge("", "shop.orders", "email", "filter", True),
        ),
        "inputs": (
            ReadAsset(
                asset="shop.orders",
                versions=("01K9Z3V7Q2M4N6P8R0S2T4V6XA",),
                rows=100,
                columns=(ColumnInfo(name="amount", type="double"),),
                checks=(CheckResult(name="fresh", passed=True, severity="warning"),),
            ),
        ),
        "checks": (CheckResult(name="no nulls", passed=False, columns=("total",)),),
        "sql": "select 1",
    }
    return TaskRun(**{**given, **changes})


TASKS = [
    task(),
    task(state="FAILED", error="it broke", partition=""),
    task(state="CANCELLED", partition="date=d:2026-01-30,hour=t:2026-01-30T05:00:00.000000Z"),
    task(partition="hour=t:2026-01-30T05:00:00.000000Z", inputs=(), fields=(), columns=()),
    task(held=True, error="no nulls: 3 rows"),
]


@pytest.mark.parametrize("given", TASKS)
def test_events_and_all_their_facets_are_valid(given: TaskRun) -> None:
    events = list(events_of(PLACE, RUN, [given]))
    ends = {"SUCCEEDED": "COMPLETE", "FAILED": "FAIL", "CANCELLED": "ABORT"}
    assert [event["eventType"] for event in events] == ["START", ends[given.state]]
    for event in events:
        validate(event, "RunEvent")
        for facet in facets(event):
            address, _, name = facet["_schemaURL"].partition("#/$defs/")
            assert SCHEMA["$defs"][name]["$comment"] == f"{address}#/$defs/{name}"
            validate(facet, name)


def test_an_event_without_a_uuid_is_refused() -> None:
    event = next(events_of(PLACE, RUN, [task()]))
    with pytest.raises(jsonschema.ValidationError):
        validate({**event, "run": {"runId": "no uuid"}}, "RunEvent")


def test_what_is_held_back_is_no_output_and_the_event_says_why() -> None:
    start, done = events_of(PLACE, RUN, [task(held=True, error="no nulls: 3 rows")])
    assert start["outputs"] == done["outputs"] == []
    assert [read["name"] for read in done["inputs"]] == ["shop.orders"]
    assert done["run"]["facets"]["errorMessage"]["message"] == "no nulls: 3 rows"


def test_column_lineage_tells_direct_from_indirect_and_masked() -> None:
    *_, done = events_of(PLACE, RUN, [task()])
    lineage = done["outputs"][0]["facets"]["columnLineage"]
    assert lineage["fields"]["total"]["inputFields"] == [
        {
            "namespace": "arco://acme/prod",
            "name": "shop.orders",
            "field": "amount",
            "transformations": [
                {
                    "type": "DIRECT",
                    "subtype": "AGGREGATION",
                    "description": "",
                    "masking": False,
                },
                {
                    "type": "INDIRECT",
                    "subtype": "CONDITIONAL",
                    "description": "",
                    "masking": False,
                },
            ],
        },
        {
            "namespace": "arco://acme/prod",
            "name": "shop.orders",
            "field": "status",
            "transformations": [
                {
                    "type": "INDIRECT",
                    "subtype": "CONDITIONAL",
                    "description": "",
                    "masking": False,
                }
            ],
        },
    ]
    decides = {f["field"]: f["transformations"][0] for f in lineage["dataset"]}
    assert decides["day"]["subtype"] == "GROUP_BY"
    assert decides["email"] == {
        "type": "INDIRECT",
        "subtype": "FILTER",
        "description": "",
        "masking": True,
    }


def test_an_export_made_twice_says_the_same() -> None:
    assert list(events_of(PLACE, RUN, TASKS)) == list(events_of(PLACE, RUN, TASKS))
    assert run_uuid(RUN) == run_uuid(RUN) != run_uuid("no ULID")


def test_the_time_of_a_partition_is_the_nominal_time() -> None:
    start, _ = events_of(PLACE, RUN, [task()])
    assert start["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-01-30T00:00:00Z"


def test_a_renamed_asset_is_known_by_its_id() -> None:
    def identifiers(name: str) -> list[dict[str, str]]:
        read = ReadAsset(asset="shop.orders", asset_id="01ORDERS")
        *_, event = events_of(PLACE, RUN, [task(asset=name, asset_id="01DAILY", inputs=(read,))])
        validate(event, "RunEvent")
        datasets = (*event["inputs"], *event["outputs"])
        links = [dataset["facets"]["symlinks"] for dataset in datasets]
        for link in links:
            validate(link, "SymlinksDatasetFacet")
        return [each for link in links for each in link["identifiers"]]

    assert identifiers("shop.daily") == identifiers("shop.by_day")
    assert [each["name"] for each in identifiers("shop.daily")] == ["01ORDERS", "01DAILY"]
