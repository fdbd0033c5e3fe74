from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from arco.orchestration import partition_ranges, plan
from arco.orchestration.plan import (
    MAX_TASKS_PER_RUN,
    PlannedInput,
    PlannedTask,
    PlanSpec,
    spec_fingerprint,
)
from servo.contract.identity import task_id
from servo.contract.keys import AssetId
from servo.contract.manifest import AllUpstream, Identity, Latest, StaticDimension, Window
from servo.contract.partition import PartitionKey
from servo.contract.task import MaterializationRef
from servo.errors import Invalid
from tests.kit.planning import (
    CUSTOMERS,
    DAYS,
    DIGEST,
    REGIONS,
    TENANTS,
    UNTIL,
    World,
    asset,
    asset_id,
    manifest,
    names,
    planned,
    reads,
    time,
)

CHAIN = manifest(
    asset("s.orders", DAYS),
    asset("s.daily", DAYS, reads("s.orders")),
    asset("s.board", reads("s.daily", AllUpstream())),
)
JAN: dict[str, Any] = {"partitions": ("date=2025-01-01..2025-01-02",)}


def reasons(spec: Any) -> list[str]:
    return [f"{task.action}: {task.reason}" for task in spec.tasks]


# -- what is in a plan --------------------------------------------------------------------


def test_a_plan_holds_what_was_asked_for_and_no_more() -> None:
    world = World()
    world.make("s.orders", "date=d:2025-01-10")
    assert names(planned(CHAIN, "s.daily", world=world)) == ["s.daily date=d:2025-01-10"]


def test_a_whole_task() -> None:
    world = World()
    world.make("s.orders", "date=d:2025-01-10")
    spec = planned(CHAIN, "s.daily", world=world)
    current = world.current(asset_id("s.orders"))["date=d:2025-01-10"]
    partition = "date=d:2025-01-10"
    assert spec.manifest == DIGEST
    assert spec.tasks == (
        PlannedTask(
            task_id=task_id(
                AssetId(asset_id("s.daily")), PartitionKey.parse(partition), "code of s.daily"
            ),
            asset="s.daily",
            asset_id=asset_id("s.daily"),
            partition=partition,
            action="run",
            reason="selected; never materialized",
            inputs=(0,),
            fingerprint=spec.tasks[0].fingerprint,
        ),
    )
    assert spec.inputs == (PlannedInput(asset="s.orders", parameter="x", versions=(0, 1)),)
    assert spec.versions == {
        "s.orders": (
            MaterializationRef(
                partition=partition,
                materialization_id=current.materialization_id,
                path=current.path,
            ),
        )
    }
    assert len(spec.tasks[0].fingerprint) == 64


def test_tasks_are_sorted_by_stage_asset_and_partition() -> None:
    spec = planned(CHAIN, "*", partitions=("date=2025-01-02,2025-01-01",))
    assert [(task.stage, task.depends_on) for task in spec.tasks] == [
        (0, ()),
        (0, ()),
        (1, (0,)),
        (1, (1,)),
        (2, (2, 3)),
    ]
    assert names(spec) == [
        "s.orders date=d:2025-01-01",
        "s.orders date=d:2025-01-02",
        "s.daily date=d:2025-01-01",
        "s.daily date=d:2025-01-02",
        "s.board",
    ]


def test_stages_are_longest_paths() -> None:
    project = manifest(
        asset("a.a"),
        asset("a.b", reads("a.a")),
        asset("a.c", reads("a.a"), reads("a.b", parameter="y")),
        asset("a.d"),
    )
    assert [(task.asset, task.stage) for task in planned(project, "*").tasks] == [
        ("a.a", 0),
        ("a.d", 0),
        ("a.b", 1),
        ("a.c", 2),
    ]


def test_dimensions_that_nobody_asked_about_have_defaults() -> None:
    project = manifest(asset("s.a", DAYS, REGIONS), asset("s.b", CUSTOMERS, TENANTS))
    assert names(planned(project, "*", world=World(customers=["c2", "c1"]))) == [
        "s.a date=d:2025-01-10,region=s:eu",
        "s.a date=d:2025-01-10,region=s:us",
        "s.b customer=s:c1,tenant=s:acme",
        "s.b customer=s:c1,tenant=s:zeta",
        "s.b customer=s:c2,tenant=s:acme",
        "s.b customer=s:c2,tenant=s:zeta",
    ]


