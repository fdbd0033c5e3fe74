"""What a commit costs: against SQLite, as the state grows, in memory, and over time.

- throughput: 4 producers append batches of 100 events, a compactor beside them
  commits and merges; the clock stops when the last event is visible. SQLite (WAL,
  synchronous=FULL) takes the same batches from 4 producers into one table.
- growth: 1,000 events on a state of 1,000,000 rows and of 10,000.
- memory: a fresh compactor, set up as `servo admin compact` is, commits 1,000,000 events over
  100,000 keys.
- curve: thousands of small commits in one workspace, merges between them.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import statistics
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.cli.allocator import CACHED_BYTES, use_little_memory
from benchmarks.workload import (
    arguments,
    asset_ids,
    fill,
    folder,
    ms,
    observations,
    open_workspace,
    peak_rss_mib,
    progress,
    report,
    timed,
)
from servo.contract.ulid import system_ulids

PRODUCERS = 4
BATCH = 100
KEYS = 100_000

spawn = multiprocessing.get_context("spawn")

TABLE = """
CREATE TABLE asset_stats (
    asset_id TEXT PRIMARY KEY,
    row_count INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    observed_by TEXT NOT NULL,
    observed_at REAL NOT NULL
) WITHOUT ROWID
"""
UPSERT = """
INSERT INTO asset_stats VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (asset_id) DO UPDATE SET
    row_count = excluded.row_count, size_bytes = excluded.size_bytes, files = excluded.files,
    observed_by = excluded.observed_by, observed_at = excluded.observed_at
