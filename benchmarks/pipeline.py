"""What Servo costs on top of Spark: a real pipeline, and a hundred tiny assets.

`servo_over_pyspark`: `examples/shop` with its checks, from the trigger to the run's end,
over `benchmarks/plain_shop.py`, which calls the same functions in the same kind of
session and writes the same tables. The plain script has as many threads as Servo has
slots (`--threads 1` for a script as most people write it), so that the ratio is not a
gift of parallelism. It has no checks: `without_checks_over_pyspark` is the ratio when the
example has none either. All sides' outputs are compared, row for row, by a checksum.

`tiny_overhead_over_floor`: seconds per asset, of 100 that each read a tiny table and
write one, above a bare read and write on as many threads; over that bare one.

Each side runs in a process of its own, one after the other, in turns. Starting the JVM
and a first small write come before the clock starts, on all sides alike.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import msgspec

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.orchestration.plan import PlanRequest
from arco.worker.packing import pack
from benchmarks.flows import project
from benchmarks.plain_shop import EXAMPLE, Shop, Size, each_of
from benchmarks.workload import arguments, folder, progress, report
from servo.contract.manifest import Manifest
from servo.discover import build_manifest, discover

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("plain", "servo", "unchecked")
TINY = 100
Sums = dict[str, tuple[int, str]]


# -- the shop -----------------------------------------------------------------------------


def example(checked: bool) -> tuple[Manifest, bytes]:
    found = discover(EXAMPLE)
    artifact = pack(EXAMPLE)
    manifest = build_manifest(found, hashlib.sha256(artifact).hexdigest())
    replace = msgspec.structs.replace
    assets = [replace(asset, automation=None) for asset in manifest.assets]  # one run, and no more
    if not checked:
        assets = [replace(asset, checks=()) for asset in assets]
    return replace(manifest, assets=tuple(assets)), artifact


def servo_shop(at: Path, size: Size, slots: int, *, checked: bool) -> dict[str, Any]:
    """The example through Servo; its first asset once before, so that all is warm."""
    workspace = Workspace.open(f"file://{at}/store", "bench", "main")
    workspace.commands.orchestration.deploy(*example(checked))
    days = f"date={size.dates[0]}..{size.dates[-1]}"
    with LocalEngine(workspace, slots=slots).running() as engine:
        warm_up = PlanRequest(selection=("raw.products",), config={"products": size.products})
        ended(engine, warm_up)
        request = PlanRequest(
            selection=("*",), partitions=(days, "month=2025-01"), config=size.config, force=True
        )
        began = time.perf_counter()
        tasks = ended(engine, request)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "tasks": tasks, "sums": sums_of(newest(at / "store"))}


def plain_shop(at: Path, size: Size, threads: int) -> dict[str, Any]:
    from arco.spark.host import SparkHost

    sys.path.insert(0, str(EXAMPLE))
    host = SparkHost()
    with host.task("plain", "the shop as a plain script") as task:
        task.session.range(10).write.parquet(str(at / "warm"))
        began = time.perf_counter()
        Shop(task.session, at / "out", size, each_of(threads)).run()
        seconds = time.perf_counter() - began
    host.stop()
    return {"seconds": seconds, "sums": sums_of(folders(at / "out"))}


def ended(engine: LocalEngine, request: PlanRequest) -> int:
    """Trigger and wait; how many tasks it had. Anything but success is an error."""
    triggered = engine.workspace.commands.orchestration.trigger(request)
    row = engine.wait(triggered.run_id)
    if row.state != "SUCCEEDED":
        raise RuntimeError(f"run {row.run_id} ended {row.state}")
    return triggered.tasks


def newest(store: Path) -> dict[str, list[Path]]:
    """The newest version of each partition, by asset: its folder's name is in order of time."""
    found: dict[str, dict[Path, Path]] = {}
    for file in sorted((store / "bench" / "main" / "data").rglob("*.parquet")):
        version = file.parent
        namespace, name = version.relative_to(store / "bench" / "main" / "data").parts[:2]
        found.setdefault(f"{namespace}.{name}", {})[version.parent] = version
    return {asset: list(versions.values()) for asset, versions in found.items()}


def folders(out: Path) -> dict[str, list[Path]]:
    return {
        asset.name: sorted({file.parent for file in asset.rglob("*.parquet")})
        for asset in sorted(out.iterdir())
    }


def sums_of(assets: dict[str, list[Path]]) -> Sums:
    """Rows and a checksum of each asset's rows, in whatever order they are."""
    database = duckdb.connect(":memory:")
    database.execute("SET memory_limit = '4GB'")
    found = {}
    for asset, places in sorted(assets.items()):
        files = [str(place / "*.parquet") for place in places]
        query = (
            "SELECT count(*), coalesce(sum(hash(t)::HUGEINT), 0)::VARCHAR "
            f"FROM read_parquet({files!r}, hive_partitioning=false) t"
        )
        rows, checksum = database.execute(query).fetchall()[0]
        found[asset] = (rows, checksum)
    return found


# -- a hundred tiny assets ----------------------------------------------------------------


def tiny_source() -> str:
    lines = [
        "from servo import AssetContext, AssetIn, asset",
        '@asset(namespace="tiny")',
        "def root(ctx: AssetContext):",
        "    return ctx.spark.range(10)",
    ]
    for number in range(TINY):
        lines += [
            '@asset(namespace="tiny")',
            f'def t{number}(root: AssetIn["root"]):',
            f'    return root.read().selectExpr("id + {number} AS id")',
        ]
    return "\n".join(lines)


