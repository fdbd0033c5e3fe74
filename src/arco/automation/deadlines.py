"""When data stops being fresh: one definition for all assets.

* Without a time dimension, data is as old as its version. It is due `max_age` after the version was
  written; without a version, `max_age` after the policy began.
* With a time dimension, each period is due `max_age` after it ends. An existing period does not
  age: the period after the newest existing one is due next. Earlier missing periods do not count.
  In a series without any period, the first that ends after the policy began is due.

With a cron expression, what is due then is due at its next tick. What is due is stale from that
instant on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from math import prod

import msgspec

from arco.automation.freshness_tables import FreshnessPolicyRow, FreshnessRow
from arco.automation.ticks import due, next_tick
from arco.orchestration.partition_space import Calendar, Value
from servo.contract.manifest import Dimension, DynamicDimension, TimeDimension
from servo.contract.partition import PartitionKey

EXPECTED = 10_000
"""Of an asset with more series, only those with data are evaluated."""
LEAST_STEP = timedelta(minutes=1)
"""Minimum time between requests of a stale series."""

decode_dimensions = msgspec.json.Decoder(tuple[Dimension, ...]).decode


class Series:
    """A partition key, split into its period and the rest."""

    def __init__(self, time_dimension: str, partition_key: str) -> None:
        values = dict(PartitionKey.parse(partition_key).dimensions)
        self.names = list(values)
        self.period = values.pop(time_dimension, None) if time_dimension else None
        self.name = str(PartitionKey(values))


class DeadlineRule:
    """A freshness policy with its calendars."""

    def __init__(self, policy: FreshnessPolicyRow) -> None:
        self._policy = policy
        self._max_age = timedelta(seconds=policy.max_age_s)
        dimensions = decode_dimensions(policy.dimensions)
        times = [each for each in dimensions if isinstance(each, TimeDimension)]
        self._others = [each for each in dimensions if not isinstance(each, TimeDimension)]
        self._calendar = Calendar(times[0], policy.since) if times else None

    # -- which series there are ----------------------------------------------------------

    def expected(self) -> list[str]:
        """The series that the asset has, data or not, if they are declared and not too many."""
        values: list[tuple[str, ...]] = []
        for each in self._others:
            if isinstance(each, DynamicDimension):
                return []
            values.append(each.values)
        if prod(map(len, values)) > EXPECTED:
            return []
        names = [each.name for each in self._others]
        points = product(*values)
        return [str(PartitionKey(dict(zip(names, point, strict=True)))) for point in points]

    def dynamic(self, series: str) -> Iterator[tuple[str, str]]:
        """The sets of dynamic dimensions, each with the key that a series has in it."""
        values = PartitionKey.parse(series).dimensions
        for each in self._others:
            if isinstance(each, DynamicDimension):
                yield each.keys, str(values[each.name])

    def has(self, series: str) -> bool:
        """Whether the asset has a series now, as far as its values are declared."""
        values = PartitionKey.parse(series).dimensions
        return list(values) == [each.name for each in self._others] and all(
            isinstance(each, DynamicDimension) or values[each.name] in each.values
            for each in self._others
        )

    # -- when it is due ------------------------------------------------------------------

    def deadline(self, row: FreshnessRow | None) -> datetime | None:
        """When the data of a series stops being fresh; None if nothing will ever be due."""
        data = row if row is not None and self.counts(row) else None
        if self._calendar is None:
            since = self._policy.since if data is None else data.made_at
            assert since is not None
            return self._tick(since + self._max_age)
        return self._period_due(self._calendar, self._next_period(self._calendar, data))

    def counts(self, row: FreshnessRow) -> bool:
        return row.shape == self._policy.shape and row.materialization_id != ""

    def latest_due(self, row: FreshnessRow, now: datetime) -> datetime:
        """The last time up to now at which a stale series was due."""
        assert row.due_at is not None
        if self._calendar is not None:
            number = self._newest_due(self._calendar, now)
            latest = None if number is None else self._period_due(self._calendar, number)
            return max(row.due_at, latest or row.due_at)
        if self._policy.cron:
            ticks = due(self._policy.cron, self._policy.timezone, row.due_at, now, 1).ticks
            return ticks[-1].at if ticks else row.due_at
        step = max(self._max_age, LEAST_STEP)
        return row.due_at + max(0, (now - row.due_at) // step) * step

    def next_due(self, row: FreshnessRow, after: datetime) -> datetime | None:
        """The first time after another at which a stale series is due again."""
        assert row.due_at is not None
        if self._calendar is not None:
            newest = self._newest_due(self._calendar, after)
            number = self._calendar.first if newest is None else newest + 1
            return self._period_due(self._calendar, number)
        if self._policy.cron:
            tick = next_tick(self._policy.cron, self._policy.timezone, after)
            return None if tick is None else tick.at
        step = max(self._max_age, LEAST_STEP)
        return row.due_at + ((after - row.due_at) // step + 1) * step

    def due_partition(self, series: str, now: datetime) -> str:
        """The partition of a series that must exist now: of periods, the newest due one."""
        if self._calendar is None:
            return series
        number = self._newest_due(self._calendar, now)
        if number is None:
            return series
        values = dict(PartitionKey.parse(series).dimensions)
        values[self._calendar.name] = self._calendar.key(number)
        return str(PartitionKey(values))

    # -- periods and ticks ---------------------------------------------------------------

    def _next_period(self, calendar: Calendar, data: FreshnessRow | None) -> int:
        newest = None if data is None else self._period(calendar, data.partition_key)
        return calendar.complete if newest is None else max(newest + 1, calendar.first)

    def _period(self, calendar: Calendar, partition_key: str) -> int | None:
        value = PartitionKey.parse(partition_key).dimensions.get(calendar.name)
        return calendar.number(_date(value)) if type(value) is calendar.type else None

    def _period_due(self, calendar: Calendar, number: int) -> datetime | None:
        if number >= calendar.bound:
            return None
        return self._tick(calendar.end(number) + self._max_age)

    def _newest_due(self, calendar: Calendar, now: datetime) -> int | None:
        """The newest period that is due; None if none is."""
        at = now
        if self._policy.cron:
            before = now - timedelta(days=366 * 5)
            ticks = due(self._policy.cron, self._policy.timezone, before, now, 1).ticks
            if not ticks:
                return None
            at = ticks[-1].at
        number = min(calendar.at(at - self._max_age), calendar.bound) - 1
        return number if number >= calendar.first else None

    def _tick(self, at: datetime) -> datetime | None:
        return _tick_from(at, self._policy.cron, self._policy.timezone)


def deadline_after(made_at: datetime, max_age_s: int, cron: str, timezone: str) -> datetime | None:
    """When a version that was written then stops being fresh; None: never."""
    return _tick_from(made_at + timedelta(seconds=max_age_s), cron, timezone)


def _tick_from(at: datetime, cron: str, timezone: str) -> datetime | None:
    """An instant itself or, with a cron expression, the first tick from it on."""
    if not cron:
        return at
    tick = next_tick(cron, timezone, at - timedelta(microseconds=1))
    return None if tick is None else tick.at


def _date(value: object) -> Value:
    assert isinstance(value, Value)
    return value
