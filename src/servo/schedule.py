"""Schedules: when to run what.

nightly = schedule("nightly", cron="30 2 * * *", selection=["sales.totals+"])

A time of day that a clock change skips is due once, at the end of the gap; one that it repeats is
due once, the first time. Expressions of intervals, whose minute or hour begins with `*`, follow
real time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from servo.asset import Declaration
from servo.contract.manifest import Catchup, Code, Overlap
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
        config: Mapping[str, str | int | bool | None],
        catchup: Catchup,
        catchup_limit: int,
        overlap: Overlap,
        refresh_sources: bool,
    ) -> None:
        self.name: Final = name
        self.cron: Final = cron
        self.timezone: Final = timezone
        self.selection: Final = tuple(selection)
        self.partitions: Final = partitions
        self.config: Final = dict(config)
        self.catchup: Final = catchup
        self.catchup_limit: Final = catchup_limit
        self.overlap: Final = overlap
        self.refresh_sources: Final = refresh_sources
        self.code: Final[Code] = code_of_caller(name)
        register(self)


def schedule(
    name: str,
    *,
    cron: str,
    selection: Sequence[str | Declaration],
    timezone: str = "UTC",
    partitions: str = "",
    config: Mapping[str, str | int | bool | None] | None = None,
    catchup: Catchup = "latest",
    catchup_limit: int = 0,
    overlap: Overlap = "allow",
    refresh_sources: bool = True,
) -> ScheduleDefinition:
    """Run the selection at these times in `timezone`.

    `selection` is assets, or expressions as on the command line: `+sales.totals`, `tag:daily`.
    `partitions` is a range, as for `-p`; default: the newest period that is complete at the
    scheduled time. `config` overrides configuration values, like `--config`.

    `catchup` says which ticks fire that were due while no orchestrator was running: `"none"`, the
    `"latest"`, or `"all"` (at most the newest `catchup_limit`; 0 means 100).
    `overlap` says what happens to a tick that is due while a run of an earlier one is active:
    `"allow"` both, `"skip"` the tick, or `"queue"` it until that run has ended.

    A tick runs what is not up to date. An asset without inputs and without time
    partitions is never up to date: it runs at each tick, unless `refresh_sources=False`.
    """
    expect(name, str, "name")
    expect(cron, str, "cron")
    expect(timezone, str, "timezone")
    expect(partitions, str, "partitions")
    expect(catchup_limit, int, "catchup_limit")
    expect(refresh_sources, bool, "refresh_sources")
    expect_each(selection, (str, Declaration), "selection")
    return ScheduleDefinition(
        name,
        cron,
        timezone,
        selection,
        partitions,
        config or {},
        catchup,
        catchup_limit,
        overlap,
        refresh_sources,
    )


def selected(selection: Sequence[str | Declaration]) -> tuple[str, ...]:
    """A selection as text."""
    return tuple(each if isinstance(each, str) else each.key for each in selection)