def test_dimensions_are_asked_for_separately() -> None:
    project = manifest(asset("s.a", DAYS, REGIONS))
    spec = planned(project, "s.a", partitions=("region=eu", "date=2025-01-01..2025-01-02"))
    assert names(spec) == [
        "s.a date=d:2025-01-01,region=s:eu",
        "s.a date=d:2025-01-02,region=s:eu",
    ]


def test_ranges_do_not_matter_to_assets_without_the_dimension() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b"), asset("s.c", REGIONS))
    assert names(planned(project, "*", partitions=("date=2025-01-01",))) == [
        "s.a date=d:2025-01-01",
        "s.b",
        "s.c region=s:eu",
        "s.c region=s:us",
    ]


def test_a_key_counts_for_the_assets_that_have_it() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", time(start="2025-01-02")))
    assert names(planned(project, "*", **JAN)) == [
        "s.a date=d:2025-01-01",
        "s.a date=d:2025-01-02",
        "s.b date=d:2025-01-02",
    ]
    with pytest.raises(Invalid, match=r"s\.b: date=2025-01-01\.\.2025-01-02 is before the first"):
        planned(project, "s.b", **JAN)


def test_tenants_are_named() -> None:
    spec = planned(manifest(asset("s.a", DAYS, TENANTS)), "s.a")
    assert [task.tenant for task in spec.tasks] == ["acme", "zeta"]


def test_an_asset_without_partitions_yet_is_left_out_beside_others() -> None:
    project = manifest(
        asset("s.a", CUSTOMERS), asset("s.b"), asset("s.c", time(start="2026-01-01"))
    )
    assert names(planned(project, "*")) == ["s.b"]
    with pytest.raises(Invalid, match=r"no such partitions exist yet of s\.a, s\.c"):
        planned(project, "s.a", "s.c")


def test_the_request_is_kept_in_one_spelling() -> None:
    one = planned(CHAIN, "s.daily", "+s.daily", "s.daily", exclude=("s.board",), **JAN)
    other = planned(CHAIN, "+s.daily", "s.daily", exclude=("s.board", "s.board"), **JAN)
    assert one == other
    assert one.request.selection == ("+s.daily", "s.daily")


# -- what is refused ----------------------------------------------------------------------


def test_a_dimension_that_no_selected_asset_has_is_invalid() -> None:
    with pytest.raises(Invalid, match="no dimension 'dat'") as error:
        planned(CHAIN, "*", partitions=("dat=2025-01-01",))
    assert error.value.hint == "did you mean 'date'?"
    with pytest.raises(Invalid, match="no dimension 'date'") as error:
        planned(CHAIN, "s.board", partitions=("date=2025-01-01",))
    assert error.value.hint == "these assets have no partitions"


def test_a_misaligned_range_names_the_asset() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", time("month")))
    with pytest.raises(Invalid, match=r"s\.b: date=2025-01-02 does not begin a month"):
        planned(project, "s.b", partitions=("date=2025-01-02",))


def test_a_range_counts_for_the_units_of_which_it_names_whole_periods() -> None:
    project = manifest(
        asset("s.day", DAYS), asset("s.hour", time("hour")), asset("s.month", time("month"))
    )
    for text, counts in [
        ("2025-01-02", (1, 24, 0)),
        ("2025-01-02..2025-01-03", (2, 48, 0)),
        ("2025-01-02T05", (0, 1, 0)),
        ("2025-01-02T05,2025-01-03", (1, 25, 0)),
        ("2025-01", (31, 744, 1)),
        ("2025-01..2025-02", (59, 1416, 2)),
        ("2025-01-01..2025-02-28", (59, 1416, 2)),
    ]:
        spec = planned(project, "*", partitions=(f"date={text}",), until=datetime(2025, 4, 1))
        by_asset = Counter(task.asset for task in spec.tasks)
        assert (by_asset["s.day"], by_asset["s.hour"], by_asset["s.month"]) == counts
    for text in ("2025-01-32", "soon", "2025-01-02..soon"):
        with pytest.raises(Invalid, match=r"s\.day: .* is not a day"):
            planned(project, "*", partitions=(f"date={text}",))


