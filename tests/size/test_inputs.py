"""Tasks, plans and results at size: nothing is too large for the log, and nothing is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.dispatch import requests
from arco.engine import LocalEngine
from arco.execution.tables import SCHEMAS
from arco.lineage.tables import ExecutionRow
from arco.log.envelope import MAX_BATCH_BYTES, MAX_EVENT_BYTES, encode_payload
from arco.orchestration import input_refs
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.input_lists import put_list, read_list
from arco.orchestration.input_refs import INLINE, SHOWN
from arco.orchestration.plan import CurrentVersion, PlanRequest, PlanSpec
from arco.orchestration.plan_events import slices, tasks_of
from arco.orchestration.planner import plan
from arco.orchestration.planning import ASKED
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RUNS, TASKS, RunRow
from arco.quality.tables import CHECK_RESULTS
from arco.storage import paths
from arco.storage.port import Mode, Store
from servo.contract import ulid
from servo.contract.manifest import Asset, Code, Input, Manifest, TimeDimension, Window
from servo.contract.task import InputRef
from tests.kit.flows import deploy
from tests.kit.model import state_of

PARTITIONS = INLINE + 50
PROJECT = f"""
import pyarrow as pa
from servo import AssetIn, Retry, all_upstream, asset, static

KEYS = [f"k{{n:04}}" for n in range({PARTITIONS})]

@asset(namespace="city", partitions=static("key", KEYS))
def source() -> pa.Table:
    return pa.table({{"n": [1]}})

@asset(namespace="city", retry=Retry(delay="1s", max_attempts=3))
def total(source: AssetIn["city.source", all_upstream]) -> pa.Table:
    return pa.table({{"n": [source.arrow().num_rows]}})

@asset(namespace="city", partitions=static("side", ["left", "right"]), retry=Retry(max_attempts=1))
def half(source: AssetIn["city.source", all_upstream]) -> pa.Table:
    return pa.table({{"n": [source.arrow().num_rows]}})
