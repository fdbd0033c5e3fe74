"""Automation of assets on an orchestrator: what runs by itself, and what does not."""

from __future__ import annotations

from datetime import datetime

import pytest

from arco.automation.asset_tables import AUTOMATION_CURSOR, AUTOMATION_HOLDS, SCOPE
from arco.automation.backfill_commands import BackfillDraft
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import TASKS, TaskRow
from arco.worker.supervise import Control
from servo.contract.task import TaskRequest
from tests.kit.automation import DIAMOND, Mill, declared, project, source


def test_an_eager_asset_runs_when_what_it_reads_is_replaced() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()")))
    mill.run("m.raw")
    assert mill.made() == {"total": 1}
    mill.run("m.raw")
    assert mill.made() == {"total": 2}
    (first, _) = mill.automated()
    assert first.trigger == "materialization"
    assert first.reference.startswith("m.raw ")


def test_a_diamond_gives_one_run_of_the_bottom() -> None:
    mill = Mill(DIAMOND)
    mill.run("m.raw")
    assert mill.made() == {"left": 1, "right": 1, "bottom": 1}
    assert len(mill.automated()) == 2


def test_the_bottom_of_a_deep_diamond_waits_for_the_long_way() -> None:
    mill = Mill(
        project(
            source("raw"),
            declared("one", "raw", automation="eager()"),
            declared("two", "one", automation="eager()"),
            declared("three", "two", automation="eager()"),
            declared("bottom", "raw", "three", automation="eager()"),
        )
    )
    mill.run("m.raw")
    assert mill.made() == {"one": 1, "two": 1, "three": 1, "bottom": 1}


def test_a_condition_that_is_added_does_not_make_the_history() -> None:
    days = declared("days", "raw", partitions="day")
    mill = Mill(project(source("raw", partitions="day"), days))
    mill.run("m.raw", partitions=("date=all",))
    mill.run("m.days", partitions=("date=2026-01-01",))
    eager = declared("days", "raw", partitions="day", automation="eager()")
    mill.deploy(project(source("raw", partitions="day"), eager))
    mill.settle()
    assert mill.made() == {}
    mill.run("m.raw", partitions=("date=2026-01-02",))
    assert mill.made() == {"days[2026-01-02]": 1}


def test_what_was_replaced_while_nobody_was_alive_is_not_lost() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()")))
    mill.run("m.raw")
    (dead,) = mill.crowd.orchestrators
    run_id = mill.run("m.raw", settle=False)
    for _ in range(10):  # until its task is done, and nobody has seen it
        dead.step()
        if mill.worker.step():
            break
    mill.crowd.orchestrators.remove(dead)
    mill.w.commands.orchestration.change_partition_keys("k", add=["a"])  # commits the report
    assert mill.fresh().read.orchestration().tasks(run_id)[0].state == "SUCCEEDED"
    mill.clock.sleep(86_400)
    mill.crowd.orchestrator()
    mill.settle()
    assert mill.made() == {"total": 2}


def test_a_run_that_fails_waits_for_the_next_version() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()", retry="1")))
    mill.failing = {"m.total"}
    mill.run("m.raw")
    assert mill.made() == {"total": 1}
    mill.clock.sleep(86_400)
    mill.settle()
    assert mill.made() == {"total": 1}
    (each,) = mill.fresh().commands.asset_automation.explain("m.total").partitions
    failed = mill.automated()[0].run_id
    assert each.reasons[-1].startswith(f"its last attempt failed in run {failed}: ")
    mill.failing = set()
    mill.run("m.raw")
    assert mill.made() == {"total": 2}
    assert [run.state for run in mill.automated()] == ["FAILED", "SUCCEEDED"]


def test_a_partition_whose_first_attempt_failed_says_so_while_its_run_tries_again() -> None:
    retry = "Retry(max_attempts=2, retry_on=('user_code',))"
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()", retry=retry)))
    mill.failing = {"m.total"}
    mill.run("m.raw", settle=False)

    def waits() -> list[TaskRow]:
        rows = mill.fresh().read.snapshot().all(TASKS)
        return [row for row in rows if row.state == "RETRY_WAIT"]

    for _ in range(50):
        mill.crowd.step()
        mill.clock.sleep(2)
        if waits():
            break
    (task,) = waits()
    (each,) = mill.fresh().commands.asset_automation.explain("m.total").partitions
    at = f"{task.retry_not_before:%Y-%m-%d %H:%M:%S}"
    failed = f"attempt 1 of 2 failed in run {task.run_id}: {task.error_code}"
    assert (each.outcome, each.reasons[-1]) == ("waits", f"{failed}; the next begins at {at} UTC")


