"""`python examples/demo.py`: a shop's data for a few days, acted out on Spark.

Every figure is really obtained. It leaves the workspace behind, to look around in.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.cli import app, render
from arco.cli.log_entries import since
from arco.clock import MovedClock, SystemClock
from arco.errors import Error, Refused
from arco.execution.tables import QUARANTINE
from arco.orchestration.tables import RUNS, RunRow

STORE, TENANT, NAME = "lake", "default", "main"
SHOP = Path(__file__).resolve().parent / "shop"
ORDERS_A_DAY = 20_000
GOOD_DAYS, BAD_DAY = "2025-01-01..2025-01-03", "2025-01-04"
MONTHLY = "marts.monthly_revenue"
DAYS = "2025-01-01..2025-01-04"
OPENING = datetime(2025, 1, 4, 12)
NIGHT = datetime(2025, 1, 5, 2, 15, 5)
"""The schedule is due at 03:15 in Berlin."""
MONTH_END = datetime(2025, 2, 1, 0, 0, 5)
PATIENCE_S = 300
PAGE_PORT = 8321
CHANNEL = """
[notifications.channels.operators]
type = "webhook"
url = "http://127.0.0.1:{port}/arco"
allow_private = true
"""
WRITERS = 8


class Stage:
    """Where it is acted: narration, commands, and their answers."""

    def __init__(self, console: Console, pause_s: float, orders: int) -> None:
        self.console = console
        self.orders = orders
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

    def servo(self, *arguments: str, code: int = 0) -> None:
        """Show a command, run it in this process, and insist on how it ends."""
        self.console.print(Text(f"\n$ servo {shlex.join(arguments)}", "bold"), soft_wrap=True)
        sys.stdout.flush()
        if (ended := app.run(arguments)) != code:
            raise SystemExit(f"servo {shlex.join(arguments)} ended with exit code {ended}")


def open_workspace(actor: str = "demo") -> Workspace:
    clock = MovedClock(Path("clock"))
    return Workspace.open(STORE, TENANT, NAME, clock=clock, source="demo", actor=actor)


def at_once(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run tasks in as many threads, started together."""
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


def beginnings(stage: Stage) -> None:
    stage.act(
        "A directory is all it takes",
        "No server, no database: a store and its files, and a project in Python.",
    )
    stage.servo("admin", "init", "--store", STORE, "--save")
    shutil.copy(SHOP / "pricing.toml", "pricing.toml")
    with Path("arco.toml").open("a") as settings:
        settings.write('\n[costs]\npricing = "pricing.toml"\n\n[spark]\nfast_start = true\n')
    code = (SHOP / "shop" / "clean.py").read_text("utf-8")
    excerpt = code[code.rindex("@asset", 0, code.index("def orders(")) :]
    stage.console.print(
        Syntax(excerpt.partition("\n\n\n")[0], "python", background_color="default", word_wrap=True)
    )
    stage.servo("deploy", "--project", str(SHOP), "-m", "the shop opens")


def good_days(stage: Stage) -> int:
    """Three days; the generation after them."""
    stage.act(
        "Three good days",
        "Made up, cleaned, joined, cut into visits and summed up, on Spark.",
    )
    # The month is not over.
    what = ("*", "--exclude", MONTHLY, "-p", f"date={GOOD_DAYS}")
    stage.servo("run", *what, "--config", f"rows_per_day={stage.orders}")
    stage.say("and once more: nothing has changed, so nothing runs")
    stage.servo("run", *what, "--config", f"rows_per_day={stage.orders}")
    return open_workspace().read.snapshot().generation


