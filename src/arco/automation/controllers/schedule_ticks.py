"""Schedules that are due: their ticks fire, or the reason is recorded.

| `catchup` | of several ticks that are due |
|---|---|
| `none` | the newest fires if it is not late, and counts as missed otherwise |
| `latest` | the newest fires, however late |
| `all` | each fires, the newest `catchup_limit` of them |

Other ticks are counted in the first tick that is recorded.

While dispatch is paused, a tick would only create a request that waits. So ticks are delayed, and
`catchup` decides when the pause ends, as after a time without orchestrators. Only with `all`, where
each tick counts, they fire during the pause too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from arco.automation.events import ScheduleTicked, TickOutcome
from arco.automation.tables import ScheduleRow
from arco.automation.ticks import due
from servo.contract.manifest import Catchup

LATE = timedelta(minutes=5)
"""With `catchup="none"`, a tick that is later than this is missed."""
CATCHUP_LIMIT = 100


def schedule_ticks(
    schedules: Iterable[ScheduleRow],
    active: Mapping[str, str],
    now: datetime,
    *,
    is_paused: bool = False,
) -> list[ScheduleTicked]:
    """`active` tells, by schedule, which run or request of an earlier tick is not over;
    `is_paused`, whether dispatch is."""
    return [
        tick
        for row in schedules
        if not is_paused or _catchup(row) == "all"
        for tick in _ticks(row, active.get(row.schedule_id), now)
    ]


def _catchup(row: ScheduleRow) -> Catchup:
    return row.catchup_once or row.catchup


def _ticks(row: ScheduleRow, active: str | None, now: datetime) -> Iterator[ScheduleTicked]:
    policy = _catchup(row)
    limit = (row.catchup_limit or CATCHUP_LIMIT) if policy == "all" else 1
    these = due(row.cron, row.timezone, row.done_until, now, limit)
    missed, at_least = these.earlier, not these.is_exact
    for tick in these.ticks:
        if tick.name == row.last_tick:
            continue  # a machine with other zone data has recorded it
        outcome: TickOutcome = "fired"
        reason = ""
        if policy == "none" and now - tick.at > LATE:
            outcome, reason = (
                "missed",
                "it was due while no orchestrator could fire it, or dispatch was paused",
            )
        elif row.overlap == "skip" and active is not None:
            outcome, reason = "skipped", f"{active} is still active"
        else:
            active = f"the run of tick {tick.name}"
        yield ScheduleTicked(
            schedule_id=row.schedule_id,
            timing=row.timing,
            tick=tick.name,
            scheduled_at=tick.at,
            outcome=outcome,
            reason=reason,
            missed=missed,
            missed_at_least=at_least,
        )
        missed, at_least = 0, False
