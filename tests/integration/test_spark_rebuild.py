"""Rebuilds on Spark, from the outside: rollbacks, repairs, a cloud store.

That both engines give the same rows is tested in tests/property/test_state_engines.py.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.app import Workspace, chain
from arco.errors import AlreadyExists, Invalid
from arco.log.commit import Committed
from arco.log.envelope import Batch, encode_batch
from arco.spark.rebuild import SparkRebuildEngine
from arco.storage import paths
from tests.kit.depth import scaled
from tests.kit.histories import history, random_draw
from tests.kit.invariants import check_snapshot
from tests.kit.model import check_against_model
from tests.kit.servers import seaweedfs
from tests.kit.spark_task import spark_session
from tests.kit.workspace import make_workspace, sabotage, seeded_ulids, to_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return spark_session(shuffle_partitions="4")


def fill(workspace: Workspace, seed: int, steps: int) -> None:
    """A random history, in random batches, some of them twice, with merges in between."""
    rng = random.Random(seed)
    ids = seeded_ulids(workspace.clock, seed)
    events = to_events(workspace, history([random_draw(rng) for _ in range(steps)], ids), ids)
    number = 0
    while events:
        size = rng.randint(1, 60)
        part, events = events[:size], events[size:]
        number += 1
        name = f"{seed:04d}-{number:06d}"
        raw = encode_batch(Batch(batch=name, events=part))
        for _ in range(rng.choice((1, 1, 2))):
            with contextlib.suppress(AlreadyExists):
                workspace.store.put(paths.inbox(name), raw)
            if rng.random() < 0.7:
                workspace.committer.commit()
        if rng.random() < 0.2:
            workspace.upkeep.merger.merge(everything=True)
    while isinstance(workspace.committer.commit(), Committed):
        pass


def test_spark_leaves_out_what_was_rolled_back(session: SparkSession, tmp_path: Path) -> None:
    workspace = Workspace.open(str(tmp_path), "acme", "prod")
    fill(workspace, 4, scaled(50, 100))
    kept = workspace.read.snapshot().generation
    fill(workspace, 5, scaled(50, 100))
    workspace.upkeep.rollback(kept, reason="a test")
    fill(workspace, 6, scaled(25, 50))
    spark = workspace.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=False)
    embedded = workspace.upkeep.rebuild(publish=False)
    assert spark.same and embedded.same, (spark.differences, embedded.differences)


def test_spark_repairs_a_state_that_is_not_the_fold_of_its_log(
    session: SparkSession, tmp_path: Path
) -> None:
    workspace = Workspace.open(str(tmp_path), "acme", "prod")
    fill(workspace, 7, scaled(100, 200))
    sabotage(workspace)
    repaired = workspace.upkeep.rebuild(SparkRebuildEngine(chain, session))
    assert not repaired.same and repaired.published == workspace.read.snapshot().generation
    check_snapshot(workspace.read.snapshot())
    check_against_model(workspace)
    assert workspace.upkeep.fsck().clean
    assert workspace.upkeep.rebuild(publish=False).same


def test_spark_rebuilds_a_workspace_on_s3_without_any_connector(session: SparkSession) -> None:
    with seaweedfs() as backend:
        workspace = Workspace.open(backend.url, "acme", "prod", options=backend.options)
        fill(workspace, 8, scaled(30, 60))
        spark = workspace.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=False)
        assert spark.same and spark.events > 0, spark.differences


def test_spark_refuses_a_store_that_only_this_process_has(session: SparkSession) -> None:
    workspace = make_workspace()
    fill(workspace, 9, scaled(2, 5))
    with pytest.raises(Invalid, match="memory"):
        workspace.upkeep.rebuild(SparkRebuildEngine(chain, session), publish=False)
