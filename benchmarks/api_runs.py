"""The list of runs: a page of 50, the newest first, 8 clients; ours, Airflow's and Dagster's.

All have 100,000 runs that ended over the last hundred days. Airflow and Dagster have them in
SQLite, and their servers are started as their documentation says; Airflow's list is the one of its
page (`order_by=-run_after`). The servers are asked in turns by the same client. No answer of ours
was rendered before: each request has another `created_after`, which leaves all runs in; the figures
of `kept` are of one URL, as the peers' are. Figures of `cpu` are the CPU time of a request, which a
busy machine changes less. The same request then goes to workspaces with 1,000,000 and 10,000 runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.api_requests import Serving, serving
from benchmarks.http_load import ROOT, cpu_of_group_s, cpu_s, load, request
from benchmarks.run_history import fill_runs
from benchmarks.workload import filled_once, open_workspace, progress

CLIENTS = 8
PAGE = 50
PEERS = ROOT / ".peers"
SCRIPTS = ROOT / "benchmarks" / "peers"
QUERY = """{ runsOrError(limit: 50) { __typename ... on Runs { results {
  runId status jobName startTime endTime creationTime tags { key value }
} } } }"""
START_S = 180.0


class Asked(NamedTuple):
    port: int
    requests: list[str]
    cpu_s: Callable[[], float]
    """CPU time that the server's processes have had."""


class Turns(NamedTuple):
    """For each server, the figures of each round."""

    p95: dict[str, list[float]]
    cpu_ms: dict[str, list[float]]
    """Of one request."""


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds, seconds = (2, 1.0) if quick else (4, 3.0)
    runs, sizes = fill(at, quick)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(serving(_ours(at, runs)))
        asked = {
            "ours": _asked(ours, _pages(ours)),
            "ours_kept": _asked(ours, [ours.request(f"/runs?page_size={PAGE}")]),
            "airflow": stack.enter_context(_airflow(at / "airflow")),
            "dagster": stack.enter_context(_dagster(at / "dagster")),
        }
        p95, cpu_ms = _turns(asked, rounds, seconds)
    with contextlib.ExitStack() as stack:
        few, many = (stack.enter_context(serving(_ours(at, size))) for size in sizes)
        by_size, cpu_ms_by_size = _turns(
            {"few": _asked(few, _pages(few)), "many": _asked(many, _pages(many))},
            rounds,
            seconds,
        )
    return {
        "airflow_list_over_ours": _ratio(p95, "airflow", "ours"),
        "dagster_list_over_ours": _ratio(p95, "dagster", "ours"),
        "airflow_list_over_ours_kept": _ratio(p95, "airflow", "ours_kept"),
        "dagster_list_over_ours_kept": _ratio(p95, "dagster", "ours_kept"),
        "list_1m_over_10k": _ratio(by_size, "many", "few"),
        "airflow_list_cpu_over_ours": _ratio(cpu_ms, "airflow", "ours"),
        "dagster_list_cpu_over_ours": _ratio(cpu_ms, "dagster", "ours"),
        "list_cpu_1m_over_10k": _ratio(cpu_ms_by_size, "many", "few"),
        **{f"list_p95_ms_{name}": _median(values) for name, values in {**p95, **by_size}.items()},
    }


def fill(at: Path, quick: bool) -> tuple[int, tuple[int, int]]:
    """How many runs all three have, and how many the two workspaces of ours that are compared."""
    runs, sizes = (2_000, (10_000, 20_000)) if quick else (100_000, (10_000, 1_000_000))
    for size in (runs, *sizes):
        filled_once(_ours(at, size), partial(_fill_ours, at, size))
    for name, peer, env in (
        ("airflow", "airflow", _airflow_env(at / "airflow")),
        ("dagster", "dagster-webserver", _dagster_env(at / "dagster")),
    ):
        filled_once(at / name, partial(_run, peer, f"{name}_runs.py", at / name, runs, env))
    return runs, sizes


