"""Whole plans, kept as files: what changes in one is a change that people will see.

To write them again: ARCO_UPDATE_GOLDEN=1 pytest tests/unit/test_planner_golden.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from arco.orchestration.plan import PlanSpec, spec_fingerprint
from servo.contract.manifest import AllUpstream, Latest, Window
from tests.kit.planning import (
    CUSTOMERS,
    DAYS,
    REGIONS,
    TENANTS,
    World,
    asset,
    manifest,
    planned,
    reads,
    time,
)

FOLDER = Path(__file__).parent.parent / "golden" / "plans"

SHOP = manifest(
    asset("raw.orders", DAYS, REGIONS),
    asset("raw.rates", time("hour", "2025-01-01", timezone="Europe/Berlin")),
    asset("sales.orders", DAYS, REGIONS, reads("raw.orders"), reads("raw.rates", Latest())),
    asset("sales.weekly", DAYS, reads("sales.orders", date=Window(-6, 0), region=AllUpstream())),
    asset("sales.board", reads("sales.weekly", Latest()), reads("ops.audit", parameter="")),
    asset("ops.audit", reads("sales.weekly", parameter="")),
)


def first_run() -> PlanSpec:
    """Nothing exists: all that was selected runs, stage by stage."""
    ranges = ("date=2025-01-01..2025-01-03", "region=eu")
    world = World()
    world.make("raw.rates", "date=t:2025-01-03T22:00:00.000000Z")
    return planned(SHOP, "*", exclude=("raw.rates",), partitions=ranges, world=world)


def partly_reused() -> PlanSpec:
    """One raw day came again: what does not read it is reused."""
    ranges = ("date=2025-01-01..2025-01-03",)
    world = World()
    world.make("raw.rates", "date=t:2025-01-03T22:00:00.000000Z")
    made = planned(SHOP, "*", exclude=("raw.rates",), partitions=ranges, world=world)
    world.run(SHOP, made)
    world.make("raw.orders", "date=d:2025-01-02,region=s:us", fingerprint="came again")
    return planned(SHOP, "+sales.weekly", exclude=("raw.*",), partitions=ranges, world=world)


def tenants_and_keys() -> PlanSpec:
    """Dimensions whose values the request does not name, with names that need escapes."""
    project = manifest(
        asset("app.events", TENANTS, CUSTOMERS),
        asset("app.usage", TENANTS, reads("app.events", customer=AllUpstream())),
    )
    return planned(project, "+usage", world=World(customers=["Ünal & Co", "a/b"]))


def short_day() -> PlanSpec:
    """The 23 hours of a day on which the clock goes forward, in Berlin."""
    return planned(
        SHOP, "raw.rates", partitions=("date=2025-03-30",), until=datetime(2025, 4, 1), force=True
    )


@pytest.mark.parametrize("make", [first_run, partly_reused, tenants_and_keys, short_day])
def test_plans_are_as_they_were(make: Callable[[], PlanSpec]) -> None:
    spec = make()
    content = {"fingerprint": spec_fingerprint(spec), "spec": spec}
    text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"
    path = FOLDER / f"{make.__name__}.json"
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, f"{path.name}: see this file's head to update it"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_kept_plans_can_be_read(path: Path) -> None:
    content = msgspec.json.decode(path.read_bytes())
    assert spec_fingerprint(msgspec.convert(content["spec"], PlanSpec)) == content["fingerprint"]
