"""What a read opens does not grow with the days behind it; and a command reads one generation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from arco.app import Workspace
from arco.cli.app import run as servo
from arco.cli.session import Session
from arco.cli.short_ids import short, shorts
from arco.errors import NotFound
from arco.execution.commands import find_held
from arco.execution.tables import MATERIALIZATIONS
from arco.lineage.tables import EXECUTIONS
from arco.log.commit import Committed
from arco.log.head import Head, Manifests
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.in_use import ended, retention
from arco.orchestration.reader import Library
from arco.orchestration.tables import RUNS, RunRow
from arco.quality.reader import QualityReader
from arco.state.days import get_of_day, newest_first, newest_rows
from arco.storage.memory import MemoryStore
from servo.contract.manifest import Manifest, Retention
from servo.contract.task import CheckResult, ColumnInfo, InputRef, Lineage, MaterializationRef
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.hooks import HookStore
from tests.kit.lake import KEPT, Lake
from tests.kit.runs import Attempt, Node, plan, triggered
from tests.kit.workspace import make_workspace

pytestmark = pytest.mark.xdist_group("reads")  # which makes its fixtures once

A_DAY = 4
"""Runs in a day."""
FEW, MANY = 6, scaled(20, 48)
"""Days of runs."""
DAYS = scaled(16, 40)
"""Days of versions: enough of them for history."""


class Diary:
    """A workspace with some runs every day, and merges every night."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        self.runs: list[str] = []

    def begin(self) -> str:
        self.clock.advance(timedelta(milliseconds=1))
        run_id = self.w.ids()
        self.runs.append(run_id)
        self._append(triggered(1, run_id), *plan((Node(),), run_id))
        return run_id

    def end(self, run_id: str, *, well: bool = True) -> None:
        attempt = Attempt("t00", 1, run_id)
        self._append(
            attempt.started(), attempt.succeeded() if well else attempt.failed("user_code")
        )

    def days(self, count: int) -> Diary:
        for _ in range(count):
            for number in range(A_DAY):
                self.end(self.begin(), well=number > 0)
                self.clock.advance(timedelta(hours=3))
            self.clock.advance(timedelta(days=1) - timedelta(hours=3 * A_DAY))
            self.w.upkeep.merger.merge(everything=True)
        return self

    def _append(self, *payloads: Any) -> None:
        self.w.ledger.append(list(payloads))
        while isinstance(self.w.committer.commit(), Committed):
            pass

    def fresh(self) -> tuple[Workspace, HookStore]:
        """Another process, and the store that it reads through."""
        store = HookStore(self.memory)
        return make_workspace(store, 2, clock=self.clock), store


def opened(store: HookStore, level: str = "") -> set[str]:
    """Table files that were read."""
    paths = {path for op, path in store.calls if op in ("get", "get_range")}
    return {path for path in paths if path.startswith("state/") and f"/{level}" in path}


@pytest.fixture(scope="module")
def few() -> Diary:
    return Diary().days(FEW)


@pytest.fixture(scope="module")
def many() -> Diary:
    return Diary().days(MANY)


# -- runs -----------------------------------------------------------------------------------


def test_listing_runs_opens_as_many_files_after_many_days_as_after_few(
    few: Diary, many: Diary
) -> None:
    counts = []
    for diary in (few, many):
        w, store = diary.fresh()
        listed = w.read.orchestration().runs(limit=3 * A_DAY)
        assert [row.run_id for row in listed.rows] == diary.runs[: -3 * A_DAY - 1 : -1]
        assert not listed.is_complete
        counts.append(len(opened(store)))
    assert counts[0] == counts[1]


def test_a_run_is_found_by_its_short_id_without_opening_other_days(many: Diary) -> None:
    for run_id, most in ((many.runs[-1], 0), (many.runs[A_DAY], 2)):
        w, store = many.fresh()
        assert w.read.orchestration().find_run(short(run_id)).run_id == run_id
        assert len(opened(store, "history/")) <= most


def test_a_short_id_names_no_run_or_several(many: Diary) -> None:
    reader = many.w.read.orchestration()
    first, last = many.runs[0], many.runs[-1]
    with pytest.raises(NotFound, match="is not the id of a run"):
        reader.find_run(first[-8:])
    with pytest.raises(NotFound, match=r"names \d+ runs") as several:
        reader.find_run(first[:4])
    assert first in several.value.hint
    assert reader.find_run(last.lower()[:12]).run_id == last
    with pytest.raises(NotFound, match="is not the id of a run"):
        reader.find_run(last[:3])


