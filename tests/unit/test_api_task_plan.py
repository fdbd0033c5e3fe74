"""The code of an asset and of a task over HTTP, and what was planned for the task."""

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


# -- code of an asset -------------------------------------------------------------------------


def test_query_of_an_asset_is_filled_in_for_the_chosen_partition(world: ApiWorld) -> None:
    code = world.owner.get("/assets/books.sums/code", partition="date=2026-01-02")
    assert code["sql"].splitlines()[0] == (
        "SELECT shop, sum(amount) AS amount, DATE'2026-01-02' AS day"
    )
    assert (code["kind"], code["partition"], code["sql_problem"]) == ("sql", SUMS, "")
    assert '{{ partition("date") }}' in code["code"]
    assert code["config"]["without"] == "Bob's"


def test_query_is_for_the_last_partition_by_default(world: ApiWorld) -> None:
    assert world.owner.get("/assets/books.sums/code")["partition"] == "date=d:2026-01-04"
    whole = world.owner.get("/assets/books.summary/code")
    assert (whole["partition"], whole["sql"]) == (
        "",
        "SELECT sum(total) AS total FROM `@books.report`",
    )


def test_function_has_its_source_and_no_sql(world: ApiWorld) -> None:
    code = world.owner.get("/assets/hr.report/code")
    assert code["code"].lstrip().startswith(("def report(", "@asset"))
    assert (code["kind"], code["sql"], code["sql_problem"]) == ("python", "", "")


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ("date=2031-01-01", "2031-01-01"),
        ("date=2026-01-01..2026-01-02", "is not one partition"),
        ("region=eu", "region"),
    ],
)
def test_partition_that_the_asset_does_not_have_is_refused(
    world: ApiWorld, partition: str, message: str
) -> None:
    refused = world.owner.send("GET", "/assets/books.sums/code", params={"partition": partition})
    assert refused.status_code == 400
    assert message in refused.json()["detail"]


def test_code_of_an_asset_that_the_caller_does_not_see_is_not_found(world: ApiWorld) -> None:
    refused = world.client(Role.VIEWER, "hr").send("GET", "/assets/books.sums/code")
    assert refused.status_code == 404
