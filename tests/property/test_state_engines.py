"""One fold, two engines: Spark gives, row for row, what the embedded engine gives."""

from __future__ import annotations

import os
import random
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from arco.app import Workspace, chain
from arco.clock import SystemClock
from arco.execution.tables import PARTITIONS
from arco.orchestration.tables import TASKS
from arco.storage import paths
from arco.storage.local import LocalStore
from arco.storage.scoped import ScopedStore
from tests.kit.clocks import SimClock
from tests.kit.depth import deep_only, seeds
from tests.kit.histories import History, random_draw
from tests.kit.model import check_against_model, state_of
from tests.kit.runs import ANYTHING, Node, World
from tests.kit.spark_task import spark_session
from tests.kit.stores import DatedStore
from tests.kit.workspace import NAME, TENANT, make_workspace, sabotage, to_events

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session() -> Any:
    return spark_session(shuffle_partitions="4")


class Story:
    """A seeded history on a local disk, over several days, with merges in between."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.clock = SimClock()
        self.rng = random.Random(seed)
        store = DatedStore(ScopedStore(LocalStore(folder), TENANT, NAME), self.clock)
        self.w: Workspace = make_workspace(store, seed, clock=self.clock)
        self.history = History(self.w.ids)

    def go_on(self, commits: int) -> None:
        for _ in range(commits):
            steps = [self.history.step(random_draw(self.rng)) for _ in range(12)]
            for step in steps:
                self.w.ledger.append(to_events(self.w, [step], self.w.ids))
            self._received_now()
            self.w.committer.commit()
            self.clock.advance(timedelta(hours=self.rng.randrange(20)))
            if self.rng.random() < 0.3:
                self.w.upkeep.merger.merge(everything=True)

    def _received_now(self) -> None:
        """The disk's clock is the machine's: give the batches the story's time."""
        now = self.clock.now().replace(tzinfo=UTC).timestamp()
        for meta in list(self.w.store.list(paths.INBOX)):
            os.utime(self.folder / TENANT / NAME / meta.path, (now, now))


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_spark_rebuild_of_a_random_history_finds_no_difference(
    tmp_path: Path, session: Any, seed: int
) -> None:
    from arco.spark.rebuild import SparkRebuildEngine

    story = Story(tmp_path, seed)
    story.go_on(8)
    if seed % 2 == 0:
        story.w.upkeep.rollback(5, reason="test")
        story.go_on(3)
    rebuilt = story.w.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=False)
    assert rebuilt.events > 60
    assert rebuilt.same, [d for d in rebuilt.differences if not d.same]
    assert not rebuilt.failures


@pytest.mark.parametrize(
    ("seed", "fates"), [pytest.param(0, ("succeed",), marks=deep_only), (1, ANYTHING)]
)
def test_spark_folds_a_run_as_it_was_folded(
    tmp_path: Path, session: Any, seed: int, fates: tuple[str, ...]
) -> None:
    from arco.spark.rebuild import SparkRebuildEngine

    w = make_workspace(ScopedStore(LocalStore(tmp_path), TENANT, NAME), seed, clock=SystemClock())
    rng = random.Random(seed)
    dag = tuple(Node(deps) for deps in ((), (0,), (0,), (1, 2), (), (3, 4), (4,), (6,)))
    world = World(dag, seed, fates=fates, chaos=seed > 0)
    world.played()
    history = world.history
    while history:
        size = rng.randint(1, 12)
        part, history = history[:size], history[size:]
        w.ledger.append(part)
        w.committer.commit()
    assert w.read.snapshot().all(TASKS)
    assert w.read.snapshot().all(PARTITIONS) or seed > 0
    rebuilt = w.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=False)
    assert rebuilt.same, [d for d in rebuilt.differences if not d.same]
    assert not rebuilt.failures


def test_state_mended_by_spark_is_what_the_log_means(tmp_path: Path, session: Any) -> None:
    from arco.spark.rebuild import SparkRebuildEngine

    story = Story(tmp_path, 9)
    story.go_on(5)
    expected = state_of(story.w)
    sabotage(story.w)
    assert state_of(story.w) != expected
    rebuilt = story.w.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=True)
    assert rebuilt.published is not None
    assert state_of(story.w) == expected
    check_against_model(story.w)
    story.go_on(2)
    check_against_model(story.w)
    assert story.w.upkeep.fsck().clean
