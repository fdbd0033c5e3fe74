"""Requests in a second: one asset by its key, 16 clients, against a bare Litestar route.

Both servers are there all the time and are asked in turns, by the same client in a process of its
own; the bare one returns the very bytes that ours answered. Ours is `servo serve` with its access
log, authentication, authorization and rate limits (set high). `missed` is the same request for
many assets in turn, after a commit: what was rendered before is of another generation.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

from arco.app import Workspace
from arco.catalog.events import AssetCreated, Column
from benchmarks.http_load import ROOT, cpu_s, load, request
from benchmarks.workload import (
    FILL_BATCH,
    NAME,
    TENANT,
    drain,
    filled_once,
    open_workspace,
    progress,
)

BASE = f"/api/v1/workspaces/{TENANT}/{NAME}"
CLIENTS = 16


class Serving:
    """`servo serve`, or another server, as a process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, token: str) -> None:
        self.process = process
        self.port = port
        self.token = token

    def request(self, path: str, token: str = "", **more: Any) -> str:
        authorization = f"Bearer {token or self.token}"
        return request(f"{BASE}{path}", self.port, Authorization=authorization, **more)

    def get(self, path: str, token: str = "") -> bytes:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{BASE}{path}",
            headers={"Authorization": f"Bearer {token or self.token}"},
        )
        with urllib.request.urlopen(asked) as answer:
            body: bytes = answer.read()
            return body


@contextlib.contextmanager
def serving(at: Path, *options: str) -> Iterator[Serving]:
    command = [sys.executable, "-m", "arco.cli", "serve", "--port", "0", "--rate", "1000000"]
    with (at / "access.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--json", *options],
            cwd=at,
            env={
                **os.environ,
                "ARCO_STORE": f"file://{at}",
                "ARCO_TENANT": TENANT,
                "ARCO_WORKSPACE": NAME,
            },
            stdout=subprocess.PIPE,
            stderr=log,
        )
        with _ended(process):
            assert process.stdout is not None
            started = json.loads(process.stdout.readline())
            port = int(started["url"].rpartition(":")[2])
            yield Serving(process, port, started["token"])


@contextlib.contextmanager
def serving_bytes(body: bytes) -> Iterator[Serving]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare_server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with _ended(process):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(body)
        process.stdin.close()
        yield Serving(process, int(process.stdout.readline()), "none")


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds, seconds = (2, 0.5) if quick else (5, 2.0)
    assets = fill(at, quick)
    at = at / "assets"
    workspace = open_workspace(at)
    with serving(at) as ours:
        body = ours.get("/assets/sales.table_7")
        with serving_bytes(body) as bare:
            figures = _rounds(workspace, ours, bare, assets, rounds, seconds)
    return {**figures, "answer_bytes": len(body)}


def fill(at: Path, quick: bool) -> int:
    """How many assets there are."""
    return filled_once(at / "assets", lambda: _fill(at / "assets", 200 if quick else 20_000))


def _fill(at: Path, assets: int) -> int:
    workspace = open_workspace(at)
    workspace.commands.catalog.create_namespace("sales")
    for start in range(0, assets, FILL_BATCH):
        numbers = range(start, min(start + FILL_BATCH, assets))
        workspace.ledger.append([_asset(number) for number in numbers])
        drain(workspace)
    workspace.upkeep.merger.merge(everything=True)
    return assets


def _asset(number: int) -> AssetCreated:
    columns = tuple(Column(name=name, type="string") for name in ("id", "day", "shop", "amount"))
    return AssetCreated(namespace="sales", name=f"table_{number}", owners=("ana",), columns=columns)


def _rounds(
    workspace: Workspace,
    ours: Serving,
    bare: Serving,
    assets: int,
    rounds: int,
    seconds: float,
) -> dict[str, object]:
    paths = [f"/assets/sales.table_{number}" for number in range(assets)]
    asked = {
        "ours": (ours, [ours.request(paths[7])]),
        "bare": (bare, [bare.request(paths[7])]),
        "ours_missed": (ours, [ours.request(path) for path in paths]),
    }
    rps: dict[str, list[float]] = {name: [] for name in asked}
    cpu_us: dict[str, list[float]] = {name: [] for name in asked}
    for number in range(rounds):
        for name, (server, requests) in asked.items():
            if name == "ours_missed":
                workspace.commands.catalog.update_namespace("sales", description=token_hex(8))
                time.sleep(0.5)  # until the server has seen it
            before = cpu_s(server.process.pid)
            found = load(server.port, seconds, CLIENTS, requests)
            rps[name].append(found["rps"])
            cpu_us[name].append((cpu_s(server.process.pid) - before) / found["requests"] * 1e6)
        progress(f"round {number + 1}: {_newest(rps)} a second; CPU {_newest(cpu_us)} µs")
    return {
        "rps_over_bare": _ratio(rps["ours"], rps["bare"]),
        "rps_missed_over_bare": _ratio(rps["ours_missed"], rps["bare"]),
        "rps_cpu_over_bare": _ratio(cpu_us["ours"], cpu_us["bare"]),
        **{f"rps_{name}": round(statistics.median(values)) for name, values in rps.items()},
        **{f"cpu_us_{name}": round(statistics.median(values)) for name, values in cpu_us.items()},
    }


def _newest(figures: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {values[-1]:,.0f}" for name, values in figures.items())


def _ratio(ones: list[float], others: list[float]) -> float:
    pairs = zip(ones, others, strict=True)
    return round(statistics.median(one / other for one, other in pairs), 3)