def tiny_servo(at: Path, slots: int, repeats: int) -> dict[str, Any]:
    workspace = Workspace.open(f"file://{at}/store", "bench", "main")
    workspace.commands.orchestration.deploy(*project(tiny_source()))
    every = PlanRequest(selection=("*",), exclude=("tiny.root",), force=True)
    with LocalEngine(workspace, slots=slots).running() as engine:
        ended(engine, PlanRequest(selection=("tiny.root",)))
        ended(engine, every)
        return {"seconds": [_timed(lambda: ended(engine, every)) / TINY for _ in range(repeats)]}


def tiny_floor(at: Path, threads: int, repeats: int) -> dict[str, Any]:
    """A read of one tiny file, whose schema is given, and a write: nothing else."""
    from arco.spark.host import SparkHost

    host = SparkHost()
    with host.task("root", input_bytes=0) as task:
        task.session.range(10).coalesce(1).write.parquet(str(at / "root"))
        schema = task.session.range(0).schema

    def write(number: int, where: Path) -> None:
        with host.task(f"{where.name}-{number}", input_bytes=1_000) as task:
            frame = task.session.read.schema(schema).parquet(str(at / "root"))
            frame.selectExpr(f"id + {number} AS id").write.parquet(str(where / str(number)))

    def every(where: Path) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda number: write(number, where), range(TINY)))

    every(at / "warm")
    seconds = [_timed(lambda n=n: every(at / f"r{n}")) / TINY for n in range(repeats)]  # type: ignore[misc]
    host.stop()
    return {"seconds": seconds}


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# -- taking turns -------------------------------------------------------------------------


def child(at: Path, side: str, args: argparse.Namespace) -> dict[str, Any]:
    """One side in a process of its own, and in a folder that is removed afterwards."""
    at.mkdir()
    given = [f"--{name}={getattr(args, name)}" for name in ("rows", "days", "slots", "threads")]
    command = [sys.executable, "-m", "benchmarks.pipeline", "--side", side, f"--dir={at}", *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    shutil.rmtree(at)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
            return found
    raise RuntimeError(f"{side} gave no result:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def perform(side: str, args: argparse.Namespace) -> None:
    """What a child does."""
    size = Size.of(args.rows, args.days)
    match side:
        case "plain":
            found = plain_shop(args.dir, size, args.threads)
        case "servo" | "unchecked":
            found = servo_shop(args.dir, size, args.slots, checked=side == "servo")
        case "tiny":
            found = tiny_servo(args.dir, args.slots, 3)
        case _:
            found = tiny_floor(args.dir, args.threads, 3)
    print("RESULT " + json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # whatever the JVM still does is of no interest


def shop(at: Path, args: argparse.Namespace) -> dict[str, object]:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(args.rounds):
        sums: dict[str, Sums] = {}
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            found = child(at / f"{side}{number}", side, args)
            seconds[side].append(found["seconds"])
            sums[side] = {asset: (rows, text) for asset, (rows, text) in found["sums"].items()}
            progress(f"{side}: {found['seconds']:.1f} s")
        _must_agree(sums)
    middle = {side: statistics.median(each) for side, each in seconds.items()}
    return {
        "servo_over_pyspark": round(middle["servo"] / middle["plain"], 3),
        "without_checks_over_pyspark": round(middle["unchecked"] / middle["plain"], 3),
        "order_rows": args.rows,
        "plain_threads": args.threads,
        **{f"{side}_s": [round(each, 2) for each in found] for side, found in seconds.items()},
    }


def _must_agree(sums: dict[str, Sums]) -> None:
    plain = sums["plain"]
    for side, found in sums.items():
        for asset in sorted({*plain, *found}):
            if plain.get(asset) != found.get(asset):
                raise RuntimeError(
                    f"{asset} differs: {plain.get(asset)} plain, {found.get(asset)} {side}"
                )


def tiny(at: Path, args: argparse.Namespace) -> dict[str, object]:
    seconds: dict[str, list[float]] = {"tiny": [], "floor": []}
    for number in range(args.rounds):
        for side in ("floor", "tiny") if number % 2 == 0 else ("tiny", "floor"):
            found = child(at / f"{side}{number}", side, args)
            seconds[side] += found["seconds"]
            progress(f"{side}: {statistics.median(found['seconds']) * 1e3:.0f} ms each")
    ours, floor = (statistics.median(seconds[side]) for side in ("tiny", "floor"))
    return {
        "tiny_overhead_over_floor": round((ours - floor) / floor, 3),
        "tiny_ms": round(ours * 1e3, 1),
        "floor_ms": round(floor * 1e3, 1),
    }


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="orders in all")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=4, help="tasks at a time, through Servo")
    parser.add_argument("--threads", type=int, help="of the plain script (default: the slots)")
    parser.add_argument("--only", choices=["shop", "tiny"])
    parser.add_argument("--side", help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    args.threads = args.threads or args.slots
    if args.side:
        perform(args.side, args)
    if args.quick:
        args.rows, args.days, args.rounds = 100_000, 3, 1
    figures: dict[str, object] = {}
    with folder(args.dir) as at:
        if args.only in (None, "shop"):
            figures |= shop(at, args)
        if args.only in (None, "tiny"):
            figures |= tiny(at, args)
    report(figures)


if __name__ == "__main__":
    main()
