"""Outputs, checks and lineage that others report."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arco.catalog.events import AssetCreated, Column, NamespaceCreated
from arco.ingest.events import OutputReported, ReportedColumnEdge
from servo.contract.task import CheckResult
from tests.golden.stories.recorded_log import Log


def reported() -> Log:
    """Two assets that others write: events of runs, doubled and out of order; a failure; checks."""
    log = Log()
    log.do(NamespaceCreated(namespace="crm"))
    contacts = log.do(AssetCreated(namespace="crm", name="contacts"))
    mails = log.do(AssetCreated(namespace="crm", name="mails"))
    start = OutputReported(
        asset_id=mails,
        asset_key="crm.mails",
        report_id="0176a8c2-fe01-7439-87e6-56a1a1b4029f",
        reported_at=datetime(2026, 1, 1, 2),
        state="running",
        producer="https://airflow.example",
        job="airflow/nightly.mails",
        input_ids=(contacts,),
    )
    complete = msgspec.structs.replace(
        start,
        reported_at=datetime(2026, 1, 1, 2, 5),
        state="succeeded",
        rows=1200,
        bytes=48_000,
        files=3,
        location="postgres://db:5432/crm.mails",
        columns=(Column(name="mail", type="text"), Column(name="n", type="bigint")),
        checks=(CheckResult(name="unique(mail)", passed=False, kind="reported", status="failed"),),
        input_ids=(),
        column_edges=(
            ReportedColumnEdge("mail", contacts, "email", "identity"),
            ReportedColumnEdge("", contacts, "opted_in", "filter"),
        ),
    )
    log.add(complete)
    log.wait(5)
    log.add(start, complete)
    log.wait(3600)
    failed = msgspec.structs.replace(
        start,
        report_id="0176a8c2-fe01-7439-87e6-56a1a1b40300",
        reported_at=datetime(2026, 1, 2, 2),
        state="failed",
        message="the disk is full",
        input_ids=(),
    )
    log.add(failed)
    log.add(
        OutputReported(
            asset_id=contacts,
            asset_key="crm.contacts",
            report_id="suite-1",
            reported_at=datetime(2026, 1, 2, 3),
            partition="date=d:2026-01-02",
            state="running",
            checks=(CheckResult(name="fresh", passed=True, kind="reported"),),
        )
    )
    return log
