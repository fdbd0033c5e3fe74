"""Backfills on an orchestrator: every partition once, and what goes wrong can be done again."""

from __future__ import annotations

from typing import Any

import pytest

from arco.automation.backfill_commands import BackfillDraft
from arco.automation.backfill_states import TRANSITIONS, BackfillState, ChunkState
from arco.automation.events import BackfillAdvanced
from arco.dispatch.backfill_waiting import waits_for
from arco.errors import Refused
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState
from arco.orchestration.tables import RUNS
from servo.errors import Invalid
from tests.kit.backfills import DAYS, BackfillTown
from tests.kit.flows import commit_all

S = BackfillState
JANUARY = "date=2025-01-01..2025-01-10"


def days(*numbers: int, asset: str = "city.days") -> dict[tuple[str, str], int]:
    return {(asset, f"date=d:2025-01-{number:02}"): 1 for number in numbers}


def test_each_partition_runs_once_in_chunks() -> None:
    town = BackfillTown()
    town.serve()
    id = town.create(JANUARY)
    assert town.backfill(id).row.state == S.PENDING
    entry = town.until_state(id, S.SUCCEEDED, S.FAILED)
    assert (entry.row.state, entry.row.chunks, entry.row.asked) == (S.SUCCEEDED, 3, 3)
    assert town.counts(id) == {"completed": 10}
    assert town.tasks.ran == days(*range(1, 11))
    runs = town.runs()
    assert [run.partitions for run in runs] == [
        ["date=2025-01-01..2025-01-04"],
        ["date=2025-01-05..2025-01-08"],
        ["date=2025-01-09..2025-01-10"],
    ]
    assert {(run.trigger, run.state, run.priority) for run in runs} == {
        ("backfill", RunState.SUCCEEDED, -1000)
    }
    assert [chunk.run_id for chunk in town.chunks(id)] == [run.run_id for run in runs]
    assert [run.reference for run in runs] == [f"{id}:{n}" for n in range(3)]


def test_the_newest_partitions_go_first_if_that_is_asked_for() -> None:
    town = BackfillTown()
    town.serve()
    id = town.create(JANUARY, newest_first=True, max_concurrent_runs=1)
    town.until_state(id, S.SUCCEEDED)
    runs = sorted(town.runs(), key=lambda run: run.created_at)
    assert [run.partitions[0] for run in runs] == [
        "date=2025-01-09..2025-01-10",
        "date=2025-01-05..2025-01-08",
        "date=2025-01-01..2025-01-04",
    ]


def test_no_more_runs_are_active_than_allowed() -> None:
    town = BackfillTown()
    town.crowd.orchestrator()
    town.crowd.orchestrator()  # without a worker, runs go on
    id = town.create("date=2025-01-01..2025-03-01", max_concurrent_runs=2)
    town.settle()
    assert len(town.runs()) == town.backfill(id).active_runs == 2
    town.crowd.worker(script=town.tasks)
    town.until_state(id, S.SUCCEEDED)
    assert set(town.tasks.ran.values()) == {1} and len(town.tasks.ran) == 60


def test_partitions_that_are_up_to_date_are_reused() -> None:
    town = BackfillTown()
    town.serve()
    town.until_state(town.create("date=2025-01-03..2025-01-04"), S.SUCCEEDED)
    id = town.create(JANUARY)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))
    progress = town.backfill(id).progress
    assert progress is not None and (progress.succeeded, progress.reused) == (8, 2)


def test_a_paused_backfill_asks_for_nothing_and_goes_on_when_resumed() -> None:
    town = BackfillTown()
    id = town.create(JANUARY, max_concurrent_runs=1)
    town.crowd.orchestrator()
    town.settle()
    paused = town.fresh().commands.backfills.pause(id, reason="the source is down")
    assert (paused.row.state, paused.row.reason) == (S.PAUSED, "the source is down")
    town.crowd.worker(script=town.tasks)
    town.settle()
    assert len(town.runs()) == 1
    assert town.counts(id) == {"completed": 4, "pending": 6}
    town.fresh().commands.backfills.resume(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))


