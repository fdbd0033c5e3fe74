"""The status of partitions, worked out from a store."""

from __future__ import annotations

import pytest

from arco.orchestration import partition_status
from arco.orchestration.partition_status import StatusReader
from arco.orchestration.plan import PlanRequest
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.world import World
from servo.contract.task import ErrorInfo, TaskRequest
from servo.errors import Invalid
from tests.kit.flows import Outcome
from tests.kit.freshness import AgingTown

TEXT = """
from servo import AssetIn, asset, daily, static
DAYS = daily('date', start='2026-01-01')
REGIONS = static('region', ['eu', 'us'])
@asset(namespace='city', partitions=DAYS * REGIONS)
def top() -> None: ...
@asset(namespace='city', partitions=DAYS * REGIONS)
def below(top: AssetIn['city.top']) -> list[dict]: return []
"""


def script(request: TaskRequest) -> Outcome:
    if request.partition == "date=d:2026-01-03,region=s:us":
        return ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")
    return None


def ranges(town: AgingTown, asset: str, *texts: str) -> list[tuple[str, str, str, str]]:
    w = town.fresh()
    snapshot = w.read.snapshot()
    manifest = World.of(OrchestrationReader(snapshot), w.library).manifest
    reader = StatusReader(snapshot, {each.key: each for each in manifest.assets}, town.clock.now())
    statuses, _ = reader.statuses(asset, texts)
    return [(r.first, r.last, str(r.state), str(r.quality)) for r in statuses.ranges()]


def test_each_state_is_told_from_the_others() -> None:
    town = AgingTown(TEXT, script=script)
    town.run("date=2026-01-01..2026-01-03", "region=all", selection="*")
    town.run("date=2026-01-02", "region=eu", selection="city.top")
    town.crowd.workers.clear()
    request = PlanRequest(selection=("city.top",), partitions=("date=2026-01-04", "region=us"))
    town.fresh().commands.orchestration.trigger(request)
    town.crowd.step()
    day = "date=d:2026-01-0"
    assert ranges(town, "city.below", "region=eu") == [
        (f"{day}1,region=s:eu", f"{day}1,region=s:eu", "MATERIALIZED", "PASSED"),
        (f"{day}2,region=s:eu", f"{day}2,region=s:eu", "STALE", "PASSED"),
        (f"{day}3,region=s:eu", f"{day}3,region=s:eu", "MATERIALIZED", "PASSED"),
        (f"{day}4,region=s:eu", f"{day}4,region=s:eu", "MISSING", "UNKNOWN"),
    ]
    assert ranges(town, "city.top", "region=us") == [
        (f"{day}1,region=s:us", f"{day}2,region=s:us", "MATERIALIZED", "PASSED"),
        (f"{day}3,region=s:us", f"{day}3,region=s:us", "FAILED", "UNKNOWN"),
        (f"{day}4,region=s:us", f"{day}4,region=s:us", "MATERIALIZING", "UNKNOWN"),
    ]


def test_other_code_makes_what_it_made_stale() -> None:
    town = AgingTown(TEXT)
    town.run("date=2026-01-01", "region=all", selection="*")
    town.deploy(TEXT.replace("return []", "return [{}]"))
    states = {row[2] for row in ranges(town, "city.below", "date=2026-01-01")}
    assert states == {"STALE"}
    assert {row[2] for row in ranges(town, "city.top", "date=2026-01-01")} == {"MATERIALIZED"}


def test_too_many_partitions_are_not_planned_to_tell_which_are_stale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    town = AgingTown(TEXT)
    town.run("date=2026-01-01", "region=all", selection="*")
    town.deploy(TEXT.replace("return []", "return [{}]"))
    monkeypatch.setattr(partition_status, "MAX_JUDGED", 1)
    states = {row[2] for row in ranges(town, "city.below", "date=2026-01-01")}
    assert states == {"MATERIALIZED"}


def test_partitions_that_cannot_be_listed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    town = AgingTown(TEXT)
    monkeypatch.setattr(partition_status, "MAX_PARTITIONS", 3)
    with pytest.raises(Invalid, match="these are 8 partitions"):
        ranges(town, "city.below")
    with pytest.raises(Invalid, match="no dimension 'dat'"):
        ranges(town, "city.below", "dat=2026-01-01")
