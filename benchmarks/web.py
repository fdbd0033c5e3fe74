"""The web page at size, in headless Chromium, beside the same pages with little in them.

    python -m benchmarks.web [--only PART …] [--filled DIR] [--quick]

| part | what |
|---|---|
| `bundle` | all JavaScript that the overview needs, as it is sent, without DuckDB |
| `assets` | the list of assets until its first row is painted |
| `filter` | with DuckDB loaded, from a key in the filter of that list to the painted result, p95 |
| `heap` | the heap of the page and of its workers after ten pages, with WebAssembly's memory |
| `partitions` | the matrix of an asset's partitions until it is painted |
| `run` | the page of an active run until its first task is painted |
| `graph` | the graph of all assets until dragging it moves it |
| `dagster` | the list of 10,000 assets, and 50,000 partitions of one, of Dagster's page over ours |

Pages of two sizes take turns; each is opened once before it counts, and the medians make the
ratio. A time is from the navigation until the frame after the one that has what is looked for.
Servers have answered the same question at the same generation before. `--filled` is a folder that
keeps the workspaces for the next run.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, Page, expect
from tests.kit.api import ApiWorld
from tests.kit.page import ServedPage, Visit, browser

from arco.api.page import FOLDER
from benchmarks import web_dagster, web_data
from benchmarks.web_data import PARTITIONED
from benchmarks.workload import arguments, folder, open_workspace, progress, report

_IMPORTS = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")
PARTS = ("bundle", "assets", "filter", "heap", "partitions", "run", "graph", "dagster")
ROUNDS = 5
FRAME_MS = 1_000 / 60
PAINTED = """
window.painted = new Promise(resolve => {
  const look = () => {
    if (%s) requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
    else requestAnimationFrame(look);
  };
  look();
});
"""
FIRST_ROW = "document.querySelector('[role=grid] .grid-row a')"
FIRST_TASK = "document.querySelector('[role=grid] .grid-row .linklike')"
MATRIX = "(canvas => canvas && canvas.style.height)(document.querySelector('.heat canvas'))"
DRAGGED = """
(canvas => {
  if (!canvas) return false;
  const [x] = canvas.dataset.sight.split(' ');
  if (window.sightBefore !== undefined) return x !== window.sightBefore;
  window.sightBefore = x;
  const box = canvas.getBoundingClientRect();
  const point = (name, by) => canvas.dispatchEvent(new PointerEvent(name, {
    bubbles: true, pointerId: 1, button: 0, clientX: box.x + 200 + by, clientY: box.y + 200}));
  point('pointerdown', 0);
  point('pointermove', 60);
  point('pointerup', 60);
  return false;
})(document.querySelector('canvas[data-sight]'))
"""
FILTERED = """
(() => {
  const status = document.querySelector('.toolbar [role=status]');
  let pressed = 0;
  window.filteredMs = [];
  window.more = count => new Promise(resolve => {
    const look = () => window.filteredMs.length > count ? resolve() : setTimeout(look, 5);
    look();
  });
  addEventListener('keydown', () => { pressed = performance.now(); }, true);
  new MutationObserver(() => requestAnimationFrame(() => setTimeout(() =>
    window.filteredMs.push(performance.now() - pressed)
  ))).observe(status, {subtree: true, childList: true, characterData: true});
})()
"""
TYPED = ("3704", "9152", "0461", "7283", "5530")
"""Digits of names: each key leaves fewer assets, so the list's count changes."""
BROWSED = (
    "Overview",
    "Lineage",
    "Runs",
    "Backfills",
    "Automation",
    "Quarantine",
    "Contracts",
    "Costs",
    "SQL",
    "Assets",
)


class Sizes(NamedTuple):
    assets: int
    days: int
    shops: int
    """Partitions, and tasks of a run, are days times shops."""
    task_days: int
    task_shops: int
    nodes: int
    peer_assets: int = 10_000
    peer_days: int = 500
    peer_shops: int = 100


FULL = Sizes(100_000, 2_000, 500, 500, 100, 10_000)
QUICK = Sizes(1_000, 200, 50, 20, 10, 500, 200, 20, 10)


class Site:
    """A workspace that is served, and somebody's window."""

    def __init__(self, started: Browser, at: Path) -> None:
        self._world = ApiWorld(open_workspace(at), head_age_s=0.25)
        self._served = ServedPage(self._world)
        self.visit = Visit(started, self._served, self._world.owner)

    def close(self) -> None:
        self.visit.close()
        self._served.stop()
        self._world.close()

    def opened_ms(self, path: str, predicate: str) -> float:
        return opened_ms(self.visit.tab(), f"{self._served.base}{path}", predicate)


def opened_ms(page: Page, url: str, predicate: str) -> float:
    """Milliseconds from the navigation of a new page until what is looked for is painted."""
    page.add_init_script(PAINTED % predicate)
    page.goto(url, timeout=120_000)
    taken = float(page.evaluate("window.painted"))
    page.close()
    return taken


@contextmanager
def site(started: Browser, at: Path) -> Iterator[Site]:
    made = Site(started, at)
    try:
        yield made
    finally:
        made.close()