def test_chunks_that_wait_for_a_run_start_none_while_their_backfill_is_paused() -> None:
    town = BackfillTown()
    town.serve()
    town.fresh().commands.limits.pause(reason="upkeep")
    id = town.create(JANUARY)
    for _ in range(5):
        town.crowd.step()
    assert town.pending()
    town.fresh().commands.backfills.pause(id)
    town.fresh().commands.limits.resume()
    for _ in range(5):
        town.crowd.step()
    assert town.pending() and town.runs() == []
    town.fresh().commands.backfills.resume(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))


def test_what_failed_is_asked_for_again_and_nothing_else() -> None:
    town = BackfillTown()
    town.serve()
    town.tasks.bad = {"-02", "-07"}
    id = town.create(JANUARY, selection="city.days city.sums", chunk_size=8)
    entry = town.until_state(id, S.FAILED)
    assert entry.row.reason == "of its partitions 2 failed, 2 were skipped"
    assert town.counts(id) == {"completed": 16, "failed": 2, "skipped": 2}
    states = [chunk.state for chunk in town.chunks(id)]
    assert states == [ChunkState.FAILED, ChunkState.FAILED, ChunkState.SUCCEEDED]
    town.tasks.bad = {"-07"}
    town.fresh().commands.backfills.retry(id)
    assert town.counts(id) == {"completed": 16, "pending": 4}
    town.until_state(id, S.FAILED)
    assert town.counts(id) == {"completed": 18, "failed": 1, "skipped": 1}
    assert len(town.runs()) == 5
    town.tasks.bad = set()
    town.fresh().commands.backfills.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.counts(id) == {"completed": 20}
    every = days(*range(1, 11)) | days(*range(1, 11), asset="city.sums")
    assert town.tasks.ran == every
    assert sorted(run.reference for run in town.runs()) == [
        f"{id}:0",
        f"{id}:0:2",
        f"{id}:1",
        f"{id}:1:2",
        f"{id}:1:3",
        f"{id}:2",
    ]


def test_a_forced_backfill_is_forced_once_for_each_partition() -> None:
    town = BackfillTown()
    town.serve()
    town.until_state(town.create(JANUARY), S.SUCCEEDED)
    town.tasks.ran.clear()
    town.tasks.bad = {"-02"}
    id = town.create(JANUARY, force=True)
    town.until_state(id, S.FAILED)
    town.tasks.bad = set()
    town.fresh().commands.backfills.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))


def test_a_run_of_a_backfill_can_be_retried_by_itself() -> None:
    town = BackfillTown()
    town.serve()
    town.tasks.bad = {"-02", "-03"}
    id = town.create(JANUARY)
    town.until_state(id, S.FAILED)
    for bad in ({"-03"}, set()):
        town.tasks.bad = bad
        town.fresh().commands.backfills.retry(id)
        town.until_state(id, S.FAILED, S.SUCCEEDED)
    (last,) = [run for run in town.runs() if run.reference == f"{id}:0:2"]
    assert (last.tasks_succeeded, last.tasks_reused, last.tasks_failed) == (1, 2, 1)
    again = town.fresh().commands.orchestration.retry(last.run_id)
    town.settle()
    run = town.fresh().read.orchestration().run(again.run_id)
    assert (run.tasks_total, run.tasks_succeeded, run.tasks_reused) == (4, 1, 3)
    assert town.counts(id) == {"completed": 10}


@pytest.mark.parametrize("threshold", ["20%", "2"])
def test_a_backfill_stops_when_more_fail_than_its_threshold_allows(threshold: str) -> None:
    town = BackfillTown()
    town.serve()
    town.tasks.bad = {"-01", "-02", "-03"}
    id = town.create(JANUARY, failure_threshold=threshold, max_concurrent_runs=1)
    entry = town.until_state(id, S.FAILED)
    reason = f"3 of 10 partitions failed, more than its threshold of {threshold}"
    assert entry.row.reason == reason
    assert town.counts(id) == {"completed": 1, "failed": 3, "pending": 6}
    town.tasks.bad = set()
    town.fresh().commands.backfills.retry(id)  # the rest comes with it
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))


