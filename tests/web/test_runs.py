"""The page of a run, and the path of a column, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.kit.books import HOSTILE_KEY, Books
from tests.web.conftest import Enter

pytestmark = pytest.mark.xdist_group("web")

SUMS = "date=d:2026-01-02"


def test_graph_of_a_run_leads_to_its_tasks(enter: Enter, books: Books) -> None:
    page = enter().go(f"/runs/{books.run}?view=graph")
    expect(page.get_by_text("4 assets, 3 edges")).to_be_visible()
    canvas = page.get_by_role("application")
    expect(canvas).to_have_attribute("data-sight", re.compile(r"\d"))
    canvas.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    bar = page.locator(".graph-bar")
    expect(bar).to_contain_text("books.receipts")
    expect(bar).to_contain_text("4 of 4 tasks succeeded")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=books\.receipts"))
    expect(page.get_by_text("4 of 10 tasks")).to_be_visible()


def test_each_task_can_be_a_node_of_the_graph(enter: Enter, books: Books) -> None:
    page = enter().go(f"/runs/{books.run}?view=graph")
    page.get_by_label("Nodes").select_option("task")
    expect(page.get_by_text("10 tasks, 9 edges")).to_be_visible()
    expect(page).to_have_url(re.compile("by=task"))


def test_task_shows_the_sql_that_ran_and_what_it_read(enter: Enter, books: Books) -> None:
    task = books.task(books.run, "books.sums", SUMS)
    page = enter().go(f"/runs/{books.run}?task={task}")
    page.get_by_role("link", name="Code", exact=True).click()
    rendered = page.get_by_role("region", name="Rendered SQL")
    expect(rendered).to_contain_text("FROM `@books.receipts`")
    expect(rendered).to_contain_text("WHERE amount > 100")
    expect(rendered).to_contain_text("DATE'2026-01-02' AS day")
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("Bob's")
    expect(page.get_by_role("region", name="Code")).to_contain_text('{{ config("least") }}')
    page.get_by_role("link", name="Inputs", exact=True).click()
    row = page.get_by_role("row").filter(has_text="books.receipts").last
    expect(row).to_contain_text("date=2026-01-02")
    row.get_by_role("link", name="this run").click()
    expect(page).to_have_url(re.compile(books.task(books.run, "books.receipts", SUMS)))


def test_asset_shows_its_sql_for_the_chosen_partition(enter: Enter) -> None:
    page = enter().go("/assets/books.sums?view=code")
    rendered = page.get_by_role("region", name="What Spark is given")
    expect(rendered).to_contain_text("DATE'2026-01-04' AS day")  # the last one
    expect(page.get_by_role("region", name="As it was written")).to_contain_text("{{ partition(")
    field = page.get_by_label("Partition")
    field.fill("date=2026-01-02")
    field.press("Enter")
    expect(rendered).to_contain_text("DATE'2026-01-02' AS day")
    expect(page).to_have_url(re.compile("partition=date%3D2026-01-02"))
    field.fill("date=2031-01-01")
    field.press("Enter")
    expect(rendered.get_by_role("alert")).to_contain_text("2031-01-01")
    page.get_by_role("button", name="Default").click()
    expect(rendered).to_contain_text("DATE'2026-01-04' AS day")


def test_costs_of_a_run_add_up(enter: Enter, books: Books) -> None:
    page = enter().go(f"/runs/{books.run}?view=costs")
    figures = page.locator(".figures")
    expect(figures).to_contain_text("$0.03")
    expect(figures).to_contain_text("9.0 s")
    expect(page.get_by_role("row").filter(has_text="books.sums")).to_contain_text("$0.012")


def test_log_shows_errors_first_and_hostile_lines_as_text(enter: Enter, books: Books) -> None:
    visit = enter()
    task = books.task(books.failed_run, "books.audit")
    page = visit.go(f"/runs/{books.failed_run}?task={task}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("ValueError: <b>bold</b>")
    expect(log).not_to_contain_text("reads 4 partitions")
    page.get_by_label("Lines").select_option("all")
    expect(log).to_contain_text("<script>document.title='owned'</script>")
    expect(log).to_contain_text("downloading 100%")
    expect(log).not_to_contain_text("downloading  10%")  # a carriage return overwrote it
    expect(log.locator(".ansi-red")).to_have_text("red")
    assert log.locator("script, img, b, a").count() == 0
    page.get_by_label("Search the log").fill("hyperlink")
    expect(log.locator("mark")).to_have_text("HYPERLINK")
    assert page.title() == "Arco"
    assert [url for url in visit.requests if "evil.example" in url] == []


def test_hostile_partition_key_is_text_everywhere(enter: Enter, books: Books) -> None:
    visit = enter()
    page = visit.go(f"/runs/{books.hostile_run}")
    expect(page.get_by_role("grid")).to_contain_text(HOSTILE_KEY)
    for path in ("/assets/books.visits?view=versions", f"/runs/{books.hostile_run}?view=plan"):
        visit.go(path)
        expect(page.get_by_role("grid")).to_contain_text(HOSTILE_KEY)
    assert page.title() == "Arco"
    assert page.locator("img[src='x']").count() == 0


def test_exported_formulas_are_quoted(enter: Enter, tmp_path: Path) -> None:
    page = enter().go("/sql")
    text = "SELECT '=1+1' AS a, '+2' AS b, '@x' AS c, 'plain \"quoted\", text' AS d"
    page.get_by_label("SQL", exact=True).fill(text)
    page.get_by_role("button", name="Run Ctrl").click()
    with page.expect_download() as downloading:
        page.get_by_role("button", name="CSV").click()
    saved = tmp_path / "rows.csv"
    downloading.value.save_as(saved)
    header, row = saved.read_text("utf-8-sig").splitlines()
    assert header == "a,b,c,d"
    assert row == '\'=1+1,\'+2,\'@x,"plain ""quoted"", text"'


def test_what_is_typed_before_the_tables_are_known_stays(enter: Enter) -> None:
    visit = enter()
    waiting: list[Route] = []
    visit.page.route(re.compile(r"/snapshot(\?|$)"), lambda route: waiting.append(route))
    page = visit.go("/sql")
    editor = page.get_by_label("SQL", exact=True)
    editor.fill("SELECT 1")
    with page.expect_response(re.compile(r"/snapshot(\?|$)")):
        for each in waiting:
            each.continue_()
    tables = page.get_by_role("region", name="Tables")
    expect(tables.get_by_role("button", name="catalog.assets", exact=True)).to_be_visible()
    expect(editor).to_be_focused()
    page.keyboard.type(" + 1 AS sum")
    expect(editor).to_have_text("SELECT 1 + 1 AS sum")


def test_path_of_a_column_goes_up_and_down_across_assets(enter: Enter) -> None:
    page = enter().go("/lineage?asset=books.sums")
    page.get_by_label("Column").select_option("amount")
    expect(page).to_have_url(re.compile("column=amount"))
    expect(page.get_by_role("heading", name="Path of amount")).to_contain_text("4 assets")
    nodes = page.locator(".graph-node")
    expect(nodes).to_have_count(4)
    expect(nodes.filter(has_text="books.receipts")).to_contain_text("amount")
    expect(nodes.filter(has_text="books.summary")).to_contain_text("total")
    chosen = nodes.filter(has_text="books.sums").get_by_role("button", name="amount")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    edges = page.locator(".react-flow__edge")
    expect(edges).to_have_count(3)
    nodes.filter(has_text="books.receipts").get_by_role("button", name="amount").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"asset=books\.receipts"))
    expect(page.locator(".indirect")).not_to_have_count(0)  # it also decides which rows there are
    expect(nodes.filter(has_text="books.sums")).to_contain_text("which rows there are")
