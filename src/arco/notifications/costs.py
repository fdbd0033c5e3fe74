"""The folds of costs: what a run has cost so far, and an asset on one day.

Every attempt counts once, at the prices of its worker; without prices nothing is added. The day is
the one, in UTC, on which the attempt was reported. Amounts are in 10⁻⁹ of the currency's unit; when
the currency changes, the sum starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar

from arco.catalog.events import AssetNotice
from arco.execution.events import AttemptRecorded
from arco.log.envelope import Payload
from arco.notifications.tables import ASSET_COSTS, RUN_COSTS, AssetCostRow, RunCostRow
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by


class RunCostAdded(Payload, frozen=True, kw_only=True):
    """Derived: a run costs more than before."""

    TYPE: ClassVar[str] = "notifications.run_cost_added"
    run_id: str
    before: int
    after: int
    currency: str


def _add_to_day(rows: Rows, fact: Fact, e: AttemptRecorded) -> Iterator[Change]:
    if not e.cost:
        return
    day = _day(fact.received_at)
    row = rows.get(ASSET_COSTS, e.asset_id)
    goes_on = row is not None and (row.day, row.currency) == (day, e.currency)
    before = row.cost if row is not None and goes_on else 0
    yield Put(ASSET_COSTS, AssetCostRow(e.asset_id, day, e.currency, before + e.cost))
    yield Emit(
        AssetNotice(
            asset_id=e.asset_id,
            topic="cost",
            event="cost",
            run_id=e.run_id,
            before=before,
            after=before + e.cost,
            currency=e.currency,
        )
    )


def _add_to_run(rows: Rows, fact: Fact, e: AttemptRecorded) -> Iterator[Change]:
    if not e.cost:
        return
    row = rows.get(RUN_COSTS, e.run_id)
    before = row.cost if row is not None and row.currency == e.currency else 0
    after = before + e.cost
    yield Put(RUN_COSTS, RunCostRow(e.run_id, e.currency, after, fact.received_at))
    yield Emit(RunCostAdded(run_id=e.run_id, before=before, after=after, currency=e.currency))


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"


ASSET_COSTS_STAGE = Stage(
    "asset_costs", (ASSET_COSTS,), (On(AttemptRecorded, by("asset_id"), _add_to_day),)
)
RUN_COSTS_STAGE = Stage(
    "run_costs", (RUN_COSTS,), (On(AttemptRecorded, by("run_id"), _add_to_run),)
)