def over(
    started: Browser, large: tuple[Path, str], small: tuple[Path, str], predicate: str, rounds: int
) -> tuple[float, float]:
    """Milliseconds of the large page and of the small one, medians of rounds in turns."""
    with site(started, large[0]) as many, site(started, small[0]) as few:
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds + 1):
            for each, (_, path), times in zip((many, few), (large, small), taken, strict=True):
                times.append(each.opened_ms(path, predicate))
    progress(f"{large[1]}: {[round(t) for t in taken[0]]}; {[round(t) for t in taken[1]]} ms")
    return statistics.median(taken[0][1:]), statistics.median(taken[1][1:])


def needed(static: Path, name: str, seen: dict[str, int]) -> None:
    """Adds a module and all that it imports at once."""
    if name in seen:
        return
    packed = (static / f"{name}.gz").read_bytes()
    seen[name] = len(packed)
    for other in _IMPORTS.findall(gzip.decompress(packed).decode("utf-8")):
        needed(static, other, seen)


def bundle_kib() -> float:
    static = FOLDER / "static"
    html = gzip.decompress((FOLDER / "index.html.gz").read_bytes()).decode("utf-8")
    seen: dict[str, int] = {}
    for name in re.findall(r'"/static/([\w.-]+\.js)"', html):
        needed(static, name, seen)
    (overview,) = [each.name.removesuffix(".gz") for each in static.glob("overview-*.js.gz")]
    needed(static, overview, seen)
    return sum(seen.values()) / 1024


def filter_ms(page: Page) -> list[float]:
    """One for each key. DuckDB is loaded, and the page has its table."""
    page.evaluate(FILTERED)
    status = page.locator(".toolbar [role=status]")
    for text in TYPED:
        for key in (*text, *["Backspace"] * len(text)):
            before, asked = status.inner_text(), page.evaluate("window.filteredMs.length")
            page.get_by_role("searchbox").press(key)
            page.evaluate("count => window.more(count)", asked)
            assert status.inner_text() != before
    return [float(each) for each in page.evaluate("window.filteredMs")]


def to_the_list_by_duckdb(visit: Visit, assets: int) -> Page:
    page = visit.go("/sql?engine=browser")
    ready = page.get_by_role("option", name="In this browser", exact=True)
    expect(ready).to_be_attached(timeout=120_000)
    page.get_by_role("link", name="Assets", exact=True).click()
    status = page.locator(".toolbar [role=status]")
    expect(status).to_have_text(f"{assets:,} assets", timeout=120_000)
    return page


def browse(page: Page) -> None:
    """Ten pages, by their links."""
    for name in BROWSED:
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.locator(".skeleton")).to_have_count(0, timeout=120_000)


def heap_mib(page: Page) -> float:
    """Objects and buffers of the page and of its workers, after a collection of garbage."""
    session = page.context.new_cdp_session(page)
    workers: list[str] = []
    answers: list[dict[str, Any]] = []
    session.on("Target.attachedToTarget", lambda event: workers.append(event["sessionId"]))
    session.on(
        "Target.receivedMessageFromTarget",
        lambda event: answers.append(json.loads(event["message"])),
    )
    attach = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": False}
    session.send("Target.setAutoAttach", attach)
    session.send("HeapProfiler.collectGarbage")
    used = [session.send("Runtime.getHeapUsage")]
    asked = json.dumps({"id": 1, "method": "Runtime.getHeapUsage"})
    for worker in workers:
        session.send("Target.sendMessageToTarget", {"sessionId": worker, "message": asked})
    page.wait_for_timeout(500)
    used += [answer["result"] for answer in answers if answer.get("id") == 1]
    assert len(used) == len(workers) + 1, (len(used), workers)
    names = ("usedSize", "backingStorageSize")
    return sum(float(each.get(name, 0)) for each in used for name in names) / 2**20


def name_of(count: int) -> str:
    for size, letter in ((1_000_000, "m"), (1_000, "k")):
        if count % size == 0:
            return f"{count // size}{letter}"
    return str(count)


