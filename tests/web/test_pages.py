"""Each page of the web page, in a real browser."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from tests.architecture.source import ROOT
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.books import Books
from tests.kit.depth import DEEP
from tests.kit.page import SIZE, ServedPage, Visit
from tests.web.conftest import Enter

pytestmark = pytest.mark.xdist_group("web")

AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = {
    "": "Overview",
    "/assets": "Assets",
    "/assets?status=UNHEALTHY": "Assets",
    "/assets/sales.total": "sales.total",
    "/assets/sales.orders?view=partitions": "sales.orders",
    "/assets/sales.total?view=versions": "sales.total",
    "/assets/sales.notes?view=columns": "sales.notes",
    "/assets/sales.total?view=checks": "sales.total",
    "/assets/sales.total?view=contract": "sales.total",
    "/assets/sales.total?view=runs": "sales.total",
    "/assets/sales.total?view=costs": "sales.total",
    "/assets/sales.total?view=code": "sales.total",
    "/assets/sales.total?view=explain": "sales.total",
    "/assets/sales.hostile": "sales.hostile",
    "/lineage": "Lineage",
    "/lineage?asset=sales.total": "Lineage of sales.total",
    "/lineage?asset=sales.orders&view=list": "Lineage of sales.orders",
    "/lineage?asset=books.sums&column=amount": "Lineage of books.sums",
    "/assets/books.visits?view=partitions": "books.visits",
    "/assets/books.sums?view=checks": "books.sums",
    "/assets/books.sums?view=columns&column=amount": "books.sums",
    "/runs": "Runs",
    "/runs/{run}": "hr.report",
    "/runs/{run}?view=timeline": "hr.report",
    "/runs/{run}?view=graph": "hr.report",
    "/runs/{run}?view=plan": "hr.report",
    "/runs/{run}?view=costs": "hr.report",
    "/runs/{failed}?task={audit}": "books.audit",
    "/runs/{failed}?task={audit}&show=code": "books.audit",
    "/runs/{failed}?task={audit}&show=inputs": "books.audit",
    "/runs/{hostile}": "books.visits",
    "/runs/{run}?view=outputs": "hr.report",
    "/runs/{run}?view=explain": "hr.report",
    "/sql": "SQL",
    "/quarantine": "Quarantine",
    "/quarantine?id={held}": "Quarantine",
    "/backfills": "Backfills",
    "/backfills?id={backfill}": "Backfills",
    "/automation": "Automation",
    "/automation?view=sensors": "Automation",
    "/automation?view=assets": "Automation",
    "/automation?view=requests&request=payroll": "Automation",
    "/contracts": "Contracts",
    "/costs": "Costs",
    "/audit": "Audit",
    "/settings": "Settings",
    "/settings?view=notifications": "Settings",
    "/settings?view=keys": "Settings",
    "/settings?view=roles": "Settings",
}
"""Each page that the router has, with its heading."""


def literal(text: str) -> str:
    """As `ui/src/query/sql.ts` fills it in."""
    return text if text.isdigit() else f"'{text}'"


def over_lines(lines: str, question: str) -> str:
    """As `ui/src/query/sql.ts` asks it, for all namespaces."""
    text = re.sub(r"\A(--.*\n)*", "", question).replace("$namespace", "''")
    rest = text.replace("WITH ", ", ", 1) if text.startswith("WITH ") else text
    return f"WITH asset_lines AS (\n{lines}\n)\n{rest}"


SERIOUS = """axe.run(document, {resultTypes: ['violations'], preload: false}).then(found =>
  found.violations.filter(each => ['serious', 'critical'].includes(each.impact)).map(each =>
    [each.id, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary]))"""
"""No rule that is run needs the style sheets, which a preload would fetch again."""
NARROW: ViewportSize = {"width": 390, "height": 800}
SIDEWAYS = """() => [document.documentElement, document.querySelector('.main')]
  .map(each => each.scrollWidth - each.clientWidth)"""
"""By how much the page and its content are wider than the window. Tables scroll by themselves."""


def settled(page: Page) -> None:
    """Wait until nothing on the page is a placeholder."""
    expect(page.locator(".skeleton")).to_have_count(0)


@pytest.fixture(scope="module")
def walk(windows: dict[str, Visit], world: ApiWorld) -> Visit:
    """A window that goes from page to page."""
    windows["owner"].begin_again(world.owner)
    return windows["owner"]


@pytest.mark.parametrize("path", PAGES)
def test_page_shows_its_heading_is_accessible_and_fits_a_narrow_window(
    walk: Visit, company: Company, books: Books, path: str
) -> None:
    walk.refused.clear()
    walk.complaints.clear()
    open_page = walk.go if DEEP else walk.move
    page = open_page(
        path.format(
            run=company.both_run,
            held=company.sales_held,
            backfill=company.sales_backfill,
            failed=books.failed_run,
            audit=books.task(books.failed_run, "books.audit"),
            hostile=books.hostile_run,
        )
    )
    expect(page.get_by_role("heading", level=1)).to_contain_text(PAGES[path])
    settled(page)
    contract = "404" if "view=contract" in path else None
    assert [each for each in walk.refused if contract is None or contract not in each] == []
    assert page.title() == "Arco"
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text("utf-8") + "; undefined")
    assert page.evaluate(SERIOUS) == []
    page.set_viewport_size(NARROW)
    expect(page.get_by_role("button", name="Menu")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate(SIDEWAYS) == [0, 0]
    page.set_viewport_size(SIZE)
    assert walk.complaints == []


def test_hostile_text_is_shown_and_runs_nothing(enter: Enter) -> None:
    visit = enter()
    page = visit.go("/assets/sales.hostile")
    settled(page)
    body = page.locator(".prose")
    expect(body).to_contain_text("<script>document.title='owned'</script>")
    assert page.locator(".prose img, .prose script, a[href^='javascript:']").count() == 0
    assert page.title() == "Arco"
    assert [url for url in visit.requests if "evil.example" in url] == []
    visit.go("/assets?q=hostile")
    expect(page.get_by_role("grid")).to_contain_text("<b>ana</b>")
    assert page.title() == "Arco"


def test_page_moves_when_something_is_committed(enter: Enter, company: Company) -> None:
    visit = enter()
    page = visit.go("/assets?q=arrived")
    expect(page.get_by_text("No asset matches")).to_be_visible()
    other = visit.tab()
    other.goto(page.url)
    expect(other.get_by_text("No asset matches")).to_be_visible()
    company.town.fresh().commands.catalog.create_asset("sales.arrived")
    expect(page.get_by_role("link", name="sales.arrived")).to_be_visible()
    expect(other.get_by_role("link", name="sales.arrived")).to_be_visible()
    assert len([url for url in visit.requests if url.endswith("/events")]) == 1


def test_time_travel_moves_the_whole_page_and_is_in_the_address(
    enter: Enter, company: Company
) -> None:
    before = company.town.fresh().read.snapshot().generation
    company.town.fresh().commands.catalog.create_asset("sales.later")
    visit = enter()
    page = visit.go("/assets?q=later")
    expect(page.get_by_role("link", name="sales.later")).to_be_visible()
    visit.go(f"/assets?q=later&generation={before}")
    expect(page.get_by_text("No asset matches")).to_be_visible()
    expect(page.get_by_role("group", name="Time travel")).to_contain_text(str(before))
    page.get_by_role("link", name="Runs").click()
    expect(page).to_have_url(re.compile(rf"/runs\?generation={before}$"))
    slider = page.get_by_role("slider", name="Generation")
    slider.focus()
    slider.press("ArrowLeft")
    expect(page).not_to_have_url(re.compile(rf"generation={before}$"))
    page.get_by_role("button", name="Back to live").click()
    expect(page).not_to_have_url(re.compile("generation="))


def test_keyboard_alone_finds_and_opens_an_asset(enter: Enter) -> None:
    page = enter().go("")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("total")
    expect(page.get_by_role("option", name="sales.total")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/assets/sales.total$"))
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page).to_have_url(re.compile("/runs$"))
    expect(page.get_by_role("searchbox")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("sales.total")
    expect(page).to_have_url(re.compile("asset=sales.total"))


def test_each_question_has_the_same_rows_in_both_engines(enter: Enter, books: Books) -> None:
    """The server's DuckDB is another version than the browser's."""
    parameters = {"namespace": "books", "name": "sums", "state": "", "q": "", "sort": "name"}
    parameters |= {"limit": "50", "offset": "0", "run": books.run, "first": "errors"}
    parameters |= {"assets": "books.sums hr.report"}
    questions = {file.stem: file.read_text("utf-8") for file in (ROOT / "ui/sql").glob("*.sql")}
    for name in ("assets", "asset_states", "lineage_overview"):
        questions[name] = over_lines(questions["asset_lines"], questions[name])
    page = enter().go("/sql?engine=browser")
    expect(page.get_by_role("option", name="In this browser", exact=True)).to_be_attached(
        timeout=60_000
    )
    texts: dict[str, list[str]] = {name: [] for name in questions}
    for engine, where in (("browser", "in this browser"), ("server", "on the server")):
        page.get_by_label("Engine").select_option(engine)
        for name, question in questions.items():
            filled = re.sub(r"\$([a-z_]+)", lambda match: literal(parameters[match[1]]), question)
            page.get_by_label("SQL", exact=True).fill(filled)
            page.get_by_role("button", name="Run Ctrl").click()
            expect(page.get_by_role("button", name="Run Ctrl")).to_be_enabled()
            expect(page.get_by_role("heading", name=re.compile(where)), name).to_be_visible()
            settled(page)
            assert page.get_by_role("alert").count() == 0, name
            rows = page.locator(".panel.fill").inner_text()
            texts[name].append(re.sub(r"^Rows .*$", "", rows, flags=re.MULTILINE))
    assert {name: two[0] for name, two in texts.items()} == {
        name: two[1] for name, two in texts.items()
    }
    assert all(two[0] for two in texts.values())
    _list_in_the_browser(page)


def _list_in_the_browser(page: Page) -> None:
    """The list of assets is filtered over a table that the browser keeps: no request."""
    asked: list[str] = []
    page.get_by_role("link", name="Assets", exact=True).click()
    expect(page.get_by_role("link", name="hr.report")).to_be_visible()
    settled(page)
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("searchbox").fill("SALES.TOTAL")
    expect(page.locator(".toolbar").get_by_role("status")).to_have_text("1 asset")
    expect(page.get_by_role("link", name="sales.total")).to_be_visible()
    assert [url for url in asked if "/query" in url or "/files" in url] == []


def test_restricted_viewer_asks_for_nothing_that_he_may_not_have(
    enter: Enter, viewer: ApiClient, company: Company
) -> None:
    visit = enter(viewer)
    for path in ("", "/assets", "/assets/sales.total", "/runs", f"/runs/{company.sales_run}"):
        page = visit.go(path)
        settled(page)
        assert "hr." not in page.inner_text("body")
    assert visit.refused == []
    assert [url for url in visit.requests if "/files" in url or "duckdb" in url] == []
    assert page.get_by_role("button", name="Cancel").count() == 0


def test_url_of_something_hidden_looks_like_one_of_nothing(enter: Enter, viewer: ApiClient) -> None:
    visit = enter(viewer)
    texts = []
    for asset in ("hr.salaries", "hr.nothing"):
        page = visit.go(f"/assets/{asset}")
        expect(page.get_by_role("heading", name="There is no such asset")).to_be_visible()
        texts.append(page.inner_text("main"))
    assert texts[0] == texts[1]


def test_without_a_session_the_page_says_how_to_sign_in(enter: Enter, world: ApiWorld) -> None:
    page = enter(world.nobody()).go("/assets")
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(page.get_by_text("servo serve")).to_be_visible()


def test_without_a_session_the_page_links_to_the_login_of_the_server(
    enter: Enter, world: ApiWorld
) -> None:
    visit = enter(world.nobody())
    visit.page.route(
        "**/auth/session",
        lambda route: route.fulfill(json={"caller": None, "login": "/auth/login"}),
    )
    page = visit.go("/assets?q=total")
    back = quote(page.url.removeprefix(page.evaluate("location.origin")), safe="")
    link = page.get_by_role("link", name="Log in")
    expect(link).to_have_attribute("href", f"/auth/login?next={back}")


def test_page_says_why_the_last_save_was_not_deployed(enter: Enter) -> None:
    """`servo dev` has the route; here the browser is given its answers."""
    visit = enter()
    problem = {"file": "shop/orders.py", "line": 7, "message": "cycle", "hint": "remove one input"}
    broken = {"state": "BROKEN", "deployment": 3, "message": "", "hint": "", "problems": [problem]}
    deployed = broken | {"state": "DEPLOYED", "problems": []}
    answers = [broken, deployed]

    def name_the_route(route: Route) -> None:
        session = route.fetch()
        route.fulfill(json=session.json() | {"development": "/api/v1/development"})

    visit.page.route("**/auth/session", name_the_route)
    visit.page.route("**/api/v1/development", lambda route: route.fulfill(json=answers[0]))
    page = visit.go("/runs")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Runs go on with deployment 3")
    expect(alert).to_contain_text("shop/orders.py:7")
    expect(alert).to_contain_text("remove one input")
    answers.pop(0)
    expect(alert).not_to_be_visible()


def test_page_of_a_server_without_development_does_not_ask_for_it(enter: Enter) -> None:
    visit = enter()
    expect(visit.go("/runs").get_by_role("heading", name="Runs")).to_be_visible()
    assert [url for url in visit.requests if url.endswith("/development")] == []


def test_partitions_in_many_ranges_are_a_picture_that_the_server_makes(enter: Enter) -> None:
    """A company's ranges are few: the browser is told that there are more."""
    visit = enter()

    def say_more(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"next_offset": 500})

    visit.page.route("**/assets/sales.orders/partitions?*", say_more)
    page = visit.go("/assets/sales.orders?view=partitions")
    matrix = page.get_by_role("img", name=re.compile("^Partitions: "))
    expect(matrix).to_have_attribute("style", re.compile("height"))
    matrix.hover(position={"x": 3, "y": 3})
    expect(page.locator(".tip")).to_contain_text("date=2026-01-01")
    assert [url for url in visit.requests if "/partition-map" in url]


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        ("/assets", ["/assets?page_size=50"]),
        (
            "/assets/sales.orders?view=partitions",
            [
                "/assets/sales.orders",
                "/assets/sales.orders/partitions?limit=500",
                "/assets/sales.orders/partition-map?cells=20000",
            ],
        ),
        ("/runs/{run}", ["/runs/{run}?waiting=false", "/runs/{run}/tasks?page_size=50"]),
    ],
)
def test_reads_of_the_first_page_are_asked_for_once_before_its_code_is_there(
    enter: Enter, company: Company, path: str, reads: list[str]
) -> None:
    visit = enter()
    page = visit.go(path.format(run=company.both_run))
    settled(page)
    expect(page.get_by_role("button", name="Time travel")).to_contain_text(re.compile(r"\d"))
    api = "/api/v1/workspaces/acme/prod"
    asked = [urlsplit(url) for url in visit.requests]
    names = [each.path + (f"?{each.query}" if each.query else "") for each in asked]
    wanted = ["/auth/session", api, *[api + read.format(run=company.both_run) for read in reads]]
    code = next(at for at, name in enumerate(names) if re.match("/static/(asset|run)s?-", name))
    assert sorted(name for name in names[:code] if not name.startswith(("/static", "/w/"))) == (
        sorted(wanted)
    )
    plain = [re.sub(r"[?&]generation=\d+", "", name) for name in names]
    assert [plain.count(each) for each in wanted] == [1] * len(wanted)


