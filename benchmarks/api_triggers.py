"""`POST …/runs` until its 202, against one commit of the same workspace.

Requests go to `servo serve` one after the other, each with a key of its own; commits are those of a
catalog command in this process. Both take turns, on a local disk with fsync.
"""

from __future__ import annotations

import http.client
import statistics
import time
from pathlib import Path

import msgspec

from benchmarks.api_requests import BASE, Serving, serving
from benchmarks.flows import project, source
from benchmarks.workload import open_workspace, progress, timed


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 10 if quick else 100
    workspace = open_workspace(at)
    workspace.commands.orchestration.deploy(*project(source("fan", 10)))
    workspace.commands.catalog.create_namespace("sales")
    triggers: list[float] = []
    commits: list[float] = []
    with serving(at) as ours:
        connection = http.client.HTTPConnection("127.0.0.1", ours.port, timeout=60)
        for number in range(rounds + 3):
            took = _trigger(connection, ours, f"run-{number}")
            commit, _ = timed(workspace.commands.catalog.create_asset, f"sales.table_{number}")
            if number >= 3:  # the first fill caches, on both sides
                triggers.append(took)
                commits.append(commit)
        connection.close()
    p95 = statistics.quantiles(triggers, n=20)[-1]
    commit_s = statistics.median(commits)
    progress(f"202 after {p95 * 1e3:.1f} ms (p95), a commit takes {commit_s * 1e3:.1f} ms")
    return {
        "trigger_p95_over_commit": round(p95 / commit_s, 3),
        "trigger_p50_over_commit": round(statistics.median(triggers) / commit_s, 3),
        "trigger_p95_ms": round(p95 * 1e3, 2),
        "commit_p50_ms": round(commit_s * 1e3, 2),
    }


def _trigger(connection: http.client.HTTPConnection, ours: Serving, key: str) -> float:
    headers = {
        "Authorization": f"Bearer {ours.token}",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    body = msgspec.json.encode({"selection": ["flow.root"]})
    began = time.perf_counter()
    connection.request("POST", f"{BASE}/runs", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    took = time.perf_counter() - began
    if answer.status != 202:
        raise RuntimeError(f"{answer.status}: {text.decode()[:500]}")
    return took
