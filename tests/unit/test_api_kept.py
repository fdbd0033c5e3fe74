"""Answers from what is at hand: the same as those that are worked out, and for the same callers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from arco.api.served import KeySource
from arco.security.authentication import Directories, KeyAuthenticator
from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company

LONG_S = 1_000.0
PATHS = ("/assets/sales.total", "/assets", "/runs", "/assets/sales.total/upstream")


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture
def world(company: Company) -> Iterator[ApiWorld]:
    """A server that looks at the store when it is told to, with the keys of the log."""
    world = ApiWorld(company.town.fresh(), head_age_s=LONG_S)
    directories = Directories([KeySource(world.served)])
    world.add_authenticator(KeyAuthenticator(directories, world.workspace.clock.now))
    yield world
    world.close()


@pytest.fixture
def at_hand(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> Any:
    """From its call on, a request that needs a thread fails."""

    def only() -> None:
        async def refused(call: object, served: object = None) -> None:
            raise AssertionError("an answer that was kept took a thread")

        monkeypatch.setattr(world.server, "in_thread", refused)

    return only


def key_of(world: ApiWorld, name: str, *namespaces: str, ends_in_s: float | None = None) -> Any:
    ends = None if ends_in_s is None else timedelta(seconds=ends_in_s)
    return world.workspace.commands.security.create_key(
        name,
        Role.VIEWER,
        namespaces=namespaces,
        expires_at=None if ends is None else world.workspace.clock.now() + ends,
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_kept_answer_equals_the_first(world: ApiWorld, at_hand: Any, path: str) -> None:
    clients = [world.owner, world.client(Role.VIEWER, "sales")]
    first = [client.send("GET", path) for client in clients]
    at_hand()
    for client, one in zip(clients, first, strict=True):
        other = client.send("GET", path)
        assert (other.status_code, other.content) == (one.status_code, one.content)
        differ = {
            name
            for name in {*one.headers, *other.headers}
            if one.headers.get(name) != other.headers.get(name)
        }
        assert differ == {"x-request-id"}


def test_a_kept_answer_is_unchanged(world: ApiWorld, at_hand: Any) -> None:
    etag = world.owner.send("GET", "/assets").headers["etag"]
    at_hand()
    response = world.owner.send("GET", "/assets", headers={"If-None-Match": etag})
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == etag
    response = world.owner.send("GET", "/assets", headers={"If-None-Match": '"g1"'})
    assert response.status_code == 200


def test_a_page_by_its_token_is_kept(world: ApiWorld, at_hand: Any) -> None:
    token = world.owner.get("/assets", page_size=2)["next_page_token"]
    page = world.owner.get("/assets", page_size=2, page_token=token)
    at_hand()
    assert world.owner.get("/assets", page_size=2, page_token=token) == page


def test_callers_who_see_less_do_not_get_what_others_got(world: ApiWorld) -> None:
    for path in (*PATHS, "/assets/hr.salaries", "/search?q=salaries"):
        world.owner.send("GET", path)
    seller = world.client(Role.VIEWER, "sales")
    for _ in range(2):
        assert {row["namespace"] for row in seller.get("/assets")["items"]} == {"sales"}
        assert seller.send("GET", "/assets/hr.salaries").status_code == 404
        assert b"salaries" not in seller.send("GET", "/search?q=sala").content
    assert world.nobody().send("GET", "/assets").status_code == 401
    assert world.without_token().send("GET", "/assets").status_code == 401
    stranger = world.client(Role.OWNER, tenant="other")
    assert stranger.send("GET", "/assets").status_code == 404


def test_a_revoked_key_is_refused_at_the_next_look(world: ApiWorld, at_hand: Any) -> None:
    made = key_of(world, "ci", "sales")
    world.served.invalidate()
    client = ApiClient(world, str(made.text))
    assert [client.send("GET", "/assets").status_code for _ in range(3)] == [200, 200, 200]
    world.workspace.commands.security.revoke_key(made.row.key_id)
    world.served.invalidate()
    assert client.send("GET", "/assets").status_code == 401


def test_a_role_that_was_taken_back_does_not_count_at_the_next_look(world: ApiWorld) -> None:
    made = key_of(world, "both", "sales")
    security = world.workspace.commands.security
    security.grant(f"key:{made.row.key_id}", Role.VIEWER, namespace="hr")
    world.served.invalidate()
    client = ApiClient(world, str(made.text))
    for _ in range(2):
        assert client.send("GET", "/assets/hr.salaries").status_code == 200
    security.revoke(f"key:{made.row.key_id}", namespace="hr")
    world.served.invalidate()
    assert client.send("GET", "/assets/hr.salaries").status_code == 404


def test_a_key_ends_in_time_also_where_it_is_known(world: ApiWorld) -> None:
    made = key_of(world, "short", "sales", ends_in_s=30.0)
    world.served.invalidate()
    client = ApiClient(world, str(made.text))
    assert [client.send("GET", "/assets").status_code for _ in range(2)] == [200, 200]
    world.workspace.clock.sleep(31.0)
    assert client.send("GET", "/assets").status_code == 401


def test_the_rate_limit_counts_kept_answers(company: Company) -> None:
    world = ApiWorld(company.town.fresh(), head_age_s=LONG_S, rate_burst=5, rate_per_s=0.001)
    try:
        statuses = [world.owner.send("GET", "/assets").status_code for _ in range(7)]
    finally:
        world.close()
    assert statuses == [200] * 5 + [429] * 2


def test_two_credentials_in_one_request_are_nobodys(world: ApiWorld) -> None:
    """A header that is there twice is not read at all, kept or not."""
    owner = world.owner
    owner.get("/assets")
    sent = [("Authorization", f"Bearer {owner.token}"), ("Authorization", "Bearer x")]
    assert world.without_token().send("GET", "/assets", headers=sent).status_code == 401
