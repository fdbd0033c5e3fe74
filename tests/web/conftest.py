"""One browser, one workspace and one server for all tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from arco.security.permissions import Role
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.books import HOSTILE, Books
from tests.kit.page import ServedPage, Visit, browser

Enter = Callable[..., Visit]


@pytest.fixture(scope="module")
def started_browser() -> Iterator[Browser]:
    """For a module alone: while it is open an event loop runs in this thread, and tests of other
    modules in the same process could not start theirs."""
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def company() -> Company:
    made = Company()
    catalog = made.town.fresh().commands.catalog
    catalog.create_asset(
        "sales.hostile", description=HOSTILE, owners=["<b>ana</b>"], tags={"x": "<i>tag</i>"}
    )
    return made


@pytest.fixture(scope="session")
def books(company: Company) -> Books:
    return Books(company)


@pytest.fixture(scope="session")
def world(company: Company, books: Books) -> Iterator[ApiWorld]:
    made = ApiWorld(company.town.fresh())
    yield made
    made.close()


@pytest.fixture(scope="session")
def served(world: ApiWorld) -> Iterator[ServedPage]:
    made = ServedPage(world)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def windows(started_browser: Browser, served: ServedPage) -> Iterator[dict[str, Visit]]:
    """Kept from test to test: a new window loads and compiles the page again, which costs more
    than most tests."""
    made = {name: Visit(started_browser, served, None) for name in ("owner", "others")}
    yield made
    for visit in made.values():
        visit.close()


@pytest.fixture
def enter(
    started_browser: Browser, served: ServedPage, windows: dict[str, Visit]
) -> Iterator[Enter]:
    """Opens a window for somebody; after the test none may have complained.

    The owner and all others have a window each, which is emptied before a test; a second one in
    the same test, and one with options, is new.
    """
    visits: list[Visit] = []

    def come(who: ApiClient | None = None, **options: Any) -> Visit:
        visit = windows["owner" if who is None else "others"]
        caller = who or served.world.owner
        if options or visit in visits:
            visit = Visit(started_browser, served, caller, **options)
        else:
            visit.begin_again(caller)
        visits.append(visit)
        return visit

    yield come
    complaints = [text for visit in visits for text in visit.complaints]
    for visit in visits:
        if visit not in windows.values():
            visit.close()
    assert complaints == []


@pytest.fixture
def viewer(world: ApiWorld) -> ApiClient:
    """Who sees one namespace, and may change nothing."""
    return world.client(Role.VIEWER, "sales")
