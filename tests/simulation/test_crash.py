"""Die at every single store call, before and after its effect; then start again.

For each operation: run it once to the end, watching it between any two calls
through readers of other processes. Then run it again and again on copies of the
same store, dying at call 1, 2, 3, ...; and after each death let a fresh process
do the rest. Whatever was acknowledged must be there once, nothing may be there
twice, and fsck must find nothing.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple, TypeVar

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, Column, NamespaceCreated
from arco.errors import Error
from arco.log.commit import Committed
from arco.log.envelope import decode_batch
from arco.state.gc import LEASE_TTL
from arco.state.rewrite import Rewriter
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from tests.kit.clocks import SimClock
from tests.kit.depth import DEEP, sampled
from tests.kit.faulty import CHANGING, Crash, CrashStore, StoreWrapper
from tests.kit.histories import History, random_draw
from tests.kit.hooks import HookStore
from tests.kit.invariants import check_at_rest, check_snapshot
from tests.kit.keeping import keeping
from tests.kit.model import read_log
from tests.kit.workspace import clone, make_workspace, sabotage, to_events

T = TypeVar("T")
RETENTION = keeping(generations=timedelta(days=1), at_least=2)


class World:
    """A workspace with some history, and work waiting in its inbox."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        hooks = HookStore(self.store)
        w = make_workspace(hooks, 1, clock=self.clock)
        w.commands.catalog.create_namespace("first")
        w.commands.catalog.create_asset("first.one", columns=[Column(name="c", type="int")])
        self._write(w, 10)
        self.clock.advance(timedelta(days=3))
        w.upkeep.merger.merge(everything=True)
        self._write(w, 6)
        # Two deletes failed: their batches are leftovers. Two more batches wait.
        hooks.fail("delete", paths.INBOX, times=2)
        self._write(w, 3)
        w.ledger.append([NamespaceCreated(namespace="waiting")])
        w.store.put(paths.inbox("0-malformed"), b"?")
        self.acknowledged = [entry.id for entry in read_log(w)] + self._waiting(w)

    def _write(self, w: Workspace, steps: int) -> None:
        rng = random.Random(steps)
        made = History(w.ids)
        for _ in range(steps):
            w.ledger.append(to_events(w, [made.step(random_draw(rng))], w.ids))
            if rng.random() < 0.3:
                self.clock.advance(timedelta(minutes=rng.randrange(90)))
                w.committer.commit()
        w.committer.commit()

    def _waiting(self, w: Workspace) -> list[str]:
        head = w.manifests.head().manifest
        found: list[str] = []
        for meta in w.store.list(paths.INBOX):
            name = paths.inbox_name(meta.path)
            if name not in head.pending_cleanup and name != "0-malformed":
                batch = decode_batch(
                    w.store.get(meta.path).data, w.tenant, w.name, paths.inbox_name(meta.path)
                )
                found += [event.id for event in batch.events]
        return found

    def copy(self) -> tuple[SimClock, MemoryStore]:
        clock = copy.copy(self.clock)
        return clock, clone(self.store, clock)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


class Told(NamedTuple):
    """What the operation was told was done, and what it tried."""

    acknowledged: list[str]
    attempted: list[str]


Operation = Callable[[Workspace, Told], None]


def append(w: Workspace, told: Told) -> None:
    for n in range(3):
        events = [w.ledger.event(NamespaceCreated(namespace=f"n{n}_{i}")) for i in range(2)]
        told.attempted.extend(event.id for event in events)
        told.acknowledged.extend(w.ledger.append(events).event_ids)


def commit(w: Workspace, told: Told) -> None:
    w.committer.commit()


def merge_everything(w: Workspace, told: Told) -> None:
    assert w.upkeep.merger.merge(everything=True) is not None


def merge_into_runs(w: Workspace, told: Told) -> None:
    s = w.read.snapshot()
    swaps = [
        Rewriter(w.core).into_run(table, s.manifest(table).l0)
        for table in w.tables
        if len(s.manifest(table).l0) > 1
    ]
    assert w.upkeep.merger.publish(swaps) is not None


def tier1(w: Workspace, told: Told) -> None:
    for n in range(2):
        payload = NamespaceCreated(namespace=f"tier_one_{n}")
        done = w.commands.tier1.execute(payload, idempotency_key=f"once-{n}")
        told.acknowledged.append(done.event_id)
        assert w.read.catalog().namespace(f"tier_one_{n}")


def long_story(w: Workspace, told: Told) -> None:
    told.acknowledged.extend(w.ledger.append([NamespaceCreated(namespace="loose")]).event_ids)
    made = w.commands.catalog.create_namespace("last")
    told.acknowledged.append(made.event_id)
    done = w.commands.catalog.create_asset("last.one", columns=[Column(name="c", type="int")])
    told.acknowledged.append(done.event_id)
    observed = w.ledger.append([AssetObserved(asset_id=done.event_id, row_count=1, size_bytes=1)])
    told.acknowledged.extend(observed.event_ids)


def collect(w: Workspace, told: Told) -> None:
    clock = w.clock
    assert isinstance(clock, SimClock)
    clock.advance(timedelta(days=9))
    w.committer.commit()
    clock.advance(timedelta(days=2))
    report = w.upkeep.gc(RETENTION, dry_run=False)
    assert report.deletable and not report.failed


def rebuild(w: Workspace, told: Told) -> None:
    assert w.upkeep.rebuild(publish=True).published is not None


def roll_back(w: Workspace, told: Told) -> None:
    w.upkeep.rollback(w.read.snapshot().generation - 3, reason="test")


