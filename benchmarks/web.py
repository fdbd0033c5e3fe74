"""The web page: how much script the first page needs, and how the list of assets grows.

    python -m benchmarks.web [--assets N] [--filled DIR] [--quick]

`bundle_kib_gz` is all JavaScript that the overview needs, as it is sent, without DuckDB. Then a
real browser opens the list of assets of a workspace with 100 and of one with 100,000: the time
from the navigation to the first row, medians, as a ratio. With DuckDB loaded, keys are typed into
the filter: `filter_…_p95_ms` is from a key to the changed list, `filter_…_frames` that in frames
of 60 Hz. `heap_mib_…` is the heap of the page's main thread after that, without DuckDB's.
`--filled` is a folder that keeps the larger workspace for the next run.
"""

from __future__ import annotations

import gzip
import re
import statistics
import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, Page, expect
from tests.kit.api import ApiWorld
from tests.kit.page import ServedPage, Visit, browser

from arco.api.page import FOLDER
from benchmarks import catalog_search
from benchmarks.workload import arguments, folder, open_workspace, progress, report

_IMPORTS = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")
PROJECT = 10_000
FEW_ASSETS = 100
OPENED = 5
FRAME_MS = 1_000 / 60
FIRST_ROW = """
window.firstRowMs = new Promise(resolve => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector('[role=grid] a')) return;
    resolve(performance.now());
    observer.disconnect();
  }).observe(document, {subtree: true, childList: true});
});
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
  new MutationObserver(() => {
    requestAnimationFrame(() => window.filteredMs.push(performance.now() - pressed));
  }).observe(status, {subtree: true, childList: true, characterData: true});
})()
"""
TYPED = ("3704", "9152", "0461", "7283", "5530")
"""Digits of names: each key leaves fewer assets, so the list's count changes."""


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


def fill(at: Path, assets: int) -> None:
    if at.exists():
        return
    began = time.process_time()
    each = min(assets, PROJECT)
    catalog_search.COLUMNS = 4
    catalog_search.fill(open_workspace(at), assets // each, each)
    progress(f"{assets:,} assets in {time.process_time() - began:.0f} s of CPU")


def first_rows_ms(visit: Visit) -> float:
    visit.page.add_init_script(FIRST_ROW)
    found = []
    for _ in range(OPENED + 1):
        page = visit.go("/assets")
        found.append(float(page.evaluate("window.firstRowMs")))
    return statistics.median(found[1:])


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


def heap_mib(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 2**20


def measure(started: Browser, at: Path, assets: int, *, is_filtered: bool) -> dict[str, float]:
    world = ApiWorld(open_workspace(at))
    served = ServedPage(world)
    visit = Visit(started, served, world.owner)
    try:
        found = {"first_ms": first_rows_ms(visit)}
        progress(f"{assets:,} assets: the first row after {found['first_ms']:.0f} ms")
        if is_filtered:
            page = to_the_list_by_duckdb(visit, assets)
            taken = sorted(filter_ms(page))
            found["filter_ms"] = taken[int(len(taken) * 0.95)]
            found["filter_median_ms"] = statistics.median(taken)
            found["heap_mib"] = heap_mib(page)
        return found
    finally:
        visit.close()
        served.stop()
        world.close()


def name_of(assets: int) -> str:
    return f"{assets // 1000}k" if assets % 1000 == 0 else str(assets)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--assets", type=int, default=100_000)
    parser.add_argument("--filled", type=Path, help="the larger workspace, made if it is not there")
    given = parser.parse_args()
    assets = 1_000 if given.quick else given.assets
    size = name_of(assets)
    figures: dict[str, object] = {"bundle_kib_gz": round(bundle_kib())}
    with folder(given.dir) as at, browser() as started:
        few, many = at / "few", given.filled or at / "many"
        fill(few, FEW_ASSETS)
        fill(many, assets)
        small = measure(started, few, FEW_ASSETS, is_filtered=False)
        large = measure(started, many, assets, is_filtered=True)
    ratio = large["first_ms"] / small["first_ms"]
    figures[f"assets_{size}_first_rows_over_{FEW_ASSETS}"] = round(ratio, 2)
    figures[f"assets_{size}_first_rows_ms"] = round(large["first_ms"])
    figures[f"filter_{size}_median_ms"] = round(large["filter_median_ms"], 1)
    figures[f"filter_{size}_p95_ms"] = round(large["filter_ms"], 1)
    figures[f"filter_{size}_frames"] = round(large["filter_ms"] / FRAME_MS, 1)
    figures[f"heap_mib_{size}"] = round(large["heap_mib"], 1)
    report(figures)


if __name__ == "__main__":
    main()
