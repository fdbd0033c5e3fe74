"""Slots on a bucket behind a bad network: slow, with errors, cut bodies and lost responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.storage.open import open_store
from arco.worker.commit import committed
from servo.contract.task import InputRef, MaterializationRef, TaskResult
from tests.kit.backends import CLOUDS, Servers
from tests.kit.bench import Bench, problem, version
from tests.kit.faults import Rule
from tests.kit.proxy import Proxy

PROJECT = """
    @asset
    def up(): return pa.table({"x": [1, 2, 3]})
    @asset
    def f(up: AssetIn["sales.up"]): return up.arrow().append_column("y", up.arrow()["x"])
"""
FAULTS = (
    Rule("error", op="put", path="data/", once_each=True),
    Rule("drop", op="put", path="data/", once_each=True),
    Rule("error", op="put", path="commits/", once_each=True),
    Rule("drop", op="put", path="commits/", once_each=True),
    Rule("error", op="list", path="data/", once_each=True),
    Rule("cut", op="get", path="data/", once_each=True),
)
"""To each object: first an error, then a write whose response is lost; half of a body."""
SLOW = Rule("delay", delay_s=0.05)


@pytest.fixture(params=CLOUDS[:1])
def network(
    request: pytest.FixtureRequest, servers: Servers, tmp_path: Path
) -> Iterator[tuple[Bench, Proxy]]:
    with servers.proxied(request.param) as (backend, proxy):
        store = open_store(f"{backend.url}/slots/{tmp_path.name}", **backend.options)
        yield Bench(tmp_path, store).deploy(PROJECT), proxy


def run_both(bench: Bench) -> TaskResult:
    """Each in a slot: what it reads, writes and commits goes over the network."""
    up = version(bench.run("up", task_id="t0"))
    ref = MaterializationRef(partition="", materialization_id=up.materialization_id, path=up.path)
    return bench.run(inputs=(InputRef(asset="sales.up", parameter="up", materializations=(ref,)),))


def test_a_task_in_a_slot_survives_a_slow_store_that_fails_now_and_then(
    network: tuple[Bench, Proxy],
) -> None:
    bench, proxy = network
    proxy.use(*FAULTS, SLOW)
    result = run_both(bench)
    assert proxy.faults.counts.keys() == {"error", "drop", "cut", "delay"}
    assert result.outcome == "succeeded", result.error
    assert (version(result).rows, len(version(result).schema)) == (3, 2)
    proxy.use()
    marker = committed(bench.store, bench.request())
    assert marker is not None and marker.materialization == version(result)


def test_a_store_that_stays_away_is_no_fault_of_the_code(network: tuple[Bench, Proxy]) -> None:
    bench, proxy = network
    proxy.use(Rule("error", op="put", path="data/"))
    result = bench.run("up")
    assert problem(result) == ("failed", "transient", "store.unavailable")
