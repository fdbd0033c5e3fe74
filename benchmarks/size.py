"""Whether the cost of what happens today depends on what has happened before.

Three workspaces on a local disk have lived for 1, 10 and `--days` days, by a clock that jumps
from one day to the next: each day a run of daily partitions, with checks and lineage, by the
real engine, then merges and a GC. Then they take turns at the same work. The other figures
come from `deploys`, `inputs` and `partitions_size`.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.kit.stores import DatedStore

from arco.app import Workspace
from arco.clock import SystemClock
from arco.engine import LocalEngine
from arco.log.head import Head
from arco.log.manifest import FileRef, RootManifest
from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS
from arco.state.gc import GenerationRetention
from arco.storage import paths
from arco.storage.local import LocalStore
from arco.storage.scoped import ScopedStore
from benchmarks import deploys, inputs, partitions_size
from benchmarks.flows import project
from benchmarks.workload import CountingStore, arguments, folder, progress, report, timed
from servo.contract.ulid import UlidFactory

TENANT, NAME = "bench", "main"
FIRST_DAY = datetime(2024, 1, 1)
SOURCE = """
import pyarrow as pa
from servo import asset, AssetIn, daily, in_range, not_null, row_count, unique

DAYS = daily("date", start="2023-12-01")
NAMESPACE = "shop"

@asset(partitions=DAYS, checks=[row_count(min=1), unique("order_id"), not_null("cents")])
def orders() -> pa.Table:
    return pa.table({"order_id": [1, 2, 3], "cents": [100, 250, 75], "region": ["eu", "us", "eu"]})

@asset(partitions=DAYS, checks=[in_range("cents", min=0)])
def totals(orders: AssetIn["shop.orders"]) -> pa.Table:
    sums = orders.arrow().group_by("region").aggregate([("cents", "sum")])
    return sums.rename_columns(["region", "cents"])
"""


class DayClock(SystemClock):
    """The machine's clocks, set ahead: both of them, as if the time had really passed."""

    def __init__(self, start: datetime) -> None:
        self._start = start - super().now()
        self._advanced = timedelta()

    def now(self) -> datetime:
        return super().now() + self._start + self._advanced

    def monotonic(self) -> float:
        return super().monotonic() + self._advanced.total_seconds()

    def advance(self, by: timedelta) -> None:
        self._advanced += by


class Commit(NamedTuple):
    seconds: float
    puts: int
    bytes: int


