"""Limits from the command to their effect, one at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from arco.app import Workspace
from arco.dispatch.waiting import Occupied, held_back
from arco.errors import Invalid, Refused
from arco.orchestration.events import RunCancelRequested
from arco.orchestration.limit_events import DispatchPaused, LimitSet
from arco.orchestration.limit_report import limit_entries
from arco.orchestration.limit_tables import (
    DISPATCH_CONTROL,
    LIMITS,
    DeclaredLimits,
    LimitName,
    LimitReached,
    LimitRow,
    value_text,
)
from arco.orchestration.limit_usage import RunUse, TaskUse, run_limit_reached
from arco.orchestration.limits import dispatch_limits
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState, RunTrigger, TaskState
from arco.orchestration.tables import TASKS
from servo.errors import Invalid as Misdeclared
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, Crowd, deploy, trigger
from tests.kit.runs import Attempt, Folding, Node, plan, started_run, triggered
from tests.kit.workspace import make_workspace
from tests.unit.test_orchestration_controllers import board_of

TASKS_AT_A_TIME = LimitName.CONCURRENT_TASKS
POOL = """
from servo import Resources, asset
@asset(namespace='city', resources=Resources(pool='jdbc'))
def pooled() -> None: ...
"""


@pytest.fixture
def w() -> Workspace:
    made = make_workspace(clock=SimClock(datetime(2026, 1, 5, 8)))
    deploy(made, POOL)
    return made


def declared(*limits: tuple[str, LimitName, int]) -> DeclaredLimits:
    now = datetime(2026, 1, 1)
    return DeclaredLimits.of(LimitRow(*limit, "", now, "ana") for limit in limits)


# -- what can be set -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "name", "value", "text"),
    [
        ("workspace", "max_daily_runs", "-1", "'-1' is not a value of max_daily_runs"),
        ("workspace", "max_daily_runs", "0", "'0' is not a value"),
        ("workspace", "max_daily_runs", "many", "'many' is not a value"),
        ("workspace", "max_daily_runs", "1.5", "'1.5' is not a value"),
        ("workspace", "max_daily_runs", "٣", "is not a value"),
        ("workspace", "max_daily_runs", "9" * 30, "is not a value"),
        ("workspace", "max_daily_run", "3", "there is no limit 'max_daily_run'"),
        ("workspace", "fairness_weight", "3", "fairness_weight cannot be set for the workspace"),
        ("tenant:acme", "max_daily_runs", "3", "max_daily_runs cannot be set for tenant acme"),
        ("tenant:*", "fairness_weight", "3", "cannot be set for each tenant"),
        ("pool:jdbc", "max_queued_tasks", "3", "cannot be set for pool jdbc"),
        ("pool:jdbc", "", "-1", "'-1' is not a value"),
        ("pool:jdbcc", "", "4", "no deployed asset has"),
        ("pool:a/b", "", "4", "'pool:a/b' is not the scope of a limit"),
        ("tenant:", "max_queued_tasks", "4", "is not the scope of a limit"),
        ("workspaces", "max_queued_tasks", "4", "is not the scope of a limit"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    w: Workspace, scope: str, name: str, value: str, text: str
) -> None:
    before = w.read.snapshot().generation
    with pytest.raises(Invalid) as refused:
        w.commands.limits.set(scope, name, value)
    assert text in refused.value.message
    assert refused.value.hint
    assert w.read.snapshot().generation == before


@pytest.mark.parametrize("value", ["never", "0", "-5", "1.5s"])
def test_a_duration_that_is_none_is_refused(w: Workspace, value: str) -> None:
    with pytest.raises(Misdeclared, match="max_run_duration"):
        w.commands.limits.set("workspace", "max_run_duration", value)


def test_a_misspelled_pool_or_limit_gets_a_suggestion(w: Workspace) -> None:
    with pytest.raises(Invalid) as refused:
        w.commands.limits.set("pool:jdbcc", "", "4")
    assert refused.value.hint.startswith("did you mean 'jdbc'?")
    with pytest.raises(Invalid) as refused:
        w.commands.limits.set("workspace", "max_daily_run", "4")
    assert refused.value.hint == "did you mean 'max_daily_runs'?"


def test_the_size_of_a_pool_can_be_set_before_its_assets_are_deployed(w: Workspace) -> None:
    w.commands.limits.set("pool:new", "", "4", new_pool=True)
    w.commands.limits.set("pool:new", "", "5")
    assert w.read.orchestration().limits().of_pool("new") == 5


def test_a_limit_that_is_not_set_cannot_be_unset(w: Workspace) -> None:
    with pytest.raises(Refused, match="max_daily_runs of workspace is not set"):
        w.commands.limits.unset("workspace", "max_daily_runs")


def test_a_limit_that_the_log_brings_from_elsewhere_is_checked_too() -> None:
    f = Folding()
    f.add(LimitSet(scope="workspace", name=LimitName.DAILY_RUNS, value=0))
    f.add(LimitSet(scope="nobody", name=LimitName.DAILY_RUNS, value=4))
    assert f.all(LIMITS) == []


def test_a_limit_says_who_changed_it_when_and_why(w: Workspace) -> None:
    w.commands.limits.set("pool:jdbc", "", "2", reason="the database has few")
    w.commands.limits.unset("pool:jdbc", "", reason="it has more")
    [row] = w.read.snapshot().all(LIMITS)
    assert (row.value, row.reason) == (None, "it has more")


# -- what is shown ---------------------------------------------------------------------------


def test_a_pool_without_a_size_is_listed_as_unlimited(w: Workspace) -> None:
    def pool() -> tuple[str, int | None, str]:
        entries = limit_entries(w.read.orchestration(), w.commands.limits.pools(), w.clock.now())
        [entry] = [entry for entry in entries if entry.scope == "pool:jdbc"]
        return entry.text, entry.use, entry.note

    assert pool() == ("no limit", 0, "1 asset")
    w.commands.limits.set("pool:jdbc", "", "2", reason="few")
    assert pool() == ("2", 0, "1 asset; few")


def test_durations_are_shown_as_people_write_them() -> None:
    assert value_text(LimitName.RUN_DURATION, 90_061) == "1d 1h 1m 1s"
    assert value_text(LimitName.TASKS_PER_RUN, 10_000) == "10,000"


def test_a_task_that_waits_says_for_which_limit_or_pause() -> None:
    f = started_run((Node(tenant="acme"),) * 4, pool="jdbc")
    f.add(Attempt("t00").started(), Attempt("t01").enqueued())
    tasks = f.all(TASKS)
    for limits, text in [
        (("pool:jdbc", TASKS_AT_A_TIME, 2), "2 of 2 slots of pool jdbc are in use"),
        (
            ("workspace", TASKS_AT_A_TIME, 1),
            "2 tasks of the workspace queued or running, and its max_concurrent_tasks is 1",
        ),
        (
            ("tenant:*", LimitName.QUEUED_TASKS, 1),
            "1 task of tenant acme queued, and its max_queued_tasks is 1",
        ),
    ]:
        use = TaskUse(declared(limits), [t for t in tasks if t.state != TaskState.READY])
        [reason] = held_back(tasks, Occupied(declared(limits), use))
        assert (reason.what, reason.text) == ("limits", f"2 tasks ready: {text}")
    f.add(DispatchPaused(reason="an upgrade"))
    paused = DeclaredLimits.of([], f.all(DISPATCH_CONTROL)[0])
    [reason] = held_back(tasks, Occupied(paused))
    assert reason.what == "pause"
    assert "paused since 2026-01-01 00:00 UTC: an upgrade" in reason.text


# -- tasks -----------------------------------------------------------------------------------


def test_limits_of_tenants_and_weights_reach_the_dispatch() -> None:
    limits = dispatch_limits(
        declared(
            ("workspace", TASKS_AT_A_TIME, 20),
            ("tenant:acme", TASKS_AT_A_TIME, 3),
            ("tenant:*", TASKS_AT_A_TIME, 5),
            ("tenant:zoo", LimitName.WEIGHT, 4),
        ),
        [],
    )
    assert limits.max_in_flight == 20
    assert [limits.quota(tenant) for tenant in ("acme", "zoo", "")] == [3, 5, 20]
    assert limits.weights == {"zoo": 4}


def test_queued_tasks_are_limited_until_they_run(w: Workspace) -> None:
    deploy(w, CITY)
    w.commands.limits.set("workspace", "max_queued_tasks", "1")
    clock = w.clock
    assert isinstance(clock, SimClock)
    crowd = Crowd(w.store, clock, trigger(w, "city.alone", "city.top", "city.flaky"))
    crowd.orchestrator()
    for _ in range(5):
        crowd.step()
    rows = crowd.fresh().read.snapshot().rows(TASKS, crowd.run_id)
    assert sorted(task.state for task in rows) == ["DISPATCHED", "READY", "READY"]
    crowd.worker()
    crowd.finish()


def test_a_board_counts_runs_of_today_that_have_ended() -> None:
    f = Folding()
    for number in range(3):
        f.add(triggered(1, f"run{number}"), *plan((Node(),), f"run{number}"))
        f.add(RunCancelRequested(run_id=f"run{number}"))
    f.wait(86_400).add(triggered(1, "later"))
    board = board_of(f)
    assert board.run_use(f.now) == RunUse(1, 0, 1)
    assert board.run_use(f.now - timedelta(days=1)).today == 3


# -- runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "use", "kind", "text"),
    [
        (LimitName.CONCURRENT_RUNS, RunUse(3), RunTrigger.MANUAL, "3 runs are active"),
        (
            LimitName.CONCURRENT_RUNS,
            RunUse(2, 2),
            RunTrigger.BACKFILL,
            "2 runs are of backfills, which leave",
        ),
        (
            LimitName.DAILY_RUNS,
            RunUse(0, 0, 3),
            RunTrigger.SCHEDULE,
            "3 runs were started today (UTC)",
        ),
        (LimitName.BACKFILL_RUNS, RunUse(9, 3), RunTrigger.BACKFILL, "3 runs are of backfills"),
    ],
)
def test_a_refusal_names_the_limit_its_value_and_the_use(
    limit: LimitName, use: RunUse, kind: RunTrigger, text: str
) -> None:
    reached = run_limit_reached(declared(("workspace", limit, 3)), use, kind)
    assert reached is not None
    assert reached.message.startswith(text)
    assert reached.message.endswith(f"{limit} of the workspace is 3")
    assert f"servo limits set workspace {limit}" in reached.hint
    assert (reached.name, reached.value) == (limit, 3)


def test_backfills_may_have_the_only_place_there_is() -> None:
    one = declared(("workspace", LimitName.CONCURRENT_RUNS, 1))
    assert run_limit_reached(one, RunUse(0), RunTrigger.BACKFILL) is None
    assert run_limit_reached(DeclaredLimits(), RunUse(5, 5), RunTrigger.BACKFILL) is not None
    assert run_limit_reached(DeclaredLimits(), RunUse(500, 5), RunTrigger.MANUAL) is None


def test_a_run_with_too_many_tasks_is_refused_before_anything_is_stored(w: Workspace) -> None:
    deploy(w, CITY)
    w.commands.limits.set("workspace", "max_tasks_per_run", "2")
    before = w.read.snapshot().generation
    with pytest.raises(LimitReached, match="would have 7 tasks: max_tasks_per_run of the work"):
        trigger(w, "*")
    with pytest.raises(LimitReached, match="7 tasks"):
        w.commands.orchestration.plan(PlanRequest(selection=("*",)))
    assert w.read.snapshot().generation == before
    trigger(w, "city.alone", "city.after")


def test_a_run_that_takes_longer_than_the_limit_is_timed_out_with_the_reason(
    w: Workspace,
) -> None:
    deploy(w, CITY)
    w.commands.limits.set("workspace", "max_run_duration", "10m")
    clock = w.clock
    assert isinstance(clock, SimClock)
    crowd = Crowd(w.store, clock, trigger(w, "city.alone"))
    crowd.orchestrator()
    crowd.until(crowd.ended)
    row = w.read.orchestration().run(crowd.run_id)
    assert row.state == RunState.TIMED_OUT
    assert row.cancel_reason == (
        "the run took more than 600 s, the max_run_duration of the workspace"
    )
    w.commands.limits.unset("workspace", "max_run_duration")
    again = w.commands.orchestration.retry(crowd.run_id)
    assert w.read.orchestration().run(again.run_id).timeout_s == 0


def test_a_runs_own_timeout_counts_where_it_is_shorter(w: Workspace) -> None:
    w.commands.limits.set("workspace", "max_run_duration", "10m")
    shorter = trigger(w, "*", timeout=timedelta(seconds=60))
    longer = trigger(w, "*", timeout=timedelta(hours=1))
    reader = w.read.orchestration()
    assert (reader.run(shorter).timeout_s, reader.run(shorter).timeout_limit) == (60, "")
    assert reader.run(longer).timeout_s == 600


def test_a_run_that_others_were_faster_than_is_counted_again(w: Workspace) -> None:
    w.commands.limits.set("workspace", "max_concurrent_runs", "2")
    trigger(w, "*")

    def meanwhile(plan: object) -> None:
        if len(w.read.orchestration().runs(limit=9).rows) == 1:
            trigger(w, "*")

    with pytest.raises(LimitReached, match="2 runs are active"):
        trigger(w, "*", review=meanwhile)


def test_a_pause_is_said_once_and_resumed_once(w: Workspace) -> None:
    w.commands.limits.pause(reason="first")
    w.commands.limits.pause(reason="second")
    assert w.read.orchestration().limits().control.pause_reason == "first"
    w.commands.limits.resume()
    w.commands.limits.resume()
    assert not w.read.orchestration().limits().is_paused
    trigger(w, "*")