def by_itself(stage: Stage) -> None:
    stage.act(
        "A night by itself",
        "An orchestrator and a worker are started, and the clock is set to the next night:",
        f"the schedule runs {BAD_DAY}. On that day the till mixed up its currencies.",
    )
    stage.servo("schedules", "preview", "nightly", "--count", "2")
    stage.servo("limits", "set", "pool:till", "2")
    with receiver() as messages, process("worker"), process("orchestrator"):
        move_clock(NIGHT)
        wait(stage, "the nightly run", lambda: ended("schedule"))
        stage.servo("schedules", "show", "nightly")
        stage.servo("quarantine", "list")
        stage.say("the marts still say what they said; no number was made of bad ones")
        move_clock(NIGHT + timedelta(minutes=5))  # messages wait for more of their kind
        wait(stage, "a message", lambda: messages)
        stage.say(f"the operators were told: [bold]{escape(messages[0]['title'])}[/]")
        correct(stage)
        wait(stage, "the correction", lambda: ended("webhook"))
        wait(stage, "what reads it", lambda: len(ended("materialization")) >= 1 and idle())
        stage.servo("automation", "explain", "marts.weekly_revenue", "-p", f"date={BAD_DAY}")
        stage.servo("runs", "list", "--limit", "5")
        move_clock(NIGHT + timedelta(minutes=15))
        wait(stage, "the recovery", lambda: len(messages) > 1)
        stage.say(f"and told again: [bold]{escape(messages[-1]['title'])}[/]")
        stage.servo("freshness")
        backfill(stage)
        month_ends(stage)


def correct(stage: Stage) -> None:
    held = open_workspace().read.snapshot().all(QUARANTINE)[0]
    stage.servo("quarantine", "show", held.materialization_id)
    stage.servo("quarantine", "reject", held.materialization_id, "--reason", "wrong currencies")
    stage.say("the till sends the day again, and pushes a message to a sensor:")
    Path("correction.json").write_text(json.dumps({"day": BAD_DAY}))
    stage.servo("sensors", "push", "corrections", "--id", "till-1", "--payload", "correction.json")


def backfill(stage: Stage) -> None:
    stage.act("A backfill", "The night ran what daily revenue needs. The rest of the day follows.")
    days = ("-p", f"date={DAYS}", "--chunk-size", "8")
    what = ("raw.clicks", "clean.clicks", "clean.sessions", "marts.conversion", *days)
    stage.servo("backfill", "preview", *what)
    stage.servo("backfill", "create", *what)
    wait(stage, "the backfill", lambda: len(ended("backfill")) == 2 and idle())
    (newest,) = open_workspace().read.automation().backfills()
    stage.servo("backfill", "status", newest.row.backfill_id)


def month_ends(stage: Stage) -> None:
    stage.act("The month ends", f"{MONTHLY} reads the days of its month, and waits for its end.")
    stage.servo("schedules", "pause", "nightly", "--reason", "the rest of January is not acted out")
    stage.servo("automation", "explain", MONTHLY)
    before = len(ended("materialization"))
    move_clock(MONTH_END)
    wait(stage, "the month", lambda: len(ended("materialization")) > before and idle())
    stage.servo("partitions", "status", MONTHLY)


def ended(trigger: str) -> list[RunRow]:
    rows = open_workspace().read.snapshot().all(RUNS)
    return [row for row in rows if row.trigger == trigger and row.finished_at is not None]


def idle() -> bool:
    reader = open_workspace().read.orchestration()
    pending, _ = reader.run_requests(limit=1, in_states=["PENDING"])
    active = [row for row in reader.snapshot.all(RUNS) if row.finished_at is None]
    return not pending and not active


