"""Backup, restore and GC of what runs leave beside the log and the state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.errors import Corrupt, Error
from arco.orchestration.plan import PlanRequest
from arco.state import backup as backup_module
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from tests.kit.clocks import SimClock
from tests.kit.flows import deploy, trigger
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.model import state_of
from tests.kit.workspace import corrupt, make_workspace

DAY = timedelta(days=1)
EVERYTHING = PlanRequest(selection=("*",))

PROJECT = """
import pyarrow as pa
from servo import AssetIn, asset

@asset(namespace="flow")
def numbers() -> pa.Table:
    print("counting")
    return pa.table({"n": [1, 2, 3]})

@asset(namespace="flow")
def doubled(numbers: AssetIn["flow.numbers"]) -> pa.Table:
    return pa.table({"n": [4, 5]})
"""


def names(store: Store, *prefixes: str) -> dict[str, int]:
    return {meta.path: meta.size for p in prefixes for meta in store.list(p)}


def opened(folder: Path) -> Workspace:
    return Workspace.open(f"file://{folder}", "acme", "prod")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace in which a project was deployed, and all of it has run."""
    w = opened(tmp_path_factory.mktemp("ran"))
    deploy(w, PROJECT)
    with LocalEngine(w, slots=2).running() as engine:
        triggered = w.commands.orchestration.trigger(EVERYTHING)
        assert engine.wait(triggered.run_id).state == "SUCCEEDED"
    w.store.put("queue/ready/5000-left.json", b"{}")
    w.store.put(paths.liveness("gone"), b"{}", Mode.OVERWRITE)
    yield w


# Backup


def test_what_was_restored_plans_and_has_its_data(ran: Workspace, tmp_path: Path) -> None:
    backup, target = opened(tmp_path / "backup"), opened(tmp_path / "target")
    ran.upkeep.backup(backup.store, data=True)
    target.upkeep.restore(backup.store)
    spec = target.commands.orchestration.plan(EVERYTHING)
    assert [(t.asset, t.action) for t in spec.tasks] == [
        ("flow.numbers", "reuse"),
        ("flow.doubled", "reuse"),
    ]
    copied = names(target.store, "data/", "commits/", "artifacts/", "plans/")
    assert copied == names(ran.store, "data/", "commits/", "artifacts/", "plans/")
    parquet = [path for path in copied if path.endswith(".parquet")]
    assert len(parquet) == 2
    for path in copied:
        assert target.store.get(path).data == ran.store.get(path).data
    assert state_of(target) == state_of(ran)


def test_what_was_restored_runs_again(ran: Workspace, tmp_path: Path) -> None:
    backup, target = opened(tmp_path / "backup"), opened(tmp_path / "target")
    ran.upkeep.backup(backup.store, data=True)
    target.upkeep.restore(backup.store)
    with LocalEngine(target, slots=2).running() as engine:
        request = PlanRequest(selection=("flow.doubled",), force=True)
        triggered = target.commands.orchestration.trigger(request)
        assert engine.wait(triggered.run_id).state == "SUCCEEDED"
    assert len([p for p in names(target.store, "data/") if p.endswith(".parquet")]) == 3


def test_data_is_copied_only_if_asked_for_and_a_later_backup_adds_it(
    ran: Workspace, tmp_path: Path
) -> None:
    backup = opened(tmp_path / "backup").store
    ran.upkeep.backup(backup)
    assert names(backup, "data/", "commits/") == {}
    assert names(backup, "artifacts/", "plans/") == names(ran.store, "artifacts/", "plans/")
    data = names(ran.store, "data/", "commits/")
    report = ran.upkeep.backup(backup, data=True)
    assert (report.copied, report.copied_bytes) == (len(data), sum(data.values()))
    assert names(backup, "data/", "commits/") == data
    assert ran.upkeep.backup(backup, data=True).copied == 0


def test_secrets_logs_and_what_is_about_running_processes_are_never_copied(
    ran: Workspace, tmp_path: Path
) -> None:
    never = ("keys/", "queue/", "liveness/", "leases/", "logs/")
    assert {path.partition("/")[0] for path in names(ran.store, *never)} >= {
        "keys",
        "queue",
        "liveness",
        "logs",
    }
    backup, target = opened(tmp_path / "backup"), opened(tmp_path / "target")
    ran.upkeep.backup(backup.store, data=True)
    for prefix in never:  # nor are they restored, should somebody put them there
        backup.store.put(f"{prefix}x.json", b"{}")
    target.upkeep.restore(backup.store)
    assert names(target.store, *never) == {}


