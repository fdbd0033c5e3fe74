"""Automation of an asset: when its partitions run without a request.

    @asset(automation=eager())
    def totals(orders: AssetIn): ...

Only events after the deployment that declares it count: adding a condition does not run old
partitions.
"""

from __future__ import annotations

from servo.contract.manifest import AutomationSpec
from servo.cron import check_cron
from servo.errors import Invalid
from servo.source import expect, misdeclared


def eager() -> AutomationSpec:
    """A partition runs when a version that it reads was replaced and all its inputs are good.

    An input is good if it exists, no newer output of it failed or is held, and none of its own
    inputs is about to run again. After a failure the partition waits for the next new version.
    """
    return AutomationSpec(kind="eager")


def on_missing() -> AutomationSpec:
    """A partition runs when it has no version yet, its inputs exist and its period is over."""
    return AutomationSpec(kind="on_missing")


def on_cron(cron: str, *, timezone: str = "UTC") -> AutomationSpec:
    """At these times, the partitions run whose inputs were replaced since they last ran."""
    expect(cron, str, "on_cron: cron", hint='write on_cron("0 6 * * *")')
    expect(timezone, str, "on_cron: timezone", hint='write timezone="Europe/Berlin"')
    try:
        check_cron(cron)
    except Invalid as error:
        misdeclared(f"on_cron: {error.message}", hint=error.hint)
    return AutomationSpec(kind="on_cron", cron=cron, timezone=timezone)