def test_a_reader_waits_while_what_it_reads_has_failed() -> None:
    mill = Mill(DIAMOND)
    mill.run("m.raw")
    mill.failing = {"m.right"}
    mill.run("m.raw")
    assert mill.made() == {"left": 2, "right": 2, "bottom": 1}
    mill.failing = set()
    mill.run("m.right")
    assert mill.made() == {"left": 2, "right": 2, "bottom": 2}


def test_a_version_that_is_replaced_during_a_run_makes_it_run_again() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()")))
    mill.run("m.raw")
    once = iter([True])

    def meanwhile(request: TaskRequest, control: Control) -> None:
        if request.asset == "m.total" and next(once, False):
            mill.worker.executor.during = lambda request, control: None
            mill.run("m.raw", settle=False)
            for _ in range(3):
                mill.crowd.orchestrators[0].step()
            other = mill.crowd.worker()
            other.step()

    mill.worker.executor.during = meanwhile
    mill.run("m.raw")
    assert mill.made() == {"total": 3}


def test_only_the_month_of_a_new_day_runs() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            declared(
                "months", "raw: time_window('month')", partitions="month", automation="eager()"
            ),
        ),
        start=datetime(2026, 3, 5, 8),
    )
    mill.run("m.raw", partitions=("date=2026-01-30..2026-02-02",))
    assert mill.made() == {"months[2026-01-01]": 1, "months[2026-02-01]": 1}
    mill.run("m.raw", partitions=("date=2026-01-05",))
    assert mill.made() == {"months[2026-01-01]": 2, "months[2026-02-01]": 1}


def test_a_month_runs_once_it_is_over() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            declared(
                "months", "raw: time_window('month')", partitions="month", automation="eager()"
            ),
        ),
        start=datetime(2026, 1, 31, 23),
    )
    mill.run("m.raw", partitions=("date=2026-01-05..2026-01-30",))
    assert mill.made() == {}
    mill.clock.sleep(3_600)
    mill.settle()
    assert mill.made() == {"months[2026-01-01]": 1}


def test_a_window_runs_all_days_that_read_the_new_one_in_one_request() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            declared("week", "raw: window(-2, 0)", partitions="day", automation="eager()"),
        ),
        start=datetime(2026, 1, 20, 8),
    )
    mill.run("m.raw", partitions=("date=2026-01-03..2026-01-05",))
    assert mill.made() == {f"week[2026-01-0{day}]": 1 for day in range(3, 8)}
    (run,) = mill.automated()
    assert run.partitions == ["date=2026-01-03..2026-01-07"]


def test_a_partition_that_waits_keeps_no_cursor_back_and_is_not_lost() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            source("rates"),
            declared("days", "raw", "rates", partitions="day", automation="eager()"),
            source("other"),
            declared("copy", "other", automation="eager()"),
        )
    )

    def holds() -> list[str]:
        rows = mill.fresh().read.snapshot().all(AUTOMATION_HOLDS)
        return [f"{row.asset_key} {row.partition_key}" for row in rows]

    mill.run("m.raw", partitions=("date=2026-01-04",))
    waiting = mill.fresh().read.snapshot().position
    assert mill.made() == {}, "days reads rates, which have no data"
    mill.run("m.other")
    cursor = mill.fresh().read.snapshot().get(AUTOMATION_CURSOR, SCOPE)
    assert cursor is not None and cursor.position > waiting
    assert holds() == ["m.days date=d:2026-01-04"]
    mill.crowd.orchestrators.clear()
    mill.crowd.orchestrator()
    mill.settle()
    mill.run("m.rates")
    assert mill.made() == {"copy": 1, "days[2026-01-04]": 1}
    assert holds() == []
    mill.run("m.rates")
    assert mill.made()["days[2026-01-04]"] == 2


