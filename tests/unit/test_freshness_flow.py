"""Freshness from outside: deployments, runs and orchestrators on a clock that the test moves."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from arco.automation.agenda import Agenda
from arco.automation.freshness_tables import FRESHNESS, FRESHNESS_POLICIES
from arco.execution.tables import MATERIALIZATIONS
from arco.orchestration.states import RunState
from servo.contract.task import ErrorInfo, TaskRequest
from tests.kit.flows import Outcome
from tests.kit.freshness import AgingTown, policy
from tests.kit.schedules import START

DAYS = "daily('date', start='2026-01-01')"


def fail(request: TaskRequest) -> Outcome:
    return ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")


# -- one definition ---------------------------------------------------------------------------


def test_an_asset_is_stale_once_its_version_is_too_old_and_fresh_with_the_next_one() -> None:
    town = AgingTown(policy("1h"))
    town.run()
    town.wait(minutes=55)
    assert (town.statuses(), town.history()) == ({"": "FRESH"}, [])
    town.wait(minutes=10)
    assert town.history() == ["city.alone STALE"]
    town.wait(hours=5, step_s=600)
    assert town.history() == ["city.alone STALE"], "one transition, one fact"
    town.run()
    town.wait(minutes=2)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]
    (stale, fresh) = town.changes()
    assert stale.cause == "no_recent_run" and "newer data was due at" in stale.reason
    assert (fresh.cause, fresh.due_at) == ("", None)


def test_what_was_never_materialized_is_due_max_age_after_its_policy_began() -> None:
    town = AgingTown(policy("2h"))
    town.wait(minutes=119)
    assert town.history() == []
    town.wait(minutes=2)
    (change,) = town.changes()
    assert (change.status, change.cause) == ("STALE", "never_materialized")
    assert change.due_at == START + timedelta(hours=2)


def test_data_of_before_the_policy_counts() -> None:
    text = policy("1d")
    town = AgingTown(text.replace(", freshness=Freshness(max_age='1d')", ""))
    town.run()
    made_at = town.clock.now()
    town.wait(hours=23, step_s=3600)
    town.deploy(text)
    town.wait(minutes=10)
    (entry,) = town.series()
    assert entry.status == "FRESH" and entry.materialized_at is not None
    assert abs(entry.materialized_at - made_at) < timedelta(minutes=1)
    town.wait(hours=1)
    assert town.history() == ["city.alone STALE"]


def test_a_period_is_due_max_age_after_its_end_and_does_not_age_once_it_is_there() -> None:
    town = AgingTown(policy("6h", partitions=DAYS), start=datetime(2026, 1, 5, 1))
    town.run("date=2026-01-04")
    town.until(datetime(2026, 1, 6, 5), step_s=1200)
    assert town.history() == [], "it is there, however long ago it was made"
    town.until(datetime(2026, 1, 6, 6, 10), step_s=300)
    (stale,) = town.changes()
    assert (stale.partition_key, stale.due_at) == ("date=d:2026-01-05", datetime(2026, 1, 6, 6))
    town.run("date=2026-01-03")
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE"], "an older period makes nothing fresh"
    town.run("date=2026-01-05")
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]


def test_a_gap_before_the_newest_period_makes_nothing_stale() -> None:
    town = AgingTown(policy("6h", partitions=DAYS), start=datetime(2026, 1, 5, 1))
    town.run("date=2026-01-02")
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE"]
    town.run("date=2026-01-04")
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]


def test_with_cron_age_is_asked_at_its_ticks_in_its_zone() -> None:
    text = policy("1h", cron="0 6 * * *", timezone="Europe/Berlin")
    town = AgingTown(text, start=datetime(2026, 1, 5, 1))
    town.run()
    town.until(datetime(2026, 1, 5, 4, 30), step_s=300)
    assert town.history() == [], "it is old, and nobody asks"
    town.until(datetime(2026, 1, 5, 5, 5), step_s=60)
    (change,) = town.changes()
    assert change.due_at == datetime(2026, 1, 5, 5)


# -- partitions -------------------------------------------------------------------------------


def test_every_static_partition_is_judged_also_one_that_was_never_made() -> None:
    town = AgingTown(policy("1h", partitions="static('region', ['eu', 'us'])"))
    town.wait(minutes=30)
    town.run("region=eu")
    town.wait(minutes=40)
    assert town.statuses() == {"region=s:eu": "FRESH", "region=s:us": "STALE"}
    town.wait(minutes=40)
    assert town.history() == ["region=s:us STALE", "region=s:eu STALE"]
    town.deploy(policy("1h", partitions="static('region', ['eu'])"))
    town.wait(minutes=5)
    assert town.statuses() == {"region=s:eu": "STALE"}


def test_each_value_beside_a_time_dimension_is_a_series_of_its_own() -> None:
    both = f"{DAYS} * static('region', ['eu', 'us'])"
    town = AgingTown(policy("6h", partitions=both), start=datetime(2026, 1, 5, 1))
    town.run("date=2026-01-04")
    town.until(datetime(2026, 1, 6, 1), step_s=3600)
    town.run("date=2026-01-05", "region=us")
    town.until(datetime(2026, 1, 6, 7), step_s=600)
    assert town.statuses() == {"region=s:eu": "STALE", "region=s:us": "FRESH"}
    (change,) = town.changes()
    assert change.partition_key == "date=d:2026-01-05,region=s:eu"


def test_a_removed_dynamic_key_is_not_judged() -> None:
    town = AgingTown(policy("1h", partitions="dynamic('shop', keys='shops')"))
    commands = town.fresh().commands.orchestration
    commands.change_partition_keys("shops", add=["a", "b"])
    town.run("shop=a,b")
    town.fresh().commands.orchestration.change_partition_keys("shops", remove=["b"])
    town.wait(hours=2, step_s=300)
    assert town.history() == ["shop=s:a STALE"]
    assert town.statuses() == {"shop=s:a": "STALE"}


def test_a_stale_series_whose_dynamic_key_is_removed_is_stale_no_more() -> None:
    text = policy("1h", partitions="dynamic('shop', keys='shops')")
    town = AgingTown(f"{text}\n{STALE_RULE}")
    commands = town.fresh().commands.orchestration
    commands.change_partition_keys("shops", add=["a", "b"])
    town.run("shop=a,b")
    town.wait(hours=2, step_s=300)
    town.fresh().commands.orchestration.change_partition_keys("shops", remove=["b"])
    town.wait(minutes=10)
    assert len(town.fresh().read.notifications().alerts()) == 1, "the other one is stale"
    town.fresh().commands.orchestration.change_partition_keys("shops", remove=["a"])
    town.wait(minutes=10)
    assert town.fresh().read.notifications().alerts() == []
    assert town.history()[2:] == ["shop=s:b FRESH", "shop=s:a FRESH"]


# -- policies change --------------------------------------------------------------------------


def test_a_longer_max_age_makes_the_same_data_fresh_again() -> None:
    town = AgingTown(policy("1h"))
    town.run()
    town.wait(minutes=70)
    town.deploy(policy("3h"))
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]
    town.deploy(policy("1h"))
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH", "city.alone STALE"]


def test_a_removed_policy_judges_nothing_and_returns_with_the_data_there_is() -> None:
    text = policy("1h")
    without = text.replace(", freshness=Freshness(max_age='1h')", "")
    town = AgingTown(text)
    town.deploy(without)
    town.wait(hours=3, step_s=600)
    assert (town.series(), town.history()) == ([], [])
    town.run()
    town.deploy(text)
    town.wait(minutes=50)
    assert (town.statuses(), town.history()) == ({"": "FRESH"}, [])


def test_other_partitions_begin_anew() -> None:
    town = AgingTown(policy("1h"))
    town.run()
    town.deploy(policy("1h", partitions="static('region', ['eu'])"))
    town.wait(minutes=30)
    (entry,) = town.series()
    assert (entry.series, entry.materialized_at) == ("region=s:eu", None)
    town.wait(minutes=40)
    assert town.history() == ["region=s:eu STALE"]


STALE_RULE = "from servo import notify\nnotify(on=['stale', 'recovered'], to='ops')"


@pytest.mark.parametrize("after", [policy("1h", partitions="static('region', ['eu'])"), "", "gone"])
def test_a_stale_asset_whose_series_are_gone_is_stale_no_more_and_is_told_again(after: str) -> None:
    text = policy("1h")
    without = text.replace(", freshness=Freshness(max_age='1h')", "")
    gone = without.replace("def alone", "def other")
    town = AgingTown(f"{text}\n{STALE_RULE}")
    town.wait(minutes=90, step_s=300)
    assert len(town.fresh().read.notifications().alerts()) == 1
    town.deploy(f"{ {'': without, 'gone': gone}.get(after, after) }\n{STALE_RULE}")
    town.wait(minutes=10)
    assert town.fresh().read.notifications().alerts() == []
    town.deploy(f"{text}\n{STALE_RULE}")
    town.wait(minutes=90, step_s=300)
    assert town.statuses() == {"": "STALE"}
    assert town.history() == ["city.alone STALE"] * 2
    (alert,) = town.fresh().read.notifications().alerts()
    assert (alert.asset, alert.occurrences) == ("city.alone", 1)
    town.run()
    town.wait(minutes=2)
    assert town.fresh().read.notifications().alerts() == []


def test_a_renamed_asset_keeps_its_data_and_its_policy() -> None:
    town = AgingTown(policy("1h"))
    town.run()
    renamed = (
        policy("1h")
        .replace("def alone", "def solo")
        .replace("namespace='city'", "namespace='city', renamed_from='alone'")
    )
    town.deploy(renamed)
    town.wait(minutes=30)
    (entry,) = town.series()
    assert (entry.asset, str(entry.status)) == ("city.solo", "FRESH")
    assert entry.materialized_at is not None


# -- reasons ----------------------------------------------------------------------------------


def test_the_reason_names_a_failed_attempt() -> None:
    town = AgingTown(policy("1h"), script=fail)
    town.run()
    town.wait(minutes=70)
    (change,) = town.changes()
    assert change.cause == "run_failed" and "its last attempt failed: no way" in change.reason


def test_the_reason_names_a_stale_asset_above() -> None:
    text = policy("30m") + (
        "\n@asset(namespace='city', freshness=Freshness(max_age='1h'))"
        "\ndef below(alone: AssetIn['city.alone']) -> None: ..."
    )
    town = AgingTown(text.replace("import Freshness", "import AssetIn, Freshness"))
    town.run(selection="*")
    town.wait(minutes=70)
    causes = {row.asset_key: row.cause for row in town.changes()}
    assert causes == {"city.alone": "no_recent_run", "city.below": "upstream_stale"}


def test_output_that_quarantine_holds_back_does_not_count_as_fresh() -> None:
    town = AgingTown(policy("1h"))
    town.hold_back()
    town.run()
    (held,) = town.fresh().read.execution().quarantine()
    town.wait(minutes=70)
    (stale,) = town.changes()
    assert (stale.status, stale.cause) == ("STALE", "held")
    assert "its last output is held" in stale.reason
    town.run()
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE"]
    newest, _ = town.fresh().read.execution().quarantine()
    town.fresh().commands.execution.decide(held, approved=True)
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE"], "it is as old as when it was made"
    town.fresh().commands.execution.decide(newest, approved=True)
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]


def quarantine(town: AgingTown) -> None:
    """Hold the newest version of the asset."""
    w = town.fresh()
    asset_id = w.read.orchestration().asset_id("city.alone")
    rows = w.read.snapshot().rows(MATERIALIZATIONS, asset_id)
    newest = max(rows, key=lambda row: row.position).materialization_id
    w.commands.execution.quarantine("city.alone", asset_id, newest, "wrong")
    town.wait(minutes=5)


def test_an_only_version_that_somebody_quarantines_does_not_count_until_it_is_released() -> None:
    town = AgingTown(policy("1h"))
    town.wait(minutes=50)
    town.run()
    town.wait(minutes=20)
    assert town.statuses() == {"": "FRESH"}
    quarantine(town)
    (entry,) = town.series()
    assert (entry.status, entry.materialized_at) == ("STALE", None)
    (held,) = town.fresh().read.execution().quarantine()
    town.fresh().commands.execution.decide(held, approved=True)
    town.wait(minutes=5)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]


def test_the_period_before_a_quarantined_one_is_the_newest() -> None:
    town = AgingTown(policy("6h", partitions=DAYS), start=datetime(2026, 1, 5, 7))
    town.run("date=2026-01-03")
    town.run("date=2026-01-04")
    town.wait(minutes=5)
    assert town.statuses() == {"": "FRESH"}
    quarantine(town)
    (entry,) = town.series()
    assert (entry.status, entry.partition) == ("STALE", "date=d:2026-01-04")
    (policy_row,) = town.fresh().read.snapshot().all(FRESHNESS_POLICIES)
    (row,) = town.fresh().read.snapshot().all(FRESHNESS)
    assert (row.partition_key, policy_row.observed) == ("date=d:2026-01-03", True)


# -- runs -------------------------------------------------------------------------------------


def test_a_stale_asset_asks_for_a_run_that_makes_it_fresh() -> None:
    town = AgingTown(policy("1h", request_run=True))
    town.wait(hours=2, minutes=30)
    runs = town.runs()
    assert [run.trigger for run in runs] == ["freshness", "freshness"]
    assert [run.reference.partition("@")[0] for run in runs] == ["city.alone"] * 2
    assert town.history() == ["city.alone STALE", "city.alone FRESH"] * 2


def test_an_asset_whose_runs_fail_asks_once_each_time_it_is_due() -> None:
    town = AgingTown(policy("1h", request_run=True), script=fail)
    town.wait(hours=3, minutes=30)
    assert [run.state for run in town.runs()] == [RunState.FAILED] * 3
    assert town.history() == ["city.alone STALE"]


def test_no_second_run_is_asked_for_while_the_first_is_active() -> None:
    town = AgingTown(policy("10m", request_run=True), orchestrators=2)
    town.crowd.workers.clear()
    town.wait(hours=2, step_s=120)
    assert [run.state for run in town.runs()] == [RunState.RUNNING]


def test_a_period_that_is_due_is_asked_for_once_and_no_other() -> None:
    text = policy("1h", partitions=DAYS, request_run=True)
    town = AgingTown(text, start=datetime(2026, 1, 5, 1))
    town.until(datetime(2026, 1, 8, 3), step_s=1200)
    assert [list(run.partitions) for run in town.runs()] == [
        [f"date=2026-01-0{day}"] for day in (5, 6, 7)
    ]


def test_after_a_long_pause_the_newest_period_alone_is_asked_for() -> None:
    text = policy("1h", partitions=DAYS, request_run=True)
    town = AgingTown(text, start=datetime(2026, 1, 5, 1))
    town.settle()
    town.clock.sleep(10 * 86_400)
    town.wait(minutes=30)
    assert [list(run.partitions) for run in town.runs()] == [["date=2026-01-14"]]
    assert town.history() == ["city.alone STALE", "city.alone FRESH"]


# -- cost -------------------------------------------------------------------------------------


def test_nothing_is_written_while_nothing_is_due() -> None:
    town = AgingTown(policy("30d"))
    town.run()
    town.wait(minutes=10)
    before = town.fresh().read.snapshot().generation
    agenda = Agenda()
    agenda.load(town.fresh().read.snapshot())
    due = agenda.freshness.next_due()
    assert due is not None and due > town.clock.now() + timedelta(days=29)
    assert not agenda.freshness.is_due(town.clock.now())
    town.wait(days=3, step_s=7200)
    assert town.fresh().read.snapshot().generation == before


def test_assets_without_a_policy_leave_no_rows() -> None:
    text = policy("1h").replace(", freshness=Freshness(max_age='1h')", "")
    town = AgingTown(text)
    town.run()
    town.wait(hours=2, step_s=600)
    snapshot = town.fresh().read.snapshot()
    assert snapshot.all(FRESHNESS) == []
    assert snapshot.all(FRESHNESS_POLICIES) == []
    assert town.changes() == []


@pytest.mark.parametrize("orchestrators", [1, 3])
def test_however_many_orchestrators_report_each_transition_counts_once(orchestrators: int) -> None:
    town = AgingTown(policy("1h", request_run=True), orchestrators=orchestrators)
    town.wait(hours=2, minutes=30)
    assert town.history() == ["city.alone STALE", "city.alone FRESH"] * 2
    assert len(town.runs()) == 2