class Measurement:
    def __init__(self, started: Browser, at: Path, sizes: Sizes, rounds: int) -> None:
        self._browser = started
        self._at = at
        self._sizes = sizes
        self._rounds = rounds

    def bundle(self) -> dict[str, object]:
        return {"bundle_kib_gz": round(bundle_kib())}

    def assets(self) -> dict[str, object]:
        count = self._sizes.assets
        many = web_data.with_assets(self._at / f"assets{count}", count)
        few = web_data.with_assets(self._at / "assets100", 100)
        large, small = self._over((many, "/assets"), (few, "/assets"), FIRST_ROW)
        return {
            f"assets_{name_of(count)}_first_rows_over_100": round(large / small, 2),
            f"assets_{name_of(count)}_first_rows_ms": round(large),
        }

    def filter(self) -> dict[str, object]:
        count = self._sizes.assets
        at = web_data.with_assets(self._at / f"assets{count}", count)
        with site(self._browser, at) as many:
            taken = sorted(filter_ms(to_the_list_by_duckdb(many.visit, count)))
        p95 = taken[int(len(taken) * 0.95)]
        return {
            f"filter_{name_of(count)}_median_ms": round(statistics.median(taken), 1),
            f"filter_{name_of(count)}_p95_ms": round(p95, 1),
            "frame_ms": round(FRAME_MS, 1),
            "filter_frames": round(p95 / FRAME_MS, 1),
        }

    def heap(self) -> dict[str, object]:
        count = self._sizes.assets
        at = web_data.with_assets(self._at / f"assets{count}", count)
        with site(self._browser, at) as many:
            page = to_the_list_by_duckdb(many.visit, count)
            browse(page)
            return {f"heap_mib_{name_of(count)}": round(heap_mib(page))}

    def partitions(self) -> dict[str, object]:
        count = self._sizes.days * self._sizes.shops
        large = self._at / f"partitions{count}"
        many = web_data.with_partitions(large, self._sizes.days, self._sizes.shops)
        few = web_data.with_partitions(self._at / "partitions1000", 250, 4)
        path = f"/assets/{PARTITIONED}?view=partitions"
        slow, fast = self._over((many, path), (few, path), MATRIX)
        return {
            f"partitions_{name_of(count)}_first_paint_over_1k": round(slow / fast, 2),
            f"partitions_{name_of(count)}_first_paint_ms": round(slow),
        }

    def run(self) -> dict[str, object]:
        days, shops = self._sizes.task_days, self._sizes.task_shops
        name = name_of(days * shops)
        many = web_data.with_run(self._at / f"run{days * shops}", days, shops)
        few = web_data.with_run(self._at / "run50", 10, 5)
        large = many, f"/runs/{web_data.run_of(many)}"
        small = few, f"/runs/{web_data.run_of(few)}"
        slow, fast = self._over(large, small, FIRST_TASK)
        return {
            f"run_{name}_first_paint_over_50": round(slow / fast, 2),
            f"run_{name}_first_paint_ms": round(slow),
        }

    def graph(self) -> dict[str, object]:
        name = name_of(self._sizes.nodes)
        many = web_data.with_graph(self._at / f"graph{self._sizes.nodes}", self._sizes.nodes)
        few = web_data.with_graph(self._at / "graph100", 100)
        slow, fast = self._over((many, "/lineage"), (few, "/lineage"), DRAGGED)
        return {
            f"graph_{name}_interactive_over_100": round(slow / fast, 2),
            f"graph_{name}_interactive_ms": round(slow),
        }

    def dagster(self) -> dict[str, object]:
        assets, days, shops = self._sizes.peer_assets, self._sizes.peer_days, self._sizes.peer_shops
        listed = web_data.with_assets(self._at / f"assets{assets}", assets)
        parted = web_data.with_partitions(self._at / f"partitions{days * shops}", days, shops)
        with web_dagster.webserver(self._at / "dagster", assets, days, shops) as origin:
            context = self._browser.new_context(viewport={"width": 1280, "height": 800})
            context.add_init_script(web_dagster.WELCOMED)

            def over_ours(at: Path, path: str, predicate: str, theirs: tuple[str, str]) -> float:
                taken: tuple[list[float], list[float]] = ([], [])
                with site(self._browser, at) as ours:
                    for _ in range(self._rounds + 1):
                        url = f"{origin}{theirs[0]}"
                        taken[0].append(opened_ms(context.new_page(), url, theirs[1]))
                        taken[1].append(ours.opened_ms(path, predicate))
                progress(f"{path}: {[round(t) for t in taken[0]]}; {[round(t) for t in taken[1]]}")
                return statistics.median(taken[0][1:]) / statistics.median(taken[1][1:])

            theirs = web_dagster.ASSETS_PATH, web_dagster.FIRST_ROW
            assets_ratio = over_ours(listed, "/assets", FIRST_ROW, theirs)
            theirs = web_dagster.PARTITIONS_PATH, web_dagster.FIRST_PARTITIONS
            path = f"/assets/{PARTITIONED}?view=partitions"
            partitions_ratio = over_ours(parted, path, MATRIX, theirs)
            context.close()
        return {
            "dagster_assets_over_ours": round(assets_ratio, 2),
            "dagster_partitions_over_ours": round(partitions_ratio, 2),
        }

    def _over(
        self, large: tuple[Path, str], small: tuple[Path, str], predicate: str
    ) -> tuple[float, float]:
        return over(self._browser, large, small, predicate, self._rounds)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--filled", type=Path, help="keeps the workspaces for the next run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--assets", type=int, help="in place of 100,000")
    given = parser.parse_args()
    sizes = QUICK if given.quick else FULL
    if given.assets:
        sizes = sizes._replace(assets=given.assets)
    figures: dict[str, object] = {}
    with folder(given.dir) as at, browser() as started:
        measurement = Measurement(started, given.filled or at, sizes, given.rounds)
        for part in PARTS:
            if part in given.only:
                measure: Callable[[], dict[str, object]] = getattr(measurement, part)
                figures |= measure()
                progress(json.dumps(figures))
    report(figures)


if __name__ == "__main__":
    main()