"""


class City:
    """A project whose reader has more inputs than travel with a task; all of it has run."""

    def __init__(self, folder: Path) -> None:
        self.w = Workspace.open(f"file://{folder}", "acme", "prod")
        deploy(self.w, PROJECT)
        self.first = self.run("*")

    def run(self, *selection: str, **request: Any) -> RunRow:
        wanted = PlanRequest(selection=selection, **request)
        with LocalEngine(self.w, slots=4).running() as engine:
            return engine.wait(self.w.commands.orchestration.trigger(wanted).run_id)

    def read(self, asset: str) -> ExecutionRow:
        """What went into the newest output."""
        return lineage_reader(self.w.read.snapshot()).executions(asset)[-1]

    def lists(self) -> list[str]:
        return [meta.path for meta in self.w.store.list(paths.INPUTS)]


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> City:
    return City(tmp_path_factory.mktemp("city"))


def digest_of(path: str) -> str:
    return Path(path).stem


def test_what_was_read_is_recorded_whole_by_one_list_for_all_tasks_of_the_run(city: City) -> None:
    assert city.first.state == RunState.SUCCEEDED
    row = city.read("city.total")
    assert (row.source_count, row.rows_read) == (PARTITIONS, PARTITIONS)
    assert len(row.source_materializations) == len(row.source_partitions) == SHOWN
    versions = read_list(city.w.store, row.source_list, digest_of(row.source_list))
    assert [each.partition for each in versions] == [f"key=s:k{n:04}" for n in range(PARTITIONS)]
    ids = [each.materialization_id for each in versions]
    assert input_refs.fingerprint(ids) == row.source_fingerprint
    halves = {
        each.source_list for each in lineage_reader(city.w.read.snapshot()).executions("city.half")
    }
    assert halves == {row.source_list}
    of_run = [path for path in city.lists() if path.split("/")[1] == city.first.run_id]
    assert of_run == [row.source_list]


def test_reuse_is_exact_whatever_the_number_of_inputs(city: City) -> None:
    again = city.run("city.total")
    assert (again.state, again.tasks_reused) == (RunState.SUCCEEDED, 1)
    assert city.run("city.source", partitions=("key=k0007",), force=True).tasks_succeeded == 1
    row = city.run("city.total")
    assert (row.tasks_succeeded, row.tasks_reused) == (1, 0)
    assert city.run("+city.total").tasks_reused == PARTITIONS + 1


def test_tables_are_the_same_after_a_rebuild(city: City) -> None:
    before = state_of(city.w)
    city.w.upkeep.rebuild()
    assert state_of(city.w) == before


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_list_that_a_worker_cannot_read_is_put_again_for_the_next_attempt(
    city: City, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_badly(store: Store, run_id: str, ref: InputRef, *, overwrite: bool = False) -> InputRef:
        made = put_list(store, run_id, ref, overwrite=overwrite)
        if made.listed_in is not None and not overwrite:
            store.delete(made.listed_in.path)
            if harm == "damaged":
                store.put(made.listed_in.path, b"PAR1", Mode.OVERWRITE)
        return made

    monkeypatch.setattr(requests, "put_list", put_badly)
    row = city.run("city.total", force=True)
    (task,) = city.w.read.snapshot().rows(TASKS, row.run_id)
    assert (row.state, task.attempt) == (RunState.SUCCEEDED, 2)
    assert city.read("city.total").rows_read == PARTITIONS


def test_list_that_stays_away_fails_the_task_in_words(
    city: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_nothing(
        store: Store, run_id: str, ref: InputRef, *, overwrite: bool = False
    ) -> InputRef:
        made = put_list(store, run_id, ref, overwrite=overwrite)
        if made.listed_in is not None:
            store.delete(made.listed_in.path)
        return made

    monkeypatch.setattr(requests, "put_list", put_nothing)
    row = city.run("city.half", partitions=("side=left",), force=True)
    (task,) = city.w.read.snapshot().rows(TASKS, row.run_id)
    assert (row.state, task.error_code) == (RunState.FAILED, "input.list")
    assert f"{PARTITIONS} versions of city.source" in task.error_message


# -- plans --------------------------------------------------------------------------------

START = date(2000, 1, 1)
DAILY = TimeDimension(name="date", every="day", start=START.isoformat())
HOURLY = TimeDimension(name="hour", every="hour", start=START.isoformat())
READER_ID, SOURCE_ID = ulid.encode(1), ulid.encode(2)


class Known:
    """So many days of the source exist."""

    def __init__(self, days: int) -> None:
        self._days = {
            f"date=d:{START + timedelta(days=n)}": CurrentVersion(
                materialization_id=ulid.encode(n << 60),
                path=f"data/s/source/{n}/{ulid.encode(n << 60)}",
                fingerprint="f",
            )
            for n in range(days)
        }

    def asset_id(self, key: str) -> str:
        return SOURCE_ID if key == "s.source" else READER_ID

    def current(self, asset_id: str) -> Mapping[str, CurrentVersion]:
        return self._days if asset_id == SOURCE_ID else {}

    def expect(self, asset_id: str, partitions: Iterable[str]) -> None:
        pass

    def pinned(self, asset_id: str, each: Input) -> Mapping[str, CurrentVersion]:
        return {}

    def held(self, asset_id: str) -> Mapping[str, str]:
        return {}

    def dynamic_keys(self, name: str) -> list[str]:
        return []


def make_plan(days: int, *selection: str, known: int = 0) -> tuple[Manifest, PlanSpec]:
    code = Code(module="s", name="x")
    window = Input(asset="s.source", parameter="x", mapping=Window(-99, 0))
    manifest = Manifest(
        assets=(
            Asset(key="s.source", code=code, partitions=(DAILY,), transform="a"),
            Asset(key="s.wide", code=code, partitions=(DAILY,), inputs=(window,), transform="b"),
            Asset(key="s.hours", code=code, partitions=(HOURLY,), transform="c"),
        )
    )
    last = START + timedelta(days=days - 1)
    dimensions = ("hour",) if selection == ("s.hours",) else ("date",)
    request = PlanRequest(
        selection=selection,
        partitions=tuple(f"{name}={START}..{last}" for name in dimensions),
        max_tasks=200_000,
    )
    until = datetime(2040, 1, 1)
    return manifest, plan(manifest, "0" * 64, request, Known(known), until=until)


def check_events(manifest: Manifest, spec: PlanSpec) -> int:
    """That a plan's slices fit, and say what the plan says; their bytes."""
    events = slices("r" * 26, spec, {asset.key: asset for asset in manifest.assets})
    sizes = [len(encode_payload(event)) for event in events]
    assert max(sizes) < MAX_EVENT_BYTES and sum(sizes) < MAX_BATCH_BYTES
    tasks = [task for event in events for task in tasks_of(event)]
    assert [task.task_id for task in tasks] == [task.task_id for task in spec.tasks]
    assert [task.deps for task in tasks] == [task.depends_on for task in spec.tasks]
    return sum(sizes)