def wait(stage: Stage, what: str, happened: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    with stage.console.status(f"waiting for {what} …"):
        while not happened():
            if time.monotonic() > until:
                raise SystemExit(f"{what} did not come within {PATIENCE_S} s")
            time.sleep(0.2)


def move_clock(to: datetime) -> None:
    """All processes of the demo see this time from now on: none of them has to wait for a night."""
    new = Path("clock.new")
    new.write_text(str((to - SystemClock().now()).total_seconds()))
    new.replace("clock")


@contextlib.contextmanager
def process(name: str) -> Iterator[None]:
    """`servo NAME`, until it is not needed any more."""
    with Path(f"{name}.log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "arco.cli", name], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait()


@contextlib.contextmanager
def receiver() -> Iterator[list[dict[str, Any]]]:
    """Somebody who is told of trouble: an HTTP server on this machine, and what it was sent."""
    messages: list[dict[str, Any]] = []

    class Operators(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            messages.append(json.loads(self.rfile.read(size)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Operators) as server:
        with Path("arco.toml").open("a") as settings:
            settings.write(CHANNEL.format(port=server.server_port))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield messages
        finally:
            server.shutdown()
            thread.join()


def origins(stage: Stage) -> None:
    stage.act(
        "Where does this number come from?",
        "Every task left behind what it read and, from Spark's own plan, which columns.",
    )
    workspace = open_workspace()
    asset = workspace.read.orchestration().deployed_assets()[MONTHLY]
    (month,) = workspace.read.execution().partitions(asset.asset_id)
    files = Path(STORE) / TENANT / NAME / month.path / "*.parquet"
    query = "SELECT country, category, revenue FROM read_parquet(?) ORDER BY revenue DESC LIMIT 1"
    ((country, category, revenue),) = duckdb.execute(query, [str(files)]).fetchall()
    stage.say(f"January, {category} in {country}: [bold]{revenue:,} €[/]")
    stage.servo("lineage", "show", "marts.monthly_revenue.revenue", "--depth", "10")
    stage.servo("lineage", "impact", "raw.customers.email")


def answers(stage: Stage) -> None:
    stage.act(
        "What is there, and what is the matter?",
        "The catalog knows names, columns, schemas, personal data, and why it is all like that.",
    )
    stage.servo("search", "revnue", "tag:tier=gold")
    stage.servo("explain", "clean.orders", "-p", f"date={BAD_DAY}")
    stage.servo("pii", "list")
    stage.servo("pii", "explain", "clean.sessions.visitor")
    stage.servo("schema", "history", "clean.orders")


def quality(stage: Stage) -> None:
    stage.act("Is it right, and what did it cost?", "Checks and costs are rows like all others.")
    stage.servo("checks", "list", "clean.orders", "-p", f"date={BAD_DAY}")
    stage.servo("costs", "--asset", "clean.*")


def travel(stage: Stage, before: int) -> None:
    stage.act("Time travel", "Every generation is still there. A question names the one it wants.")
    question = (
        "SELECT asset_key, count(*) AS partitions, sum(rows) AS rows FROM execution.partitions "
        "JOIN orchestration.deployed_assets USING (asset_id) GROUP BY 1 "
        "HAVING count(*) > 1 ORDER BY 1"
    )
    stage.servo("admin", "sql", question)
    stage.servo("admin", "sql", "--generation", str(before), question)


def race(stage: Stage) -> str:
    """Several writers want one name; the id of what one of them made."""
    stage.act(
        "A race for a name",
        f"{WRITERS} writers want marts.forecast at the same moment. Nobody takes a lock.",
    )
    before = open_workspace().read.snapshot().generation

    def attempt(number: int) -> tuple[str, str]:
        mine = open_workspace(f"writer-{number}")
        try:
            done = mine.commands.catalog.create_asset(
                "marts.forecast", tags={"by": f"writer-{number}"}
            )
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
    (asset,) = [a for a in open_workspace().read.catalog().assets("marts") if a.name == "forecast"]
    generations = open_workspace().read.snapshot().generation - before
    counts = Counter(outcome for outcome, _ in results)
    stage.say(f"{counts['won']} won, {counts['refused']} were refused, each with its reason;")
    shared = render.count(generations, "commit")
    stage.say(f"the catalog says [bold]{asset.tags['by']}[/]. All {WRITERS} shared {shared}.")
    return asset.asset_id


def observed(asset_id: str, number: int) -> AssetObserved:
    return AssetObserved(
        asset_id=asset_id, row_count=1_000 + number, size_bytes=64_000 + 8 * number, files=1
    )


def kill(stage: Stage, asset_id: str) -> None:
    stage.act(
        "kill -9",
        "A compactor works in a process of its own. We kill it while facts pour in.",
    )
    workspace = open_workspace()
    start = workspace.read.snapshot().position
    with compactor() as child, pouring(workspace, asset_id) as appended:
        line = child.stdout.readline() if child.stdout else ""
        while line and '"published"' not in line:
            line = child.stdout.readline() if child.stdout else ""
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        stage.say(f"killed process {child.pid} (exit code {child.wait()})")
        time.sleep(0.2)  # the writer has not noticed
    waiting = sum(1 for _ in workspace.store.list("ledger/inbox/"))
    committed = workspace.read.snapshot().position - start
    stage.say(f"{len(appended):,} facts were acknowledged; {committed:,} are committed,")
    stage.say(
        f"{render.count(waiting, 'batch', 'batches')} wait in the inbox. Another one takes over:"
    )
    stage.servo("admin", "compact", "--once")
    ids = [e.recorded.event.id for e in since(workspace.read.snapshot(), start + 1)]
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
        number = 0
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


def look_inside(stage: Stage) -> None:
    stage.act("Look inside", "All of it is JSON and Parquet, and needs nothing of ours to be read.")
    root = Path(STORE) / TENANT / NAME
    found: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path in (p for p in root.rglob("*") if p.is_file()):
        folder = "/".join(path.relative_to(root).parent.parts[:2])
        found[folder] += 1
        sizes[folder] += path.stat().st_size
    tree = Tree(f"[bold]{root}")
    for folder in sorted(found):
        files = render.count(found[folder], "file")
        tree.add(f"{folder}  [dim]{files}, {render.size(sizes[folder])}[/]")
    stage.console.print(tree, highlight=False)
    stage.servo("admin", "log", "tail", "-n", "3")


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
        "servo run '*' -p date=2025-01-01..2025-01-31 -p month=2025-01",
        "servo runs show RUN                      # the beginning of an id will do",
    ):
        stage.console.print(Text(f"  {line}", "bold"), soft_wrap=True)


def show_page(stage: Stage, directory: Path, *, is_terminal: bool) -> None:
    """Serve the web page of the demo's workspace until Ctrl-C, if a person is there."""
    place = shlex.quote(str(directory))
    if not is_terminal:
        stage.console.print("To see it as a web page:", highlight=False)
        clock = f"ARCO_CLOCK={shlex.quote(str(directory / 'clock'))}"
        line = f"cd {place} && {clock} servo serve"
        stage.console.print(Text(f"  {line}", "bold"), soft_wrap=True)
        return
    text = "The web page of this workspace: open the link below. Ctrl-C ends the demo."
    stage.console.print(f"\n{text}", highlight=False)
    with (directory / "access.log").open("w") as access:
        command = [sys.executable, "-m", "arco.cli", "serve"]
        if not _is_free(PAGE_PORT):
            command += ["--port", "0"]
        with contextlib.suppress(KeyboardInterrupt):
            subprocess.run(command, stderr=access, check=False)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


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
    parser = argparse.ArgumentParser(prog="python examples/demo.py", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(".demo"), help="default: .demo")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="between the acts")
    parser.add_argument(
        "--orders", type=int, default=ORDERS_A_DAY, help=f"a day; default: {ORDERS_A_DAY:,}"
    )
    parser.add_argument("--no-page", action="store_true", help="do not serve the page at the end")
    options = parser.parse_args(arguments)
    directory = prepare(options.dir)
    os.chdir(directory)
    for name in ("ARCO_STORE", "ARCO_TENANT", "ARCO_WORKSPACE"):
        os.environ.pop(name, None)
    os.environ["ARCO_CLOCK"] = str(directory / "clock")
    move_clock(OPENING)
    stage = Stage(Console(), options.pause, options.orders)
    began = time.perf_counter()
    beginnings(stage)
    before = good_days(stage)
    by_itself(stage)
    origins(stage)
    answers(stage)
    quality(stage)
    travel(stage, before)
    asset_id = race(stage)
    kill(stage, asset_id)
    look_inside(stage)
    upkeep(stage)
    farewell(stage, directory, time.perf_counter() - began)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not options.no_page
    show_page(stage, directory, is_terminal=is_terminal)


if __name__ == "__main__":
    main()
