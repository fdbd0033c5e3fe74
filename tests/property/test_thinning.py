"""Whatever happens in whatever order, each generation that is kept reads as it did."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from arco.app import Workspace
from arco.errors import NotFound
from arco.log.head import KeptGenerations
from arco.state import gc, join_segments
from arco.state.gc import GenerationRetention
from arco.state.replay import segments
from arco.state.snapshot import AsOf, Generation, Snapshot
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled, seeds
from tests.kit.model import check_against_model, read_log
from tests.kit.workspace import make_workspace

HOUR = timedelta(hours=1)
RETENTION = GenerationRetention(generations=HOUR, hourly=6 * HOUR, daily=80 * HOUR, at_least=2)
STEPS = scaled(30, 80)

State = dict[str, object]


class Story:
    """A workspace to which things happen, and what each of its generations showed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.seed = seed
        self.opened = 0
        self.w = self.open()
        self.assets = 0
        self.pins = 0
        self.shown: dict[int, State] = {}
        self.w.commands.catalog.create_namespace("sales")
        self.note()

    def open(self) -> Workspace:
        self.opened += 1
        number = 1_000 * self.seed + self.opened
        return make_workspace(self.memory, number, clock=self.clock, age_gate=HOUR)

    def note(self) -> None:
        snapshot = self.open().read.snapshot()
        self.shown[snapshot.generation] = self.state(snapshot)

    def state(self, snapshot: Snapshot) -> State:
        tables: State = {
            str(table): snapshot.scan(table).select([*table.columns, "row_version"]).to_pylist()
            for table in self.w.tables
            if table.domain == "catalog"
        }
        # Segments may be joined; the events in them stay.
        tables["log"] = [e.id for e in read_log(self.w, snapshot)]
        return tables

    def step(self) -> None:
        match self.rng.randrange(14):
            case 0 | 1 | 2 | 3:
                self.assets += 1
                self.w.commands.catalog.create_asset(f"sales.a{self.assets}")
            case 4 | 5:
                if self.assets:
                    name = f"sales.a{self.rng.randint(1, self.assets)}"
                    try:
                        self.w.commands.catalog.update_asset(
                            name, description=str(self.rng.random())
                        )
                    except NotFound:
                        return  # rolled back
            case 6:
                self.w.upkeep.merger.merge(everything=True)
            case 7:
                self.w.upkeep.merger.merge()
            case 8:
                self.clock.advance(self.rng.choice([HOUR / 6, HOUR, 5 * HOUR, 30 * HOUR]))
                return
            case 9 | 10:
                self.w.upkeep.gc(RETENTION, dry_run=False)
                self.check()
                return
            case 11:
                self.roll_back()
            case 12:
                self.pins += 1
                self.w.upkeep.pins.pin(f"p{self.pins % 3}", self.some_generation(), "a test")
                return
            case _:
                self.w = self.open()
                return
        self.note()

    def some_generation(self) -> int:
        kept = KeptGenerations(self.w.manifests.floor(), self.w.manifests.head().generation)
        return int(kept[self.rng.randrange(len(kept))])

    def roll_back(self) -> None:
        target = self.some_generation()
        if target < self.w.manifests.head().generation:
            self.w.upkeep.rollback(target, reason="a test")

    def check(self) -> None:
        """Some of the kept and pinned generations read as they did when they were published."""
        w = self.open()
        kept = KeptGenerations(w.manifests.floor(), w.manifests.head().generation)
        numbers = {*kept, *(pin.generation for pin in w.upkeep.pins.active())}
        for number in self.rng.sample(sorted(numbers), min(6, len(numbers))):
            snapshot = w.read.snapshot(Generation(number))
            if number in self.shown:
                assert self.state(snapshot) == self.shown[number], number
        assert [f for f in w.upkeep.fsck().findings if f.severity == "error"] == []