def test_too_many_tasks_are_counted_before_they_are_made() -> None:
    hours = asset("s.a", time("hour", "0001-01-02"), REGIONS)
    with pytest.raises(
        Invalid, match=r"would have 35,4\d\d,\d\d\d tasks, more than 10,000"
    ) as error:
        planned(manifest(hours), "s.a", partitions=("date=all",))
    assert "--max-tasks" in error.value.hint
    with pytest.raises(Invalid, match=f"more than {MAX_TASKS_PER_RUN:,}"):
        planned(manifest(hours), "s.a", partitions=("date=all",), max_tasks=10**9)
    with pytest.raises(Invalid, match="would have 2 tasks, more than 1"):
        planned(CHAIN, "s.orders", max_tasks=1, **JAN)


def test_a_circle_is_named_in_full() -> None:
    project = manifest(
        asset("a.c", reads("a.b")), asset("a.b", reads("a.a")), asset("a.a", reads("a.c"))
    )
    with pytest.raises(Invalid, match=r"cycle: a\.a -> a\.b -> a\.c -> a\.a"):
        planned(project, "*")


def test_an_unknown_input_is_invalid() -> None:
    project = manifest(asset("s.a"), asset("s.b", reads("s.aa")))
    with pytest.raises(Invalid, match=r"s\.b reads s\.aa, which is not deployed") as error:
        planned(project, "s.b")
    assert error.value.hint == "did you mean 's.a'?"


def test_missing_inputs_are_named_with_what_to_add() -> None:
    with pytest.raises(Invalid) as error:
        planned(CHAIN, "s.daily", **JAN)
    assert str(error.value) == (
        "inputs are missing and not part of this plan: s.daily reads "
        "s.orders[date=2025-01-01], which has no data yet; "
        "s.daily reads s.orders[date=2025-01-02], which has no data yet "
        "(add + to the selection, as in +s.daily, or run these inputs first)"
    )


@pytest.mark.parametrize("mapping", [Identity(), AllUpstream()])
def test_an_input_in_quarantine_is_named_with_its_release(mapping: Any) -> None:
    world = World()
    project = manifest(asset("s.a"), asset("s.b", reads("s.a", mapping)))
    world.run(project, planned(project, "*", world=world))
    world.hold("s.a")
    with pytest.raises(Invalid, match=r"s\.b reads s\.a, .*: it is in quarantine") as error:
        planned(project, "s.b", world=world)
    assert "servo quarantine release" in str(error.value.hint)


def test_only_three_missing_inputs_are_shown() -> None:
    with pytest.raises(Invalid, match=r"2025-01-12\], which has no data yet; and 19 more"):
        planned(
            CHAIN,
            "s.daily",
            partitions=("date=2025-01-10..2025-01-31",),
            until=datetime(2025, 2, 1),
        )


def test_an_input_that_cannot_exist_is_told_apart() -> None:
    project = manifest(asset("s.a", time(start="2025-01-05")), asset("s.b", DAYS, reads("s.a")))
    with pytest.raises(Invalid, match=r"s\.a\[date=2025-01-01\], which s\.a does not have"):
        planned(project, "+s.b", partitions=("date=2025-01-01,2025-01-05",))


@pytest.mark.parametrize("mapping", [AllUpstream(), Latest()])
def test_of_many_partitions_one_must_exist(mapping: Any) -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", reads("s.a", mapping)))
    with pytest.raises(Invalid, match=r"s\.b reads s\.a, which has no data yet"):
        planned(project, "s.b")


def test_of_a_window_one_must_exist() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", DAYS, reads("s.a", Window(-6, 0))))
    with pytest.raises(
        Invalid, match=r"s\.a\[date=2025-01-04\] to \[date=2025-01-10\], which have"
    ):
        planned(project, "s.b")


# -- dependencies without data ------------------------------------------------------------


def test_a_dependency_without_data_only_orders() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", reads("s.a", parameter="")))
    alone = planned(project, "s.b").tasks
    assert [(task.depends_on, task.inputs) for task in alone] == [((), ())]
    together = planned(project, "*", **JAN).tasks
    assert [(task.depends_on, task.inputs) for task in together] == [
        ((), ()),
        ((), ()),
        ((0, 1), ()),
    ]