def test_a_partition_that_waits_in_an_asset_that_is_removed_is_forgotten() -> None:
    waits = declared("days", "raw", "rates", partitions="day", automation="eager()")
    copies = source("other") + declared("copy", "other", automation="eager()")
    sources = source("raw", partitions="day") + source("rates") + copies
    mill = Mill(project(sources, waits))
    mill.run("m.raw", partitions=("date=2026-01-04",))
    mill.run("m.other")
    assert len(mill.fresh().read.snapshot().all(AUTOMATION_HOLDS)) == 1
    mill.deploy(project(sources))
    mill.run("m.other")
    assert mill.fresh().read.snapshot().all(AUTOMATION_HOLDS) == []


def test_what_all_days_read_alike_makes_only_days_again_that_were_made() -> None:
    mill = Mill(
        project(
            source("rates"),
            source("raw", partitions="day"),
            declared("days", "raw", "rates", partitions="day", automation="eager()"),
        )
    )
    mill.run("m.rates")
    mill.run("m.raw", partitions=("date=2026-01-01..2026-01-02",))
    assert mill.made() == {"days[2026-01-01]": 1, "days[2026-01-02]": 1}
    mill.run("m.rates")
    assert mill.made() == {"days[2026-01-01]": 2, "days[2026-01-02]": 2}


def test_a_missing_day_is_made_when_it_is_over() -> None:
    mill = Mill(project(source("raw", partitions="day", automation="on_missing()")))
    mill.settle()
    assert mill.made() == {}
    mill.until(datetime(2026, 1, 7, 1), step_s=3_600)
    assert mill.made() == {"raw[2026-01-05]": 1, "raw[2026-01-06]": 1}


def test_a_missing_partition_is_made_when_its_input_arrives_and_not_again() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            declared("days", "raw", partitions="day", automation="on_missing()"),
        )
    )
    mill.run("m.raw", partitions=("date=2026-01-02",))
    mill.run("m.raw", partitions=("date=2026-01-02",))
    assert mill.made() == {"days[2026-01-02]": 1}


def test_a_missing_asset_without_partitions_is_made_once_it_is_declared() -> None:
    mill = Mill(project(source("raw", automation="on_missing()")))
    mill.settle()
    assert mill.made() == {"raw": 1}


def test_changes_wait_for_the_tick_of_on_cron() -> None:
    mill = Mill(
        project(
            source("raw", partitions="day"),
            declared("days", "raw", partitions="day", automation="on_cron('0 10 * * *')"),
        )
    )
    mill.run("m.raw", partitions=("date=2026-01-02",))
    mill.run("m.raw", partitions=("date=2026-01-03",))
    mill.run("m.raw", partitions=("date=2026-01-03",))
    assert mill.made() == {}
    mill.crowd.orchestrators.clear()  # what was collected is not only in its memory
    mill.crowd.orchestrator()
    mill.until(datetime(2026, 1, 5, 10, 1), step_s=600)
    assert mill.made() == {"days[2026-01-02]": 1, "days[2026-01-03]": 1}
    mill.until(datetime(2026, 1, 6, 10, 1), step_s=3_600)
    assert mill.made() == {"days[2026-01-02]": 1, "days[2026-01-03]": 1}


def test_two_orchestrators_ask_once() -> None:
    mill = Mill(DIAMOND, orchestrators=2)
    mill.run("m.raw")
    mill.run("m.raw")
    assert mill.made() == {"left": 2, "right": 2, "bottom": 2}


def test_a_partition_is_made_by_one_run_at_a_time() -> None:
    mill = Mill(project(source("raw"), source("other")))
    first = mill.run("m.raw", settle=False)
    mill.clock.sleep(1)
    second = mill.run("m.raw", "m.other", settle=False)
    for _ in range(2):
        mill.crowd.orchestrators[0].step()
    snapshot = mill.fresh().read.snapshot()
    tasks = {task.asset_key: task.state for task in snapshot.rows(TASKS, second)}
    assert tasks == {"m.raw": "READY", "m.other": "DISPATCHED"}
    mill.settle()
    snapshot = mill.fresh().read.snapshot()
    (one,) = snapshot.rows(TASKS, first)
    (two,) = (task for task in snapshot.rows(TASKS, second) if task.asset_key == "m.raw")
    assert [one.state, two.state] == ["SUCCEEDED", "SUCCEEDED"]
    assert one.finished_at is not None and two.started_at is not None
    assert one.finished_at <= two.started_at