@pytest.mark.parametrize("seed", seeds(2, 30))
def test_kept_generations_read_as_they_did(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "FEW", seed % 3)  # else all generations are read
    monkeypatch.setattr(join_segments, "FEW", 1)
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
    story.clock.advance(100 * HOUR)
    story.w.upkeep.gc(RETENTION, dry_run=False)
    story.check()
    assert story.open().upkeep.rebuild(publish=False).same


def test_thinned_generations_are_the_last_of_their_hours_and_days() -> None:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), clock=clock)
    w.commands.catalog.create_namespace("sales")
    published = {}
    count = scaled(100, 300)
    for n in range(count):  # over five days
        w.commands.catalog.create_asset(f"sales.a{n}")
        clock.advance(timedelta(days=5) / count)
        head = w.manifests.head()
        published[head.generation] = head.manifest.published_at
        if n % 50 == 49:
            w.upkeep.gc(dry_run=False)
    report = w.upkeep.gc(dry_run=False)
    kept = w.manifests.floor()
    hours = {at.replace(minute=0): g for g, at in published.items() if g < kept.generation}
    days = {at.date(): g for g, at in published.items() if g < kept.generation}
    now = clock.now()
    expected = {g for g in hours.values() if now - published[g] <= timedelta(days=3)}
    expected |= {g for g in days.values() if now - published[g] > timedelta(days=3)}
    assert set(kept.thinned_numbers()) == expected
    assert report.kept_generations == len(kept.thinned) + count + 1 - kept.generation + 1
    assert {paths.root_generation(m.path) for m in w.store.list(paths.MANIFESTS)} >= expected


def test_a_time_between_kept_generations_is_answered_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SimClock()
    w = make_workspace(MemoryStore(clock), clock=clock)
    w.commands.catalog.create_namespace("sales")
    for n in range(40):
        w.commands.catalog.create_asset(f"sales.a{n}")
        clock.advance(timedelta(minutes=10))
    between = clock.now() - timedelta(hours=2, minutes=25)
    clock.advance(timedelta(days=2))
    w.commands.catalog.create_asset("sales.last")
    for n in range(10):
        w.commands.catalog.create_asset(f"sales.b{n}")
    w.upkeep.gc(dry_run=False)
    snapshot = w.read.snapshot(AsOf(between))
    assert snapshot.published_at <= between
    assert snapshot.generation in w.manifests.floor().thinned_numbers()
    assert "was collected" in caplog.text
    w.upkeep.pins.pin("old", snapshot.generation, "for a reader")
    head = w.upkeep.rollback(snapshot.generation, reason="a test")
    assert w.read.snapshot().generation == head.generation
    gone = next(g for g in range(1, snapshot.generation) if w.manifests.find(g) is None)
    with pytest.raises(NotFound, match="was collected"):
        w.upkeep.pins.pin("gone", gone, "too late")


def test_segments_of_old_days_are_joined_and_the_log_reads_the_same() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    w = make_workspace(memory, clock=clock)
    w.commands.catalog.create_namespace("sales")
    for day in range(scaled(4, 6)):
        for n in range(12):
            w.commands.catalog.create_asset(f"sales.d{day}_{n}")
            clock.advance(timedelta(hours=2))
            w.upkeep.merger.merge()
        while w.upkeep.merger.merge() is not None:
            pass
    before = [event.id for event in read_log(w, w.read.snapshot())]
    rows = segments(w.read.snapshot())
    assert len(rows) < scaled(32, 40) and any(row.joined_at is not None for row in rows)
    clock.advance(timedelta(days=40))
    w.commands.catalog.create_asset("sales.last")
    deletable = {d.why for d in w.upkeep.gc(dry_run=False).deletable}
    assert "joined segment" in deletable
    again = make_workspace(memory, 9, clock=clock)
    assert [event.id for event in read_log(again, again.read.snapshot())][:-1] == before
    assert again.upkeep.fsck().clean
    assert again.upkeep.rebuild(publish=False).same
    check_against_model(again)
