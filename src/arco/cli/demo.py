"""`python -m arco.cli.demo`: a workspace, acted out. Every figure is really obtained.

It leaves the workspace behind, to look around in. Not part of `servo`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.cli import app, render
from arco.cli.events import since
from arco.errors import Error, Refused
from arco.log.commit import Committed

STORE, TENANT, NAME = "lake", "default", "main"
WRITERS = 8
FACTS = 6_000
BATCH = 100


class Stage:
    """Where it is acted: narration, commands, and their answers."""

    def __init__(self, console: Console, pause_s: float) -> None:
        self.console = console
        self.pause_s = pause_s
        self.acts = 0

    def act(self, title: str, *lines: str) -> None:
        time.sleep(self.pause_s)
        self.acts += 1
        self.console.print()
        self.console.rule(f"[bold cyan]{self.acts}. {title}", align="left", style="cyan")
        for line in lines:
            self.console.print(line, style="italic")
        time.sleep(self.pause_s)

    def say(self, text: str) -> None:
        self.console.print(f"[green]▸[/] {text}", highlight=False)

    def servo(self, *arguments: str) -> None:
        """Show a command, run it in this process, and insist that it works."""
        self.console.print(Text(f"\n$ servo {shlex.join(arguments)}", "bold"), soft_wrap=True)
        sys.stdout.flush()
        if (code := app.run(arguments)) != 0:
            raise SystemExit(f"servo {shlex.join(arguments)} ended with exit code {code}")


def open_workspace(actor: str = "demo") -> Workspace:
    return Workspace.open(STORE, TENANT, NAME, source="demo", actor=actor)


def at_once(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run tasks in as many threads, started together."""
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


def beginnings(stage: Stage) -> str:
    stage.act("A directory is all it takes", "No server, no database: a store and its files.")
    stage.servo("admin", "init", "--store", STORE, "--save")
    stage.servo("catalog", "namespace", "create", "shop", "--owner", "ana")
    stage.servo(
        *("catalog", "asset", "create", "shop.orders", "--tag", "tier=gold"),
        *("--column", "id:bigint:not_null", "--column", "email:string"),
    )
    stage.servo("catalog", "asset", "show", "shop.orders")
    (asset,) = open_workspace().read_catalog().assets("shop")
    return asset.asset_id


def race(stage: Stage) -> None:
    stage.act(
        "A race for a name",
        f"{WRITERS} writers want shop.customers at the same moment. Nobody takes a lock.",
    )
    before = open_workspace().snapshot().generation

    def attempt(number: int) -> tuple[str, str]:
        mine = open_workspace(f"writer-{number}")
        try:
            done = mine.catalog.create_asset("shop.customers", tags={"by": f"writer-{number}"})
            return "won", f"generation {done.generation}"
        except Refused as error:
            return "refused", f"{error.code}: {error.message}"
        except Error as error:
            return error.kind, error.message

    results = at_once([lambda n=n: attempt(n) for n in range(WRITERS)])  # type: ignore[misc]
    table = Table("writer", "outcome", "what it was told", box=None, pad_edge=False)
    for number, (outcome, told) in enumerate(results):
        style = "bold green" if outcome == "won" else ""
        table.add_row(f"writer-{number}", Text(outcome, style), told)
    stage.console.print(table)
    asset = open_workspace().read_catalog().assets("shop")[0]
    generations = open_workspace().snapshot().generation - before
    counts = Counter(outcome for outcome, _ in results)
    stage.say(f"{counts['won']} won, {counts['refused']} were refused, each with its reason;")
    shared = render.count(generations, "commit")
    stage.say(f"the catalog says [bold]{asset.tags['by']}[/]. All {WRITERS} shared {shared}.")