def test_a_cancelled_backfill_cancels_its_runs_and_can_be_taken_up_again() -> None:
    town = BackfillTown()
    id = town.create(JANUARY, max_concurrent_runs=2)
    town.crowd.orchestrator()
    town.settle()
    assert len(town.runs()) == 2
    town.fresh().commands.backfills.cancel(id, reason="a mistake")
    town.crowd.until(lambda: not town.backfill(id).active_runs)
    assert {run.state for run in town.runs()} == {RunState.CANCELLED}
    assert town.backfill(id).row.state == S.CANCELLED
    assert town.counts(id) == {"cancelled": 8, "pending": 2}
    town.crowd.worker(script=town.tasks)
    town.settle()
    assert town.tasks.ran == {}
    town.fresh().commands.backfills.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.counts(id) == {"completed": 10}
    assert town.tasks.ran == days(*range(1, 11))


def test_requests_of_a_cancelled_backfill_are_not_planned() -> None:
    town = BackfillTown()
    id = town.create(JANUARY)
    w = town.fresh()
    w.ledger.append([BackfillAdvanced(backfill_id=id, step=0, chunks=2)])
    commit_all(w)
    assert len(town.pending()) == 2
    w.commands.backfills.cancel(id)
    # No planner looks before the refusal is in the log: the run would be cancelled otherwise.
    town.crowd.orchestrator()
    town.crowd.until(lambda: not town.backfill(id).active_runs)
    assert {run.state for run in town.runs()} <= {RunState.CANCELLED}
    assert town.counts(id)["cancelled"] == 8


def test_a_step_counts_once_and_only_while_chunks_are_asked_for() -> None:
    town = BackfillTown()
    id = town.create(JANUARY)
    w = town.fresh()
    step = BackfillAdvanced(backfill_id=id, step=0, chunks=1)
    w.ledger.append([step])
    w.ledger.append([step])
    commit_all(w)
    assert town.backfill(id).row.asked == 1
    w.commands.backfills.pause(id)
    w.ledger.append([BackfillAdvanced(backfill_id=id, step=2, chunks=1)])
    commit_all(w)
    assert town.backfill(id).row.asked == 1


def test_commands_that_a_state_does_not_allow_are_refused() -> None:
    town = BackfillTown()
    id = town.create(JANUARY)
    commands = town.fresh().commands.backfills
    for command in (commands.resume, commands.retry):
        with pytest.raises(Refused, match="is PENDING; only one that is"):
            command(id)
    commands.cancel(id)
    for command in (commands.resume, commands.pause, commands.cancel):
        with pytest.raises(Refused, match="is CANCELLED; only one that is"):
            command(id)
    town.serve()
    commands.retry(id)
    town.until_state(id, S.SUCCEEDED)
    for command in (commands.pause, commands.resume, commands.cancel, commands.retry):
        with pytest.raises(Refused, match="is SUCCEEDED; only one that is"):
            command(id)


def test_every_state_of_a_backfill_can_be_reached_and_succeeding_is_final() -> None:
    reached = {S.PENDING} | {to for causes in TRANSITIONS.values() for to in causes.values()}
    assert reached == set(S)
    assert set(S) - set(TRANSITIONS) == {S.SUCCEEDED}


# -- while it goes on ------------------------------------------------------------------------


def test_a_deployment_during_a_backfill_does_not_change_it() -> None:
    town = BackfillTown()
    id = town.create(JANUARY, max_concurrent_runs=1)
    town.crowd.orchestrator()
    town.settle()
    town.deploy(DAYS.replace("def days", "def other").replace("'city.days'", "'city.other'"))
    town.crowd.worker(script=town.tasks)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11))
    assert len({run.deployment_id for run in town.runs()}) == 1