WHERE excluded.observed_by > observed_by
"""


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=120, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def append_all(at: Path, number: int, batches: int, ready: Any) -> None:
    workspace = open_workspace(at)
    ids = asset_ids(KEYS)
    todo = [observations(ids, BATCH, number * batches + i) for i in range(batches)]
    ready.wait()
    for events in todo:
        workspace.ledger.append(events)


def insert_all(at: Path, number: int, batches: int, ready: Any) -> None:
    connection = connect(at)
    ids, new_id = asset_ids(KEYS), system_ulids()
    todo = [observations(ids, BATCH, number * batches + i) for i in range(batches)]
    ready.wait()
    for events in todo:
        now = time.time()
        rows = [(e.asset_id, e.row_count, e.size_bytes, e.files, new_id(), now) for e in events]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(UPSERT, rows)
        connection.execute("COMMIT")
    connection.close()


def compact(at: Path, ready: Any, finished: Any) -> None:
    stop = threading.Event()
    workspace = open_workspace(at)
    compactor = workspace.upkeep.compactor(stop, interval_s=0.01)
    workspace.ledger.append(observations(asset_ids(1), 1, 0))
    compactor.drain()  # what a process does once: pyarrow looks for pandas on its first array
    ready.wait()
    running = threading.Thread(target=compactor.run)
    running.start()
    finished.wait()
    stop.set()
    running.join()


def produced(target: Callable[..., None], at: Path, batches: int, ready: Any) -> list[SpawnProcess]:
    made = [
        spawn.Process(target=target, args=(at, number, batches, ready))
        for number in range(PRODUCERS)
    ]
    for process in made:
        process.start()
    return made


def arco_rate(at: Path, batches: int) -> float:
    """Events per second, from the first append to the commit that shows the last."""
    ready, finished = spawn.Barrier(PRODUCERS + 2), spawn.Event()
    compactor = spawn.Process(target=compact, args=(at, ready, finished))
    compactor.start()
    producers = produced(append_all, at, batches, ready)
    workspace, total = open_workspace(at), PRODUCERS * batches * BATCH
    ready.wait()
    began = time.perf_counter()
    for process in producers:
        process.join()
    while workspace.read.snapshot().position < total + 1:
        time.sleep(0.002)
    elapsed = time.perf_counter() - began
    finished.set()
    compactor.join()
    return total / elapsed


def sqlite_rate(at: Path, batches: int) -> float:
    connect(at).execute(TABLE)
    ready = spawn.Barrier(PRODUCERS + 1)
    producers = produced(insert_all, at, batches, ready)
    ready.wait()
    began = time.perf_counter()
    for process in producers:
        process.join()
    return PRODUCERS * batches * BATCH / (time.perf_counter() - began)


def throughput(at: Path, rounds: int, batches: int) -> dict[str, object]:
    ours, theirs = [], []
    for number in range(rounds):
        ours.append(arco_rate(at / f"arco-{number}", batches))
        theirs.append(sqlite_rate(at / f"sqlite-{number}.db", batches))
        progress(f"events/s from append to visible: {ours[-1]:,.0f}; SQLite {theirs[-1]:,.0f}")
    arco, sqlite = statistics.median(ours), statistics.median(theirs)
    return {
        "throughput_over_sqlite": round(arco / sqlite, 3),
        "events_per_second": round(arco),
        "sqlite_events_per_second": round(sqlite),
    }


def commit_once(workspace: Workspace, ids: list[str], count: int, seed: int) -> float:
    workspace.ledger.append(observations(ids, count, seed))
    seconds, _ = timed(workspace.committer.commit)
    workspace.upkeep.merger.merge()
    return seconds


def growth(at: Path, rounds: int, small: int, large: int) -> dict[str, object]:
    sizes = {size: asset_ids(size, seed=size) for size in (small, large)}
    workspaces = {size: open_workspace(at / f"rows-{size}") for size in sizes}
    for size, ids in sizes.items():
        fill(workspaces[size], ids)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for number in range(rounds + 5):
        for size, ids in sizes.items():
            times[size].append(commit_once(workspaces[size], ids, 1_000, number))
    low, high = ms(times[small][5:]), ms(times[large][5:])
    progress(f"1,000 events on {small:,} rows {low} ms, on {large:,} rows {high} ms")
    return {
        "time_1m_over_10k": round(high / low, 3),
        "commit_ms_10k": low,
        "commit_ms_1m": high,
    }


def compact_and_weigh(at: Path, total: int, weight: Any) -> None:
    """As `servo admin compact` does it: with its allocator and its cache of files."""
    use_little_memory()
    workspace = open_workspace(at, cache_budget_bytes=CACHED_BYTES)
    stop = threading.Event()
    compactor = workspace.upkeep.compactor(stop, interval_s=0.01, merge_interval_s=0.2)
    running = threading.Thread(target=compactor.run)
    running.start()
    while workspace.read.snapshot().position < total:
        time.sleep(0.1)
    stop.set()
    running.join()
    before = peak_rss_mib()
    workspace.upkeep.merger.merge(everything=True)  # so few large commits are not due for one
    merged = sum(kind == "merge" for kind in _kinds(workspace))
    weight.value = peak_rss_mib()
    progress(f"{before:.0f} MiB before the last of {merged} merges")


def _kinds(workspace: Workspace) -> list[str]:
    head = workspace.manifests.head()
    return [workspace.manifests.read(g).manifest.kind for g in range(1, head.generation + 1)]


def memory(at: Path, events: int, keys: int) -> dict[str, object]:
    ids, workspace = asset_ids(keys), open_workspace(at / "memory")
    for number in range(events // 1_000):
        workspace.ledger.append(observations(ids, 1_000, number))
    weight = spawn.Value("d", 0.0)
    process = spawn.Process(target=compact_and_weigh, args=(at / "memory", events, weight))
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # before Arrow is imported there
    process.start()
    del os.environ["ARROW_DEFAULT_MEMORY_POOL"]
    seconds, _ = timed(process.join)
    progress(f"{events:,} events committed in {seconds:.1f} s with {weight.value:.0f} MiB")
    return {"peak_rss_mib": round(weight.value, 1)}


def curve(at: Path, commits: int) -> dict[str, object]:
    """The median commit, hundred by hundred: it must not grow with their number."""
    ids, workspace = asset_ids(KEYS), open_workspace(at / "curve")
    rng = random.Random(3)
    times = [commit_once(workspace, ids, 10, rng.getrandbits(32)) for _ in range(commits)]
    step = max(1, commits // 20)
    points = [ms(times[start : start + step]) for start in range(0, commits, step)]
    progress(f"commits of 10 events, ms: {points}")
    early, late = ms(times[step : commits // 4]), ms(times[-commits // 4 :])
    return {"time_last_over_first": round(late / early, 3), "commit_curve_ms": points}


def main() -> None:
    parser = arguments(__doc__)
    parts = ("throughput", "growth", "memory", "curve")
    parser.add_argument("--only", choices=parts, action="append", help="measure just this")
    args = parser.parse_args()
    quick: bool = args.quick
    figures: dict[str, object] = {}
    with folder(args.dir) as at:
        for part in args.only or parts:
            progress(f"{part} …")
            match part:
                case "throughput":
                    rounds, batches = (1, 20) if quick else (5, 250)
                    figures |= throughput(at, rounds, batches)
                case "growth":
                    rounds, large = (3, 20_000) if quick else (31, 1_000_000)
                    figures |= growth(at, rounds, 10_000, large)
                case "memory":
                    events, keys = (10_000, 1_000) if quick else (1_000_000, 100_000)
                    figures |= memory(at, events, keys)
                case "curve":
                    figures |= curve(at, 100 if quick else 2_000)
    report(figures)


if __name__ == "__main__":
    main()