def flood(stage: Stage, asset_id: str) -> int:
    """Facts, appended and committed; the generation before them."""
    stage.act(
        "Thousands of facts",
        f"4 writers append {FACTS:,} observations. An append is one write, and reads nothing.",
    )
    workspace = open_workspace()
    before = workspace.snapshot().generation

    def write(writer: int) -> None:
        mine = open_workspace(f"probe-{writer}")
        for start in range(writer * BATCH, FACTS, 4 * BATCH):
            rows = range(start, start + BATCH)
            mine.ledger.append([observed(asset_id, n) for n in rows])

    began = time.perf_counter()
    at_once([lambda w=w: write(w) for w in range(4)])  # type: ignore[misc]
    seconds = time.perf_counter() - began
    stage.say(f"durable after {seconds:.2f} s: {FACTS / seconds:,.0f} facts a second")
    began = time.perf_counter()
    commits = 0
    while isinstance(workspace.committer.commit(), Committed):
        commits += 1
    seconds = time.perf_counter() - began
    position = workspace.snapshot().position
    stage.say(
        f"ordered, folded and published in {seconds:.2f} s and "
        f"{render.count(commits, 'commit')}; the log ends at position {position:,}"
    )
    stage.servo("admin", "log", "tail", "-n", "3")
    stage.servo("admin", "merge", "--all")
    return before


def observed(asset_id: str, number: int) -> AssetObserved:
    return AssetObserved(
        asset_id=asset_id, row_count=1_000 + number, size_bytes=64_000 + 8 * number, files=1
    )


def travel(stage: Stage, before: int) -> None:
    stage.act("Time travel", "Every generation is still there. A question names the one it wants.")
    question = "SELECT name, row_count, size_bytes FROM catalog.assets LEFT JOIN "
    question += "catalog.asset_stats USING (asset_id) ORDER BY name"
    stage.servo("admin", "sql", question)
    stage.servo("admin", "sql", "--generation", str(before), question)
    then = open_workspace().manifests.read(2).manifest.published_at
    stage.servo("catalog", "asset", "list", "--as-of", f"{then.isoformat()}Z")
    stage.servo("admin", "diff", "2", str(before))


def look_inside(stage: Stage) -> None:
    stage.act("Look inside", "All of it is JSON and Parquet. Here is every kind of file there is.")
    root = Path(STORE) / TENANT / NAME
    found: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        folder = str(path.relative_to(root).parent)
        found[folder] += 1
        sizes[folder] += path.stat().st_size
    tree = Tree(f"[bold]{root}")
    for folder in sorted(found):
        files = render.count(found[folder], "file")
        tree.add(f"{folder}  [dim]{files}, {render.size(sizes[folder])}[/]")
    stage.console.print(tree, highlight=False)
    first = min((root / "ledger" / "segments").glob("*.parquet"))
    stage.say(f"a piece of the log, read by DuckDB, which knows nothing of us: {first.name}")
    query = f"SELECT position, type, actor, data FROM read_parquet('{first}')"
    for row in duckdb.connect(":memory:").execute(query).fetchall():
        stage.console.print(Text(f"  {row}", "yellow"), soft_wrap=True)
    stage.servo("admin", "log", "show", "1")


def kill(stage: Stage, asset_id: str) -> None:
    stage.act(
        "kill -9",
        "A compactor works in a process of its own. We kill it while facts pour in.",
    )
    workspace = open_workspace()
    start = workspace.snapshot().position
    with compactor() as child, pouring(workspace, asset_id) as appended:
        line = child.stdout.readline() if child.stdout else ""
        while line and '"published"' not in line:
            line = child.stdout.readline() if child.stdout else ""
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        stage.say(f"killed process {child.pid} (exit code {child.wait()})")
        time.sleep(0.2)  # the writer has not noticed
    waiting = sum(1 for _ in workspace.store.list("ledger/inbox/"))
    committed = workspace.snapshot().position - start
    stage.say(f"{len(appended):,} facts were acknowledged; {committed:,} are committed,")
    stage.say(
        f"{render.count(waiting, 'batch', 'batches')} wait in the inbox. Another one takes over:"
    )
    stage.servo("admin", "compact", "--once")
    ids = [e.recorded.event.id for e in since(workspace.snapshot(), start + 1)]
    lost, twice = len(appended - set(ids)), len(ids) - len(set(ids))
    stage.say(f"in the log now: {len(ids):,}. Lost: [bold]{lost}[/]. Twice: [bold]{twice}[/].")
    if lost or twice:
        raise SystemExit("facts were lost, or folded twice: this is a bug")


@contextlib.contextmanager
def compactor() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "arco.cli", "admin", "compact", "--json", "--interval", "0.05"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