def test_an_active_run_goes_before_those_that_have_ended() -> None:
    diary = Diary().days(1)
    run_id = diary.begin()
    reader = diary.w.read.orchestration()
    same = next(n for n in range(26) if run_id[:n] != diary.runs[0][:n]) - 1
    assert same >= 4
    assert reader.find_active_run(run_id[:same]).run_id == run_id
    with pytest.raises(NotFound):
        reader.find_run(run_id[:same])


def test_active_runs_are_listed_without_history(many: Diary) -> None:
    w, store = many.fresh()
    listed = w.read.orchestration().runs(limit=5, in_states=["RUNNING", "PLANNING"])
    assert listed == ([], True)
    assert not opened(store, "history/")


def test_filters_go_back_no_further_than_since(many: Diary) -> None:
    w, store = many.fresh()
    reader = w.read.orchestration()
    since = many.clock.now() - timedelta(days=6, hours=12)
    failed = reader.runs(limit=50, in_states=["FAILED"], since=since)
    assert failed.is_complete
    assert [row.run_id for row in failed.rows] == many.runs[::A_DAY][:-7:-1]
    assert len(opened(store, "runs/history/")) <= 8
    assert reader.runs(limit=1, in_states=["FAILED"]).rows == failed.rows[:1]


def test_runs_of_an_asset_are_those_that_have_a_task_of_it(few: Diary) -> None:
    reader = few.w.read.orchestration()
    assert [r.run_id for r in reader.runs(limit=2, asset_key="ns.t00").rows] == few.runs[:-3:-1]
    assert reader.runs(limit=2, asset_key="ns.other").rows == []


def test_a_long_run_is_listed_where_it_was_created() -> None:
    diary = Diary().days(2)
    long = diary.begin()
    diary.days(6)
    diary.end(long)
    diary.days(4)
    reader = diary.w.read.orchestration()
    for limit in range(1, len(diary.runs) + 2, scaled(5, 1)):
        listed = reader.runs(limit=limit)
        assert [row.run_id for row in listed.rows] == diary.runs[: -limit - 1 : -1]
        assert listed.is_complete == (limit >= len(diary.runs))
        for row in listed.rows:
            assert (
                reader.runs(limit=99, since=row.created_at).rows
                == listed.rows[: listed.rows.index(row) + 1]
            )


def test_short_ids_of_a_list_are_as_long_as_they_must_be() -> None:
    same = "01K9ZQ3F7M2A"
    ids = [f"{same}{end}".ljust(26, "0") for end in ("A", "B", "")] + ["01K9ZQ3F7N".ljust(26, "0")]
    names = shorts(ids)
    assert len(set(names.values())) == 4
    assert all(id.startswith(name) and len(name) >= 10 for id, name in names.items())
    assert names[ids[3]] == "01K9ZQ3F7N"
    assert shorts([]) == {}


# -- history by days ------------------------------------------------------------------------


def test_history_is_walked_from_the_newest_day_and_has_every_row(many: Diary) -> None:
    snapshot = many.w.read.snapshot()
    seen: list[str] = []
    before: datetime | None = None
    for rows, rest_before in newest_first(snapshot, RUNS):
        stretch: list[RunRow] = list(RUNS.rows_of(rows))
        if before is not None:
            assert all(row.finished_at and row.finished_at < before for row in stretch)
        seen += [row.run_id for row in stretch]
        before = rest_before
    assert before is None
    assert sorted(seen) == many.runs


def test_rows_of_a_day_are_looked_up_in_that_day_alone(many: Diary) -> None:
    w, store = many.fresh()
    row = many.w.read.snapshot().get(RUNS, many.runs[0])
    assert row is not None and row.finished_at is not None
    key, day = (row.run_id,), row.finished_at.date()
    assert get_of_day(w.read.snapshot(), RUNS, key, day) == row
    assert len(opened(store, "history/")) == 1
    assert get_of_day(w.read.snapshot(), RUNS, key, day + timedelta(days=40)) is None


