"""Schedules on an orchestrator: ticks fire once, and what does not fire says why."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import pytest

from arco.automation import ticks
from arco.automation.events import ScheduleTicked
from arco.automation.tables import ScheduleState, TickState
from arco.dispatch.request_planner import RequestPlanner
from arco.errors import Refused
from arco.log.envelope import Payload
from arco.orchestration.commands import Requested
from arco.orchestration.declarations import PlainSchedule
from arco.orchestration.events import DeploymentCreated
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import decode_request
from arco.orchestration.states import RequestState, RunState, RunTrigger
from arco.orchestration.tables import RunRequestRow
from arco.state.tier1 import Tier1
from servo.errors import Invalid
from tests.kit.flows import commit_all
from tests.kit.schedules import START, Town, every, fired, project
from tests.kit.workspace import make_workspace

HOUR = START + timedelta(hours=1)
PEOPLE = itertools.count(100)
"""Seeds of those who ask."""


def at(hour: int, minute: int) -> datetime:
    return START.replace(hour=hour, minute=minute)


def tick_of_often(tick: str, scheduled_at: datetime, *, minutes: int = 10) -> ScheduleTicked:
    timing = f"*/{minutes} * * * * UTC"
    return ScheduleTicked(
        schedule_id="main/often", timing=timing, tick=tick, scheduled_at=scheduled_at
    )


def test_each_tick_fires_once_and_starts_a_run() -> None:
    town = Town()
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(HOUR)
    assert town.states() == fired(*every(10, START, HOUR))
    runs = town.runs()
    assert [run.state for run in runs] == [RunState.SUCCEEDED] * 6
    assert {run.trigger for run in runs} == {"schedule"}
    assert runs[0].reference == "main/often@2026-01-05T08:10"
    assert [entry.request and entry.request.run_id for entry in town.ticks()] == [
        run.run_id for run in runs
    ]


def test_two_orchestrators_fire_each_tick_once() -> None:
    town = Town()
    town.crowd.orchestrator()
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(HOUR)
    assert town.states() == fired(*every(10, START, HOUR))
    assert len(town.runs()) == 6


def test_after_an_outage_the_newest_tick_fires_and_the_others_are_counted() -> None:
    town = Town()
    town.clock.advance(timedelta(hours=3))
    town.crowd.orchestrator()
    town.settle()
    assert town.states() == fired("11:00")
    assert (town.ticks()[0].row.missed, town.ticks()[0].row.missed_at_least) == (17, False)


def test_all_ticks_of_an_outage_are_caught_up_within_the_limit() -> None:
    town = Town(project(catchup="all", catchup_limit=4))
    town.clock.advance(timedelta(hours=3))
    town.crowd.orchestrator()
    town.settle()
    assert town.states() == fired("10:30", "10:40", "10:50", "11:00")
    assert [entry.row.missed for entry in town.ticks()] == [14, 0, 0, 0]


def test_a_late_tick_is_missed_where_nothing_is_caught_up() -> None:
    town = Town(project(catchup="none"))
    town.clock.advance(timedelta(hours=3, minutes=6))
    town.crowd.orchestrator()
    town.settle()
    assert town.states() == [("11:00", TickState.MISSED)]
    assert "no orchestrator" in town.ticks()[0].reason
    town.until(at(11, 11))
    assert town.states() == [("11:00", TickState.MISSED), *fired("11:10")]


def test_minutes_of_years_cost_little_to_catch_up() -> None:
    town = Town(project("* * * * *"))
    town.clock.advance(timedelta(days=1_000))
    town.crowd.orchestrator()
    town.settle()
    (entry,) = town.ticks()
    assert entry.row.missed_at_least and entry.row.missed > 1_000


def test_a_tick_is_skipped_while_a_run_of_the_schedule_is_active() -> None:
    town = Town(project(overlap="skip"))
    town.crowd.orchestrator()  # without a worker, the run goes on
    town.until(at(8, 31))
    assert town.states() == [
        *fired("08:10"),
        ("08:20", TickState.SKIPPED),
        ("08:30", TickState.SKIPPED),
    ]
    (run,) = town.runs()
    assert town.ticks()[1].reason == f"run {run.run_id} is still active"
    town.crowd.worker()
    town.until(at(8, 41))
    assert town.states()[-1:] == fired("08:40")


def test_ticks_queue_behind_the_run_of_the_schedule() -> None:
    town = Town(project(overlap="queue"))
    town.crowd.orchestrator()
    while town.clock.now() < at(8, 31):
        town.crowd.step()
        town.clock.sleep(20)
    assert town.states() == fired("08:10", "08:20", "08:30")
    assert len(town.runs()) == 1 and len(town.pending()) == 2
    town.crowd.worker()
    town.settle()
    assert [run.state for run in town.runs()] == [RunState.SUCCEEDED] * 3
    ended = [run.finished_at for run in town.runs()]
    assert ended == sorted(ended, key=str)


def test_a_changed_cron_does_not_fire_for_the_past() -> None:
    town = Town()
    town.clock.advance(timedelta(minutes=25))  # 8:26; two ticks are due, and nobody has fired them
    town.deploy(project("*/5 * * * *"))
    town.crowd.orchestrator()
    town.until(at(8, 36))
    assert town.states() == fired("08:30#2", "08:35#2")


def test_a_deployment_that_leaves_the_schedule_alone_changes_no_tick() -> None:
    town = Town()
    town.clock.advance(timedelta(minutes=10))  # 8:11: one tick is due
    town.deploy(project() + "\nanother = schedule('another', cron='0 0 * * *', selection=[alone])")
    town.crowd.orchestrator()
    town.settle()
    assert town.states() == fired("08:10")


def test_a_pause_survives_deployments_and_a_resumed_schedule_leaves_its_ticks_out() -> None:
    town = Town()
    automation = town.w.commands.automation
    automation.pause("often", reason="the source is down")
    town.crowd.orchestrator()
    town.until(at(8, 31))
    town.deploy(project("*/5 * * * *"))
    row = town.fresh().read.automation().schedule("often")
    assert (row.state, row.pause_reason) == (ScheduleState.PAUSED, "the source is down")
    town.until(at(8, 41))
    assert town.states() == []
    town.fresh().commands.automation.resume("often")
    town.until(at(8, 46))
    assert town.states() == fired("08:45#2")


@pytest.mark.parametrize(
    ("catchup", "times"), [("latest", ["08:30"]), ("all", ["08:10", "08:20", "08:30"])]
)
def test_ticks_of_a_pause_fire_if_that_is_asked_for(catchup: str, times: list[str]) -> None:
    town = Town(project(catchup="none"))
    town.w.commands.automation.pause("often")
    town.clock.advance(timedelta(minutes=35))
    town.fresh().commands.automation.resume("often", catchup=catchup)  # type: ignore[arg-type]
    town.crowd.orchestrator()
    town.settle()
    assert town.states() == fired(*times)
    town.clock.advance(timedelta(minutes=42))  # from here on its own policy holds
    town.settle()
    assert town.states()[len(times) :] == [("09:10", TickState.MISSED)]


@pytest.mark.parametrize("refresh", [True, False])
def test_what_reads_nothing_runs_again_at_each_tick_unless_it_is_declared_otherwise(
    refresh: bool,
) -> None:
    town = Town(
        project(
            "*/10 * * * *",
            "@asset(namespace='city', deps=[alone])",
            "def after() -> None: ...",
            "@asset(namespace='city', partitions=daily('date', start='2026-01-01'))",
            "def daily_one() -> None: ...",
            refresh_sources=refresh,
        ).replace("selection=[alone]", "selection=['*']")
    )
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(at(8, 31))
    counts = [(run.tasks_succeeded, run.tasks_reused) for run in town.runs()]
    assert counts == [(3, 0), *([(2, 1)] * 2 if refresh else [(0, 3)] * 2)]


def test_a_removed_schedule_does_not_fire_and_is_kept() -> None:
    town = Town()
    text = "from servo import asset\n@asset(namespace='city')\ndef alone() -> None: ..."
    town.deploy(text)
    town.crowd.orchestrator()
    town.until(at(8, 31))
    reader = town.fresh().read.automation()
    assert reader.schedules() == []
    assert [row.state for row in reader.schedules(removed=True)] == [ScheduleState.REMOVED]
    town.deploy(project())
    town.until(at(8, 41))
    assert town.states() == fired("08:40")


def test_a_schedule_from_before_there_were_declarations_is_removed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    town = Town("from servo import asset\n@asset(namespace='city')\ndef alone() -> None: ...")
    replace = msgspec.structs.replace

    def as_version_3(self: Tier1, event: Payload, **rest: Any) -> Any:
        assert isinstance(event, DeploymentCreated) and event.declarations
        plain = (PlainSchedule(**msgspec.structs.asdict(each)) for each in event.declarations)
        return execute(
            self, replace(event, declarations=(), changed_schedules=tuple(plain)), **rest
        )

    execute = Tier1.execute
    with monkeypatch.context() as context:
        context.setattr(Tier1, "execute", as_version_3)
        town.deploy(project())
    names = [row.name for row in town.fresh().read.automation().schedules()]
    assert names == ["often"]
    town.deploy(project().replace("'often'", "'seldom'"))
    names = [row.name for row in town.fresh().read.automation().schedules()]
    assert names == ["seldom"]


def test_a_tick_of_another_cron_or_a_paused_schedule_changes_nothing() -> None:
    town = Town()
    tick = tick_of_often("2026-01-05T08:10", at(8, 10))
    town.clock.advance(timedelta(minutes=9))
    w = town.fresh()
    w.commands.automation.pause("often")
    w.ledger.append([tick])
    commit_all(w)
    w.commands.automation.resume("often", catchup="all")
    other = tick_of_often("2026-01-05T08:07", at(8, 7), minutes=7)
    w.ledger.append([other])
    commit_all(w)
    assert town.ticks() == []
    w.ledger.append([tick])
    w.ledger.append([tick])
    commit_all(w)
    assert town.states() == fired("08:10")
    assert len(town.pending()) == 1


def test_machines_with_other_zone_data_fire_a_tick_once() -> None:
    """One places the wall time an hour later than the other; it is the same tick."""
    town = Town()
    tick = tick_of_often("2026-01-05T08:10", at(8, 10))
    late = tick_of_often("2026-01-05T08:10", at(9, 10))
    town.clock.advance(timedelta(minutes=75))
    w = town.fresh()
    w.ledger.append([tick])
    w.ledger.append([late])
    commit_all(w)
    assert len(town.ticks()) == 1


def test_a_schedule_that_cannot_be_planned_fails_with_the_reason() -> None:
    town = Town()
    town.deploy(project(partitions="region=eu"))
    town.crowd.orchestrator()
    town.until(at(8, 11))
    (entry,) = town.ticks()
    assert entry.state == TickState.FAILED
    assert "region" in entry.reason


def test_an_idle_orchestrator_writes_nothing_between_ticks() -> None:
    town = Town()
    town.crowd.orchestrator()
    town.settle()
    w = town.fresh()
    before = w.read.snapshot().generation
    names = sorted(meta.path for meta in town.store.list("") if "clock" not in meta.path)
    for _ in range(20):
        town.crowd.step()
    assert town.clock.now() < at(8, 10)
    assert w.read.snapshot().generation == before
    assert sorted(m.path for m in town.store.list("") if "clock" not in m.path) == names


def test_a_changed_time_zone_fires_a_wall_time_that_was_due_before() -> None:
    town = Town(project("0 9 * * *"))
    town.crowd.orchestrator()
    town.until(at(9, 1), step_s=300)
    town.deploy(project("0 9 * * *", timezone="America/New_York"))
    town.until(at(14, 1), step_s=300)
    assert town.states() == fired("09:00", "09:00#2")
    assert len(town.runs()) == 2


def test_a_tick_of_a_clock_that_is_far_ahead_does_not_count() -> None:
    town = Town()
    early = tick_of_often("2027-01-05T08:10", datetime(2027, 1, 5, 8, 10))
    w = town.fresh()
    w.ledger.append([early])
    commit_all(w)
    assert town.ticks() == []
    town.crowd.orchestrator()
    town.until(at(8, 11))
    assert town.states() == fired("08:10")


def test_a_schedule_that_cannot_be_evaluated_here_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = (
        "other = schedule('other', cron='*/10 * * * *', selection=[alone], timezone='Asia/Tokyo')"
    )
    town = Town(project("*/10 * * * *", other))

    class NoTokyo(ZoneInfo):
        def __new__(cls, key: str) -> NoTokyo:
            if key == "Asia/Tokyo":
                raise ZoneInfoNotFoundError(key)
            return super().__new__(cls, key)

    monkeypatch.setattr(ticks, "ZoneInfo", NoTokyo)
    town.crowd.orchestrator()
    town.until(at(8, 11))
    assert town.states() == fired("08:10")
    assert town.states("other") == []


def test_a_pause_does_not_release_what_is_queued() -> None:
    town = Town(project(overlap="queue"))
    town.crowd.orchestrator()
    while town.clock.now() < at(8, 31):
        town.crowd.step()
        town.clock.sleep(20)
    town.fresh().commands.automation.pause("often")
    for _ in range(5):
        town.crowd.step()
    assert len(town.runs()) == 1 and len(town.pending()) == 2


def test_a_retry_of_a_ticks_run_is_about_the_partition_of_its_time() -> None:
    text = project("0 1 * * *", catchup="all").replace(
        "@asset(namespace='city')",
        "@asset(namespace='city', partitions=daily('d', start='2026-01-01'))",
    )
    town = Town(text)
    town.clock.advance(timedelta(days=3))
    town.crowd.orchestrator()
    town.settle()
    first, *_ = town.runs()
    w = town.fresh()
    w.commands.orchestration.cancel(first.run_id, force=True)
    retried = town.fresh().commands.orchestration.retry(first.run_id)
    planned = town.fresh().read.orchestration()
    keys = {task.partition_key for task in planned.tasks(retried.run_id)}
    assert (
        keys == {task.partition_key for task in planned.tasks(first.run_id)} == {"d=d:2026-01-05"}
    )


# -- requests -----------------------------------------------------------------------------


def ask(town: Town, **settings: str) -> Requested:
    request = PlanRequest(selection=("city.alone",), force=True)
    w = make_workspace(town.store, next(PEOPLE), clock=town.clock, actor="ana")
    return w.commands.orchestration.request(request, **settings)  # type: ignore[arg-type]


def test_a_request_becomes_a_run_with_the_id_that_was_promised() -> None:
    town = Town(project("0 0 1 1 *"))
    requested = ask(town)
    assert requested.state == RequestState.PENDING
    town.crowd.orchestrator()
    town.crowd.worker()
    town.settle()
    (run,) = town.runs()
    assert (run.run_id, run.state, run.trigger) == (requested.run_id, RunState.SUCCEEDED, "manual")
    assert run.triggered_by == "ana"
    row = town.fresh().read.orchestration().run_request(requested.request_key)
    assert (row.state, row.run_id) == (RequestState.TRIGGERED, requested.run_id)


def test_a_key_starts_one_run_however_it_is_used() -> None:
    town = Town(project("0 0 1 1 *"))
    first, again = ask(town, run_key="k"), ask(town, run_key="k")
    assert (again.run_id, again.state) == (first.run_id, RequestState.PENDING)
    other = PlanRequest(selection=("city.alone",))
    with pytest.raises(Refused, match="another request"):
        town.fresh().commands.orchestration.request(other, run_key="k")
    with pytest.raises(Refused, match="another request"):
        town.fresh().commands.orchestration.trigger(other, run_key="k")
    town.crowd.orchestrator()
    town.settle()
    assert ask(town, run_key="k").state == RequestState.TRIGGERED
    assert [run.run_id for run in town.runs()] == [first.run_id]


def test_a_request_whose_key_has_an_old_run_is_merged_with_it() -> None:
    town = Town(project("0 0 1 1 *"))
    request = PlanRequest(selection=("city.alone",), force=True)
    run = town.fresh().commands.orchestration.trigger(request, run_key="k")
    requested = ask(town, run_key="k")
    assert (requested.state, requested.run_id) == (RequestState.MERGED, run.run_id)


@pytest.mark.parametrize("key", ["schedule:main/often@2026", "backfill:1:3", "k" * 513])
def test_keys_of_requests_by_others_and_long_keys_are_refused(key: str) -> None:
    town = Town(project("0 0 1 1 *"))
    with pytest.raises(Invalid, match="run key"):
        ask(town, run_key=key)
    with pytest.raises(Invalid, match="run key"):
        request = PlanRequest(selection=("city.alone",))
        town.fresh().commands.orchestration.trigger(request, run_key=key)


def test_a_key_that_another_run_has_is_a_conflict_for_a_request() -> None:
    town = Town(project("0 0 1 1 *"))
    other = PlanRequest(selection=("city.alone",))
    town.fresh().commands.orchestration.trigger(other, run_key="k")
    with pytest.raises(Refused, match="another request"):
        ask(town, run_key="k")


def test_a_request_that_the_log_does_not_take_keeps_nobody_from_being_planned() -> None:
    town = Town(project("0 0 1 1 *"))
    row = RunRequestRow(
        request_key="k1",
        state=RequestState.PENDING,
        kind=RunTrigger.MANUAL,
        reference="r" * (2 << 20),  # its trigger is larger than an event may be
        selection=[],
        partitions=[],
        request='{"selection": ["city.alone"]}',
        fingerprint="f",
        run_id="",
        reason="",
        hint="",
        until=None,
        timeout_s=0,
        priority=0,
        requested_at=START,
        requested_by="",
        decided_at=None,
    )
    good = ask(town)
    w = town.fresh()
    reader = w.read.orchestration()
    rows = [row, reader.run_request(good.request_key)]
    planner = RequestPlanner(w.core, w.writer, w.library)
    assert planner.plan(rows, reader.snapshot) == 2
    commit_all(w)
    assert [run.run_id for run in town.runs()] == [good.run_id]


def test_a_withdrawn_request_starts_no_run() -> None:
    town = Town(project("0 0 1 1 *"))
    requested = ask(town, run_key="k")
    commands = town.fresh().commands.orchestration
    commands.withdraw(requested.request_key, reason="a mistake")
    with pytest.raises(Refused, match="REFUSED already"):
        commands.withdraw(requested.request_key)
    town.crowd.orchestrator()
    town.settle()
    assert town.runs() == []
    row = town.fresh().read.orchestration().run_request("k")
    assert (row.state, row.reason) == (RequestState.REFUSED, "a mistake")
    request = PlanRequest(selection=("city.alone",), force=True)
    with pytest.raises(Refused, match="was refused"):
        commands.trigger(request, run_key="k")


def test_what_cannot_be_planned_is_refused_at_once_and_leaves_nothing() -> None:
    town = Town(project("0 0 1 1 *"))
    with pytest.raises(Invalid, match=r"city\.nobody"):
        request = PlanRequest(selection=("city.nobody",))
        town.fresh().commands.orchestration.request(request)
    assert town.pending() == []


def test_a_large_request_is_kept_whole() -> None:
    lines = (f"def f{n:04d}() -> None: ..." for n in range(3_000))
    assets = "".join(f"@asset(namespace='city')\n{line}\n" for line in lines)
    town = Town("from servo import asset\n" + assets)
    request = PlanRequest(selection=tuple(f"city.f{n:04d}" for n in range(3_000)))
    requested = town.fresh().commands.orchestration.request(request)
    row = town.fresh().read.orchestration().run_request(requested.request_key)
    assert len(row.selection) < 3_000
    assert decode_request(row.request) == request
    town.crowd.orchestrator()
    town.crowd.step()
    town.crowd.step()
    assert [run.tasks_total for run in town.runs()] == [3_000]


@pytest.mark.parametrize(
    ("catchup", "overlap", "waiting", "states"),
    [
        ("latest", "allow", 0, fired("08:30")),
        ("latest", "queue", 0, fired("08:30")),
        ("none", "allow", 0, [("08:30", TickState.MISSED)]),
        ("all", "allow", 3, fired("08:10", "08:20", "08:30")),
        ("all", "queue", 3, fired("08:10", "08:20", "08:30")),
        (
            "all",
            "skip",
            1,
            [("08:10", TickState.FIRED), *[(t, TickState.SKIPPED) for t in ("08:20", "08:30")]],
        ),
    ],
)
def test_ticks_are_held_while_dispatch_is_paused_unless_each_of_them_counts(
    catchup: str, overlap: str, waiting: int, states: list[tuple[str, TickState]]
) -> None:
    town = Town(project(catchup=catchup, overlap=overlap))
    town.crowd.orchestrator()
    town.crowd.worker()
    town.fresh().commands.limits.pause(reason="an upgrade")
    while town.clock.now() < START + timedelta(minutes=36):
        town.crowd.step()
        town.clock.sleep(60)
    assert len(town.pending()) == waiting
    town.fresh().commands.limits.resume()
    town.settle()
    assert town.states() == states
    assert len(town.runs()) == sum(state == TickState.FIRED for _, state in states)
    town.until(at(8, 41))
    assert town.states()[len(states) :] == fired("08:40"), "it goes on as before"