def test_a_dependency_without_data_follows_the_partition_where_it_can() -> None:
    project = manifest(asset("s.a", DAYS), asset("s.b", DAYS, reads("s.a", parameter="")))
    assert [task.depends_on for task in planned(project, "*", **JAN).tasks] == [(), (), (0,), (1,)]


def test_a_dependency_without_data_is_no_part_of_the_fingerprint() -> None:
    world = World()
    project = manifest(asset("s.a"), asset("s.b", reads("s.a", parameter="")))
    world.run(project, planned(project, "*", world=world))
    world.make("s.a")
    assert reasons(planned(project, "s.b", world=world)) == ["reuse: selected; up to date: reused"]
    changed = manifest(asset("s.a", transform="new"), project.assets[1])
    assert reasons(planned(changed, "*", world=world)) == [
        "run: selected by *; code, configuration or inputs changed since its last materialization",
        "run: selected by *; upstream s.a runs in this plan",
    ]


# -- run or reuse -------------------------------------------------------------------------


def test_what_is_up_to_date_is_reused() -> None:
    world = World()
    first = planned(CHAIN, "*", world=world, **JAN)
    assert {task.action for task in first.tasks} == {"run"}
    assert [bool(task.fingerprint) for task in first.tasks] == [True, True, False, False, False]
    world.run(CHAIN, first)
    again = planned(CHAIN, "*", world=world, **JAN)
    assert reasons(again) == ["reuse: selected by *; up to date: reused"] * 5
    assert [task.materialization_id for task in again.tasks] == [
        world.current(task.asset_id)[task.partition].materialization_id for task in again.tasks
    ]
    assert [task.depends_on for task in again.tasks] == [task.depends_on for task in first.tasks]


def test_a_changed_input_runs_what_follows_from_it() -> None:
    world = World()
    world.run(CHAIN, planned(CHAIN, "*", world=world, **JAN))
    world.make("s.orders", "date=d:2025-01-02", fingerprint="other")
    assert reasons(planned(CHAIN, "*", world=world, **JAN)) == [
        "reuse: selected by *; up to date: reused",
        "run: selected by *; code, configuration or inputs changed since its last materialization",
        "reuse: selected by *; up to date: reused",
        "run: selected by *; upstream s.orders runs in this plan",
        "run: selected by *; upstream s.daily runs in this plan",
    ]


def test_changed_code_runs_again() -> None:
    world = World()
    world.run(CHAIN, planned(CHAIN, "s.orders", world=world))
    changed = manifest(asset("s.orders", DAYS, transform="new"))
    why = "run: selected; code, configuration or inputs changed since its last materialization"
    assert reasons(planned(changed, "orders", world=world)) == [why]


CONFIGURED = manifest(
    asset("s.orders", DAYS, config={"rows": 5, "rate": {"$float": "0.5"}}),
    asset("s.daily", DAYS, reads("s.orders"), config_read=("flaky",)),
    asset("s.other", DAYS),
)


def actions(spec: PlanSpec) -> dict[str, str]:
    return {task.asset: task.action for task in spec.tasks}


def test_a_value_concerns_only_the_assets_that_declare_or_read_its_name() -> None:
    world = World()
    world.run(CONFIGURED, planned(CONFIGURED, "*", world=world))
    everywhere = {"s.orders": "reuse", "s.daily": "reuse", "s.other": "reuse"}
    assert actions(planned(CONFIGURED, "*", world=world)) == everywhere
    assert actions(planned(CONFIGURED, "*", world=world, config={"rows": "5"})) == everywhere
    assert actions(planned(CONFIGURED, "*", world=world, config={"rate": "0.50"})) == everywhere
    other = planned(CONFIGURED, "*", world=world, config={"rows": "6"})
    assert actions(other) == {**everywhere, "s.orders": "run", "s.daily": "run"}
    flaky = planned(CONFIGURED, "*", world=world, config={"flaky": "true"})
    assert actions(flaky) == {**everywhere, "s.daily": "run"}
    world.run(CONFIGURED, flaky)
    assert actions(planned(CONFIGURED, "*", world=world, config={"flaky": "true"})) == everywhere


