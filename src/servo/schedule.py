"""Schedules: when to run what.

nightly = schedule("nightly", cron="30 2 * * *", selection=["sales.totals+"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from servo.asset import Declaration
from servo.contract.manifest import Code
from servo.registry import register
from servo.source import code_of_caller, expect, expect_each


class ScheduleDefinition:
    """See `schedule`."""

    def __init__(
        self,
        name: str,
        cron: str,
        timezone: str,
        selection: Sequence[str | Declaration],
        partitions: str,
    ) -> None:
        self.name: Final = name
        self.cron: Final = cron
        self.timezone: Final = timezone
        self.selection: Final = tuple(selection)
        self.partitions: Final = partitions
        self.code: Final[Code] = code_of_caller(name)
        register(self)


def schedule(
    name: str,
    *,
    cron: str,
    selection: Sequence[str | Declaration],
    timezone: str = "UTC",
    partitions: str = "",
) -> ScheduleDefinition:
    """Run the selection at these times in `timezone`.

    `selection` is assets, or what the command line takes: `+sales.totals`,
    `tag:daily`. `partitions` is a range as there; empty is the newest complete one.
    """
    expect(name, str, "name")
    expect(cron, str, "cron")
    expect(timezone, str, "timezone")
    expect_each(selection, (str, Declaration), "selection")
    return ScheduleDefinition(name, cron, timezone, selection, partitions)


def selected(selection: Sequence[str | Declaration]) -> tuple[str, ...]:
    """A selection as text."""
    return tuple(each if isinstance(each, str) else each.key for each in selection)