# -- versions, checks and lineage -------------------------------------------------------------


READ = Lineage(
    read=(
        InputRef(
            asset="city.source",
            parameter="source",
            materializations=(
                MaterializationRef(partition="", materialization_id="v", path="p", rows=1),
            ),
        ),
    )
)


class Town(Lake):
    """A lake in which an asset gets a new version every day, with a check and lineage."""

    def days(self, count: int) -> Town:
        for _ in range(count):
            run_id = self.begin("city.source")
            made = self.write(run_id, "city.source")
            check = CheckResult(name="some rows", kind="row_count", passed=True)
            self.report(run_id, "city.source", made, checks=(check,), lineage=READ)
            self.wait(1)
            self.w.upkeep.merger.merge(everything=True)
        return self

    def fresh(self) -> tuple[Workspace, HookStore]:
        store = HookStore(self.memory)
        return make_workspace(store, 2, clock=self.clock), store


@pytest.fixture(scope="module")
def town() -> Town:
    return Town().days(DAYS)


def asset_id(w: Workspace) -> str:
    return w.read.orchestration().deployed_assets()["city.source"].asset_id


def test_superseded_versions_leave_and_are_found_in_history(town: Town) -> None:
    w, store = town.fresh()
    reader, id = w.read.execution(), asset_id(w)
    newest = reader.versions(id, limit=3)
    assert [row.version for row in newest] == [DAYS, DAYS - 1, DAYS - 2]
    assert not opened(store, "materializations/history/")
    everything = reader.versions(id)
    assert [row.version for row in everything] == list(range(DAYS, 0, -1))
    assert reader.materialization(id, everything[-1].materialization_id) == everything[-1]
    assert len(w.read.snapshot().hot(MATERIALIZATIONS)) <= 10


def test_versions_in_history_are_given_up_and_say_so() -> None:
    town = Town().days(DAYS)
    town.settle()
    id = asset_id(town.w)
    before = town.w.read.execution().versions(id)
    report = town.w.upkeep.collect_data(KEPT, dry_run=False)
    assert {g.materialization_id for g in report.expired} == {
        row.materialization_id for row in before[2:]
    }
    after = town.w.read.execution().versions(id)
    assert [row.status for row in after] == ["GOOD"] * 2 + ["EXPIRED"] * (DAYS - 2)
    assert after[-1].reason == "its asset keeps 2 versions"
    assert town.present() == {row.materialization_id for row in before[:2]}
    again = town.w.upkeep.collect_data(KEPT, dry_run=False)
    assert again.expired == []


