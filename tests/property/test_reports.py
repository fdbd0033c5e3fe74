"""Reports of others: any order and any duplication give the same rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.events import Column
from arco.ingest.events import OutputReported, ReportedColumnEdge
from arco.ingest.tables import NEWEST_REPORTS, REPORTED_OUTPUTS
from arco.lineage.tables import COLUMNS, EDGES
from arco.quality.tables import CHECK_STATUS
from servo.contract.task import CheckResult
from tests.kit.runs import Folding

START = datetime(2026, 1, 1)
times = st.integers(0, 5).map(lambda minutes: START + timedelta(minutes=minutes))


@st.composite
def reports(draw: st.DrawFn) -> OutputReported:
    checks = draw(st.dictionaries(st.sampled_from("ab"), st.booleans(), max_size=2))
    edges = st.builds(
        ReportedColumnEdge, st.sampled_from(["", "x", "y"]), st.sampled_from("ST"), st.just("c")
    )
    return OutputReported(
        asset_id="A",
        asset_key="n.a",
        report_id=draw(st.sampled_from(["one", "two"])),
        reported_at=draw(times),
        state=draw(st.sampled_from(["running", "succeeded", "failed"])),
        producer=draw(st.sampled_from(["", "p", "q"])),
        rows=draw(st.none() | st.integers(0, 2)),
        columns=draw(st.sampled_from([(), (Column(name="x", type="int"),)])),
        checks=tuple(
            CheckResult(name=name, passed=passed, status="passed" if passed else "failed")
            for name, passed in checks.items()
        ),
        input_ids=tuple(draw(st.sets(st.sampled_from("STU")))),
        column_edges=tuple(draw(st.sets(edges, max_size=2))),
    )


def _rows(events: list[OutputReported]) -> dict[str, Any]:
    folding = Folding()
    for event in events:
        folding.add(event)
    outputs = [
        msgspec.structs.replace(row, recorded_at=START, recorded_by="")
        for row in folding.all(REPORTED_OUTPUTS)
    ]
    succeeded = {row.report_id for row in outputs if row.state == "succeeded"}
    newest = [row for row in folding.all(NEWEST_REPORTS) if row.report_id in succeeded]
    rows: dict[str, Any] = {"outputs": sorted(outputs, key=lambda row: row.report_id)}
    if len(succeeded) == 2 or not any(e.state == "failed" for e in events):
        # A run that was first said to have succeeded, and then to have failed, has been current.
        rows["newest"] = newest
        rows["edges"] = sorted(row.source for row in folding.all(EDGES))
        rows["columns"] = sorted(
            (row.target_column, row.source, row.source_column) for row in folding.all(COLUMNS)
        )
    return rows


@given(st.data(), st.lists(reports(), min_size=1, max_size=6))
def test_order_and_repetition_of_reports_change_nothing(
    data: st.DataObject, events: list[OutputReported]
) -> None:
    expected = _rows(events)
    repeated = events + data.draw(st.lists(st.sampled_from(events), max_size=4))
    assert _rows(data.draw(st.permutations(repeated))) == expected


def test_a_report_leaves_the_other_checks_of_an_asset_alone() -> None:
    folding = Folding()
    for name in ("one", "two"):
        folding.add(
            OutputReported(
                asset_id="A",
                asset_key="n.a",
                report_id=name,
                reported_at=START,
                state="running",
                checks=(CheckResult(name=name, passed=True),),
            )
        )
    assert sorted(row.check_name for row in folding.all(CHECK_STATUS)) == ["one", "two"]
