"""Sensors: what is taken of an evaluation, and what of a late, doubled or broken one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from arco.automation.sensor_agenda import MAX_BACKOFF_S, backoff_s
from arco.automation.sensor_events import EvaluationError, SensorPaused
from arco.automation.sensor_tables import (
    EvaluationState,
    MessageState,
    SensorStatus,
)
from arco.dispatch.orchestrator import IDLE
from arco.dispatch.sensor_waiting import untaken
from arco.errors import Invalid, NotFound, Refused
from arco.notifications.tables import ALERTS
from arco.orchestration.states import RequestState, RunState
from arco.orchestration.tables import DYNAMIC_KEYS
from arco.storage import paths
from servo.contract.sensing import MAX_RUNS, SensorAnswer, SensorCall, SensorRun
from servo.sensor import RunRequest, SensorContext, SensorResult
from tests.kit.flows import TIMING, commit_all, trigger
from tests.kit.latency import LatencyStore
from tests.kit.schedules import START
from tests.kit.sensors import HOOK, PLAIN_HOOK, POLL, SensorTown, evaluated_from

TRIGGERED = RequestState.TRIGGERED
HOUR = START + timedelta(hours=1)


def runs(*keys: str) -> tuple[SensorRun, ...]:
    return tuple(SensorRun(key) for key in keys)


def queued(town: SensorTown) -> list[str]:
    return [meta.path for meta in town.store.list("") if paths.QUEUE in meta.path]


# -- evaluations --------------------------------------------------------------------------


def test_what_a_sensor_sees_becomes_runs_in_order_and_once() -> None:
    town = SensorTown()
    town.items = ["a", "b", "c"]
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(minutes=3))
    assert town.asked() == {f"poll:{item}": TRIGGERED for item in "abc"}
    assert {run.state for run in town.runs()} == {RunState.SUCCEEDED}
    assert {(run.trigger, run.reference) for run in town.runs()} == {
        ("sensor", "main/poll#1"),
        ("sensor", "main/poll#2"),
    }
    assert [(e.state, e.requests, e.cursor) for e in town.history()] == [
        (EvaluationState.REQUESTED, 2, "2"),
        (EvaluationState.REQUESTED, 1, "3"),
    ]
    assert town.sensor().cursor == "3"


def test_an_evaluation_without_effect_writes_nothing() -> None:
    town = SensorTown()
    town.crowd.orchestrator()
    worker = town.crowd.worker()
    town.until(START + timedelta(minutes=2))
    before = town.fresh().read.snapshot().generation
    evaluations = len(worker.executor.ran)
    town.until(START + timedelta(minutes=12))
    assert len(worker.executor.ran) >= evaluations + 9
    assert town.fresh().read.snapshot().generation == before
    assert [m.path for m in town.store.list("") if "/logs/" in m.path] == []
    assert queued(town) == []


def test_two_orchestrators_have_a_sensor_evaluated_once_for_each_turn() -> None:
    town = SensorTown()
    town.crowd.orchestrator()
    town.crowd.orchestrator()
    worker = town.crowd.worker()
    town.until(START + timedelta(minutes=20))
    turns = [request.sensor.due_s for request in worker.executor.ran if request.sensor]
    assert len(turns) <= 22
    assert len(set(turns)) >= 19


def test_paused_sensors_cost_an_idle_orchestrator_nothing() -> None:
    many = """
def look(ctx: SensorContext) -> SensorResult:
    return SensorResult()

