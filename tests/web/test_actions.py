"""What people do on the page, in a real browser: each action with its preview and its effect."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from servo.contract.keys import AssetKey
from tests.kit.api import ApiClient, Company
from tests.web.conftest import Enter

pytestmark = pytest.mark.xdist_group("web")


def dialog_of(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_run_is_asked_for_after_its_plan_was_shown(enter: Enter, company: Company) -> None:
    page = enter().go("/assets/sales.orders")
    dialog_of(page, "Materialize")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Partitions").fill("date=2026-01-02..2026-01-03")
    dialog.get_by_label("Run also what is up to date").check()
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.get_by_label("Plan")).to_contain_text("2 tasks of 1 asset would run")
    expect(dialog.get_by_label("Plan")).to_contain_text("date=2026-01-03")
    dialog.get_by_role("button", name="Start 2 tasks").click()
    expect(page).to_have_url(re.compile("view=requests&request="))
    key = re.search(r"request=([^&]+)", page.url)
    assert key is not None
    reader = company.town.fresh().read.orchestration()
    assert str(reader.run_request(unquote(key[1])).state) == "PENDING"


def test_a_refused_plan_says_what_to_do(enter: Enter) -> None:
    page = enter().go("/assets/sales.orders")
    dialog_of(page, "Materialize")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Assets").fill("sales.nothing")
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.get_by_role("alert")).to_contain_text("sales.nothing")


def test_a_held_output_is_approved_with_a_reason(enter: Enter, company: Company) -> None:
    page = enter().go(f"/quarantine?id={company.sales_held}")
    dialog_of(page, "Approve")
    page.get_by_role("dialog").get_by_label("Reason").fill("looked at it")
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Decided", exact=True)).to_be_visible()
    rows = company.town.fresh().read.execution().quarantine(asset_key="sales.total", decided=True)
    decided = {row.materialization_id: str(row.status) for row in rows}
    assert decided[company.sales_held] == "APPROVED"


def test_rejecting_needs_a_reason(enter: Enter, company: Company) -> None:
    page = enter().go(f"/quarantine?id={company.hr_held}")
    dialog_of(page, "Reject")
    expect(page.get_by_role("dialog").get_by_role("button", name="Reject")).to_be_disabled()


def test_dispatch_is_paused_and_resumed(enter: Enter, company: Company) -> None:
    page = enter().go("/settings")
    dialog_of(page, "Pause dispatch")
    page.get_by_role("dialog").get_by_label("Reason").fill("maintenance")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("All dispatch is paused")).to_be_visible()
    dialog_of(page, "Resume dispatch")
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_text("All dispatch is paused")).to_have_count(0)


def test_a_key_is_created_shown_once_and_revoked(enter: Enter) -> None:
    page = enter().go("/settings?view=keys")
    dialog_of(page, "New key")
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill("from-the-page")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    secret = page.locator(".secret")
    expect(secret).to_contain_text(re.compile(r"^arco_[0-9A-Z]{26}_[0-9a-f]{64}$"))
    page.get_by_role("dialog").get_by_role("button", name="Done").click()
    row = page.get_by_role("row").filter(has_text="from-the-page")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    assert page.locator(".secret").count() == 0


def test_two_people_who_edit_the_same_asset_do_not_overwrite_each_other(
    enter: Enter, company: Company
) -> None:
    page = enter().go("/assets/sales.notes")
    dialog_of(page, "Edit")
    page.get_by_role("dialog").get_by_label("Tags").fill("tier=gold")
    company.town.fresh().commands.catalog.update_asset("sales.notes", description="mine")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody has changed this asset")
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    dialog_of(page, "Edit")
    expect(page.get_by_role("dialog").get_by_label("Description")).to_have_value("mine")
    page.get_by_role("dialog").get_by_label("Tags").fill("tier=gold")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("tier=gold")).to_be_visible()
    reader = company.town.fresh().read.catalog()
    assert reader.asset(AssetKey("sales", "notes")).row.tags == {"tier": "gold"}


def test_a_viewer_is_offered_no_action(enter: Enter, viewer: ApiClient) -> None:
    visit = enter(viewer)
    for path in ("/assets/sales.orders", "/quarantine", "/backfills", "/automation"):
        page = visit.move(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)
        offered = page.get_by_role("button", name=re.compile("Materialize|Edit|New|Pause|Approve"))
        expect(offered).to_have_count(0)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    assert visit.refused == []


def test_nothing_is_offered_in_the_past(enter: Enter, company: Company) -> None:
    before = company.town.fresh().read.snapshot().generation - 1
    page = enter().go(f"/assets/sales.orders?generation={before}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("sales.orders")
    expect(page.get_by_role("button", name=re.compile("Materialize|Edit"))).to_have_count(0)
