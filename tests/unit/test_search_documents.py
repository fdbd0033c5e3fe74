"""Documents follow the catalog, whoever changes it; states follow runs; all at any generation."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from arco.errors import NotFound
from arco.search import fold
from arco.search.reader import SearchReader
from arco.search.tables import DOCUMENTS
from arco.state.snapshot import Generation
from arco.storage.memory import MemoryStore
from servo.contract.manifest import SOURCE_CHARS, Asset, Code, ColumnDef
from servo.contract.task import ErrorInfo
from tests.kit.clocks import SimClock
from tests.kit.deploying import put
from tests.kit.freshness import AgingTown, policy
from tests.kit.workspace import make_workspace

FAILURE = ErrorInfo(category="user_code", code="user_code.ValueError", message="broken")


@pytest.fixture
def w() -> Workspace:
    w = make_workspace(clock=SimClock(), actor="ana")
    w.commands.catalog.create_namespace("sales")
    w.commands.catalog.create_asset("sales.orders", columns=[Column(name="mail", type="string")])
    return w


def found(w: Workspace, query: str, generation: int | None = None) -> list[str]:
    at = None if generation is None else Generation(generation)
    return [hit.asset for hit in SearchReader(w.read.snapshot(at)).search(query).hits]


def sql_asset(key: str, sql: str, **fields: Any) -> Asset:
    return Asset(key=key, kind="sql", sql=sql, code=Code(module="m", name="n"), **fields)


def test_every_command_is_found_at_once_and_not_before(w: Workspace) -> None:
    catalog = w.commands.catalog
    before = w.read.snapshot().generation
    catalog.update_asset("sales.orders", description="reconciled", owners=["ana"], tags={"a": "b"})
    assert found(w, "reconciled owner:ana tag:a=b") == ["sales.orders"]
    catalog.update_column("sales.orders", "mail", name="address", pii="email")
    assert found(w, "address has:pii") == ["sales.orders"]
    assert found(w, "mail") == []
    catalog.rename_asset("sales.orders", "purchases")
    assert found(w, "sales.orders") == []
    assert found(w, "orders") == ["sales.purchases"]  # its previous name
    assert found(w, "mail", before) == ["sales.orders"]
    catalog.drop_asset("sales.purchases")
    assert w.read.snapshot().all(DOCUMENTS) == []


def test_nothing_is_found_where_there_is_nothing() -> None:
    empty = make_workspace()
    assert found(empty, "orders") == found(empty, "tag:tier=gold") == []


def test_code_of_a_deployment_is_searched(w: Workspace) -> None:
    columns = (ColumnDef(name="total", description="without tax"),)
    put(w, sql_asset("mart.revenue", "SELECT vat FROM x " + "y" * SOURCE_CHARS, columns=columns))
    assert found(w, "vat kind:sql") == ["mart.revenue"]
    assert found(w, "tax") == ["mart.revenue"]
    put(w, sql_asset("mart.revenue", "SELECT duty FROM x", columns=columns))
    assert found(w, "vat") == []
    assert found(w, "duty") == ["mart.revenue"]
    put(w, sql_asset("gold.revenue", "SELECT duty FROM x", renamed_from="mart.revenue"))
    assert found(w, "revenue") == ["gold.revenue"]
    put(w, sql_asset("gold.other", "SELECT 1"))
    assert found(w, "revenue") == ["gold.revenue"]
    assert not SearchReader(w.read.snapshot()).search("revenue").hits[0].active


def test_rebuild_gives_the_same_documents(w: Workspace) -> None:
    put(w, sql_asset("mart.revenue", "SELECT 1"))
    assert w.upkeep.rebuild(publish=False).same


def test_assets_from_before_there_was_search_are_found_after_a_rebuild() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    with mock.patch.dict(fold.WATCHED, clear=True):
        old = make_workspace(store, clock=clock)
    old.commands.catalog.create_namespace("sales")
    old.commands.catalog.create_asset("sales.orders")
    w = make_workspace(store, 1, clock=clock)
    with pytest.raises(NotFound, match="no documents to search") as caught:
        found(w, "orders")
    assert "servo admin rebuild" in caught.value.hint
    w.upkeep.rebuild()
    assert found(w, "orders") == ["sales.orders"]


def test_stale_and_failing_follow_what_happens() -> None:
    fails = [False]
    town = AgingTown(policy("1h"), script=lambda request: FAILURE if fails[0] else None)
    town.run()
    assert states(town) == ([], [])
    town.wait(hours=2)
    assert states(town) == (["city.alone"], [])
    fails[0] = True
    town.run()
    assert states(town) == (["city.alone"], ["city.alone"])
    fails[0] = False
    town.run()
    assert states(town) == ([], [])


def states(town: AgingTown) -> tuple[list[str], list[str]]:
    w = town.fresh()
    return found(w, "stale"), found(w, "failing namespace:city")
