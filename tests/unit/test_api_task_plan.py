"""What was planned for a task, over HTTP: its reason, its code, its SQL, what it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from arco.security.permissions import Role
from tests.kit.api import ApiWorld, Company
from tests.kit.books import Books

SUMS = "date=d:2026-01-02"


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def books(company: Company) -> Books:
    return Books(company)


@pytest.fixture
def world(company: Company, books: Books) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh())
    yield world
    world.close()


def test_templates_of_a_query_are_filled_in_as_an_engine_gets_them(
    world: ApiWorld, books: Books
) -> None:
    task = books.task(books.run, "books.sums", SUMS)
    plan = world.owner.get(f"/runs/{books.run}/tasks/{task}/plan")
    assert plan["sql"].splitlines() == [
        "SELECT shop, sum(amount) AS amount, DATE'2026-01-02' AS day",
        "FROM `@books.receipts`",
        "WHERE amount > 100 AND shop <> CAST(X'426F622773' AS STRING)",
        "GROUP BY shop",
    ]
    assert (plan["kind"], plan["sql_problem"]) == ("sql", "")
    assert '{{ config("least") }}' in plan["code"]
    assert plan["config"] == {"least": "100", "without": "Bob's"}
    assert plan["reason"]
    (read,) = plan["inputs"]
    assert (read["asset"], read["parameter"]) == ("books.receipts", "books.receipts")
    (version,) = read["versions"]
    assert version["task_id"] == books.task(books.run, "books.receipts", SUMS)
    assert version["materialization_id"]


def test_versions_of_before_the_run_are_named(world: ApiWorld, books: Books) -> None:
    task = books.task(books.failed_run, "books.audit")
    (read,) = world.owner.get(f"/runs/{books.failed_run}/tasks/{task}/plan")["inputs"]
    assert read["version_count"] == 4
    days = [version["partition"] for version in read["versions"]]
    assert days == [f"date=d:2026-01-0{day}" for day in range(1, 5)]
    assert {version["task_id"] for version in read["versions"]} == {""}
    assert all(version["materialization_id"] for version in read["versions"])


def test_a_function_has_its_source_and_no_sql(world: ApiWorld, company: Company) -> None:
    task = company.task_of(company.both_run, "hr.report")
    plan = world.owner.get(f"/runs/{company.both_run}/tasks/{task}/plan")
    assert (plan["kind"], plan["sql"]) == ("python", "")
    assert plan["code"].startswith("def report(")
    assert sorted(each["asset"] for each in plan["inputs"]) == ["hr.salaries", "sales.total"]


def test_inputs_that_the_caller_does_not_see_are_counted(world: ApiWorld, company: Company) -> None:
    task = company.task_of(company.both_run, "hr.report")
    viewer = world.client(Role.VIEWER, "hr")
    plan = viewer.get(f"/runs/{company.both_run}/tasks/{task}/plan")
    assert [each["asset"] for each in plan["inputs"]] == ["hr.salaries"]
    assert plan["hidden_inputs"] == 1
    assert "sales.total" not in plan["code"]
