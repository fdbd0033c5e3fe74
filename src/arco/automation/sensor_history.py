"""The fold of evaluations: the requests of each, and how many were merged by their key.

It comes after the fold of run keys, which decides about the requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.automation.sensor_evaluations import EvaluationRecorded
from arco.automation.sensor_tables import SENSOR_EVALUATIONS
from arco.orchestration.derived import RunRequestDropped
from arco.orchestration.states import SENSOR_TRIGGERS
from arco.state.fold import Change, Fact, On, Put, Rows, Stage


def _record(rows: Rows, fact: Fact, e: EvaluationRecorded) -> Iterator[Change]:
    yield Put(SENSOR_EVALUATIONS, e.row)


def _dropped(rows: Rows, fact: Fact, e: RunRequestDropped) -> Iterator[Change]:
    sensor, _, number = e.reference.rpartition("#")
    if e.kind not in SENSOR_TRIGGERS or not number.isdecimal():
        return
    row = rows.get(SENSOR_EVALUATIONS, sensor, int(number))
    if row is None:
        return
    is_merged = e.code == "merged"
    counted = msgspec.structs.replace(
        row,
        merged=row.merged + is_merged,
        refused=row.refused + (not is_merged),
        reason=row.reason or f"{e.request_key}: {e.reason}",
    )
    yield Put(SENSOR_EVALUATIONS, counted)


STAGE = Stage(
    "sensor_history",
    (SENSOR_EVALUATIONS,),
    (
        On(EvaluationRecorded, lambda fact, e: e.row.sensor_id, _record),
        On(RunRequestDropped, lambda fact, e: e.reference.rpartition("#")[0], _dropped),
    ),
)
