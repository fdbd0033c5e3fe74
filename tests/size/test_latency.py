"""What tasks cost on a store that waits: how many calls, and how many one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from arco.clock import SystemClock
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.flows import OrchestratorProcess, WorkerProcess, deploy, end_of, trigger
from tests.kit.latency import Call, LatencyStore, round_trips
from tests.kit.workspace import make_workspace

ROOT = Path(__file__).resolve().parents[2]

FAN = """
from servo import asset, static

@asset(namespace="flow", partitions=static("key", [f"k{i:03d}" for i in range(48)]))
def nothing() -> None: ...
"""


def call(began: float, ended: float) -> Call:
    return Call("get", "x", 0, began, ended)


def test_calls_at_the_same_time_are_one_round_trip() -> None:
    assert round_trips([]) == 0
    assert round_trips([call(0, 2), call(1, 3), call(1.5, 2.5)]) == 1
    assert round_trips([call(0, 1), call(1, 2), call(2, 3)]) == 3
    assert round_trips([call(0, 1), call(1, 2), call(0, 9), call(2, 3)]) == 3


def test_calls_of_several_threads_wait_at_the_same_time() -> None:
    store = LatencyStore(MemoryStore(SystemClock()), 0.05)
    threads = [threading.Thread(target=store.put, args=(f"x{n}", b"12345")) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (store.count("put"), store.size("put")) == (20, 100)
    assert round_trips(store.calls) < 20
    assert [meta.path for meta in store.list("x")] == sorted(f"x{n}" for n in range(20))


def test_single_operations_can_be_slower() -> None:
    store = LatencyStore(MemoryStore(SystemClock()), 0.0)
    store.slow("list", "cancelled/", 0.1)
    list(store.list("other/"))
    list(store.list("liveness/cancelled/"))
    fast, slow = (c.ended - c.began for c in store.calls)
    assert fast < slow and slow >= 0.1


class Flow:
    """A run of small tasks, and a worker whose calls are counted."""

    def __init__(self, latency_s: float = 0.0) -> None:
        self.clock = SimClock()
        memory = MemoryStore(self.clock)
        self.w = make_workspace(memory, 1, clock=self.clock)
        deploy(self.w, FAN)
        self.run_id = trigger(self.w)
        self.store = LatencyStore(memory, latency_s)
        self.orchestrator = OrchestratorProcess(memory, self.clock, 2)
        self.worker = WorkerProcess(self.store, self.clock, 3, script=lambda request: None)

    def finish(self) -> None:
        for _ in range(200):
            self.orchestrator.step()
            self.worker.step()
            self.clock.sleep(0.2)
            if end_of(self.w, self.run_id) is not None:
                return
        raise AssertionError("the run does not end")


def test_small_task_takes_a_worker_few_calls() -> None:
    flow = Flow()
    flow.finish()
    tasks = len(flow.worker.executor.ran)
    assert tasks == 48
    assert flow.store.count("put", "queue/claims") == tasks
    assert flow.store.count("get", "queue/ready") == tasks
    assert flow.store.count("delete", "queue/") == 2 * tasks
    assert len(flow.store.calls) < 12 * tasks


def test_messages_that_were_dealt_with_are_deleted_at_the_same_time() -> None:
    flow = Flow(0.02)
    for _ in range(3):
        flow.orchestrator.step()
    deliveries = flow.worker.queue.take(16, 0.0)
    assert len(deliveries) == 16
    began = time.monotonic()
    flow.worker.queue.done(deliveries)
    deletes = [call for call in flow.store.since(began) if call.op == "delete"]
    assert len(deletes) == 32
    assert round_trips(deletes) < 16


def test_servo_runs_on_a_store_that_waits(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    env = {**os.environ, "ARCO_STORE": str(tmp_path / "store")}
    env["LATENCY_CALLS"] = str(tmp_path / "calls")
    command = [
        sys.executable,
        "-m",
        "tests.kit.latency",
        "1",
        "catalog",
        "namespace",
        "create",
        "n",
    ]
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
    tally = json.loads((tmp_path / "calls").read_text())
    assert tally["servo"] == ["catalog"]
    assert tally["put manifests"] >= 1
