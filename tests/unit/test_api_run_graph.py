"""The tasks of a run as a graph, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from arco.api.reads import run_graph
from arco.security.permissions import Role
from tests.kit.api import ApiWorld, Company
from tests.kit.books import Books


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


def test_an_asset_with_many_tasks_is_one_node(world: ApiWorld, books: Books) -> None:
    graph = world.owner.get(f"/runs/{books.run}/graph")
    nodes = [(node["asset"], node["tasks"], node["finished"]) for node in graph["nodes"]]
    assert nodes == [
        ("books.receipts", 4, 4),
        ("books.sums", 4, 4),
        ("books.report", 1, 1),
        ("books.summary", 1, 1),
    ]
    assert graph["edges"] == [[0, 1], [1, 2], [2, 3]]
    assert {node["state"] for node in graph["nodes"]} == {"SUCCEEDED"}
    assert [bool(node["task_id"]) for node in graph["nodes"]] == [False, False, True, True]


def test_each_task_can_be_a_node(world: ApiWorld, books: Books) -> None:
    graph = world.owner.get(f"/runs/{books.run}/graph", by="task")
    assert graph["node_count"] == 10
    partitions = [node["partition"] for node in graph["nodes"][:4]]
    assert partitions == [f"date=d:2026-01-0{day}" for day in range(1, 5)]
    one_day = [[day, day + 4] for day in range(4)]
    into_report = [[day + 4, 8] for day in range(4)]
    assert graph["edges"] == [*one_day, *into_report, [8, 9]]


def test_a_failed_task_is_what_its_asset_shows(world: ApiWorld, books: Books) -> None:
    graph = world.owner.get(f"/runs/{books.failed_run}/graph")
    assert [node["state"] for node in graph["nodes"]] == ["FAILED"]


def test_tasks_of_hidden_assets_are_left_out(company: Company, books: Books) -> None:
    run_id = company.town.run("date=2026-01-02", selection="+hr.report")
    world = ApiWorld(company.town.fresh())
    try:
        whole = world.owner.get(f"/runs/{run_id}/graph")
        graph = world.client(Role.VIEWER, "hr").get(f"/runs/{run_id}/graph")
    finally:
        world.close()
    assets = ["hr.salaries", "sales.orders", "sales.total", "hr.report"]
    assert [node["asset"] for node in whole["nodes"]] == assets
    assert [node["asset"] for node in graph["nodes"]] == ["hr.salaries", "hr.report"]
    assert graph["edges"] == [[0, 1]]


def test_a_graph_has_at_most_so_many_nodes(
    world: ApiWorld, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_graph, "MAX_NODES", 5)
    graph = world.owner.get(f"/runs/{books.run}/graph", by="task")
    assert (len(graph["nodes"]), graph["node_count"], graph["truncated"]) == (5, 10, True)
    assert graph["edges"] == [[0, 4]]