@pytest.mark.parametrize(
    ("partitions", "key"),
    [("day * static('r', ['eu'])", "2026-01-06,r=s:eu"), ("static('r', ['eu'])", "eu")],
)
def test_partitions_that_wait_are_forgotten_when_the_dimensions_change(
    partitions: str, key: str
) -> None:
    days = declared("days", "raw", partitions="day", automation="on_missing()")
    mill = Mill(project(source("raw"), days))
    mill.until(datetime(2026, 1, 6, 1), step_s=3_600)  # a day waits for data
    others = declared("days", "raw", partitions=partitions, automation="on_missing()")
    mill.deploy(project(source("raw"), others))
    mill.until(datetime(2026, 1, 7, 1), step_s=3_600)
    mill.run("m.raw")
    assert mill.made() == {f"days[{key}]": 1}


MONTHS = project(
    source("raw", partitions="day"),
    declared("months", "raw: time_window('month')", partitions="month", automation="eager()"),
)


@pytest.mark.parametrize("concurrent_runs", [1, 3])
def test_a_month_waits_for_a_backfill_of_its_days(concurrent_runs: int) -> None:
    mill = Mill(MONTHS, start=datetime(2026, 3, 5, 8))
    request = PlanRequest(selection=("m.raw",), partitions=("date=2026-01-03..2026-01-28",))
    draft = BackfillDraft(request=request, chunk_size=4, max_concurrent_runs=concurrent_runs)
    mill.fresh().commands.backfills.create(draft)
    mill.settle()
    assert mill.made() == {"months[2026-01-01]": 1}


def partial_backfill(mill: Mill) -> str:
    """A backfill of a month's days, up to the end of its first chunk."""
    request = PlanRequest(selection=("m.raw",), partitions=("date=2026-01-03..2026-01-28",))
    draft = BackfillDraft(request=request, chunk_size=4, max_concurrent_runs=1)
    commands = mill.fresh().commands.backfills
    id = commands.create(draft).row.backfill_id
    mill.crowd.until(lambda: mill.fresh().read.automation().backfill(id).completed >= 4)
    assert mill.made() == {}
    (month,) = (
        mill.fresh().commands.asset_automation.explain("m.months", ["month=2026-01"]).partitions
    )
    assert month.outcome == "waits"
    assert any(f"the backfill {id} will run it" in reason for reason in month.reasons)
    return id


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("ending", ["pause", "cancel"])
def test_a_month_runs_when_the_backfill_of_its_days_goes_no_further(
    ending: str, is_restarted: bool
) -> None:
    mill = Mill(MONTHS, start=datetime(2026, 3, 5, 8))
    id = partial_backfill(mill)
    if is_restarted:
        mill.crowd.orchestrators.clear()
        mill.crowd.orchestrator()
    getattr(mill.fresh().commands.backfills, ending)(id)
    mill.settle()
    assert mill.made() == {"months[2026-01-01]": 1}


def test_a_month_does_not_wait_for_a_backfill_of_other_months() -> None:
    mill = Mill(MONTHS, start=datetime(2026, 3, 5, 8))
    request = PlanRequest(selection=("m.raw",), partitions=("date=2026-02-01..2026-02-28",))
    draft = BackfillDraft(request=request, chunk_size=4, max_concurrent_runs=1)
    id = mill.fresh().commands.backfills.create(draft).row.backfill_id
    mill.run("m.raw", settle=False, partitions=("date=2026-01-05",))
    mill.crowd.until(lambda: mill.made() == {"months[2026-01-01]": 1})
    assert mill.fresh().read.automation().backfill(id).row.finished_at is None
    mill.settle()
    assert mill.made() == {"months[2026-01-01]": 1, "months[2026-02-01]": 1}


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_months_of_a_long_backfill_run_once_each(order: str) -> None:
    mill = Mill(MONTHS, start=datetime(2026, 4, 5, 8))
    request = PlanRequest(selection=("m.raw",), partitions=("date=2026-01-01..2026-03-31",))
    draft = BackfillDraft(
        request=request, chunk_size=7, max_concurrent_runs=2, newest_first=order == "newest"
    )
    mill.fresh().commands.backfills.create(draft)
    mill.settle()
    assert mill.made() == {f"months[2026-0{month}-01]": 1 for month in (1, 2, 3)}