polls = [sensor(selection=[alone], name=f"poll_{n}")(look) for n in range(200)]
"""
    town = SensorTown(many)
    town.commit(*[SensorPaused(sensor_id=f"main/poll_{n}") for n in range(200)])
    process = town.crowd.orchestrator()
    town.settle()
    names = sorted(meta.path for meta in town.store.list("") if "clock" not in meta.path)
    generation = town.fresh().read.snapshot().generation
    for _ in range(30):
        town.crowd.step()
    assert town.fresh().read.snapshot().generation == generation
    assert sorted(m.path for m in town.store.list("") if "clock" not in m.path) == names
    assert process.orchestrator.pause_s() == IDLE * TIMING.interval_s  # nothing is due before


def test_an_evaluation_counts_only_from_where_the_sensor_is() -> None:
    town = SensorTown()
    row = town.sensor()
    late = evaluated_from(row, SensorAnswer(cursor="9", runs=runs("late")))
    town.commit(evaluated_from(row, SensorAnswer(cursor="1", runs=runs("a"))))
    town.commit(late)
    town.commit(late)
    assert town.sensor().cursor == "1"
    assert [*town.asked()] == ["poll:a"]
    assert len(town.history()) == 1


def test_a_doubled_evaluation_counts_once() -> None:
    town = SensorTown()
    fact = evaluated_from(town.sensor(), SensorAnswer(cursor="1", runs=runs("a")))
    town.commit(fact, fact)
    town.commit(fact)
    assert (town.sensor().number, [*town.asked()]) == (1, ["poll:a"])
    assert [e.merged for e in town.history()] == [0]


def test_a_request_with_an_old_key_is_merged_and_counted() -> None:
    town = SensorTown()
    town.commit(evaluated_from(town.sensor(), SensorAnswer(runs=runs("a", "b", "b"))))
    town.commit(evaluated_from(town.sensor(), SensorAnswer(runs=runs("a", "c"))))
    assert [(e.requests, e.merged) for e in town.history()] == [(3, 1), (2, 1)]
    assert "sensor:main/poll:a: it was requested before" in town.history()[1].reason
    town.crowd.orchestrator()
    town.settle()
    town.clock.advance(timedelta(days=5))  # the request has left, its key has not
    town.commit(evaluated_from(town.sensor(), SensorAnswer(runs=runs("a"))))
    assert town.history()[-1].merged == 1
    assert "was started under this key" in town.history()[-1].reason
    assert len([run for run in town.runs() if run.run_key.endswith(":a")]) == 1


def test_a_request_that_cannot_be_planned_is_counted_as_refused() -> None:
    town = SensorTown()
    bad = SensorRun("a", ("date=2026-01-01",))
    town.commit(evaluated_from(town.sensor(), SensorAnswer(runs=(bad, SensorRun("b")))))
    town.crowd.orchestrator()
    town.settle()
    assert town.asked() == {"poll:a": RequestState.REFUSED, "poll:b": TRIGGERED}
    assert [(e.requests, e.refused) for e in town.history()] == [(2, 1)]


def test_keys_of_two_sensors_are_not_the_same() -> None:
    town = SensorTown(POLL, POLL.replace("def poll", "def other"))
    for name in ("poll", "other"):
        town.commit(evaluated_from(town.sensor(name), SensorAnswer(runs=runs("a"))))
    assert [*sorted(town.asked())] == ["other:a", "poll:a"]


def test_new_partition_keys_are_there_when_the_requests_are_planned() -> None:
    each = """