class Site:
    """A workspace with its own clock and a running engine."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.clock = DayClock(FIRST_DAY + timedelta(hours=12))
        self.store = DatedStore(LocalStore(at / "store"), self.clock)
        self.workspace = self.open()
        self.workspace.commands.orchestration.deploy(*project(SOURCE))
        self.commits: list[Commit] = []

    def open(self, meter: CountingStore | None = None) -> Workspace:
        """A process that has read nothing yet."""
        store = ScopedStore(meter or self.store, TENANT, NAME)
        ids = UlidFactory(self._now_ms, os.urandom)
        return Workspace(store, TENANT, NAME, clock=self.clock, ids=ids)

    def _now_ms(self) -> int:
        return int(self.clock.now().replace(tzinfo=UTC).timestamp() * 1e3)

    @contextlib.contextmanager
    def running(self) -> Iterator[LocalEngine]:
        committer = self.workspace.committer
        commit = committer.commit

        def measured(names: tuple[str, ...] = ()) -> object:
            began = time.perf_counter()
            outcome = commit(names)
            seconds = time.perf_counter() - began
            head: Head = outcome.head
            if head.manifest.kind == "events" and _finishes_a_task(self.workspace, head):
                puts, size = _written(self.workspace, head)
                self.commits.append(Commit(seconds, puts, size))
            return outcome

        committer.commit = measured  # type: ignore[method-assign, assignment]
        with LocalEngine(self.workspace, slots=2).running() as engine:
            yield engine

    def run(self, engine: LocalEngine) -> str:
        day = (self.clock.now().date() - timedelta(days=1)).isoformat()
        request = PlanRequest(selection=("*",), partitions=(f"date={day}",), force=True)
        triggered = self.workspace.commands.orchestration.trigger(request)
        row = engine.wait(triggered.run_id)
        if row.state != "SUCCEEDED":
            raise RuntimeError(f"run {row.run_id} ended {row.state}")
        return row.run_id

    def upkeep(self) -> None:
        while self.workspace.upkeep.merger.merge() is not None:
            pass
        self.workspace.upkeep.gc(GenerationRetention(), dry_run=False)

    def live(self, engine: LocalEngine, days: int) -> None:
        began = time.perf_counter()
        for day in range(days):
            self.run(engine)
            self.clock.advance(timedelta(days=1))
            self.upkeep()
            if (day + 1) % 100 == 0:
                progress(f"day {day + 1:,} after {time.perf_counter() - began:.0f} s")


def _finishes_a_task(workspace: Workspace, head: Head) -> bool:
    """Whether a commit is of one finished task, with its checks and its lineage."""
    (changes,) = head.manifest.changes[-1:] or (None,)
    if changes is None or head.manifest.segment is None:
        return False
    wanted = {"orchestration.tasks", "quality.check_results", "execution.materializations"}
    return wanted <= changes.tables.keys() and changes.tables["orchestration.tasks"].rows <= 2


def _written(workspace: Workspace, head: Head) -> tuple[int, int]:
    """Objects and bytes that a commit wrote."""
    root = head.manifest
    parent = workspace.manifests.read(head.generation - 1).manifest
    files = [ref.bytes for ref in root.changes if ref not in parent.changes]
    files += [ref.bytes for refs in root.l0.values() for ref in refs if ref not in _all_l0(parent)]
    files.append(workspace.store.head(paths.root(root.generation)).size)
    files.append(workspace.store.head(paths.HINT).size)
    if root.segment is not None:
        files.append(root.segment.bytes)
    return len(files), sum(files)


def _all_l0(root: RootManifest) -> list[FileRef]:
    return [ref for refs in root.l0.values() for ref in refs]


class Figures(NamedTuple):
    """Medians of what one workspace did in all rounds."""

    commit_bytes: float
    commit_puts: float
    commit_ms: float
    lookup_ms: float
    runs_list_ms: float
    tier1_ms: float


def take_turns(
    sites: dict[int, Site], engines: dict[int, LocalEngine], rounds: int
) -> dict[int, Figures]:
    """The same work in each workspace, in turns."""
    seconds: dict[int, dict[str, list[float]]] = {
        days: {"lookup": [], "list": [], "tier1": []} for days in sites
    }
    for site in sites.values():
        site.commits.clear()
    for number in range(rounds):
        for days, site in sites.items():
            run_id = site.run(engines[days])
            here = seconds[days]
            here["lookup"].append(timed(_look_up, site.open(), run_id)[0])
            here["list"].append(timed(_list, site.open())[0])
            process = site.open()
            process.commands.catalog.create_namespace(
                f"n{len(here['tier1'])}_{os.urandom(4).hex()}"
            )
            spent, _ = timed(process.commands.catalog.create_namespace, f"n_{os.urandom(4).hex()}")
            here["tier1"].append(spent)
        progress(f"round {number + 1} of {rounds}")
    return {days: _medians(site.commits, seconds[days]) for days, site in sites.items()}


def _look_up(process: Workspace, run_id: str) -> None:
    assert process.read.snapshot().get(RUNS, run_id) is not None


def _list(process: Workspace) -> None:
    assert process.read.orchestration().runs(limit=20).rows


def _medians(commits: list[Commit], seconds: dict[str, list[float]]) -> Figures:
    if not commits:
        raise RuntimeError("no commit of a single finished task was seen")
    return Figures(
        statistics.median(c.bytes for c in commits),
        statistics.median(c.puts for c in commits),
        statistics.median(c.seconds for c in commits) * 1e3,
        statistics.median(seconds["lookup"]) * 1e3,
        statistics.median(seconds["list"]) * 1e3,
        statistics.median(seconds["tier1"]) * 1e3,
    )


def gc_requests(site: Site, engine: LocalEngine) -> int:
    """Requests of the GC after one more day."""
    site.run(engine)
    site.clock.advance(timedelta(days=1))
    while site.workspace.upkeep.merger.merge() is not None:
        pass
    meter = CountingStore(site.store)
    report = site.open(meter).upkeep.gc(GenerationRetention(), dry_run=False)
    return meter.requests + len(report.deletable)


def history(at: Path, days: int, rounds: int) -> dict[str, object]:
    ages = (1, 10, days)
    sites = {age: Site(at / f"days-{age}") for age in ages}
    with contextlib.ExitStack() as stack:
        engines = {age: stack.enter_context(site.running()) for age, site in sites.items()}
        for age, site in sites.items():
            site.live(engines[age], age)
        requests = {age: gc_requests(sites[age], engines[age]) for age in (10, days)}
        turns = {age: sites[age] for age in (1, days)}
        # Everybody is warm, and has had more runs of late than a list shows.
        take_turns(turns, engines, 22)
        measured = take_turns(turns, engines, rounds)
    young, old = measured[1], measured[days]
    figures: dict[str, object] = {"days": days}
    for name in ("commit_bytes", "commit_ms", "lookup_ms", "runs_list_ms", "tier1_ms"):
        before, after = getattr(young, name), getattr(old, name)
        figures[f"{name}_day1000_over_day1"] = round(after / before, 3)
        figures[f"{name}_day1"] = round(before, 2)
    figures["gc_requests_day1000_over_day10"] = round(requests[days] / requests[10], 3)
    figures["gc_requests_day10"] = requests[10]
    figures["puts_per_small_commit"] = old.commit_puts
    figures["bytes_per_small_commit"] = old.commit_bytes
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--days", type=int, default=1_000, help="how old the oldest is")
    parser.add_argument("--only", choices=["history", "deploys", "inputs", "partitions"])
    args = parser.parse_args()
    quick = args.quick
    figures: dict[str, object] = {}
    with folder(args.dir) as at:
        if args.only in (None, "history"):
            figures |= history(at, 30 if quick else args.days, 3 if quick else 15)
        if args.only in (None, "deploys"):
            few, many = (200, 2_000) if quick else (1_000, 10_000)
            figures |= deploys.measure(at, 1 if quick else 3, small=few, large=many)
        if args.only in (None, "inputs"):
            figures |= inputs.measure(at, large=5_000 if quick else 100_000)
        if args.only in (None, "partitions"):
            large = 50_000 if quick else 1_000_000
            figures |= partitions_size.measured(at, large=large, small=10_000, rounds=3)
    report(figures)


if __name__ == "__main__":
    main()