@pytest.mark.parametrize(
    ("selection", "config", "message", "hint"),
    [
        ("*", {"row": "5"}, "no asset has a configuration value 'row'", "did you mean 'rows'?"),
        ("*", {"zzz": "5"}, "no asset has a configuration value 'zzz'", "have flaky, rate, rows"),
        ("s.other", {"rows": "5"}, "no selected asset has a .* value 'rows'", "s.orders has it"),
        ("*", {"rows": "abc"}, "rows of s.orders is a whole number .*'abc'", "--config rows=5"),
        ("*", {"rows": True}, "rows of s.orders is a whole number .*True", "--config rows=5"),
        ("*", {"rate": "fast"}, "rate of s.orders is a number .*'fast'", "--config rate=0.5"),
    ],
)
def test_a_value_that_is_nobodys_or_of_another_type_is_refused_before_anything_runs(
    selection: str, config: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(Invalid, match=message) as error:
        planned(CONFIGURED, selection, config=config)
    assert hint in error.value.hint


def test_force_reuses_nothing() -> None:
    world = World()
    world.run(CHAIN, planned(CHAIN, "*", world=world, **JAN))
    forced = planned(CHAIN, "*", world=world, force=True, **JAN)
    assert reasons(forced) == ["run: selected by *; forced"] * 5


def test_the_same_request_has_the_same_fingerprint() -> None:
    fingerprints = {
        spec_fingerprint(planned(manifest(*assets), "*", until=until, **JAN))
        for assets in (CHAIN.assets, CHAIN.assets[::-1])
        for until in (UNTIL, datetime(2025, 1, 20))
    }
    assert len(fingerprints) == 1


# -- an asset that reads its own past -----------------------------------------------------


def test_an_asset_may_read_its_own_past() -> None:
    running = asset("s.total", DAYS, reads("s.total", Window(-1, -1)))
    spec = planned(manifest(running), "s.total", partitions=("date=2025-01-01..2025-01-03",))
    assert [(task.stage, task.depends_on) for task in spec.tasks] == [(0, ()), (1, (0,)), (2, (1,))]


def test_the_past_comes_first_whatever_the_order_of_dimensions() -> None:
    mixed = asset(
        "s.total", DAYS, CUSTOMERS, reads("s.total", date=Window(-1, -1), customer=AllUpstream())
    )
    spec = planned(manifest(mixed), "s.total", world=World(customers=["a", "b"]), **JAN)
    assert [(task.partition, task.depends_on) for task in spec.tasks] == [
        ("customer=s:a,date=d:2025-01-01", ()),
        ("customer=s:b,date=d:2025-01-01", ()),
        ("customer=s:a,date=d:2025-01-02", (0, 1)),
        ("customer=s:b,date=d:2025-01-02", (0, 1)),
    ]


@pytest.mark.parametrize("mapping", [Window(-1, 0), AllUpstream(), Latest()])
def test_an_asset_that_reads_its_present_is_a_circle(mapping: Any) -> None:
    with pytest.raises(Invalid, match=r"reads itself: s\.a -> s\.a"):
        planned(manifest(asset("s.a", DAYS, reads("s.a", mapping))), "s.a")


def test_values_that_some_assets_lack_are_not_looked_for_among_similar_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def suggest(item: str, names: object) -> str:
        asked.append(item)
        return ""

    monkeypatch.setattr(partition_ranges, "did_you_mean", suggest)
    ours = StaticDimension(name="key", values=tuple(f"a{n}" for n in range(50)))
    theirs = StaticDimension(name="key", values=tuple(f"b{n}" for n in range(50)))
    project = manifest(asset("s.a", ours), asset("s.b", theirs))
    wanted = tuple(f"key={side}{n}" for side in "ab" for n in range(50))
    assert len(planned(project, "*", partitions=wanted).tasks) == 100
    assert asked == []
    with pytest.raises(Invalid, match="c1"):
        planned(project, "*", partitions=("key=c1",))
    assert asked


def test_more_dependencies_than_a_run_can_hold_are_refused_before_they_are_laid_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "MAX_EDGES_PER_RUN", 20)
    project = manifest(asset("s.a", DAYS), asset("s.b", DAYS, reads("s.a", AllUpstream())))
    assert len(planned(project, "*", partitions=("date=2025-01-01..2025-01-04",)).tasks) == 8
    with pytest.raises(Invalid, match="more than 20 dependencies"):
        planned(project, "*", partitions=("date=2025-01-01..2025-01-05",))
