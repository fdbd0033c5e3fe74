"""Notifications: which events are reported to whom.

on_failure = notify(on=["asset_failed", "recovered"], select=["sales.*"], to=["ops", "owners"])

A message links to the run or the asset. It contains no data and no text from user code.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from servo.asset import Declaration
from servo.contract.manifest import NOTIFICATION_EVENTS, Code, NotificationEvent
from servo.duration import Duration
from servo.registry import register
from servo.schedule import selected
from servo.source import code_of_caller, expect, expect_each, expect_one_of, misdeclared

Amount = int | float | Decimal
"""Of money, in units of a currency."""
NANOS: Final = 10**9


class NotificationDefinition:
    """See `notify`."""

    def __init__(
        self,
        name: str,
        on: Sequence[NotificationEvent],
        to: Sequence[str],
        select: Sequence[str | Declaration],
        interval: Duration,
        run_cost: int,
        day_cost: int,
    ) -> None:
        self.name: Final = name
        self.on: Final = tuple(dict.fromkeys(on))
        self.to: Final = tuple(dict.fromkeys(to))
        self.select: Final = selected(select)
        self.interval: Final = interval
        self.run_cost: Final = run_cost
        self.day_cost: Final = day_cost
        self.code: Final[Code] = code_of_caller(name)
        register(self)


def notify(
    name: str = "",
    *,
    on: NotificationEvent | Sequence[NotificationEvent],
    to: str | Sequence[str],
    select: str | Declaration | Sequence[str | Declaration] = (),
    interval: Duration = "1m",
    max_run_cost: Amount | None = None,
    max_day_cost: Amount | None = None,
) -> NotificationDefinition:
    """Notify channels, or the owners of assets, of events.

    `on` is one or more of `"asset_failed"`, `"quarantined"`, `"stale"`, `"contract_breach"` and
    `"recovered"`, which are about assets; `"run_failed"`, `"backfill_failed"`,
    `"backfill_finished"` and `"automation_failed"` (a schedule or a sensor that cannot start its
    run); and `"cost"`: a run that costs more than `max_run_cost`, or an asset whose attempts of one
    day (UTC) cost more than `max_day_cost`, in units of the currency that workers have prices in.

    `to` is names of channels, which the `[notifications]` section of `arco.toml` has, and
    `"owners"`: the e-mail addresses among the `owners=` of an asset. For `"contract_breach"` it may
    be `"consumers"` too: the e-mail addresses among the `consumers=` of the contract. A broken
    contract is reported for the asset itself and for the assets among its consumers.

    `select` is the assets of this project that the rule is about, all of them by default: assets,
    `sales.orders`, `sales.*`, `tag:tier=gold`.

    A failure is reported once, until its subject has recovered. Events within `interval` are
    reported in one message. `name` is what the rule is called in `servo notifications`; by default
    it follows from `to` and `on`.
    """
    expect(name, str, "name")
    events = (on,) if isinstance(on, str) else on
    targets = (to,) if isinstance(to, str) else to
    terms = (select,) if isinstance(select, (str, Declaration)) else select
    expect_each(events, str, "on")
    for event in events:
        expect_one_of(event, NOTIFICATION_EVENTS, "an item of on")
    expect_each(targets, str, "to")
    expect_each(terms, (str, Declaration), "select")
    if not events or not targets:
        missing = "on" if not events else "to"
        misdeclared(f"{missing} is empty", hint="write on=[...] and to=[...], one item at least")
    run_cost = _nanos(max_run_cost, "max_run_cost")
    day_cost = _nanos(max_day_cost, "max_day_cost")
    if ("cost" in events) != bool(run_cost or day_cost):
        hint = 'write on="cost" with max_run_cost=20 or max_day_cost=5, or with both'
        misdeclared('on="cost" needs an amount, and an amount needs on="cost"', hint=hint)
    name = name or f"{targets[0]}_{events[0]}"
    return NotificationDefinition(name, events, targets, terms, interval, run_cost, day_cost)


def _nanos(amount: Amount | None, what: str) -> int:
    if amount is None:
        return 0
    expect(amount, (int, float, Decimal), what)
    nanos = Decimal(str(amount)) * NANOS if not isinstance(amount, bool) else Decimal("NaN")
    if not nanos.is_finite() or not 1 <= nanos < 2**63:
        misdeclared(f"{what} is {amount!r}", hint="a number above 0, as 20 or 0.5")
    return int(nanos)
