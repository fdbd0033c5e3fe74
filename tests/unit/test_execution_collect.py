"""Which versions go, and what of the store goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from arco.app import Workspace
from arco.errors import Contended
from arco.execution.expiry import KeepFor, RunNeeds, VersionInfo, expirable, needed
from arco.state.gc import LEASE, LEASE_TTL
from arco.state.snapshot import Generation
from arco.storage import paths
from arco.storage.port import Store
from servo.contract.manifest import Retention as Versions
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.lake import DAY, KEPT, Lake, check_readable
from tests.kit.workspace import make_workspace

NOW = datetime(2026, 6, 1)


# -- deciding -------------------------------------------------------------------------------


def made(id: str, position: int, *, days: float | None = None, **fields: Any) -> VersionInfo:
    """A version that stopped being current so many days ago."""
    values: dict[str, Any] = {
        "asset_id": "A",
        "materialization_id": id,
        "partition_key": "",
        "status": "GOOD",
        "version": position,
        "path": f"data/ns/a/_/{id}",
        "bytes": 1,
        "position": position,
        "superseded_at": None if days is None else NOW - timedelta(days=days),
    }
    return VersionInfo(**{**values, **fields})


def gone(rows: list[VersionInfo], /, *stays: str, **policy: int) -> list[str]:
    retention: Mapping[str, Versions] = {"A": Versions(**policy)}
    found = expirable(rows, retention, lambda m: m.materialization_id in stays, NOW)
    return sorted(given.materialization_id for given in found)


FOUR = [
    made("m1", 1, days=40),
    made("m2", 2, days=30),
    made("m3", 3, days=20),
    made("m4", 4),
]


def test_an_asset_that_says_nothing_keeps_all_good_versions() -> None:
    assert gone(FOUR, "m4") == []


def test_so_many_of_the_newest_stay_the_current_one_included() -> None:
    assert gone(FOUR, "m4", versions=1) == ["m1", "m2", "m3"]
    assert gone(FOUR, "m4", versions=3) == ["m1"]
    assert gone(FOUR, "m4", versions=9) == []


def test_what_was_current_within_so_many_days_stays() -> None:
    assert gone(FOUR, "m4", days=30) == ["m1"]
    assert gone(FOUR, "m4", days=1) == ["m1", "m2", "m3"]


def test_a_version_stays_as_long_as_one_of_the_two_holds() -> None:
    assert gone(FOUR, "m4", versions=2, days=35) == ["m1"]
    assert gone(FOUR, "m4", versions=3, days=1) == ["m1"]


def test_newest_is_by_position_not_by_number() -> None:
    approved_late = [made("m1", 1, days=3, version=2), made("m2", 2, version=1)]
    assert gone(approved_late, "m2", versions=1) == ["m1"]


def test_each_partition_is_counted_on_its_own() -> None:
    rows = [made("p1", 1, days=9, partition_key="p"), made("q1", 2, days=9, partition_key="q")]
    assert gone(rows, versions=1) == []


def test_versions_that_are_not_good_go_and_do_not_count() -> None:
    rows = [
        made("m1", 1, days=9),
        made("m2", 2, days=9, status="LATE"),
        made("m3", 3, days=9, status="REJECTED"),
        made("m4", 4, status="QUARANTINED"),
        made("m5", 5, status="BLOCKED"),
        made("m6", 6, days=9, status="EXPIRED"),
        made("m7", 7),
    ]
    assert gone(rows, "m7", versions=2) == ["m2", "m3"]
    assert gone(rows, "m7") == ["m2", "m3"]


def test_what_is_needed_stays_whatever_it_is() -> None:
    rows = [*FOUR, made("m5", 5, days=9, status="LATE")]
    assert gone(rows, "m1", "m4", "m5", versions=1) == ["m2", "m3"]


def test_a_generation_needs_what_is_current_undecided_or_was_current_since() -> None:
    rows = [*FOUR, made("m5", 5, status="QUARANTINED"), made("m6", 6, days=5, status="LATE")]
    assert needed(rows, ["m4"], None) == {"m4", "m5"}
    assert needed(rows, ["m4"], NOW - 20 * DAY) == {"m3", "m4", "m5", "m6"}


def test_reasons_name_the_policy() -> None:
    (given,) = expirable(
        FOUR[:1] + FOUR[3:], {"A": Versions(versions=1)}, FOUR[3:].__contains__, NOW
    )
    assert given.reason == "its asset keeps 1 version"
    policy = {"A": Versions(versions=1, days=2)}
    (given,) = expirable(FOUR[:1] + FOUR[3:], policy, FOUR[3:].__contains__, NOW)
    assert given.reason == "its asset keeps 1 version, and what was current in 2 days"


def test_needs_of_several_generations_add_up() -> None:
    one = RunNeeds(frozenset({"r1"}), frozenset(), frozenset({"v1"}), frozenset(), NOW)
    other = RunNeeds(frozenset({"r2"}), frozenset(), frozenset({"v2"}), frozenset({"f"}), NOW - DAY)
    both = RunNeeds(
        frozenset({"r1", "r2"}), frozenset(), frozenset({"v1", "v2"}), frozenset({"f"}), NOW - DAY
    )
    assert one.also(other) == other.also(one) == both
    assert one.also(RunNeeds()) == one


# -- doing ----------------------------------------------------------------------------------


@pytest.fixture
def lake() -> Lake:
    return Lake()


def collect(lake: Lake, **fields: Any) -> Any:
    return lake.w.upkeep.collect_data(KEPT, dry_run=False, **fields)


def on(store: Store, lake: Lake) -> Workspace:
    """Another process, with a view of the store of its own."""
    return make_workspace(store, 9, clock=lake.clock)


def grow(lake: Lake, asset: str, count: int, every: float = 3) -> list[str]:
    made = []
    for _ in range(count):
        made.append(lake.make(asset))
        lake.wait(every)
    return made


def test_nothing_is_collected_from_nothing(lake: Lake) -> None:
    report = lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert (report.expired, report.deletable, report.failed) == ([], [], 0)


def test_superseded_versions_go_by_the_retention_of_their_asset(lake: Lake) -> None:
    source, derived = grow(lake, "city.source", 5), grow(lake, "city.derived", 3)
    lake.settle()
    report = collect(lake)
    assert [g.materialization_id for g in report.expired] == source[:3]
    assert {g.asset for g in report.expired} == {"city.source"}
    assert report.failed == 0
    assert lake.present() == {*source[3:], *derived}
    assert {id for id, s in lake.statuses().items() if s == "EXPIRED"} == set(source[:3])
    asset = lake.rows()[source[0]].asset_id
    version = lake.w.read.execution().materialization(asset, source[0])
    assert version is not None
    assert (version.status, version.reason) == ("EXPIRED", "its asset keeps 2 versions")
    check_readable(lake.w)
    again = collect(lake)
    assert (again.expired, [d for d in again.deletable if d.why == "version"]) == ([], [])


def test_a_dry_run_says_the_same_and_does_nothing(lake: Lake) -> None:
    grow(lake, "city.source", 5)
    lake.settle()
    before = {meta.path for meta in lake.memory.list("")}
    planned = lake.w.upkeep.collect_data(KEPT)
    assert {meta.path for meta in lake.memory.list("")} == before
    done = collect(lake)
    assert done.expired == planned.expired != []
    assert done.deletable == planned.deletable
    assert (planned.dry_run, done.dry_run) == (True, False)


def test_days_keep_what_was_current_within_them(lake: Lake) -> None:
    made = grow(lake, "city.recent", 5, every=5)  # superseded 26, 21, 16, 11 days ago
    lake.settle()
    collect(lake)
    assert lake.present() == set(made[2:])


def test_what_stopped_being_current_within_the_window_stays(lake: Lake) -> None:
    made = grow(lake, "city.source", 4, every=0.5)
    report = collect(lake)
    assert report.expired == []
    assert lake.present() == set(made)
    for number in range(lake.w.manifests.floor().generation, lake.w.read.snapshot().generation + 1):
        lake.w.read.snapshot(Generation(number))
    check_readable(lake.w)


def test_the_window_is_never_shorter_than_the_age_gate(lake: Lake) -> None:
    made = grow(lake, "city.source", 4, every=0.2)
    now = KeepFor(generations=keeping(generations=timedelta(0), at_least=1))
    assert lake.w.upkeep.collect_data(now, dry_run=False).expired == []
    assert lake.present() == set(made)


def test_what_is_current_in_a_pinned_generation_stays_until_it_is_released(lake: Lake) -> None:
    first = lake.make("city.source")
    lake.w.upkeep.pins.pin("audit", lake.w.read.snapshot().generation, "audit")
    lake.wait(3)
    rest = grow(lake, "city.source", 4)
    lake.settle()
    collect(lake)
    assert lake.present() == {first, *rest[2:]}
    check_readable(lake.w)
    lake.w.upkeep.pins.release("audit")
    collect(lake)
    assert lake.present() == set(rest[2:])


def test_what_a_run_reads_stays_until_it_has_ended(lake: Lake) -> None:
    first = lake.make("city.source")
    run = lake.begin("city.derived")
    lake.wait(1)
    rest = grow(lake, "city.source", 5)
    lake.settle()
    collect(lake)
    assert first in lake.present()
    check_readable(lake.w)
    lake.finish(run, "city.derived")
    lake.settle()
    collect(lake)
    assert lake.present() & {first, *rest} == set(rest[3:])


def test_what_a_run_has_made_stays_until_it_has_ended(lake: Lake) -> None:
    run = lake.begin("city.source", "city.derived")
    made = lake.finish(run, "city.source")
    lake.wait(1)
    grow(lake, "city.source", 5)
    lake.settle()
    collect(lake)
    assert made in lake.present()
    assert lake.task(run, "city.derived").state == "READY"


def test_what_was_current_while_an_attempt_is_in_flight_stays(lake: Lake) -> None:
    """It may compare with it: its checks name the version before, and what they refer to."""
    before = grow(lake, "city.source", 3)
    run = lake.begin("city.recent")
    lake.dispatch(run, "city.recent")
    lake.wait(1)
    since = grow(lake, "city.source", 4)
    lake.settle()
    collect(lake)
    assert lake.present() == {before[2], *since}
    lake.finish(run, "city.recent")
    lake.settle()
    collect(lake)
    assert lake.present() & {*before, *since} == set(since[2:])


def test_late_and_rejected_ones_go_and_undecided_ones_stay(lake: Lake) -> None:
    run = lake.begin("city.derived", "city.source")
    late = lake.finish(run, "city.source", attempt_id="another")
    good = lake.finish(run, "city.source")
    lake.finish(run, "city.derived")
    rejected = lake.make("city.recent", gate="quarantine")
    waiting = lake.make("city.recent", gate="quarantine")
    held = {row.materialization_id: row for row in lake.w.read.execution().quarantine()}
    lake.w.commands.execution.decide(held[rejected], approved=False)
    assert (lake.statuses()[late], lake.statuses()[rejected]) == ("LATE", "REJECTED")
    collect(lake)
    assert {late, rejected, waiting, good} <= lake.present()  # within the window
    lake.settle()
    collect(lake)
    assert lake.present() & {late, rejected, waiting, good} == {waiting, good}
    assert lake.statuses()[late] == lake.statuses()[rejected] == "EXPIRED"


def test_a_late_one_stays_while_its_task_may_still_adopt_it(lake: Lake) -> None:
    run = lake.begin("city.source")
    late = lake.finish(run, "city.source", attempt_id="another")
    assert lake.statuses()[late] == "LATE"
    lake.settle()
    collect(lake)
    assert late in lake.present() and lake.statuses()[late] == "LATE"


def test_leftovers_go_when_they_are_old_and_nobody_works_on_their_partition(lake: Lake) -> None:
    lake.make("city.source")
    old = lake.leftover("city.source")
    run = lake.begin("city.derived")
    busy = lake.write(run, "city.derived").materialization_id
    lake.settle()
    young = lake.leftover("city.source")
    report = collect(lake)
    assert [(d.why, d.asset) for d in report.deletable] == [("leftover", "city.source")]
    assert old not in lake.present() and {busy, young} <= lake.present()
    lake.report(run, "city.derived", None, outcome="failed")
    lake.settle()
    collect(lake)
    assert lake.present().isdisjoint({busy, young})


def test_a_folder_goes_whole_or_not_at_all(lake: Lake) -> None:
    id = lake.leftover("city.source")
    lake.wait(2)
    lake.memory.put(f"data/city/source/_/{id}/part-00001.parquet", b"still writing")
    collect(lake)
    assert id in lake.present()


def test_what_nobody_of_us_wrote_stays(lake: Lake) -> None:
    strange = ["data/README.txt", "data/city/source/_/notes/x.parquet", "data/city/x"]
    for path in strange:
        lake.memory.put(path, b"mine")
    lake.wait(99)
    lake.make("city.source")
    collect(lake)
    assert {meta.path for meta in lake.memory.list("data/")} >= set(strange)


def names(lake: Lake, prefix: str) -> set[str]:
    return {meta.path for meta in lake.memory.list(prefix)}


def test_markers_logs_and_plans_go_after_their_run(lake: Lake) -> None:
    kept = KeepFor(generations=KEPT.generations, logs=20 * DAY, plans=30 * DAY)
    first = lake.make("city.source")
    active = lake.begin("city.derived")
    lake.write(active, "city.derived")

    def present(days: float) -> tuple[int, int, int]:
        lake.wait(days - 6)
        lake.settle()
        lake.w.upkeep.collect_data(kept, dry_run=False)
        return len(names(lake, "commits/")), len(names(lake, "logs/")), len(names(lake, "plans/"))

    assert present(6) == (2, 2, 2)
    assert present(6) == (1, 2, 2)
    assert present(9) == (1, 1, 2)
    assert present(10) == (1, 1, 1)
    assert first in lake.present()
    assert [path for path in names(lake, "commits/") if active in path] != []


def test_a_rollback_finds_its_files_within_the_window_and_not_below_the_floor(lake: Lake) -> None:
    grow(lake, "city.source", 3, every=3)
    before = lake.w.read.snapshot().generation
    newest = lake.make("city.source")
    after = lake.w.read.snapshot().generation
    lake.w.upkeep.rollback(before, reason="test")
    assert newest not in lake.statuses()
    lake.wait(1.5)  # older than any leftover has to be
    collect(lake)
    assert newest in lake.present()  # rolling back the rollback would need it
    check_readable(lake.w)
    lake.w.upkeep.rollback(after, reason="test")
    assert lake.statuses()[newest] == "GOOD"
    lake.w.upkeep.rollback(before, reason="test")
    lake.settle()
    collect(lake)
    assert newest not in lake.present()
    check_readable(lake.w)


def test_one_delete_that_fails_does_not_stop_the_others_and_is_made_up_for(lake: Lake) -> None:
    hooks = HookStore(lake.memory)
    grow(lake, "city.source", 5)
    lake.settle()
    hooks.fail("delete", "data/", times=2)
    report = on(hooks, lake).upkeep.collect_data(KEPT, dry_run=False)
    assert report.failed == 2
    expired = {id for id, status in lake.statuses().items() if status == "EXPIRED"}
    listed = (meta.path for meta in lake.memory.list("data/"))
    left = [path for path in listed if path.split("/")[4] in expired]
    assert len(left) == 2
    again = collect(lake)
    assert sorted(d.path for d in again.deletable if d.why == "version") == left
    assert again.expired == [] and again.failed == 0


def test_a_version_that_cannot_be_given_up_keeps_its_files(lake: Lake) -> None:
    hooks = HookStore(lake.memory)
    made = grow(lake, "city.source", 5)
    lake.settle()
    hooks.fail("put", paths.INBOX, times=99)
    report = on(hooks, lake).upkeep.collect_data(KEPT, dry_run=False)
    assert report.failed == 3 and report.expired == []
    assert lake.present() == set(made)


def test_two_do_not_collect_at_once(lake: Lake) -> None:
    with lake.w.core.leases.hold(LEASE, LEASE_TTL):
        with pytest.raises(Contended):
            collect(lake)
        lake.w.upkeep.collect_data(KEPT)  # looking is always allowed


def test_a_rebuild_after_it_gives_the_same(lake: Lake) -> None:
    grow(lake, "city.source", 5)
    lake.settle()
    collect(lake)
    assert lake.w.upkeep.rebuild(publish=False).same
    assert not [f for f in lake.w.upkeep.fsck().findings if f.severity == "error"]


def test_progress_is_told(lake: Lake) -> None:
    grow(lake, "city.source", 5)
    lake.settle()
    told: list[str] = []
    collect(lake, progress=lambda what, done, total: told.append(what))
    assert {"expiring versions", "listing data/", "deleting"} <= set(told)


# -- lists of inputs ------------------------------------------------------------------------


def lists(lake: Lake) -> list[str]:
    """The runs that have one."""
    return sorted(meta.path.split("/")[1] for meta in lake.w.store.list(paths.INPUTS))


def with_list(lake: Lake, asset: str) -> str:
    """A run that made a version from many; its id."""
    run_id = lake.begin(asset)
    lake.w.store.put(paths.input_list(run_id, "a" * 64), b"list")
    lake.finish(run_id, asset)
    return run_id


def test_a_list_of_inputs_lives_as_long_as_what_its_run_made() -> None:
    lake = Lake()
    runs = [with_list(lake, "city.source") for _ in range(4)]  # which keeps two versions
    lake.settle()
    lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert lists(lake) == sorted(runs), "none is older than plans are kept"
    lake.wait(40)
    lake.settle()
    report = lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert lists(lake) == sorted(runs[-2:])
    assert {d.why for d in report.deletable if d.path.startswith(paths.INPUTS)} == {
        "list of inputs"
    }
    check_readable(lake.w)


def test_a_list_of_inputs_stays_for_a_generation_that_is_pinned() -> None:
    lake = Lake()
    first = with_list(lake, "city.source")
    lake.w.upkeep.pins.pin("audit", lake.w.read.snapshot().generation, "audit")
    later = [with_list(lake, "city.source") for _ in range(3)]
    lake.wait(40)
    lake.settle()
    lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert lists(lake) == sorted([first, *later[-2:]])


def test_lists_of_active_runs_and_of_unknown_ones_that_are_young_stay() -> None:
    lake = Lake()
    active = lake.begin("city.source")
    lake.w.store.put(paths.input_list(active, "a" * 64), b"list")
    lake.wait(40)
    lake.w.store.put(paths.input_list("01J00000000000000000000000", "a" * 64), b"list")
    lake.settle()
    lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert lists(lake) == ["01J00000000000000000000000", active]
    lake.wait(40)
    lake.settle()
    lake.w.upkeep.collect_data(KEPT, dry_run=False)
    assert lists(lake) == [active]
