"""Tier 1: a command is decided once, and its writer is told, whoever committed it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetCreated, NamespaceCreated, NamespaceUpdated
from arco.catalog.fold import DIRECTORY
from arco.errors import Conflict, Corrupt, Refused, Unavailable
from arco.log.commit import Committed
from arco.state.fold import Change, Stage
from arco.state.snapshot import Generation
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.invariants import check_at_rest
from tests.kit.model import read_log, state_of
from tests.kit.workspace import make_workspace

SALES = NamespaceCreated(namespace="sales")


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.w = make_workspace(self.hooks, 1, clock=self.clock)
        self.other = make_workspace(self.memory, 2, clock=self.clock)

    def logged(self) -> list[str]:
        return [entry.id for entry in read_log(self.other)]


@pytest.fixture
def at() -> Setting:
    return Setting()


def test_writer_reads_its_own_write_at_the_generation_it_is_given(at: Setting) -> None:
    done = at.w.commands.tier1.execute(SALES)
    assert not done.replayed
    assert at.other.read.catalog(Generation(done.generation)).namespace("sales")


def test_same_key_and_same_request_is_answered_from_the_first(at: Setting) -> None:
    first = at.w.commands.tier1.execute(SALES, idempotency_key="k")
    second = at.other.commands.tier1.execute(SALES, idempotency_key="k")
    assert (second.event_id, second.replayed) == (first.event_id, True)
    assert len(at.logged()) == 1


def test_same_key_with_another_request_conflicts(at: Setting) -> None:
    at.w.commands.tier1.execute(SALES, idempotency_key="k")
    for other in (
        NamespaceCreated(namespace="ops"),
        NamespaceUpdated(namespace="sales", description="x"),
    ):
        with pytest.raises(Conflict, match="was used for another request") as caught:
            at.w.commands.tier1.execute(other, idempotency_key="k")
        assert not isinstance(caught.value, Refused)
    assert len(at.logged()) == 1


def test_command_that_cannot_succeed_is_refused_and_leaves_no_trace(at: Setting) -> None:
    at.w.commands.tier1.execute(SALES)
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            at.w.commands.tier1.execute(SALES, idempotency_key="k")
        assert caught.value.code == "namespace_exists"
    assert len(at.logged()) == 1


def test_refusal_of_a_lost_race_is_replayed(at: Setting) -> None:
    at.hooks.before("put", paths.INBOX, lambda: at.other.commands.tier1.execute(SALES))
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            at.w.commands.tier1.execute(SALES, idempotency_key="k")
        assert caught.value.code == "namespace_exists"
    assert len(at.logged()) == 2


def test_same_key_at_the_same_time_is_decided_once(at: Setting) -> None:
    """Both look before either has appended; the second is not admitted."""
    at.hooks.before(
        "put", paths.INBOX, lambda: at.other.commands.tier1.execute(SALES, idempotency_key="k")
    )
    done = at.w.commands.tier1.execute(SALES, idempotency_key="k")
    assert done.replayed
    assert len(at.logged()) == 2
    assert len(state_of(at.w)["catalog.namespaces"]) == 1


def test_same_key_at_the_same_time_with_another_request_conflicts(at: Setting) -> None:
    at.hooks.before(
        "put",
        paths.INBOX,
        lambda: at.other.commands.tier1.execute(
            NamespaceCreated(namespace="ops"), idempotency_key="k"
        ),
    )
    with pytest.raises(Conflict, match="another request"):
        at.w.commands.tier1.execute(SALES, idempotency_key="k")
    assert set(state_of(at.w)["catalog.namespaces"]) == {("ops",)}


def test_command_that_somebody_else_committed_is_answered_all_the_same(at: Setting) -> None:
    def somebody() -> None:
        assert isinstance(at.other.committer.commit(), Committed)

    at.hooks.after("put", paths.INBOX, somebody)
    assert at.w.commands.tier1.execute(SALES).generation == 1


def test_time_out_of_the_commit_is_unknown_and_the_key_finds_out(at: Setting) -> None:
    def lost_and_then_dark() -> None:
        at.hooks.fail("put", paths.root(1), times=4)
        at.hooks.fail("get", paths.root(1), times=5)
        raise Unavailable("injected")

    at.hooks.after("put", paths.root(1), lost_and_then_dark)
    with pytest.raises(Unavailable):
        at.w.commands.tier1.execute(SALES, idempotency_key="k")
    done = at.w.commands.tier1.execute(SALES, idempotency_key="k")
    assert done.replayed and len(at.logged()) == 1


def test_transient_failure_records_nothing_under_the_key(at: Setting) -> None:
    at.hooks.fail("put", paths.INBOX, times=9)
    with pytest.raises(Unavailable):
        at.w.commands.tier1.execute(SALES, idempotency_key="k")
    at.hooks.clear()
    done = at.w.commands.tier1.execute(SALES, idempotency_key="k")
    assert not done.replayed
    check_at_rest(at.other, [done.event_id])


def broken(w: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with a defect in the fold of names."""

    def defect(*_: object) -> Iterator[Change]:
        raise RuntimeError("a defect")

    on = [handler._replace(fold=defect) for handler in DIRECTORY.on.values()]
    defective = Stage(DIRECTORY.name, DIRECTORY.tables, on)
    stages = [defective if stage.name == DIRECTORY.name else stage for stage in w.chain.stages]
    monkeypatch.setattr(w.chain, "stages", tuple(stages))