class Deployed:
    """A project is deployed, and a run of it planned, on stores in memory."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.w = make_workspace(self.memory, 1, clock=self.clock)
        deploy(self.w, PROJECT)
        trigger(self.w, "*")
        self.memory.put("data/flow/numbers/_/x/0.parquet", b"rows")

    def fresh(self, store: Store, seed: int) -> Workspace:
        return make_workspace(store, seed, clock=self.clock)


@pytest.fixture
def at() -> Deployed:
    return Deployed()


@pytest.mark.parametrize("prefix", ["artifacts/", "plans/", "data/"])
def test_nothing_is_published_before_all_that_it_refers_to_is_there(
    at: Deployed, prefix: str
) -> None:
    backup, target = MemoryStore(at.clock), MemoryStore(at.clock)
    failing = HookStore(backup)
    failing.fail("put", prefix, times=5)
    with pytest.raises(Error):
        at.w.upkeep.backup(failing, data=True)
    assert at.fresh(backup, 5).manifests.head().generation == 0
    at.w.upkeep.backup(failing, data=True)

    failing = HookStore(target)
    failing.fail("put", prefix, times=5)
    with pytest.raises(Error):
        at.fresh(failing, 6).upkeep.restore(backup)
    assert at.fresh(target, 7).manifests.head().generation == 0
    restored = at.fresh(target, 8)
    restored.upkeep.restore(backup)
    assert state_of(restored) == state_of(at.fresh(at.memory, 9))
    assert names(target, prefix) == names(at.memory, prefix) != {}


def test_file_of_another_size_is_copied_again(at: Deployed) -> None:
    backup = MemoryStore(at.clock)
    at.w.upkeep.backup(backup)
    path = next(iter(names(backup, "plans/")))
    backup.put(path, b"half", Mode.OVERWRITE)
    assert at.w.upkeep.backup(backup).copied == 1
    assert backup.get(path).data == at.memory.get(path).data


def test_backup_of_a_damaged_artifact_fails_and_names_it(at: Deployed) -> None:
    path = next(path for path in names(at.memory, "artifacts/") if path.endswith(".zip"))
    corrupt(at.memory, path, b"?")
    with pytest.raises(Corrupt, match=path):
        at.w.upkeep.backup(MemoryStore(at.clock))


def test_progress_counts_every_byte_also_where_batches_are_cut_by_size(
    at: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "BATCH_BYTES", 3_000)
    seen: list[tuple[int, int]] = []
    report = at.w.upkeep.backup(
        MemoryStore(at.clock), data=True, progress=lambda _, done, total: seen.append((done, total))
    )
    assert len(seen) > 1 and seen == sorted(seen)
    assert seen[-1] == (report.copied_bytes, report.copied_bytes)


# GC


def test_gc_removes_records_of_workers_that_are_gone(at: Deployed) -> None:
    at.memory.put(paths.liveness("gone"), b"{}", Mode.OVERWRITE)
    at.memory.put(paths.liveness("alive"), b"{}", Mode.OVERWRITE)
    at.clock.advance(timedelta(hours=25))
    at.memory.put(paths.liveness("alive"), b"{ }", Mode.OVERWRITE)
    dry = at.w.upkeep.gc()
    assert [(d.path, d.why) for d in dry.deletable] == [(paths.liveness("gone"), "worker record")]
    assert len(names(at.memory, paths.LIVENESS)) == 2
    assert at.w.upkeep.gc(dry_run=False).deletable == dry.deletable
    assert list(names(at.memory, paths.LIVENESS)) == [paths.liveness("alive")]


def test_gc_removes_from_the_queue_what_nobody_touched_for_a_week(at: Deployed) -> None:
    left = ["queue/ready/5000-left.json", "queue/claims/5000-left.000001.json"]
    alone = "queue/claims/5000-alone.000002.json"
    held = ["queue/ready/5000-held.json", "queue/claims/5000-held.000001.json"]
    for path in (*left, alone, *held):
        at.memory.put(path, b"{}")
    at.clock.advance(6 * DAY)
    at.memory.put("queue/claims/5000-held.000002.json", b"{}")
    assert at.w.upkeep.gc().deletable == []
    at.clock.advance(2 * DAY)
    at.memory.put("queue/ready/5000-new.json", b"{}")
    report = at.w.upkeep.gc(keeping(generations=30 * DAY), dry_run=False)
    assert {d.path for d in report.deletable} == {*left, alone}
    assert {d.why for d in report.deletable} == {"queue leftover"}
    assert set(names(at.memory, paths.QUEUE)) == {
        *held,
        "queue/claims/5000-held.000002.json",
        "queue/ready/5000-new.json",
    }


def test_gc_goes_on_past_leftovers_that_cannot_be_deleted(at: Deployed) -> None:
    at.memory.put(paths.liveness("gone"), b"{}", Mode.OVERWRITE)
    at.memory.put("queue/ready/5000-a.json", b"{}")
    at.memory.put("queue/ready/5000-b.json", b"{}")
    at.clock.advance(8 * DAY)
    hooks = HookStore(at.memory)
    hooks.fail("delete", paths.LIVENESS)
    hooks.fail("delete", "queue/ready/5000-a")
    report = at.fresh(hooks, 3).upkeep.gc(keeping(generations=30 * DAY), dry_run=False)
    assert (len(report.deletable), report.failed, report.bytes) == (3, 2, 6)
    assert len(names(at.memory, paths.LIVENESS, paths.QUEUE)) == 2
    again = at.fresh(hooks, 4).upkeep.gc(keeping(generations=30 * DAY), dry_run=False)
    assert (len(again.deletable), again.failed) == (2, 0)
    assert names(at.memory, paths.LIVENESS, paths.QUEUE) == {}


def test_gc_leaves_data_logs_plans_and_artifacts_alone(at: Deployed) -> None:
    at.memory.put(paths.log_part(paths.attempt_log("r", "t", 1, "n"), 0), b"printed")
    before = names(at.memory, "data/", "logs/", "plans/", "artifacts/", "keys/")
    at.clock.advance(400 * DAY)
    at.w.upkeep.gc(
        keeping(generations=timedelta(0), at_least=1),
        dry_run=False,
    )
    assert names(at.memory, "data/", "logs/", "plans/", "artifacts/", "keys/") == before