def _asked(ours: Serving, requests: list[str]) -> Asked:
    return Asked(ours.port, requests, lambda: cpu_s(ours.process.pid))


def _turns(asked: dict[str, Asked], rounds: int, seconds: float) -> Turns:
    p95: dict[str, list[float]] = {name: [] for name in asked}
    cpu_ms: dict[str, list[float]] = {name: [] for name in asked}
    for name, each in asked.items():
        load(each.port, 1.0, 1, each.requests[-1:])  # caches of all sides
        progress(f"{name}: warm")
    for number in range(rounds):
        for name, each in asked.items():
            requests = each.requests[number::rounds] or each.requests
            before = each.cpu_s()
            figures = load(each.port, seconds, CLIENTS, requests)
            p95[name].append(figures["p95_ms"])
            cpu_ms[name].append((each.cpu_s() - before) / figures["requests"] * 1e3)
        progress(f"round {number + 1}: p95 {_newest(p95)} ms; CPU {_newest(cpu_ms)} ms")
    return Turns(p95, cpu_ms)


def _newest(figures: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {values[-1]:,.1f}" for name, values in figures.items())


def _ratio(p95: dict[str, list[float]], one: str, other: str) -> float:
    pairs = zip(p95[one], p95[other], strict=True)
    return round(statistics.median(a / b for a, b in pairs), 3)


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 2)


# -- servers ---------------------------------------------------------------------------------


def _ours(at: Path, runs: int) -> Path:
    return at / f"runs_{runs}"


def _fill_ours(at: Path, runs: int) -> None:
    workspace = open_workspace(_ours(at, runs))
    workspace.commands.catalog.create_namespace("flow")
    fill_runs(workspace, runs)


def _pages(ours: Serving) -> list[str]:
    """Many requests for the first page, of which no two are the same."""
    path = f"/runs?page_size={PAGE}&created_after=2020-01-01T00:00:00."
    return [ours.request(f"{path}{number:06d}Z") for number in range(100_000)]


@contextlib.contextmanager
def _airflow(at: Path) -> Iterator[Asked]:
    port = _free_port()
    command = [str(PEERS / "airflow/bin/airflow"), "api-server", "--port", str(port)]
    with _started(command, at, _airflow_env(at)) as cpu:
        token = json.loads(_wait_for(f"http://127.0.0.1:{port}/auth/token"))["access_token"]
        path = f"/api/v2/dags/~/dagRuns?limit={PAGE}&order_by=-run_after"
        yield Asked(port, [request(path, port, Authorization=f"Bearer {token}")], cpu)


def _airflow_env(at: Path) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(at),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }


@contextlib.contextmanager
def _dagster(at: Path) -> Iterator[Asked]:
    port = _free_port()
    program = PEERS / "dagster-webserver/bin/dagster-webserver"
    command = [str(program), "-f", "flow.py", "-h", "127.0.0.1", "-p", str(port)]
    with _started(command, at, _dagster_env(at)) as cpu:
        _wait_for(f"http://127.0.0.1:{port}/server_info")
        body = json.dumps({"query": QUERY}).encode()
        yield Asked(port, [request("/graphql", port, method="POST", body=body)], cpu)


def _dagster_env(at: Path) -> dict[str, str]:
    return {"DAGSTER_HOME": str(at)}


def _run(peer: str, script: str, at: Path, runs: int, env: dict[str, str]) -> None:
    began = time.perf_counter()
    command = [str(PEERS / peer / "bin/python"), str(SCRIPTS / script), str(at), str(runs)]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stderr[-2000:]}")
    progress(f"{peer}: {runs:,} runs in {time.perf_counter() - began:.1f} s")


@contextlib.contextmanager
def _started(command: list[str], at: Path, env: dict[str, str]) -> Iterator[Callable[[], float]]:
    """A server with its children, as a group of processes; the CPU time that they have had."""
    with (at / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=at,
            env={**os.environ, **env},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield lambda: cpu_of_group_s(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def _wait_for(url: str) -> bytes:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                body: bytes = answer.read()
                return body
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
