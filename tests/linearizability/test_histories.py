"""Real clients on one workspace, killed and started again: every history is linearizable.

Each takes a part of the time that `depth.STRESS_S` gives. A failure prints the seed of the
killing and of the faults, and leaves the history in a file; the instants are the operating
system's. One test at a time: each is half a dozen processes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.app import Workspace
from tests.integration.crew import (
    Member,
    check_whole,
    kill_now_and_then,
    let_work,
    stopped_at_the_end,
)
from tests.integration.roles import Setup
from tests.kit.depth import KILL_SEED, STRESS_S
from tests.kit.faults import Rule
from tests.kit.flows import deploy
from tests.kit.lake import PROJECT, Lake
from tests.kit.proxy import Proxy, proxied
from tests.kit.servers import seaweedfs
from tests.linearizability import history
from tests.linearizability.checker import Operation
from tests.linearizability.client import VERSIONS
from tests.linearizability.report import check

OUTPUTS = 5
CLIENT = "tests.linearizability.client"
UNVERIFIED = r"/ledger/inbox/|/manifests/\d{20}\.json$"
FAULTS = (
    Rule("drop", op="put", rate=0.03),
    Rule("late", op="put", path="/ledger/inbox/", rate=0.03, delay_s=2.0),
    Rule("repeat", op="put", path="/ledger/inbox/", rate=0.05, delay_s=3.0),
    Rule("repeat", op="put", path="/manifests/", rate=0.03, delay_s=1.0),
    Rule("error", rate=0.02),
    Rule("error", op="put", rate=0.02, status=500, applied=True),
    Rule("cut", rate=0.01),
    Rule("shorten", op="get", path=UNVERIFIED, rate=0.01, once_each=True),
    Rule("flip", op="get", path=UNVERIFIED, rate=0.01, once_each=True),
)
pytestmark = [pytest.mark.stress, pytest.mark.xdist_group("processes")]


class Outputs(Lake):
    """Makes outputs that wait for somebody's decision, on a workspace of real time."""

    def __init__(self, w: Workspace) -> None:
        self.w = w
        deploy(w, PROJECT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "crew"
    folder.mkdir()
    return folder


def prepare(setup: Setup) -> list[Operation]:
    """Fill a new workspace; the deployments that clients find are part of the history."""
    w = setup.open()
    lake = Outputs(w)
    held = [lake.make("city.recent", gate="block") for _ in range(OUTPUTS)]
    (Path(setup.folder) / "outputs").write_text(json.dumps(held))
    deploy(w, VERSIONS[0])
    rows = reversed(w.read.orchestration().deployments())
    return [
        Operation(
            f"prepared {row.number}",
            "deployments",
            row.number * 2,
            row.number * 2 + 1,
            {"op": "deploy", "manifest": row.manifest},
            (row.number, True),
        )
        for row in rows
    ]


def work(setup: Setup, seconds: float) -> list[Operation]:
    """Have clients and compactors work and die; what the clients noted."""
    print(f"replay with ARCO_KILL_SEED={KILL_SEED}")
    members = [Member(setup, "client", n, CLIENT) for n in range(3)]
    members += [Member(setup, role, 0) for role in ("compactor", "merger")]
    with stopped_at_the_end(setup, members):
        while not all(member.ready for member in members):
            let_work(setup, members, 0.2)
        kill_now_and_then(
            setup, members, seconds, random.Random(KILL_SEED), every_s=(0.5, 3.0), at_least=2
        )
    noted = history.read(*Path(setup.folder).glob("journal-*"))
    counted = Counter(operation.input["op"] for operation in noted)
    kills = sum(member.kills for member in members)
    open_ones = sum(operation.open for operation in noted)
    print(f"{len(noted)} operations, {open_ones} open, {kills} kills: {dict(counted)}")
    assert kills > 0 and open_ones < len(noted)
    return noted


def test_clients_that_are_killed_see_one_catalog_and_one_orchestrator(
    folder: Path, tmp_path: Path
) -> None:
    setup = Setup(f"file://{tmp_path}/store", {}, str(folder), age_gate_s=3600)
    prepared = prepare(setup)
    noted = work(setup, STRESS_S * 0.5)
    check([*prepared, *noted], tmp_path / "history.jsonl")
    check_whole(setup)


@pytest.fixture
def network(folder: Path) -> Iterator[tuple[Setup, Proxy]]:
    with seaweedfs() as backend, proxied(backend) as (through, proxy):
        yield Setup(through.url, dict(through.options), str(folder), age_gate_s=3600), proxy


def test_clients_behind_a_faulty_network_see_one_catalog_and_one_orchestrator(
    network: tuple[Setup, Proxy], tmp_path: Path
) -> None:
    setup, proxy = network
    prepared = prepare(setup)
    proxy.use(*FAULTS, seed=KILL_SEED)
    noted = work(setup, STRESS_S * 0.5)
    print(proxy.faults.counts)
    proxy.use()
    check([*prepared, *noted], tmp_path / "history.jsonl")
    check_whole(setup)
