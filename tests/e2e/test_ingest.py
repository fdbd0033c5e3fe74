"""Facts from elsewhere: the HTTP transport of OpenLineage's own client, and `servo ingest`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)
from openlineage.client.transport.http import (
    ApiKeyTokenProvider,
    HttpConfig,
    HttpTransport,
)

from tests.e2e.conftest import Servo

RUN = "0176a8c2-fe01-7439-87e6-56a1a1b4029f"
DATABASE = "postgres://db:5432"


@contextmanager
def _serving(servo: Servo) -> Iterator[dict[str, Any]]:
    mapped = f"{DATABASE}/public=crm"
    process = servo.start("serve", "--port", "0", "--json", "--dataset-namespace", mapped)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def _events() -> list[RunEvent]:
    source = InputDataset(DATABASE, "shop.public.contacts")
    lineage = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={
            "mail": column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(DATABASE, "shop.public.contacts", "email")
                ]
            )
        }
    )
    target = OutputDataset(
        DATABASE,
        "shop.public.mails",
        facets={
            "schema": schema_dataset.SchemaDatasetFacet(
                fields=[schema_dataset.SchemaDatasetFacetFields(name="mail", type="text")]
            ),
            "columnLineage": lineage,
        },
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=1200, size=48_000
            )
        },
    )
    assertion = data_quality_assertions_dataset.Assertion("unique", False, column="mail")
    checked = InputDataset(
        DATABASE,
        "shop.public.mails",
        inputFacets={
            "dataQualityAssertions": (
                data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet([assertion])
            )
        },
    )
    run, job = Run(RUN), Job("airflow", "nightly.mails")
    return [
        RunEvent(
            eventTime=datetime(2026, 1, 1, 2, minute, tzinfo=UTC).isoformat(),
            producer="https://airflow.example",
            eventType=state,
            run=run,
            job=job,
            inputs=[source, checked],
            outputs=[target],
        )
        for minute, state in ((0, RunState.START), (5, RunState.COMPLETE))
    ]


def test_the_client_of_openlineage_reports_runs(servo: Servo) -> None:
    servo.run("admin", "init")
    with _serving(servo) as started:
        config = HttpConfig(
            url=started["url"],
            endpoint="api/v1/workspaces/default/main/lineage",
            auth=ApiKeyTokenProvider({"api_key": started["token"]}),
        )
        client = OpenLineageClient(transport=HttpTransport(config))
        start, complete = _events()
        for event in (complete, start, complete):  # late, and twice
            client.emit(event)
    (output,) = servo.json("ingest", "list", "crm.mails")["outputs"]
    assert (output["state"], output["rows"], output["inputs"]) == (
        "succeeded",
        1200,
        ["crm.contacts"],
    )
    shown = servo.json("catalog", "asset", "show", "crm.mails")
    assert (shown["kind"], shown["stats"]["row_count"]) == ("external", 1200)
    assert [column["name"] for column in shown["columns"]] == ["mail"]
    assert shown["written_elsewhere"]["report_id"] == RUN
    (link,) = servo.json("lineage", "show", "crm.mails.mail")["links"]
    assert (link["source"], link["method"]) == (
        {"asset": "crm.contacts", "column": "email"},
        "openlineage",
    )
    (check,) = servo.json("checks", "list", "crm.mails")["checks"]
    assert (check["check_id"], check["kind"], check["status"]) == (
        "unique(mail)",
        "reported",
        "failed",
    )


def test_outputs_and_checks_are_reported_by_command(servo: Servo) -> None:
    servo.json("catalog", "namespace", "create", "crm")
    servo.json("catalog", "asset", "create", "crm.contacts")
    report = ("ingest", "output", "crm.contacts", "--id", "load-17", "--producer", "fivetran")
    servo.json(*report, "--rows", "1200")
    servo.json(*report, "--bytes", "48000")
    servo.json("ingest", "check", "crm.contacts", "unique", "--id", "s", "--failed")
    history = servo.json("partitions", "history", "crm.contacts")
    assert (history["versions"], len(history["reported"])) == ([], 2)
    (output,) = [
        each
        for each in servo.json("ingest", "list", "crm.contacts")["outputs"]
        if each["report_id"] == "load-17"
    ]
    assert (output["rows"], output["bytes"], output["producer"]) == (1200, 48000, "fivetran")
    wrong = servo.run("ingest", "output", "crm.nothing", "--id", "x")
    assert wrong.returncode == 3 and "crm.nothing" in wrong.stderr


def test_a_file_of_events_is_recorded(servo: Servo) -> None:
    servo.run("admin", "init")
    lines = [
        json.dumps(
            {
                "eventType": "COMPLETE",
                "eventTime": "2026-01-01T02:00:00Z",
                "run": {"runId": RUN},
                "job": {"namespace": "x", "name": "y"},
                "outputs": [{"namespace": "s3://bucket", "name": "raw/Events-2"}],
            }
        )
    ] * 2
    file = servo.directory / "events.ndjson"
    file.write_text("\n".join(lines))
    done = servo.json("ingest", "openlineage", str(file))
    assert [each["recorded"] for each in done["events"]] == [["raw.events_2"], ["raw.events_2"]]
    file.write_text("{")
    assert servo.run("ingest", "openlineage", str(file)).returncode == 2