def test_a_million_references_are_a_small_plan() -> None:
    manifest, spec = make_plan(10_000, "s.wide", known=10_000)
    assert sum(len(spec.versions_of(each)) for each in spec.inputs) == 995_050
    assert len(spec.versions["s.source"]) == 10_000
    assert len(msgspec.json.encode(spec)) < 6 << 20
    assert check_events(manifest, spec) < 1 << 20


def test_a_million_dependencies_are_one_batch() -> None:
    manifest, spec = make_plan(10_000, "s.source", "s.wide")
    assert sum(len(task.depends_on) for task in spec.tasks) == 995_050
    assert check_events(manifest, spec) < 1 << 20


def test_a_hundred_thousand_tasks_are_one_batch() -> None:
    manifest, spec = make_plan(4_200, "s.hours")
    assert len(spec.tasks) == 100_800
    assert check_events(manifest, spec) < 3 << 20


# -- requests -----------------------------------------------------------------------------

KEYS = 5_000
MANY = """
import pyarrow as pa
from servo import asset, dynamic

@asset(namespace="city", partitions=dynamic("shop", keys="shops"))
def sales() -> pa.Table:
    raise ValueError("closed")
"""


def test_a_request_of_many_partitions_is_in_the_plan_whole_and_in_the_row_in_part(
    tmp_path: Path,
) -> None:
    w = Workspace.open(f"file://{tmp_path}", "acme", "prod")
    deploy(w, MANY)
    names = [f"shop-{n:05}-{'x' * 200}" for n in range(KEYS)]
    w.commands.orchestration.change_partition_keys("shops", add=names)
    texts = tuple(f"shop={name}" for name in names)
    request = PlanRequest(selection=("city.sales",), partitions=texts)
    triggered = w.commands.orchestration.trigger(request)
    row = w.read.snapshot().get(RUNS, triggered.run_id)
    assert row is not None and triggered.tasks == KEYS
    assert len(row.partitions) <= ASKED and row.partitions_total == KEYS
    assert w.library.plan(row.plan_id).spec.request.partitions == texts
    w.commands.orchestration.cancel(triggered.run_id, force=True)
    w.commands.orchestration.finish_cancel(triggered.run_id)
    again = w.commands.orchestration.retry(triggered.run_id)
    assert (again.tasks, again.reused) == (KEYS, 0)


# -- wide outputs -------------------------------------------------------------------------

COLUMNS = 5_000
WIDE = f"""
import pyarrow as pa
from servo import AssetIn, AssetOut, asset, check, not_null

NAMES = [f"measure_{{n:05}}" for n in range({COLUMNS})]

@asset(namespace="city")
def wide() -> pa.Table:
    return pa.table({{name: [None, "a value", "z"] for name in NAMES}})

@asset(namespace="city", checks=[not_null(name) for name in NAMES[-10:]])
def copy(wide: AssetIn["city.wide"]) -> AssetOut:
    return AssetOut(wide.arrow(), {{f"m{{n:03}}": "x" * 400 for n in range(256)}})
"""


