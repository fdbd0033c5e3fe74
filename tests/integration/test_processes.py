"""Real processes on one workspace: killed at random instants, and all at once.

The killing takes half of the time that `depth.STRESS_S` gives. A failure prints the seed of
the killing; the instants are the operating system's. The age gate is about half of the time, so
that GC has something to remove, and longer than a commit takes on a busy machine. One test at a
time: each is a dozen processes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.crew import at_work, check_whole, kill_now_and_then, let_commit, let_work
from tests.integration.roles import Setup
from tests.kit.depth import KILL_SEED, STRESS_S, deep_only
from tests.kit.servers import seaweedfs

GATE_S = max(STRESS_S / 2, 5.0)

pytestmark = [pytest.mark.stress, pytest.mark.xdist_group("processes")]


@pytest.fixture
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setup]:
    folder = tmp_path / "crew"
    folder.mkdir()
    if request.param == "local":
        yield Setup(f"file://{tmp_path}/store", {}, str(folder), age_gate_s=GATE_S)
        return
    with seaweedfs() as backend:
        yield Setup(backend.url, dict(backend.options), str(folder), age_gate_s=GATE_S)


@pytest.mark.parametrize("setup", ["local", pytest.param("s3", marks=deep_only)], indirect=True)
def test_a_crowd_on_one_workspace_loses_and_doubles_nothing(setup: Setup) -> None:
    roles = {"compactor": 2, "merger": 2, "collector": 1, "writer": 4, "reader": 4}
    with at_work(setup, roles) as members:
        let_work(setup, members, STRESS_S)
        let_commit(setup, members, generations=4)
    figures = check_whole(setup)
    assert figures["acknowledged"] > 0 and figures["generations"] >= 4, figures
    print(figures)


@pytest.mark.parametrize("setup", [pytest.param("local", marks=deep_only), "s3"], indirect=True)
def test_kill_9_at_any_instant_loses_and_doubles_nothing(setup: Setup) -> None:
    print(f"replay with ARCO_KILL_SEED={KILL_SEED}")
    roles = {"compactor": 2, "merger": 1, "collector": 1, "writer": 2, "reader": 1}
    with at_work(setup, roles) as members:
        kill_now_and_then(setup, members, STRESS_S / 2, random.Random(KILL_SEED), at_least=6)
        let_commit(setup, members, generations=4)
    figures = check_whole(setup)
    assert figures["acknowledged"] > 0 and figures["generations"] >= 4, figures
    print(figures)
