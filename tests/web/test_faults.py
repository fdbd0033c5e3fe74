"""What the page does when something is refused, gone or broken, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.books import Books
from tests.web.conftest import Enter

pytestmark = pytest.mark.xdist_group("web")


def test_expired_session_is_said_and_a_new_one_goes_on(
    enter: Enter, world: ApiWorld, company: Company
) -> None:
    who = world.client(Role.VIEWER)
    visit = enter(who)
    page = visit.go("/assets?q=total")
    expect(page.get_by_role("link", name="sales.total")).to_be_visible()
    caller = world.tokens.callers.pop(who.token)
    company.town.fresh().commands.catalog.create_asset("sales.after_the_end")
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    assert "sales.total" not in page.inner_text("body")
    world.tokens.callers[who.token] = caller
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name="sales.total")).to_be_visible()
    expect(page).to_have_url(re.compile("q=total"))


def test_action_in_an_expired_session_changes_nothing_and_says_so(
    enter: Enter, world: ApiWorld, company: Company
) -> None:
    who = world.client(Role.OWNER)
    visit = enter(who)
    page = visit.go("/settings")
    page.get_by_role("button", name="Pause dispatch").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("maintenance")
    # The stream still lives; the write is the first to be refused.
    caller = world.tokens.callers.pop(who.token)
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    said = page.get_by_role("alert").or_(page.get_by_role("heading", name="You are not signed in"))
    expect(said.first).to_be_visible()
    world.tokens.callers[who.token] = caller
    assert not company.town.fresh().read.orchestration().limits().is_paused


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/assets/{asset}", "asset"),
        ("/lineage?asset={asset}", "asset"),
        ("/runs/{run}", "run"),
        ("/runs/{run}?task={task}&show=code", "run"),
    ],
)
def test_shared_url_shows_a_stranger_nothing(
    enter: Enter, viewer: ApiClient, company: Company, path: str, what: str
) -> None:
    task = company.task_of(company.hr_run, "hr.salaries")
    hidden = path.format(asset="hr.salaries", run=company.hr_run, task=task)
    absent = path.format(asset="hr.nothing", run="01ARZ3NDEKTSV4RRFFQ69G5FAV", task=task)
    visit = enter(viewer)
    texts = []
    for address in (hidden, absent):
        page = visit.go(address)
        expect(page.get_by_role("heading", name=f"There is no such {what}")).to_be_visible()
        texts.append(page.inner_text("main"))
    assert texts[0] == texts[1]


def test_shared_url_of_a_held_output_names_nothing_hidden(
    enter: Enter, viewer: ApiClient, company: Company
) -> None:
    page = enter(viewer).go(f"/quarantine?id={company.hr_held}")
    expect(page.get_by_role("heading", name="Quarantine")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_visible()
    assert "hr." not in page.inner_text("main")


@pytest.mark.parametrize("path", ["/audit", "/settings?view=keys", "/settings?view=roles"])
def test_page_that_the_caller_may_not_have_says_so(
    enter: Enter, viewer: ApiClient, path: str
) -> None:
    page = enter(viewer).go(path)
    expect(page.locator(".skeleton")).to_have_count(0)
    said = page.get_by_role("heading", name="You may not do this")
    expect(said.or_(page.get_by_role("alert")).first).to_be_visible()
    expect(page.locator(".table, [role=grid]")).to_have_count(0)


def test_failure_of_the_server_is_shown_with_its_request(enter: Enter) -> None:
    visit = enter()
    problem = {"status": 500, "detail": "something broke", "request_id": "01REQUEST"}
    visit.page.route(
        re.compile("/assets/sales.total(\\?|$)"),
        lambda route: route.fulfill(status=500, json=problem),
    )
    page = visit.page
    visit.go("/assets")
    page.get_by_role("link", name="sales.total").click()
    expect(page.get_by_role("heading", name="The server failed")).to_be_visible()
    expect(page.get_by_text("something broke")).to_be_visible()
    expect(page.get_by_text("01REQUEST")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="sales.total")).to_be_visible()


def test_part_of_a_page_that_fails_leaves_the_others(enter: Enter, books: Books) -> None:
    visit = enter()

    def fail(route: Route) -> None:
        route.fulfill(status=500, body="<h1>not JSON</h1>")

    visit.page.route("**/plan?*", fail)
    task = books.task(books.failed_run, "books.audit")
    page = visit.go(f"/runs/{books.failed_run}?task={task}")
    expect(page.get_by_role("log")).to_contain_text("ValueError")
    page.get_by_role("link", name="Code", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("heading", name="books.audit").first).to_be_visible()


def test_panel_that_failed_does_not_say_that_all_is_well(enter: Enter) -> None:
    visit = enter()
    visit.page.route("**/quarantine?*", lambda route: route.fulfill(status=500, json={}))
    page = visit.go("")
    panel = page.get_by_role("region", name="Waits for a person")
    expect(panel.get_by_role("alert")).to_be_visible()
    expect(page.get_by_text("Nothing waits for a decision")).to_have_count(0)
    expect(page.get_by_role("region", name="Recent runs").get_by_role("link").first).to_be_visible()


def test_keyboard_alone_plans_a_run_and_comes_back(enter: Enter) -> None:
    page = enter().go("/assets/sales.orders")
    button = page.get_by_role("button", name="Materialize")
    expect(button).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if button.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Partitions").focus()
    page.keyboard.type("date=2026-01-02")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    show = dialog.get_by_role("button", name="Show the plan")
    for _ in range(8):
        if show.evaluate("each => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("Plan")).to_contain_text("would run")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(button).to_be_focused()


def test_arrows_walk_through_a_list_and_enter_opens(enter: Enter) -> None:
    page = enter().go("/assets?q=books.")
    grid = page.get_by_role("grid")
    expect(grid).to_contain_text("books.audit")
    expect(page.locator(".toolbar").get_by_role("status")).to_have_text("6 assets")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/assets/books\."))