def test_a_wide_output_with_failing_checks_and_full_metadata_is_recorded(tmp_path: Path) -> None:
    w = Workspace.open(f"file://{tmp_path}", "acme", "prod")
    deploy(w, WIDE)
    with LocalEngine(w).running() as engine:
        row = engine.wait(w.commands.orchestration.trigger(PlanRequest(selection=("*",))).run_id)
    tasks = {task.asset_key: task for task in w.read.snapshot().rows(TASKS, row.run_id)}
    copy = tasks["city.copy"]
    assert tasks["city.wide"].state == TaskState.SUCCEEDED
    assert copy.error_code in ("checks.held", "checks.failed"), copy.error_message
    results = [
        each for each in w.read.snapshot().all(CHECK_RESULTS) if each.asset_id == copy.asset_id
    ]
    assert [each.status for each in results] == ["failed"] * 10
    assert all(each.sample and each.columns[0] in each.sample[0] for each in results)
    schemas = [each for each in w.read.snapshot().all(SCHEMAS) if each.asset_id == copy.asset_id]
    assert [len(msgspec.json.decode(each.columns)) for each in schemas] == [COLUMNS]


# -- what checks look up ------------------------------------------------------------------

LOOKED_UP = f"""
import pyarrow as pa
from servo import AssetContext, asset, references, static

KEYS = [f"k{{n:04}}" for n in range({PARTITIONS})]

@asset(namespace="city", partitions=static("key", KEYS))
def people(ctx: AssetContext) -> pa.Table:
    return pa.table({{"id": [ctx.partition_value("key")]}})

@asset(namespace="city", partitions=static("side", [f"s{{n}}" for n in range(12)]),
       checks=[references("person", "city.people.id")])
def visits() -> pa.Table:
    return pa.table({{"person": ["k0000", "k0100"]}})
"""


def test_tasks_that_look_into_the_same_many_versions_share_their_list(tmp_path: Path) -> None:
    w = Workspace.open(f"file://{tmp_path}", "acme", "prod")
    deploy(w, LOOKED_UP)
    with LocalEngine(w, slots=4).running() as engine:
        for selection in ("city.people", "city.visits"):
            run_id = w.commands.orchestration.trigger(PlanRequest(selection=(selection,))).run_id
            assert engine.wait(run_id).state == RunState.SUCCEEDED
    results = list(w.read.snapshot().all(CHECK_RESULTS))
    assert [each.status for each in results] == ["passed"] * 12
    assert [meta.path.split("/")[1] for meta in w.store.list(paths.INPUTS)] == [run_id]


LAST = """
import pyarrow as pa
from servo import accepted_values, asset, expression, in_range, matches, not_null
from servo import references, unique

@asset(namespace="city")
def people() -> pa.Table:
    return pa.table({"id": ["b"]})

@asset(namespace="city", deps=["city.people"], checks=[
    not_null("C399"), unique("c398", "c399"), accepted_values("c399", ["x"]), matches("c399", "z+"),
    references("c399", "city.people.id"), in_range("c398", min=5),
    expression("c399 = 'b' AND c397 > 3"),
])
def wide() -> pa.Table:
    columns = {f"c{n:03}": [1, 1, 1] for n in range(399)}
    return pa.table(columns | {"c399": ["a", "a", None]})
"""


def test_samples_of_a_wide_table_show_the_columns_that_the_check_looks_at(tmp_path: Path) -> None:
    w = Workspace.open(f"file://{tmp_path}", "acme", "prod")
    deploy(w, LAST)
    with LocalEngine(w).running() as engine:
        engine.wait(w.commands.orchestration.trigger(PlanRequest(selection=("*",))).run_id)
    results = w.read.snapshot().all(CHECK_RESULTS)
    assert {each.kind: each.status for each in results} == dict.fromkeys(
        (
            "not_null",
            "unique",
            "accepted_values",
            "matches",
            "references",
            "in_range",
            "expression",
        ),
        "failed",
    )
    for each in results:
        looked_at = [name.lower() for name in each.columns]
        assert each.sample, each.check_name
        assert list(msgspec.json.decode(each.sample[0]))[: len(looked_at)] == looked_at or (
            each.kind == "expression"
        )