def test_keys_that_are_gone_are_skipped_and_new_ones_left_out() -> None:
    town = BackfillTown()
    w = town.fresh()
    keys = [f"s{n:02}" for n in range(20)]
    w.commands.orchestration.change_partition_keys("shops", add=keys)
    id = town.create(selection="city.shops", max_concurrent_runs=1)
    assert town.backfill(id).row.total_partitions == 20
    town.clock.sleep(1)
    w.commands.orchestration.change_partition_keys("shops", add=["new"], remove=keys[:3])
    town.serve()
    town.until_state(id, S.SUCCEEDED)
    ran = {partition for _, partition in town.tasks.ran}
    assert ran == {f"shop=s:{key}" for key in keys[3:]}
    assert town.counts(id) == {"completed": 17, "skipped": 3}
    assert town.backfill(id).removed == 3


def test_a_chunk_of_which_all_keys_are_gone_is_skipped_with_the_reason() -> None:
    town = BackfillTown()
    w = town.fresh()
    w.commands.orchestration.change_partition_keys("shops", add=["a", "b", "c"])
    id = town.create(selection="city.shops", chunk_size=1)
    w.commands.orchestration.change_partition_keys("shops", remove=["a", "b", "c"])
    town.serve()
    town.until_state(id, S.SUCCEEDED)
    assert {chunk.state for chunk in town.chunks(id)} == {ChunkState.SKIPPED}
    assert "no such partitions" in town.chunks(id)[0].reason
    assert town.counts(id) == {"skipped": 3}


def test_a_chunk_that_cannot_be_planned_fails_with_the_reason_and_is_retried() -> None:
    town = BackfillTown()
    town.serve()
    town.until_state(town.create("date=2025-01-01..2025-01-04"), S.SUCCEEDED)
    id = town.create("date=2025-01-01..2025-01-08", selection="city.sums")
    town.until_state(id, S.FAILED)
    assert "inputs are missing" in town.chunks(id)[1].reason
    assert town.counts(id) == {"completed": 4, "failed": 4}
    town.until_state(town.create("date=2025-01-05..2025-01-08"), S.SUCCEEDED)
    town.fresh().commands.backfills.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.counts(id) == {"completed": 8}


# -- what is asked for -----------------------------------------------------------------------


def refusal(town: BackfillTown, *partitions: str, **settings: Any) -> str:
    with pytest.raises(Invalid) as raised:
        town.create(*partitions, **settings)
    return raised.value.message


def test_a_backfill_that_means_nothing_is_refused_and_changes_nothing() -> None:
    text = DAYS + "\n@asset(namespace='city')\ndef alone() -> None: ..."
    town = BackfillTown(text)
    assert refusal(town) == "city.days: no periods of 'date' are given"
    assert refusal(town, "hour=3") == "the selected assets have no dimension 'hour'"
    assert "is not over yet" in refusal(town, "date=2099-01-01")
    assert "there is no asset" in refusal(town, JANUARY, selection="city.dais")
    assert refusal(town, JANUARY, selection="city.alone city.days") == (
        "city.alone has no partitions"
    )
    assert "have no dimension in common" in refusal(
        town, JANUARY, "shop=all", selection="city.days city.shops"
    )
    assert refusal(town, selection="city.shops") == "no such partitions exist"
    assert "threshold" in refusal(town, JANUARY, failure_threshold="some")
    assert "threshold" in refusal(town, JANUARY, failure_threshold="101%")
    assert "inputs are missing" in refusal(town, JANUARY, selection="city.sums")
    assert town.fresh().read.automation().backfills() == []


PAST = """
from servo import AssetIn, asset, daily, window

@asset(namespace='city', partitions=daily('date', start='2025-01-01'))
def totals(before: AssetIn['city.totals', window(-1, -1)]) -> None: ...
"""


def test_chunks_that_read_each_other_follow_each_other() -> None:
    town = BackfillTown(PAST)
    assert "the order newest is not possible" in refusal(
        town, JANUARY, selection="city.totals", newest_first=True
    )
    town.serve()
    id = town.create(JANUARY, selection="city.totals")
    assert town.backfill(id).row.max_concurrent_runs == 1
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran == days(*range(1, 11), asset="city.totals")