def test_unknown_page_and_run_say_so(enter: Enter) -> None:
    page = enter().go("/nothing")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page = enter().go("/runs/nothing")
    expect(page.get_by_role("heading", name="There is no such run")).to_be_visible()


def test_page_goes_on_when_the_server_comes_back(
    enter: Enter, company: Company, started_browser: object
) -> None:
    own = ApiWorld(company.town.fresh())
    first = ServedPage(own)
    visit = enter()
    page = visit.page
    page.context.add_cookies(
        [{"name": "arco_local", "value": own.local.token, "url": first.origin}]
    )
    page.goto(f"{first.base}/assets")
    expect(page.get_by_role("link", name="sales.total")).to_be_visible()
    port = first.port
    first.stop()
    expect(page.get_by_text("The server does not answer")).to_be_visible(timeout=30_000)
    again = ApiWorld(company.town.fresh())
    again.tokens.callers[own.local.token] = again.local.caller(again.local.token)  # type: ignore[assignment]
    second = ServedPage(again, port)
    try:
        expect(page.get_by_text("The server does not answer")).not_to_be_visible(timeout=30_000)
        expect(page.get_by_role("link", name="sales.total")).to_be_visible()
    finally:
        second.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_choice(enter: Enter, scheme: str) -> None:
    page = enter(color_scheme=scheme).go("")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    background = "getComputedStyle(document.body).backgroundColor"
    as_system = page.evaluate(background)
    other = "dark" if scheme == "light" else "light"
    button = page.get_by_role("button", name=re.compile("Colours"))
    while other not in (button.get_attribute("title") or ""):
        button.click()
    assert page.evaluate(background) != as_system
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == other


def test_narrow_window_has_a_menu_and_the_current_tab_in_sight(enter: Enter) -> None:
    visit = enter()
    visit.page.set_viewport_size(NARROW)
    page = visit.go("/assets/sales.total?view=explain")
    settled(page)
    tab = page.get_by_role("link", name="Explain", exact=True).and_(page.locator("[aria-current]"))
    expect(tab).to_be_in_viewport(ratio=0.9)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Lineage").click()
    expect(page.get_by_role("heading", name="Lineage", level=1)).to_be_visible()
