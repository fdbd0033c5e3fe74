"""How the main pages look, compared with pictures of before.

A picture is 1/4 of the window in each direction, so that how a machine smooths the edges of
letters makes no difference: the fonts are those of the page. Data, clock and size of the window are
fixed. To accept a difference: `ARCO_UPDATE_GOLDEN=1 python -m pytest tests/web/test_pictures.py`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.kit.api import ApiWorld, Company
from tests.kit.books import Books
from tests.kit.page import ServedPage, Visit

pytestmark = pytest.mark.xdist_group("web")

GOLDEN = Path(__file__).parents[1] / "golden" / "pages"
CLOCK = "2026-01-05T09:00:00Z"
PAGES = {
    "overview": "",
    "assets": "/assets",
    "asset": "/assets/books.sums",
    "partitions": "/assets/sales.orders?view=partitions",
    "lineage": "/lineage",
    "column-path": "/lineage?asset=books.sums&column=amount",
    "runs": "/runs",
    "run": "/runs/{failed}?task={audit}",
    "run-graph": "/runs/{run}?view=graph&by=task",
    "quarantine": "/quarantine?id={held}",
    "costs": "/costs",
}
IN_THE_DARK = ("overview", "asset", "lineage", "run")
LOOKS = [(name, "light") for name in PAGES] + [(name, "dark") for name in IN_THE_DARK]
MAX_DIFFERENT = 0.004
"""Of the blocks of 4 x 4 small pixels: so many may differ by more than `MAX_STEP`."""
MAX_STEP = 24
"""Of 255, the mean difference of a block."""
COMPARE = """
async ([taken, golden, block, step]) => {
  const pixels = async (text, width, height) => {
    const answer = await fetch(`data:image/png;base64,${text}`);
    const bitmap = await createImageBitmap(await answer.blob());
    const canvas = new OffscreenCanvas(width ?? bitmap.width / 4, height ?? bitmap.height / 4);
    const context = canvas.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return {canvas, data: context.getImageData(0, 0, canvas.width, canvas.height).data};
  };
  const small = await pixels(taken);
  const blob = await small.canvas.convertToBlob({type: 'image/png'});
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const picture = btoa(Array.from(bytes, (each) => String.fromCharCode(each)).join(''));
  if (!golden) return {picture, different: 1, blocks: 1};
  const {width, height} = small.canvas;
  const before = await pixels(golden, width, height);
  let different = 0;
  let blocks = 0;
  for (let y = 0; y + block <= height; y += block)
    for (let x = 0; x + block <= width; x += block) {
      let sum = 0;
      for (let dy = 0; dy < block; dy++)
        for (let dx = 0; dx < block; dx++)
          for (let c = 0; c < 3; c++) {
            const at = ((y + dy) * width + x + dx) * 4 + c;
            sum += Math.abs(small.data[at] - before.data[at]);
          }
      blocks += 1;
      if (sum / (block * block * 3) > step) different += 1;
    }
  return {picture, different, blocks};
}
"""


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def books(company: Company) -> Books:
    return Books(company)


@pytest.fixture(scope="module")
def served(company: Company, books: Books) -> Iterator[ServedPage]:
    world = ApiWorld(company.town.fresh())
    made = ServedPage(world)
    yield made
    made.stop()
    world.close()


@pytest.fixture(scope="module")
def visit(started_browser: Browser, served: ServedPage) -> Iterator[Visit]:
    made = Visit(started_browser, served, served.world.owner, reduced_motion="reduce")
    made.page.clock.set_fixed_time(CLOCK)
    yield made
    made.close()


@pytest.fixture(scope="module")
def blank(started_browser: Browser) -> Iterator[Page]:
    """A page without a policy, in which pictures are compared."""
    page = started_browser.new_page()
    yield page
    page.close()


def _at_rest(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    page.evaluate("document.fonts.ready")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")


@pytest.mark.parametrize(("name", "scheme"), LOOKS)
def test_page_looks_as_before(
    visit: Visit,
    blank: Page,
    company: Company,
    books: Books,
    name: str,
    scheme: Literal["light", "dark"],
) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    page = visit.go(
        PAGES[name].format(
            run=books.run,
            failed=books.failed_run,
            audit=books.task(books.failed_run, "books.audit"),
            held=company.sales_held,
        )
    )
    golden = GOLDEN / f"{name}-{scheme}.png"
    before = base64.b64encode(golden.read_bytes()).decode() if golden.exists() else ""
    update = bool(os.environ.get("ARCO_UPDATE_GOLDEN"))
    for attempt in range(4):  # a last answer may still be on its way
        _at_rest(page)
        taken = base64.b64encode(page.screenshot()).decode()
        result = blank.evaluate(COMPARE, [taken, before, 4, MAX_STEP])
        share = result["different"] / result["blocks"]
        if share <= MAX_DIFFERENT or (update and attempt == 1):
            break
        page.wait_for_timeout(500)
    if update and share > MAX_DIFFERENT:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_bytes(base64.b64decode(result["picture"]))
        return
    assert golden.exists(), "make it: ARCO_UPDATE_GOLDEN=1"
    assert share <= MAX_DIFFERENT, f"{share:.2%} of the picture differs from {golden.name}"
    assert visit.complaints == []