def test_command_that_cannot_be_folded_is_refused_and_leaves_no_trace(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(at.w, monkeypatch)
    with pytest.raises(Refused, match=r"'directory' failed .* RuntimeError") as refused:
        at.w.commands.tier1.execute(SALES)
    assert refused.value.code == "cannot_be_folded"
    assert at.logged() == []
    assert list(at.memory.list(paths.INBOX)) == []
    at.other.commands.tier1.execute(SALES)


def test_command_that_a_defect_elsewhere_left_undecided_is_reported_not_acknowledged(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(at.other, monkeypatch)
    at.hooks.after("put", paths.INBOX, at.other.committer.commit)
    with pytest.raises(Corrupt, match="without an outcome"):
        at.w.commands.tier1.execute(SALES)
    skipped = at.w.read.snapshot().head.manifest.skipped
    assert list(skipped.values()) == [1] and "a defect" in next(iter(skipped))


def test_a_new_key_is_not_looked_for_in_history(at: Setting) -> None:
    for day in range(20):
        at.w.commands.tier1.execute(
            NamespaceCreated(namespace=f"n{day}"), idempotency_key=f"key {day}"
        )
        at.clock.advance(timedelta(days=1))
        at.w.upkeep.merger.merge(everything=True)
    store = HookStore(at.memory)
    fresh = make_workspace(store, 3, clock=at.clock)
    fresh.commands.tier1.execute(SALES, idempotency_key="key 9a")
    fresh.commands.tier1.execute(NamespaceCreated(namespace="ops"), idempotency_key="key 3")
    tables = ("state/log/commands/history/", "state/log/outcomes/history/")
    assert len([meta for table in tables for meta in at.memory.list(table)]) > 20
    assert [path for _, path in store.calls if path.startswith(tables)] == []


def race(crew: list[Workspace], payload: NamespaceCreated | AssetCreated) -> list[str]:
    answers: list[str] = []
    barrier = threading.Barrier(len(crew))

    def go(w: Workspace) -> None:
        barrier.wait()
        try:
            w.commands.tier1.execute(payload)
            answers.append("applied")
        except Refused as refused:
            answers.append(refused.code)

    threads = [threading.Thread(target=go, args=(w,)) for w in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


def test_of_many_who_race_for_a_name_exactly_one_wins() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    crew = [make_workspace(store, seed, clock=clock) for seed in range(6)]
    assert race(crew, SALES) == ["applied"] + ["namespace_exists"] * 5
    for n in range(3):
        wanted = AssetCreated(namespace="sales", name=f"a{n}")
        assert race(crew, wanted) == ["applied"] + ["name_taken"] * 5
    names = [row.name for row in crew[0].read.catalog().assets("sales")]
    assert names == ["a0", "a1", "a2"]


def test_callers_of_one_process_share_commits() -> None:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), 1, clock=clock)
    w.commands.tier1.execute(SALES)
    threads = [
        threading.Thread(
            target=lambda n=n: w.commands.tier1.execute(
                AssetCreated(namespace="sales", name=f"a{n}")
            )
        )
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.read.catalog().namespace("sales").assets == 12
    assert w.read.snapshot().generation <= 13