@asset(namespace="city", partitions=dynamic("client", keys="clients"))
def each() -> None: ...
"""
    town = SensorTown(each, POLL.replace("[alone]", "[each]"))
    answer = SensorAnswer(
        runs=(SensorRun("acme", ("client=acme",)),), keys={"clients": ("acme", "bob", "acme")}
    )
    town.commit(evaluated_from(town.sensor(), answer))
    keys = [row.key for row in town.fresh().read.snapshot().rows(DYNAMIC_KEYS, "clients")]
    assert keys == ["acme", "bob"]
    town.crowd.orchestrator()
    town.settle()
    assert town.asked() == {"poll:acme": TRIGGERED}


def test_ten_thousand_requests_of_one_evaluation_are_taken_together() -> None:
    town = SensorTown()
    keys = [f"{n:032x}-{n * 7919 % 10007:05}" for n in range(MAX_RUNS)]
    town.garbage = SensorResult(
        cursor="1", runs=[RunRequest(key, config={"path": f"s3://x/{key}"}) for key in keys]
    )
    orchestrator, worker = town.crowd.orchestrator(), town.crowd.worker()
    orchestrator.step()
    worker.step()
    commit_all(town.fresh())
    assert (town.sensor().cursor, town.history()[0].requests) == ("1", MAX_RUNS)
    assert len(town.asked()) == MAX_RUNS


def test_more_requests_than_an_evaluation_may_have_are_refused_as_a_whole() -> None:
    town = SensorTown()
    town.garbage = SensorResult(
        cursor="1", runs=[RunRequest(str(n)) for n in range(MAX_RUNS + 1)], keys={"k": ["x"]}
    )
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(seconds=30))
    assert (town.sensor().cursor, town.sensor().status) == ("", SensorStatus.ERROR)
    assert "10,001 runs; the limit is 10,000" in town.sensor().error
    assert town.asked() == {}
    assert town.fresh().read.snapshot().rows(DYNAMIC_KEYS, "k") == []


# -- failures -----------------------------------------------------------------------------


def test_a_failure_keeps_the_cursor_shows_itself_and_backs_off() -> None:
    town = SensorTown()
    town.items = ["a"]
    orchestrator, worker = town.crowd.orchestrator(), town.crowd.worker()
    town.until(START + timedelta(minutes=2))
    town.error = ConnectionError("no route")
    town.until(START + timedelta(minutes=32))
    row = town.sensor()
    assert (row.status, row.cursor, "no route" in row.error) == (SensorStatus.ERROR, "1", True)
    failed = [e for e in town.history() if e.state == EvaluationState.FAILED]
    assert 4 <= len(failed) <= 6  # after 1, 2, 4, 8 … minutes
    assert failed[0].log
    assert [*town.asked()] == ["poll:a"]
    town.error = None
    town.items.append("b")
    town.until(START + timedelta(minutes=70))
    assert (town.sensor().status, town.sensor().error) == (SensorStatus.ACTIVE, "")
    assert [*town.asked()] == ["poll:b", "poll:a"]
    assert orchestrator in town.crowd.orchestrators and worker in town.crowd.workers


def test_a_sensor_that_is_well_again_says_so_also_if_nothing_is_new() -> None:
    town = SensorTown()
    town.crowd.orchestrator()
    town.crowd.worker()
    town.error = ValueError("x")
    town.until(START + timedelta(minutes=1))
    assert town.sensor().status == SensorStatus.ERROR
    town.error = None
    town.until(START + timedelta(minutes=5))
    assert town.sensor().status == SensorStatus.ACTIVE


def test_backoff_doubles_up_to_an_hour_or_the_interval() -> None:
    assert [backoff_s(n, 60) for n in range(1, 9)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert backoff_s(10_000, 60) == MAX_BACKOFF_S
    assert [backoff_s(n, 7200) for n in (1, 2, 50)] == [7200, 7200, 7200]


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        ({"runs": []}, "poll returned a dict"),
        (SensorResult(cursor=3), "poll returned a result that is not valid"),  # type: ignore[arg-type]
        (SensorResult(cursor="1", runs=["a"]), "runs has a str"),  # type: ignore[list-item]
        (SensorResult(cursor="1", runs=[RunRequest("")]), "cannot be the key of a request"),
        (
            SensorResult(cursor="1", runs=[RunRequest("a"), RunRequest("b" * 201)]),
            "cannot be the key",
        ),
        (SensorResult(cursor="1", keys={"k": ["x", ""]}, runs=[RunRequest("a")]), "empty key"),
        (
            SensorResult(cursor="x" * 300_000, runs=[RunRequest("a")]),
            "the cursor has 300,000 bytes",
        ),
        (SensorResult(cursor="1", runs=[RunRequest("a", config={"x": object()})]), "not valid"),  # type: ignore[dict-item]
    ],
)
def test_a_result_that_is_invalid_in_one_part_changes_nothing(
    garbage: object, message: str
) -> None:
    town = SensorTown()
    town.garbage = garbage
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(seconds=30))
    row = town.sensor()
    assert message in row.error
    assert (row.cursor, row.status, row.failures) == ("", SensorStatus.ERROR, 1)
    assert town.asked() == {}


def test_an_invalid_fact_in_the_log_fails_the_evaluation_and_nothing_else() -> None:
    town = SensorTown()
    town.commit(evaluated_from(town.sensor(), packed="!"))
    assert "cannot be read" in town.sensor().error
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="1", runs=runs("a", ""))))
    assert "cannot be the key" in town.sensor().error
    assert (town.sensor().cursor, town.asked()) == ("", {})


def test_a_sensor_that_fails_does_not_keep_others_from_being_evaluated() -> None:
    town = SensorTown(POLL, POLL.replace("def poll", "def other"))
    town.items = ["a"]
    sense = town.sense

    def one_fails(call: SensorCall, context: SensorContext) -> object:
        if call.name == "other":
            raise RuntimeError("broken")
        return sense(call, context)

    town.crowd.sense = one_fails
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(minutes=2))
    assert [*town.asked()] == ["poll:a"]
    assert town.sensor("other").status == SensorStatus.ERROR


def test_a_lost_worker_s_evaluation_is_done_by_another() -> None:
    town = SensorTown()
    town.items = ["a"]
    town.crowd.orchestrator().step()
    lost = town.crowd.worker()
    assert len(lost.queue.take(1, 0.0)) == 1  # and then it dies
    town.crowd.workers.clear()
    town.crowd.worker()
    town.until(START + timedelta(minutes=5))
    assert [*town.asked()] == ["poll:a"]
    assert len(town.history()) == 1


def test_a_sensor_is_evaluated_by_one_worker_at_a_time() -> None:
    town = SensorTown()
    orchestrator, one, other = (
        town.crowd.orchestrator(),
        town.crowd.worker(),
        town.crowd.worker(),
    )
    orchestrator.step()
    (held,) = one.queue.take(1, 0.0)
    for _ in range(5):  # several intervals, in which the first keeps its claim
        town.clock.sleep(30)
        one.queue.renew([held])
        orchestrator.step()
        assert other.queue.take(1, 0.0) == []
    one.work(held)
    assert queued(town) == []


# -- deployments and people ----------------------------------------------------------------


def test_a_sensor_that_is_deployed_anew_while_it_is_evaluated_keeps_its_cursor() -> None:
    town = SensorTown()
    row = town.sensor()
    town.redeclare(POLL.replace("1m", "2m"))
    assert (town.sensor().interval_s, town.sensor().number) == (120, row.number)
    town.commit(evaluated_from(row, SensorAnswer(cursor="1", runs=runs("a"))))
    assert (town.sensor().cursor, [*town.asked()]) == ("1", ["poll:a"])


def test_a_deployment_that_mends_a_sensor_has_it_evaluated_at_once() -> None:
    town = SensorTown()
    error = EvaluationError(code="x", message="broken")
    for _ in range(5):
        town.commit(evaluated_from(town.sensor(), error=error))
    assert town.sensor().failures == 5
    town.redeclare(POLL.replace("return SensorResult()", "return SensorResult(cursor='1')"))
    assert (town.sensor().failures, town.sensor().status) == (0, SensorStatus.ACTIVE)
    town.items = ["a"]
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(seconds=30))
    assert [*town.asked()] == ["poll:a"]


TELL = "notify(on=['automation_failed', 'recovered'], to='ops')\n"


def alerts(town: SensorTown) -> list[str]:
    return [row.subject for row in town.fresh().read.snapshot().all(ALERTS)]


def redeploy(town: SensorTown) -> None:
    town.redeclare(POLL.replace("20s", "21s"), TELL)


def reset(town: SensorTown) -> None:
    town.fresh().commands.sensors.reset("poll")


def pause_and_resume(town: SensorTown) -> None:
    town.fresh().commands.sensors.pause("poll")
    town.fresh().commands.sensors.resume("poll")


def pause_redeploy_and_resume(town: SensorTown) -> None:
    town.fresh().commands.sensors.pause("poll")
    redeploy(town)
    town.fresh().commands.sensors.resume("poll")


ANEW = [redeploy, reset, pause_and_resume, pause_redeploy_and_resume]


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("begin_anew", ANEW)
def test_the_alert_of_a_sensor_that_begins_anew_ends_with_its_next_good_evaluation(
    begin_anew: Callable[[SensorTown], None], again: bool
) -> None:
    town = SensorTown(POLL, TELL)
    error = EvaluationError(code="x", message="broken")
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="1")))
    town.commit(evaluated_from(town.sensor(), error=error))
    begin_anew(town)
    assert town.sensor().status == SensorStatus.ACTIVE
    if again:
        reset(town)
        town.commit(evaluated_from(town.sensor(), error=error))
        begin_anew(town)
    assert alerts(town) == ["sense:sensor:main/poll"]
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="2")))
    assert alerts(town) == []


@pytest.mark.parametrize("begin_anew", [lambda town: None, *ANEW])
def test_the_alert_of_a_sensor_ends_with_its_removal(
    begin_anew: Callable[[SensorTown], None],
) -> None:
    town = SensorTown(POLL, TELL)
    town.commit(evaluated_from(town.sensor(), error=EvaluationError(code="x", message="broken")))
    begin_anew(town)
    assert alerts(town) == ["sense:sensor:main/poll"]
    town.redeclare(TELL)
    assert (town.sensor().status, alerts(town)) == (SensorStatus.REMOVED, [])


def test_the_alert_of_a_webhook_that_has_no_function_any_more_ends_with_its_next_message() -> None:
    town = SensorTown(HOOK, TELL)
    town.fresh().commands.sensors.push("hook", "m1", "")
    error = EvaluationError(code="x", message="broken")
    town.commit(evaluated_from(town.sensor("hook"), error=error, message_id="m1"))
    assert alerts(town) == ["sense:webhook:main/hook"]
    town.redeclare(PLAIN_HOOK, TELL)
    assert alerts(town) == []
    assert [*town.asked()] == ["hook:m1"]


@pytest.mark.parametrize("begin_anew", [lambda town: None, *ANEW])
def test_a_good_evaluation_of_a_sensor_that_was_well_ends_no_alert_of_its_requests(
    begin_anew: Callable[[SensorTown], None],
) -> None:
    town = SensorTown(POLL, TELL)
    wrong = SensorRun("a", ("nothing=1",))
    town.commit(evaluated_from(town.sensor(), SensorAnswer(runs=(wrong,), more=True)))
    town.crowd.orchestrator()
    town.settle()
    assert alerts(town) == ["start:sensor:main/poll"]
    begin_anew(town)
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="2")))
    assert alerts(town) == ["start:sensor:main/poll"]


def test_cursor_and_pause_survive_a_removal_and_a_return() -> None:
    town = SensorTown()
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="7")))
    town.fresh().commands.sensors.pause("poll", reason="why")
    town.redeclare("")
    assert town.sensor().status == SensorStatus.REMOVED
    with pytest.raises(Refused, match="there is no sensor"):
        town.fresh().commands.sensors.resume("poll")
    town.redeclare(POLL)
    row = town.sensor()
    assert (row.status, row.cursor, row.pause_reason) == (SensorStatus.PAUSED, "7", "why")


def test_a_sensor_that_watches_something_else_starts_anew() -> None:
    files = "f = file_sensor('f', '/data/{}', selection=[alone])\n"
    town = SensorTown(files.format("a"))
    row = town.sensor("f")
    town.commit(evaluated_from(row, SensorAnswer(cursor="seen")))
    town.redeclare(files.format("a").replace("[alone]", "['city.alone+']"))
    assert town.sensor("f").cursor == "seen"
    old = town.sensor("f")
    town.redeclare(files.format("b"))
    assert town.sensor("f").cursor == ""
    town.commit(evaluated_from(old, SensorAnswer(cursor="of a", runs=runs("a"))))
    assert (town.sensor("f").cursor, town.asked()) == ("", {})


def test_a_paused_sensor_is_not_evaluated_and_goes_on_from_its_cursor() -> None:
    town = SensorTown()
    town.items = ["a"]
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(minutes=2))
    row = town.sensor()
    town.fresh().commands.sensors.pause("poll")
    town.items.append("b")
    town.commit(evaluated_from(row, SensorAnswer(cursor="9")))
    town.until(START + timedelta(minutes=10))
    assert (town.sensor().cursor, [*town.asked()]) == ("1", ["poll:a"])
    town.fresh().commands.sensors.resume("poll")
    town.until(START + timedelta(minutes=11))
    assert [*town.asked()] == ["poll:b", "poll:a"]


def test_a_reset_clears_or_sets_the_cursor_and_ends_what_is_under_way() -> None:
    town = SensorTown()
    town.commit(evaluated_from(town.sensor(), SensorAnswer(cursor="1", runs=runs("a"))))
    row = town.sensor()
    commands = town.fresh().commands.sensors
    commands.reset("poll", cursor="1")
    town.commit(evaluated_from(row, SensorAnswer(cursor="2", runs=runs("b"))))
    assert (town.sensor().cursor, [*town.asked()]) == ("1", ["poll:a"])
    commands.reset("poll")
    assert town.sensor().cursor == ""
    with pytest.raises(NotFound, match="there is no sensor 'pol'"):
        commands.reset("pol")


def test_a_sensor_that_is_reset_while_an_older_evaluation_is_queued_does_not_lose_its_turn() -> (
    None
):
    town = SensorTown(POLL.replace("1m", "6h"))
    orchestrator = town.crowd.orchestrator()
    orchestrator.step()
    assert queued(town) != []
    town.fresh().commands.sensors.reset("poll", cursor="0")
    orchestrator.step()
    town.items = ["a"]
    town.crowd.worker()
    town.until(START + timedelta(minutes=5))
    assert [*town.asked()] == ["poll:a"]


def test_a_sensor_that_is_due_while_dispatch_is_paused_has_its_turn_after_the_pause() -> None:
    town = SensorTown(POLL.replace("1m", "6h"))
    town.items = ["a"]
    town.crowd.orchestrator()
    town.crowd.worker()
    limits = town.fresh().commands.limits
    limits.pause()
    town.until(START + timedelta(minutes=5))
    assert (queued(town), town.asked()) == ([], {})
    limits.resume()
    town.until(START + timedelta(minutes=8))
    assert [*town.asked()] == ["poll:a"]


# -- assets of this workspace ---------------------------------------------------------------


def test_a_new_version_of_an_asset_asks_for_a_run_and_quiet_costs_no_evaluations() -> None:
    after = """
