"""A run keeps its world: what its requests look up is what its plan meant, by id."""

from __future__ import annotations

import pytest

from arco.app import Workspace
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState
from arco.storage.memory import MemoryStore
from servo.contract.task import MaterializationRef, TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.flows import Crowd, deploy, end_of, trigger
from tests.kit.workspace import make_workspace

CUSTOMERS = """
from servo import AssetIn, asset, references

@asset(namespace="shop")
def customers() -> None: ...
"""
RENAMED = """
from servo import AssetIn, asset, references

@asset(namespace="shop", renamed_from="shop.customers")
def clients() -> None: ...
"""
ORDERS = """
@asset(namespace="shop")
def first() -> None: ...

@asset(namespace="shop", checks=[references("customer", "shop.{target}.id")])
def orders(first: AssetIn["shop.first"]) -> None: ...
"""
BEFORE = CUSTOMERS + ORDERS.format(target="customers")
AFTER_RENAME = RENAMED + ORDERS.format(target="clients")
NAME_TAKEN = (
    AFTER_RENAME.replace(', renamed_from="shop.customers"', "")
    + """
@asset(namespace="shop", description="another one")
def customers() -> None: ...
"""
)
REMOVED = """
from servo import asset

@asset(namespace="shop")
def other() -> None: ...
"""


class Shop:
    """Data of `shop.customers` exists, and a run that looks values up in it has been triggered."""

    def __init__(self) -> None:
        self.clock = SimClock()
        store = MemoryStore(self.clock)
        self.w: Workspace = make_workspace(store, 1, clock=self.clock)
        deploy(self.w, BEFORE)
        self.crowd = Crowd(store, self.clock, trigger(self.w, "shop.customers"))
        self.crowd.orchestrator()
        self.worker = self.crowd.worker(script=lambda request: None)
        self.crowd.finish()
        self.customers = self.worker.executor.ran[0]
        self.crowd.run_id = trigger(self.w, "shop.first", "shop.orders")

    def finish(self) -> TaskRequest:
        """The request of `shop.orders` once the run has succeeded."""
        self.crowd.finish()
        row = end_of(self.crowd.fresh(), self.crowd.run_id)
        assert row is not None and row.state == RunState.SUCCEEDED
        return self.worker.executor.ran[-1]


def _looked_up(request: TaskRequest) -> tuple[MaterializationRef, ...]:
    assert (request.asset, [ref.asset for ref in request.references]) == (
        "shop.orders",
        ["shop.customers"],
    )
    return request.references[0].materializations


@pytest.mark.parametrize(
    "deployments",
    [
        pytest.param((), id="nothing"),
        pytest.param((AFTER_RENAME,), id="rename"),
        pytest.param((AFTER_RENAME, NAME_TAKEN), id="rename, name taken"),
        pytest.param((REMOVED,), id="removal"),
    ],
)
def test_checks_of_a_run_look_up_the_asset_of_its_plan_whatever_is_deployed_meanwhile(
    deployments: tuple[str, ...],
) -> None:
    shop = Shop()
    for text in deployments:
        deploy(shop.w, text)
    ref = _looked_up(shop.finish())[0]
    assert ref.path.startswith(shop.customers.output)


def test_plan_carries_the_ids_of_what_checks_look_up() -> None:
    shop = Shop()
    spec = shop.w.commands.orchestration.plan(PlanRequest(selection=("shop.orders", "shop.first")))
    assert spec.references == {"shop.customers": shop.customers.asset_id}