def test_a_chunk_is_not_built_on_one_that_failed() -> None:
    town = BackfillTown(PAST)
    town.serve()
    town.tasks.bad = {"-06"}
    id = town.create(JANUARY, selection="city.totals")
    town.until_state(id, S.FAILED)
    assert max(town.tasks.ran) == max(days(5, asset="city.totals"))
    town.tasks.bad = set()
    town.fresh().commands.backfills.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert town.tasks.ran.keys() == days(*range(1, 11), asset="city.totals").keys()


# -- previews --------------------------------------------------------------------------------


def draft(*partitions: str, selection: str = "city.days", size: int = 4) -> BackfillDraft:
    request = PlanRequest(selection=tuple(selection.split()), partitions=partitions)
    return BackfillDraft(request=request, chunk_size=size)


def test_a_preview_counts_what_would_run_and_changes_nothing() -> None:
    town = BackfillTown()
    town.serve()
    town.until_state(town.create("date=2025-01-03..2025-01-04"), S.SUCCEEDED)
    w = town.fresh()
    before = w.read.snapshot().generation
    preview = w.commands.backfills.preview(draft(JANUARY))
    assert (preview.partitions, preview.chunks) == (10, 3)
    assert (preview.up_to_date, preview.tasks, preview.is_estimate) == (2, 8, False)
    assert preview.sample[0].partitions == ("date=2025-01-01..2025-01-04",)
    assert preview.assets == {"city.days": 10}
    assert w.read.snapshot().generation == before


def test_a_preview_of_many_chunks_is_an_estimate() -> None:
    town = BackfillTown()
    preview = town.fresh().commands.backfills.preview(draft("date=2025-01-01..2025-12-31"))
    assert (preview.partitions, preview.chunks, len(preview.sample)) == (365, 92, 10)
    assert preview.is_estimate and preview.tasks == 365
    assert (preview.task_time_s, preview.unknown_assets) == (None, ("city.days",))
    assert preview.sample[-1].partitions == ("date=2025-12-31",)


def test_only_runs_of_the_backfill_count() -> None:
    town = BackfillTown()
    town.serve()
    id = town.create(JANUARY)
    request = PlanRequest(selection=("city.days",), partitions=("date=2025-02-01",))
    town.fresh().commands.orchestration.request(request, reference=f"{id}:0")
    town.until_state(id, S.SUCCEEDED)
    town.settle()
    assert town.counts(id) == {"completed": 10}
    assert len(town.fresh().read.snapshot().all(RUNS)) == 4


def waits(town: BackfillTown, id: str) -> list[str]:
    entry, snapshot = town.backfill(id), town.fresh().read.snapshot()
    return waits_for(snapshot, entry.row, town.chunks(id), town.clock.now())


def test_a_backfill_says_which_limit_or_pause_its_chunks_wait_for() -> None:
    town = BackfillTown()
    town.crowd.orchestrator()
    limits = town.fresh().commands.limits
    limits.set("workspace", "max_backfill_concurrency", "1")
    id = town.create(JANUARY, max_concurrent_runs=2)
    assert waits(town, id) == []
    town.crowd.until(lambda: town.runs())
    (text,) = waits(town, id)
    assert text.startswith("1 chunk: 1 run is of backfills: max_backfill_concurrency")
    limits.pause(reason="lunch")
    (text,) = waits(town, id)
    assert text.endswith(": lunch; see `servo resume`")
    town.fresh().commands.backfills.pause(id)
    assert waits(town, id) == []


def test_requests_of_chunks_are_told_with_the_partitions_of_the_chunk() -> None:
    town = BackfillTown()
    town.crowd.orchestrator()
    id = town.create(JANUARY, max_concurrent_runs=2)
    town.crowd.until(lambda: len(town.runs()) == 2)
    w = town.fresh()
    rows, _ = w.read.orchestration().run_requests(limit=10)
    assert w.commands.backfills.chunk_texts(w.read.snapshot(), rows) == {
        f"backfill:{id}:0": ("date=2025-01-01..2025-01-04",),
        f"backfill:{id}:1": ("date=2025-01-05..2025-01-08",),
    }
