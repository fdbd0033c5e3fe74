"""Lists for a caller who sees 10 of 1,000 namespaces, against one who sees all, per returned row.

20 assets in each namespace; a run of one of them, chosen at random, 20,000 times. Pages of 50, one
after the other, none of which was rendered before: a commit comes before each round. What a row
costs is the CPU time of the server over the rows that it returned.
"""

from __future__ import annotations

import statistics
import time
import urllib.parse
from pathlib import Path
from secrets import token_hex

import msgspec

from arco.app import Workspace
from arco.catalog.events import AssetCreated, NamespaceCreated
from arco.security.permissions import Role
from benchmarks.api_requests import Serving, serving
from benchmarks.http_load import cpu_s
from benchmarks.run_history import fill_runs
from benchmarks.workload import FILL_BATCH, drain, filled_once, open_workspace, progress

SEEN = 10
PAGE = 50
PAGES = 4


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 2 if quick else 5
    key = fill(at, quick)
    at = at / "namespaces"
    workspace = open_workspace(at)
    with serving(at) as ours:
        return {
            "authz_over_none": _compare(workspace, ours, key, "/assets", 20, rounds),
            "authz_runs_over_none": _compare(workspace, ours, key, "/runs", 10, rounds),
        }


def fill(at: Path, quick: bool) -> str:
    """The key of a caller who sees some of the namespaces."""
    namespaces, each, runs = (100, 5, 2_000) if quick else (1_000, 20, 20_000)
    at = at / "namespaces"
    return filled_once(at, lambda: _fill(at, namespaces, each, runs))


def _fill(at: Path, namespaces: int, each: int, runs: int) -> str:
    workspace = open_workspace(at)
    names = [f"ns_{number:04d}" for number in range(namespaces)]
    workspace.ledger.append([NamespaceCreated(namespace=name) for name in names])
    drain(workspace)
    assets = [AssetCreated(namespace=ns, name=f"t_{n}") for ns in names for n in range(each)]
    for start in range(0, len(assets), FILL_BATCH):
        workspace.ledger.append(assets[start : start + FILL_BATCH])
        drain(workspace)
    fill_runs(workspace, runs, names)
    seen = names[:: namespaces // SEEN]
    key = workspace.commands.security.create_key("reader", Role.VIEWER, namespaces=seen)
    workspace.upkeep.merger.merge(everything=True)
    return str(key.text)


def _compare(
    workspace: Workspace, ours: Serving, key: str, path: str, sizes: int, rounds: int
) -> float:
    ratios = []
    for _ in range(rounds):
        workspace.commands.catalog.update_namespace("ns_0000", description=token_hex(8))
        time.sleep(0.6)  # until the server has seen it
        for token in (key, ours.token):  # what is derived once for a generation
            ours.get(f"{path}?page_size=1", token)
        filtered, unfiltered = (_row_us(ours, token, path, sizes) for token in (key, ours.token))
        progress(f"{path}: {filtered:,.1f} µs a row filtered, {unfiltered:,.1f} µs unfiltered")
        ratios.append(filtered / unfiltered)
    return round(statistics.median(ratios), 3)


def _row_us(ours: Serving, token: str, path: str, sizes: int) -> float:
    """CPU of the server for each row, of pages of sizes that were not asked for before."""
    rows = 0
    before = cpu_s(ours.process.pid)
    for size in range(PAGE - sizes // 2, PAGE + (sizes + 1) // 2):
        page_token = ""
        for _ in range(PAGES):
            more = f"&page_token={urllib.parse.quote(page_token)}" if page_token else ""
            page = msgspec.json.decode(ours.get(f"{path}?page_size={size}{more}", token))
            rows += len(page["items"])
            page_token = page.get("next_page_token", "")
            if not page_token:
                break
    return (cpu_s(ours.process.pid) - before) / rows * 1e6