def test_newest_results_and_executions_leave_earlier_days_closed(town: Town) -> None:
    w, store = town.fresh()
    snapshot, id = w.read.snapshot(), asset_id(w)
    assert len(QualityReader(snapshot).results(id, limit=3)) == 3
    assert len(lineage_reader(snapshot).executions("city.source", limit=3)) == 3
    assert not opened(store, "check_results/history/") | opened(store, "executions/history/")
    everything = newest_rows(snapshot, EXECUTIONS, id)
    assert len(everything) == DAYS
    assert everything == sorted(everything, key=lambda row: row.recorded_at, reverse=True)
    since = everything[DAYS // 2].recorded_at
    assert newest_rows(snapshot, EXECUTIONS, id, since=since) == everything[: DAYS // 2 + 1]


def test_columns_of_an_old_version_are_read_from_its_day() -> None:
    town = Town()
    run_id = town.begin("city.recent")
    columns = (ColumnInfo(name="id", type="long"),)
    made = replace(town.write(run_id, "city.recent"), schema=columns)
    town.report(run_id, "city.recent", made)
    town.days(DAYS // 2)
    w, store = town.fresh()
    id = w.read.orchestration().deployed_assets()["city.recent"].asset_id
    assert w.read.execution().columns(id) == columns
    assert len(opened(store, "schemas/history/")) <= 1


def test_what_was_held_back_is_found_by_its_short_id() -> None:
    town = Town()
    held = town.make("city.source", gate="quarantine")
    other = town.make("city.source", gate="quarantine")
    snapshot = town.w.read.snapshot()
    assert find_held(snapshot, held).materialization_id == held
    assert find_held(snapshot, held[:24] if held[:24] != other[:24] else held)
    town.w.commands.execution.decide(find_held(snapshot, held), approved=False)
    town.days(DAYS)
    w, _ = town.fresh()
    assert find_held(w.read.snapshot(), held).status == "REJECTED"
    with pytest.raises(NotFound, match="is not the id of a held output"):
        find_held(w.read.snapshot(), "7ZZZZZZZZZ")
    waiting = w.read.execution().quarantine()
    assert [row.materialization_id for row in waiting] == [other]
    long_ago = town.clock.now() - timedelta(days=60)
    shown = w.read.execution().quarantine(decided=True, since=long_ago)
    assert {row.materialization_id for row in shown} == {held, other}


# -- one generation for each command ----------------------------------------------------------


def commands(run: str, held: str) -> Iterable[list[str]]:
    yield ["runs", "list"]
    yield ["runs", "list", "--state", "FAILED", "--asset", "city.source", "--since", "3d"]
    yield ["runs", "show", short(run)]
    yield ["runs", "show", run, "--all"]
    yield ["runs", "logs", run]
    yield ["partitions", "list", "customers"]
    yield ["partitions", "status", "city.source"]
    yield ["partitions", "versions", "city.source"]
    yield ["partitions", "history", "city.source"]
    yield ["runs", "outputs", run]
    yield ["checks", "list", "city.source"]
    yield ["checks", "show", "city.source", "some rows"]
    yield ["lineage", "show", "city.source"]
    yield ["lineage", "show", "city.source", "--down"]
    yield ["quarantine", "list", "--all"]
    yield ["quarantine", "show", held]
    yield ["costs"]
    yield ["deployments"]
    yield ["catalog", "namespace", "list"]
    yield ["catalog", "namespace", "show", "city"]
    yield ["catalog", "asset", "list", "city"]
    yield ["catalog", "asset", "show", "city.source"]
    yield ["admin", "snapshot"]
    yield ["admin", "sql", "--tables"]


def test_every_read_command_looks_for_the_head_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    town = Town().days(3)
    run = town.begin("city.source")
    held = town.finish(run, "city.source", gate="quarantine")
    heads: list[int] = []
    head = Manifests.head

    def counted(self: Manifests) -> Head:
        found = head(self)
        heads.append(found.generation)
        # Somebody commits at once: whoever looks again sees another generation.
        monkeypatch.setattr(Manifests, "head", head)
        town.w.commands.catalog.create_namespace(f"n{found.generation}")
        monkeypatch.setattr(Manifests, "head", counted)
        return found

    monkeypatch.setattr(Session, "open", lambda self, **options: town.fresh()[0])
    for given in commands(run, held):
        for arguments in (given, [*given, "--json"]):
            heads.clear()
            monkeypatch.setattr(Manifests, "head", counted)
            code = servo(arguments)
            monkeypatch.setattr(Manifests, "head", head)
            assert code == 0, (arguments, capsys.readouterr())
            assert len(heads) == 1, arguments


# -- what runs need of data -------------------------------------------------------------------


def test_data_gc_asks_for_the_runs_that_ended_lately(many: Diary) -> None:
    w, store = many.fresh()
    since = many.clock.now() - timedelta(days=5)
    found = ended(w.read.snapshot(), since)
    rows = [row for row in many.w.read.snapshot().all(RUNS) if row.finished_at]
    recent = {r.run_id: r.finished_at for r in rows if r.finished_at and r.finished_at >= since}
    assert found.runs == recent
    assert found.plans == {f"plan-{run_id}": time for run_id, time in recent.items()}
    assert len(opened(store, "runs/history/")) <= 6


def test_retention_of_all_assets_looks_at_each_manifest_once() -> None:
    town = Town()
    w = town.w
    asked: list[str] = []

    class Counted(Library):
        def __init__(self) -> None:
            super().__init__(w.store)
            self.outline = self._counted  # type: ignore[assignment]

        def _counted(self, digest: str) -> Manifest:
            asked.append(digest)
            return w.library.outline(digest)

    policies = retention(w.read.snapshot(), Counted())
    assert len(asked) == 1
    assets = w.read.orchestration().deployed_assets()
    assert {key: policies[row.asset_id] for key, row in assets.items()} == {
        "city.source": Retention(versions=2),
        "city.derived": Retention(),
        "city.recent": Retention(days=20),
    }
