"""What comes before and after a route: names of the server, addresses, logs, other origins."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from arco.api.table import ROUTES
from tests.kit.api import ApiWorld, Company


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture(scope="module")
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh(), hosts=("arco", "arco.example:8321"))
    yield world
    world.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "arco.example:8321"}, 200),
        ({"Host": "ARCO.example:8321"}, 200),
        ({"Host": "arcoXexample:8321"}, 400),
        ({"Host": "arco.example:8321.evil.org"}, 400),
        ({"Host": "evil.org", "X-Forwarded-Host": "arco.example:8321"}, 400),
        ({"Host": "evil.org"}, 400),
    ],
)
def test_a_name_that_is_not_the_servers_is_refused(
    world: ApiWorld, headers: dict[str, str], status: int
) -> None:
    answer = world.owner.send("GET", "/assets", headers=headers)
    assert answer.status_code == status
    assert status == 200 or answer.json()["code"] == "unknown_host"


def test_a_client_cannot_choose_the_address_that_it_is_limited_by(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), failed_logins_per_minute=3)
    try:
        statuses = [
            world.nobody()
            .send("GET", "/assets", headers={"X-Forwarded-For": f"10.0.0.{number}"})
            .status_code
            for number in range(6)
        ]
    finally:
        world.close()
    assert statuses == [401, 401, 401, 429, 429, 429]


def test_an_address_of_a_trusted_proxy_counts(company: Company) -> None:
    world = ApiWorld(
        company.town.fresh(), failed_logins_per_minute=1, trusted_proxies=("127.0.0.1",)
    )
    try:
        statuses = [
            world.nobody().send("GET", "/assets", headers={"X-Forwarded-For": hops}).status_code
            for hops in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.9.9.9, 10.0.0.2")
        ]
    finally:
        world.close()
    # What a client writes in front of the proxy's own entry does not count.
    assert statuses == [401, 429, 401, 429]


def test_the_access_log_holds_one_line_a_request_and_nothing_that_a_client_sent(
    company: Company,
) -> None:
    written: list[str] = []
    world = ApiWorld(company.town.fresh(), written.append)
    world.owner.send("GET", "/assets?namespace=secret-in-a-query")
    world.owner.send("GET", "/nothing/%0d%0aforged%20line")
    world.owner.send("GET", "/signed/x?signature=topsecret", headers={"X-A": "b"})
    world.server.access.flush()
    world.close()
    lines = "".join(written).splitlines()
    assert [json.loads(line)["route"] for line in lines] == [
        "/assets",
        "(none)",
        "/signed/{path}",
    ]
    text = "".join(written)
    assert world.owner.token not in text
    assert not [word for word in ("secret", "forged", "Bearer") if word in text]


def test_a_page_of_another_origin_may_read_nothing(world: ApiWorld) -> None:
    for path in ("/assets", "/api/v1/me", "/healthz"):
        answer = world.owner.send("GET", path, headers={"Origin": "https://evil.org"})
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_signs_of_patterns_in_a_search_mean_nothing(world: ApiWorld) -> None:
    for text in ("%", "_", "*", "%%", ".*"):
        answer = world.owner.send("GET", "/search", params={"q": text})
        assert (answer.status_code, answer.json()["detail"]) == (400, "the query has no words")


def test_keys_of_partitions_are_in_no_path() -> None:
    """They may hold a slash or a vertical bar, which proxies and servers decode differently."""
    assert [route.path for route in ROUTES if "{partition" in route.path] == []
