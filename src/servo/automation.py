"""Automation of an asset: when its partitions are made without being asked for.

    @asset(automation=eager())
    def totals(orders: AssetIn): ...

Only what happens after the deployment that declares it counts: a condition that is added does not
make the history again.
"""

from __future__ import annotations

from servo.contract.manifest import AutomationSpec
from servo.cron import check_cron
from servo.errors import Invalid
from servo.source import expect, misdeclared


def eager() -> AutomationSpec:
    """A partition runs when a version that it reads has been replaced, and all it reads is good.

    Good is: it exists, nothing newer of it failed or is held back, and nothing that it is made
    from is about to be made again. After a failure it waits for the next new version.
    """
    return AutomationSpec(kind="eager")


def on_missing() -> AutomationSpec:
    """A partition runs once it can be made (its inputs are there, its period is over) and never
    was made before."""
    return AutomationSpec(kind="on_missing")


def on_cron(cron: str, *, timezone: str = "UTC") -> AutomationSpec:
    """At these times, partitions run that read something which has been replaced since."""
    expect(cron, str, "on_cron: cron", hint='write on_cron("0 6 * * *")')
    expect(timezone, str, "on_cron: timezone", hint='write timezone="Europe/Berlin"')
    try:
        check_cron(cron)
    except Invalid as error:
        misdeclared(f"on_cron: {error.message}", hint=error.hint)
    return AutomationSpec(kind="on_cron", cron=cron, timezone=timezone)