def die_everywhere(
    world: World,
    operation: Operation,
    check: Callable[[MemoryStore, SimClock, Told], None],
    prepare: Callable[[Workspace], None] = lambda w: None,
) -> int:
    """Returns how many calls there were to die at.

    A call that only reads leaves the store as the call before it did. So to die there is to
    die after the last change, or before the next: that is tried only in `make test-deep`.
    `make test` tries one change in four.
    """
    checked: set[object] = set()

    def die(at: int, after_effect: bool) -> CrashStore:
        clock, store = world.copy()
        prepare(make_workspace(store, 500, clock=clock))
        told = Told([], [])
        crashing = CrashStore(store, at, after_effect)
        with contextlib.suppress(Crash):
            operation(make_workspace(crashing, 600, clock=clock), told)
        state = (frozenset(store.objects.items()), tuple(told.acknowledged))
        if state not in checked:
            checked.add(state)
            with noted(crashing, at, after_effect):
                check(store, clock, told)
        return crashing

    calls = die(10**9, False).calls
    every = range(1, len(calls) + 1)
    changing = [at for at in every if calls[at - 1][0] in CHANGING]
    for at in every if DEEP else sampled(changing, 4):
        for after_effect in (False, True):
            die(at, after_effect)
    return len(calls)


@contextlib.contextmanager
def noted(crashing: CrashStore, at: int, after_effect: bool) -> Iterator[None]:
    try:
        yield
    except BaseException as failure:
        where = "after" if after_effect else "before"
        failure.add_note(f"died {where} call {at}: {crashing.calls[:at][-1]}")
        raise


class Watched(StoreWrapper):
    """Looks at the workspace through other processes' eyes after every change."""

    def __init__(self, inner: Store, look: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._look = look

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        result = act()
        if op in ("put", "delete"):
            self._look(f"{op} {path}")
        return result


def watch(
    world: World, operation: Operation, prepare: Callable[[Workspace], None] = lambda w: None
) -> None:
    clock, store = world.copy()
    prepare(make_workspace(store, 500, clock=clock))
    seen = make_workspace(store, 800, clock=clock).read.snapshot()

    def look(where: str) -> None:
        nonlocal seen
        try:
            fresh = make_workspace(store, 801, clock=clock).read.snapshot()
            check_snapshot(fresh)
            refreshed = seen.refresh()
            assert refreshed.generation == fresh.generation >= seen.generation
            if refreshed.generation > seen.generation:
                check_snapshot(refreshed)
            seen = refreshed
        except (AssertionError, Error) as failure:
            failure.add_note(f"seen after {where}")
            raise

    operation(make_workspace(Watched(store, look), 600, clock=clock), Told([], []))


OPERATIONS: list[Operation] = [append, commit, merge_everything, merge_into_runs]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.__name__)
def test_death_at_any_call_loses_nothing_and_doubles_nothing(
    world: World, operation: Operation
) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        check_at_rest(w, [*world.acknowledged, *told.acknowledged], told.attempted)
        # And the workspace is alive: the next command goes through.
        w.commands.catalog.create_namespace("afterwards")

    assert die_everywhere(world, operation, check) >= 3


def test_death_of_a_client_leaves_its_commands_done_or_not_done(world: World) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        # The client comes back with the same keys, and gets the same answers.
        again = Told([], [])
        tier1(w, again)
        assert again.acknowledged[: len(told.acknowledged)] == told.acknowledged
        logged = [entry.id for entry in read_log(w)]
        check_at_rest(w, [*world.acknowledged, *again.acknowledged], logged)

    assert die_everywhere(world, tier1, check) >= 10


def test_death_in_a_long_story_leaves_what_was_acknowledged(world: World) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        while isinstance(w.committer.commit(), Committed):
            pass
        logged = [entry.id for entry in read_log(w)]
        check_at_rest(w, [*world.acknowledged, *told.acknowledged], logged)

    assert die_everywhere(world, long_story, check) >= 30


def test_death_of_gc_leaves_everything_that_is_kept(world: World) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        check_at_rest(w, world.acknowledged)
        clock.advance(LEASE_TTL)  # the dead one's lease ends
        assert not w.upkeep.gc(RETENTION, dry_run=False).failed
        assert w.upkeep.fsck().clean

    assert die_everywhere(world, collect, check) >= 50


def test_death_of_a_rebuild_leaves_the_state_as_it_was_or_mended(world: World) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        assert w.upkeep.fsck().clean
        clock.advance(w.manifests.age_gate / 10)  # the dead one's lease ends
        mended = w.read.snapshot().head.manifest.kind == "rebuild"
        assert w.upkeep.rebuild(publish=True).same == mended
        check_at_rest(w, world.acknowledged)

    assert die_everywhere(world, rebuild, check, sabotage) >= 20


def test_death_of_a_rollback_leaves_it_done_or_not_done(world: World) -> None:
    def check(store: MemoryStore, clock: SimClock, told: Told) -> None:
        w = make_workspace(store, 7_000, clock=clock)
        assert w.upkeep.fsck().clean
        check_snapshot(w.read.snapshot())
        w.committer.commit()
        assert w.upkeep.rebuild(publish=False).same

    assert die_everywhere(world, roll_back, check) >= 10


@pytest.mark.parametrize(
    "operation", [*OPERATIONS, tier1, long_story, collect, roll_back], ids=lambda o: o.__name__
)
def test_no_reader_ever_sees_half_of_it(world: World, operation: Operation) -> None:
    watch(world, operation)