@asset(namespace="city")
def after() -> None: ...

watch = asset_sensor("watch", alone, selection=[after])
"""
    town = SensorTown(after)
    town.crowd.orchestrator()
    worker = town.crowd.worker()
    town.until(START + timedelta(minutes=5))
    quiet = len(worker.executor.ran)
    town.until(START + timedelta(minutes=50), step_s=60)
    assert (len(worker.executor.ran), town.asked()) == (quiet, {})
    trigger(town.fresh(), "city.alone")
    town.until(START + timedelta(minutes=55))
    (evaluation,) = [e for e in town.history("watch") if e.requests]
    (key,) = town.asked()
    assert evaluation.request_keys == [f"sensor:main/{key}"]
    (run,) = [run for run in town.runs() if run.trigger == "sensor"]
    assert (run.state, run.selection) == (RunState.SUCCEEDED, ["city.after"])


# -- webhooks -----------------------------------------------------------------------------


def test_a_pushed_message_asks_for_one_run_however_often_it_is_pushed() -> None:
    town = SensorTown(PLAIN_HOOK)
    commands = town.fresh().commands.sensors
    assert commands.push("hook", "m1", "{}").state == MessageState.DONE
    again = commands.push("hook", "m1", "{}")
    assert (again.state, again.is_repeated) == (MessageState.DONE, True)
    assert [*town.asked()] == ["hook:m1"]
    (evaluation,) = town.history("hook")
    assert (evaluation.message_id, evaluation.requests) == ("m1", 1)
    town.crowd.orchestrator()
    town.settle()
    assert [(run.trigger, run.reference) for run in town.runs()] == [("webhook", "main/hook#1")]


def test_messages_are_given_to_the_function_in_order_and_once() -> None:
    town = SensorTown(HOOK)
    for id in ("z", "b", "a"):
        town.fresh().commands.sensors.push("hook", id, f"payload {id}")
    assert town.sensor("hook").waiting == 3
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(START + timedelta(minutes=1))
    assert [e.message_id for e in town.history("hook")] == ["z", "b", "a"]
    assert set(town.asked()) == {"hook:z=payload z", "hook:b=payload b", "hook:a=payload a"}
    assert town.sensor("hook").waiting == 0
    assert town.fresh().read.sensors().undone(town.sensor("hook"), 10) == []


def test_a_message_that_always_fails_is_given_up_and_others_have_their_turn() -> None:
    town = SensorTown(HOOK)
    push = town.fresh().commands.sensors.push
    push("hook", "bad")
    push("hook", "good", "x")
    sense = town.sense

    def fails_with_one(call: SensorCall, context: SensorContext) -> object:
        if context.message_id == "bad":
            raise ValueError("poison")
        return sense(call, context)

    town.crowd.sense = fails_with_one
    town.crowd.orchestrator()
    town.crowd.worker()
    town.until(HOUR)
    assert [*town.asked()] == ["hook:good=x"]
    (bad,) = town.fresh().read.sensors().undone(town.sensor("hook"), 10)
    assert (bad.message_id, bad.state, bad.attempts) == ("bad", MessageState.FAILED, 5)
    assert "poison" in bad.error


def test_messages_wait_while_a_sensor_is_paused() -> None:
    town = SensorTown(PLAIN_HOOK)
    commands = town.fresh().commands.sensors
    commands.pause("hook")
    assert commands.push("hook", "m2").state == MessageState.PENDING
    assert commands.push("hook", "m1").state == MessageState.PENDING
    assert town.asked() == {}
    commands.resume("hook")
    assert [e.message_id for e in town.history("hook")] == ["m2", "m1"]
    assert (town.sensor("hook").waiting, len(town.asked())) == (0, 2)


def test_what_cannot_be_pushed_is_refused() -> None:
    town = SensorTown(PLAIN_HOOK, POLL)
    push = town.fresh().commands.sensors.push
    with pytest.raises(Refused, match="takes no messages"):
        push("poll", "m1")
    with pytest.raises(Invalid, match="is not the id of a message"):
        push("hook", "")
    with pytest.raises(Invalid, match="the payload has 300,000 bytes"):
        push("hook", "m1", "x" * 300_000)
    assert town.asked() == {}


def test_rows_of_the_table_have_the_columns_that_are_documented() -> None:
    fields = set(msgspec.structs.asdict(SensorTown().sensor()))
    assert {"sensor_id", "cursor", "last_evaluation_at", "status"} <= fields


def test_an_evaluation_that_no_worker_takes_is_told_with_one_listing_for_all_sensors() -> None:
    town = SensorTown()
    town.crowd.orchestrator()
    town.until(START + timedelta(minutes=3))
    assert queued(town) != []
    sensors = town.fresh().read.sensors().sensors()
    store = LatencyStore(town.store, 0.0)
    (text,) = untaken(store, sensors * 20, town.clock.now()).values()
    assert text.startswith("no worker has taken its evaluation since 2026-01-05 08:")
    assert text.endswith("no worker has a liveness record; start `servo worker`")
    assert len(store.calls) == 2, "the queue, and the workers"
    town.crowd.worker()
    town.settle()
    assert untaken(store, sensors, town.clock.now()) == {}
