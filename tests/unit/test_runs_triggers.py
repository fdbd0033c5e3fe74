"""The fold of runs: triggers, run keys, plans in chunks."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from arco.errors import Corrupt
from arco.log.envelope import EventTypes
from arco.orchestration.events import RunRequested, RunTriggered, TimerFired
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunTrigger
from arco.orchestration.tables import (
    KEPT_HOT,
    RUN_KEYS,
    RUN_REQUESTS,
    RUNS,
    TASKS,
)
from arco.orchestration.triggers import run_trigger
from tests.kit.run_fold import ok, outcome, run_rows
from tests.kit.runs import (
    RUN,
    RUN_TABLES,
    Attempt,
    Folding,
    Node,
    chain_of,
    plan,
    started_run,
    triggered,
)


def test_same_run_key_and_request_is_the_same_run() -> None:
    f = Folding()
    f.add(triggered(1, run_key="k", request_fingerprint="x"), *plan(chain_of(1)))
    before = {t: dict(f.rows.get(t, {})) for t in (*RUN_TABLES, RUN_KEYS)}
    again = triggered(1, "run2", run_key="k", request_fingerprint="x")
    f.add(again, *plan(chain_of(1), "run2"))
    assert outcome(f)[0] == "applied"
    assert {t: dict(f.rows.get(t, {})) for t in (*RUN_TABLES, RUN_KEYS)} == before


def test_same_run_key_with_another_request_is_refused_and_changes_nothing() -> None:
    f = Folding()
    f.add(triggered(1, run_key="k", request_fingerprint="x"), *plan(chain_of(1)))
    other = triggered(1, "run2", run_key="k", request_fingerprint="y")
    changes = f.add(other, *plan(chain_of(1), "run2"))
    assert outcome(f) == ("refused", "run_key_conflict")
    recorded = {"log.commands", "log.outcomes", "security.audit", "security.audit_head"}
    assert {str(table) for table in changes} == recorded


def test_runs_without_a_key_are_all_runs_of_their_own() -> None:
    f = Folding()
    f.add(triggered(1, "run1"), triggered(1, "run2"))
    assert [run.run_id for run in f.all(RUNS)] == ["run1", "run2"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 0, 0, 2)])
def test_plan_in_chunks_starts_the_run_with_the_last_in_whatever_order(
    order: tuple[int, ...],
) -> None:
    dag = (Node(), Node((0,)), Node(), Node((1, 2)), Node((0,)), Node((3, 4)))
    parts = plan(dag, chunks=3)
    f, whole = Folding(), started_run(dag)
    f.add(triggered(6))
    for i in order[:-1]:
        f.add(parts[i])
    assert f.run().state == "PLANNING"
    assert set(f.states().values()) == {"PLANNED"}
    f.add(parts[order[-1]])
    assert (f.run(), f.all(TASKS)) == (whole.run(), whole.all(TASKS))
    for part in parts:
        assert run_rows(f.add(part)) == []


def test_run_of_no_tasks_has_succeeded() -> None:
    f = Folding()
    f.add(triggered(0, timeout_s=60))
    assert f.run().state == "SUCCEEDED"
    assert f.timers() == []


def test_unknown_runs_tasks_and_timers_are_ignored() -> None:
    f = started_run(chain_of(1))
    strangers = [Attempt("t00", 1, "run9"), Attempt("t77")]
    for a in strangers:
        reports = (a.enqueued(), a.started(), a.succeeded(), a.failed(), a.lost())
        assert run_rows(f.add(*reports)) == []
    assert run_rows(f.add(TimerFired(run_id=RUN, timer_id="timer:none"))) == []
    assert run_rows(f.add(*plan(chain_of(1), "run9"))) == []


def test_priority_of_a_task_is_that_of_its_asset_and_its_run() -> None:
    f = Folding()
    f.add(triggered(1, priority=10), *plan(chain_of(1), priority=5))
    assert f.task("t00").priority == 15


def test_reports_about_a_run_that_left_change_nothing() -> None:
    f = started_run(chain_of(1))
    f.add(ok("t00"))
    f.wait(KEPT_HOT.total_seconds() + 1)
    assert run_rows(f.add(ok("t00"), Attempt("t00").started(), *plan(chain_of(1)))) == []


def test_a_trigger_of_a_newer_program_stays_as_it_is_and_equals_no_other() -> None:
    types = EventTypes([RunTriggered, RunRequested])
    run = msgspec.structs.asdict(triggered(0, run_key="k", triggered_by="ana"))
    set_fields = {name: value for name, value in run.items() if value is not msgspec.UNSET}
    request = {"request_key": "r", "fingerprint": "f", "request": PlanRequest(selection=("a.b",))}
    f = Folding()
    for type_, fields in (
        (RunTriggered, set_fields | {"trigger": "tide"}),
        (RunRequested, request | {"kind": "tide"}),
    ):
        payload = types.decode(type_.TYPE, type_.VERSION, msgspec.json.encode(fields))
        assert payload is not None
        assert b'"tide"' in msgspec.json.encode(payload)
        f.add(payload)
    assert f.run().trigger == f.one(RUN_REQUESTS, "r").kind == "tide"
    assert f.run().trigger not in list(RunTrigger)
    assert run_trigger(f.run()) == "tide by ana"
    for table in (RUNS, RUN_REQUESTS):
        assert table.versioned(table.to_arrow(f.rows[table])) == f.rows[table]


def test_a_row_in_a_state_of_a_newer_program_is_not_read() -> None:
    f = Folding()
    f.add(triggered(1))
    columns = RUNS.to_arrow(f.rows[RUNS])
    states = pa.array(["SLEEPING"])
    written = columns.set_column(columns.schema.get_field_index("state"), "state", states)
    with pytest.raises(Corrupt, match="'SLEEPING', which this program does not know"):
        RUNS.versioned(written)