@contextlib.contextmanager
def pouring(workspace: Workspace, asset_id: str) -> Iterator[set[str]]:
    """Appends in a thread; yields the ids of what was acknowledged."""
    appended: set[str] = set()
    stop = threading.Event()

    def pour() -> None:
        number = FACTS
        while not stop.wait(0.005):
            batch = [observed(asset_id, number + n) for n in range(10)]
            appended.update(workspace.ledger.append(batch).event_ids)
            number += 10

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        yield appended
    finally:
        stop.set()
        thread.join()


PIPELINE = """import pyarrow as pa

from servo import AssetContext, AssetIn, asset, daily, window

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(partitions=DAYS, owners=["ana"])
def orders(ctx: AssetContext) -> pa.Table:
    ctx.log.info("fetching the orders of %s", ctx.partition_value("date"))
    return pa.table({"sku": ["pen", "ink", "pen"], "amount": [3, 1, 2]})


@asset(partitions=DAYS)
def weekly_trend(orders: AssetIn["orders", window(-6, 0)]) -> pa.Table:
    return orders.arrow().group_by("sku").aggregate([("amount", "sum")])
"""


def assets(stage: Stage) -> None:
    stage.act(
        "Assets in Python",
        "Two functions, and what they need of each other. A plan says why each task is there.",
    )
    folder = Path("pipelines")
    folder.mkdir()
    code = folder / "shop.py"
    code.write_text(PIPELINE, "utf-8")
    stage.console.print(
        Syntax(PIPELINE.partition("\n\n\n")[2], "python", background_color="default")
    )
    stage.servo("deploy", "--project", "pipelines", "-m", "first version")
    days = ("-p", "date=2025-01-01..2025-01-03")
    stage.servo("run", "*", *days)
    stage.say("one function is edited; what it does not touch is up to date:")
    code.write_text(PIPELINE.replace('"sum"', '"mean"'), "utf-8")
    stage.servo("deploy", "--project", "pipelines")
    stage.servo("plan", "*", *days)
    stage.servo("run", "*", *days)
    stage.servo("runs", "list")


def upkeep(stage: Stage) -> None:
    stage.act(
        "Is it whole?",
        "Every checksum, the hash chain, every position; then the whole log is folded again.",
    )
    stage.servo("admin", "fsck")
    stage.servo("admin", "rebuild", "--check")
    stage.say("what the losers of the race and the killed process left behind is for GC, in a day:")
    stage.servo("admin", "gc")


def farewell(stage: Stage, directory: Path, seconds: float) -> None:
    stage.console.print()
    stage.console.rule(f"[bold cyan]{seconds:.1f} s; the workspace is yours", style="cyan")
    stage.console.print(f"It is in {directory}. Try:", highlight=False, soft_wrap=True)
    path = [] if shutil.which("servo") else [f"export PATH={Path(sys.executable).parent}:$PATH"]
    for line in (
        *path,
        f"cd {shlex.quote(str(directory))}",
        "servo admin snapshot --history 10",
        "servo admin log tail --follow            # and, in another terminal:",
        "servo catalog namespace create mine",
        'servo admin sql "SELECT status, count(*) FROM log.outcomes GROUP BY 1"',
        "servo admin rollback 2 --reason 'because I can'",
        "servo catalog asset list",
        "servo run '*' -p date=2025-01-01..2025-01-31",
        "servo runs show RUN                      # the end of an id will do",
    ):
        stage.console.print(Text(f"  {line}", "bold"), soft_wrap=True)


def prepare(directory: Path) -> Path:
    """An empty directory; a former demo there is removed, and nothing else ever is."""
    ours = (directory / "arco.toml").is_file() and (directory / STORE).is_dir()
    if directory.exists() and any(directory.iterdir()):
        if not ours:
            raise SystemExit(
                f"{directory} is not empty and is no former demo; choose another --dir"
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m arco.cli.demo", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(".demo"), help="default: .demo")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="between the acts")
    options = parser.parse_args(arguments)
    directory = prepare(options.dir)
    os.chdir(directory)
    for name in ("ARCO_STORE", "ARCO_TENANT", "ARCO_WORKSPACE"):
        os.environ.pop(name, None)
    stage = Stage(Console(), options.pause)
    began = time.perf_counter()
    asset_id = beginnings(stage)
    race(stage)
    before = flood(stage, asset_id)
    travel(stage, before)
    look_inside(stage)
    kill(stage, asset_id)
    assets(stage)
    upkeep(stage)
    farewell(stage, directory, time.perf_counter() - began)


if __name__ == "__main__":
    main()
