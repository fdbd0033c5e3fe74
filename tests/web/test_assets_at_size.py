"""The graph of all assets and their list, where there are more than a page has elements for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from arco.app import Workspace
from arco.catalog.events import AssetCreated
from arco.clock import SystemClock
from arco.lineage.events import EdgeAdded
from arco.log.envelope import Event
from arco.security.permissions import Role
from arco.storage.memory import MemoryStore
from arco.storage.scoped import ScopedStore
from tests.kit.api import ApiWorld
from tests.kit.page import ServedPage, Visit
from tests.kit.workspace import NAME, TENANT
from tests.web.conftest import Enter

pytestmark = pytest.mark.xdist_group("web")

CHAIN, LEAVES, ALONE = 320, 400, 280
"""Assets in a line; such that read the middle of it; such without edges."""
ASSETS = CHAIN + LEAVES + ALONE
MIDDLE = CHAIN // 2


def fill(workspace: Workspace) -> None:
    for namespace in ("chain", "leaves", "alone"):
        workspace.commands.catalog.create_namespace(namespace)
    events: list[Event] = []

    def create(namespace: str, name: str) -> str:
        created = AssetCreated(namespace=namespace, name=name, owners=("ana",))
        events.append(workspace.ledger.event(created))
        return events[-1].id

    def connect(source: str, target: str) -> None:
        events.append(workspace.ledger.event(EdgeAdded(source_id=source, target_id=target)))

    chain = [create("chain", f"step_{number:03}") for number in range(CHAIN)]
    for source, target in pairwise(chain):
        connect(source, target)
    connect(chain[10], chain[5])  # a cycle
    for number in range(LEAVES):
        connect(chain[MIDDLE], create("leaves", f"leaf_{number:04}"))
    for number in range(ALONE):
        create("alone", f"single_{number:04}")
    receipt = workspace.ledger.append(events)
    workspace.committer.commit_batch(receipt.batch, 0)
    workspace.upkeep.merger.merge(everything=True)


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    workspace = Workspace(ScopedStore(MemoryStore(SystemClock()), TENANT, NAME), TENANT, NAME)
    fill(workspace)
    made = ApiWorld(workspace)
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(world: ApiWorld) -> Iterator[ServedPage]:
    made = ServedPage(world)
    yield made
    made.stop()


def graph(page: Page) -> Locator:
    """The picture, once it is drawn."""
    canvas = page.get_by_role("application")
    expect(canvas).to_have_attribute("data-sight", re.compile(r"\d"))
    return canvas


def sight(page: Page) -> tuple[float, float, float]:
    x, y, scale = (graph(page).get_attribute("data-sight") or "").split()
    return float(x), float(y), float(scale)


def middle(canvas: Locator) -> tuple[float, float]:
    box = canvas.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def selected(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query).get("node", [""])[0]


COLOURS = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def test_graph_of_all_assets_is_drawn_dragged_and_zoomed(enter: Enter) -> None:
    page = enter().go("/lineage")
    expect(page.get_by_text(f"{ASSETS:,} assets, {CHAIN + LEAVES:,} edges")).to_be_visible()
    canvas = graph(page)
    assert canvas.evaluate(COLOURS) > 2
    before = sight(page)
    x, y = middle(canvas)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 100, y + 40, steps=4)
    page.mouse.up()
    expect(canvas).not_to_have_attribute("data-sight", " ".join(map(str, before)))
    dragged = sight(page)
    assert dragged[0] == pytest.approx(before[0] - 100 / before[2], rel=0.01)
    assert dragged[1] == pytest.approx(before[1] - 40 / before[2], rel=0.01)
    assert selected(page) == ""
    page.mouse.wheel(0, -400)
    expect(canvas).not_to_have_attribute("data-sight", " ".join(map(str, dragged)))
    assert sight(page)[2] > dragged[2]
    page.get_by_role("button", name="Show all of it").click()
    expect(canvas).to_have_attribute(
        "data-sight", f"{before[0]:.1f} {before[1]:.1f} {before[2]:.4f}"
    )


def test_search_walks_through_matches_and_is_in_the_address(enter: Enter) -> None:
    page = enter().go("/lineage")
    graph(page)
    page.keyboard.press("/")
    page.keyboard.type("STEP_17")
    expect(page.get_by_text("10 matches")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("node=chain.step_170"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("node=chain.step_171"))
    bar = page.get_by_role("status").filter(has_text="chain.step_171")
    expect(bar).to_contain_text("1 input, 1 user")
    expect(page).to_have_url(re.compile("q=STEP_17"))
    page.reload()
    expect(page.get_by_text("10 matches")).to_be_visible()
    assert selected(page) == "chain.step_171"


def test_click_on_an_asset_selects_it_and_double_click_opens_it(enter: Enter) -> None:
    page = enter().go("/lineage?node=chain.step_100")
    expect(page.get_by_role("status").filter(has_text="chain.step_100")).to_be_visible()
    canvas = graph(page)
    assert sight(page)[2] >= 0.8  # it is in the middle, and its name can be read
    canvas.focus()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("node="))
    page.mouse.click(*middle(canvas))
    expect(page).to_have_url(re.compile("node=chain.step_100"))
    page.mouse.dblclick(*middle(canvas))
    expect(page.get_by_role("heading", name="Lineage of chain.step_100")).to_be_visible()


def test_keys_walk_along_the_edges(enter: Enter) -> None:
    page = enter().go("/lineage?node=chain.step_100")
    graph(page).focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("node=chain.step_101"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("node=chain.step_099"))
    before = sight(page)
    page.keyboard.press("Shift+ArrowRight")
    expect(graph(page)).not_to_have_attribute("data-sight", " ".join(map(str, before)))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Lineage of chain.step_099")).to_be_visible()


def test_neighbours_alone_are_shown_with_what_is_hidden(enter: Enter) -> None:
    visit = enter()
    page = visit.go(f"/lineage?node=chain.step_{MIDDLE}")
    shown = LEAVES + 3
    page.get_by_role("button", name="Only its neighbours").click()
    expect(page.get_by_text(f"{shown:,} assets shown, {ASSETS - shown:,} hidden")).to_be_visible()
    expect(
        page.get_by_role("application", name=re.compile(f"^Graph of {shown:,} "))
    ).to_be_visible()
    visit.go("/lineage?node=chain.step_020")
    page.get_by_role("button", name="Only its neighbours").click()
    expect(page.get_by_text(f"3 assets shown, {ASSETS - 3:,} hidden")).to_be_visible()


def test_list_has_the_same_assets_and_counts_inputs_of_other_namespaces(enter: Enter) -> None:
    page = enter().go("/lineage?view=list&namespace=leaves")
    expect(page.get_by_text(f"{LEAVES:,} assets, 0 edges")).to_be_visible()
    first = page.get_by_role("row").filter(has_text="leaves.leaf_0000")
    expect(first).to_contain_text("Never run")
    expect(first.get_by_role("gridcell").nth(2)).to_have_text("1")
    page.get_by_role("searchbox").fill("leaf_0399")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="leaves.leaf_0399").click()
    expect(page.get_by_role("heading", name="Lineage of leaves.leaf_0399")).to_be_visible()


def test_restricted_viewer_sees_the_graph_of_his_namespace(enter: Enter, world: ApiWorld) -> None:
    visit = enter(world.client(Role.VIEWER, "leaves"))
    page = visit.go("/lineage")
    expect(page.get_by_text(f"{LEAVES:,} assets, 0 edges")).to_be_visible()
    graph(page)
    page.get_by_role("link", name="List").click()
    expect(page.get_by_role("link", name="leaves.leaf_0000")).to_be_visible()
    assert "chain." not in page.inner_text("body")
    assert visit.refused == []


def test_list_of_assets_is_filtered_in_the_page_while_somebody_types(
    started_browser: Browser, served: ServedPage, world: ApiWorld
) -> None:
    visit = Visit(started_browser, served, world.owner)
    page = visit.go("/sql?engine=browser")
    ready = page.get_by_role("option", name="In this browser", exact=True)
    expect(ready).to_be_attached(timeout=60_000)
    page.get_by_role("link", name="Assets", exact=True).click()
    status = page.locator(".toolbar [role=status]")
    expect(status).to_have_text(f"{ASSETS:,} assets")
    asked = len(visit.requests)
    field = page.get_by_role("searchbox")
    field.press_sequentially("LEAF_03")
    expect(status).to_have_text("100 assets")
    expect(page.get_by_role("link", name="leaves.leaf_0300")).to_be_visible()
    expect(page).to_have_url(re.compile("q=LEAF_03"))
    field.press("Backspace")
    expect(status).to_have_text(f"{LEAVES} assets")
    field.press_sequentially("399")
    expect(status).to_have_text("1 asset")
    field.fill("nothing has this name")
    expect(page.get_by_text("No asset matches")).to_be_visible()
    field.fill("")
    expect(status).to_have_text(f"{ASSETS:,} assets")
    page.get_by_label("Namespace").select_option("chain")
    expect(status).to_have_text(f"{CHAIN} assets")
    grid = page.get_by_role("grid")
    grid.focus()
    grid.press("End")
    expect(page.get_by_role("link", name=f"chain.step_{CHAIN - 1}")).to_be_visible()
    later = visit.requests[asked:]
    assert [url for url in later if "/query" in url or "/files" in url] == []
    assert visit.complaints == []
    visit.close()


def test_text_and_focus_stay_when_the_page_has_all_assets(
    started_browser: Browser, served: ServedPage, world: ApiWorld
) -> None:
    """The first rows come from the server; those in memory replace them while somebody types."""
    visit = Visit(started_browser, served, world.owner)
    page = visit.go("/assets")
    status = page.locator(".toolbar [role=status]")
    expect(status).to_have_text(f"{ASSETS:,} assets")
    field = page.get_by_role("searchbox")
    field.press_sequentially("LEAF_0")
    expect(status).to_have_text(f"{LEAVES} assets")
    asks = [True]
    for number in range(LEAVES // 10):  # another one each time: answers are kept
        asked = len(visit.requests)
        page.keyboard.type(f"{number:02}")  # where the focus is
        expect(field).to_have_value(f"LEAF_0{number:02}")
        expect(status).to_have_text("10 assets")
        for _ in range(2):
            page.keyboard.press("Backspace")
        expect(status).to_have_text(f"{LEAVES} assets")
        later = visit.requests[asked:]
        asks.append(any("/query" in url or "/files" in url for url in later))
        if not asks[-1]:
            break
        page.wait_for_timeout(200)
    assert asks[1] and not asks[-1], "all assets came while somebody typed"
    assert visit.complaints == []
    visit.close()
