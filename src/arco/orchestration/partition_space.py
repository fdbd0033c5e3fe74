"""The partitions of an asset: dimensions as sequences of numbered keys.

Every dimension numbers its keys with whole numbers in the order of the keys, so that
ranges are `range`s, counting needs no list, and a window is an addition:

* A `Calendar` numbers periods: days by their ordinal, weeks and months since year 1,
  hours since 1970. Days, weeks (from Monday) and months are dates in the dimension's
  time zone; hours are instants, keyed in UTC. A day of a zone with summer time may
  have 23 or 25 hours, and every hour has sixty minutes. Where the zone's offset is not
  a whole hour, hours begin when the start does (Kolkata's at half past, in UTC).
* `Names` numbers the sorted values of a static, tenant or dynamic dimension.

Periods that `start` or `end` cut are no partitions. A period is *complete* once its end is no later
than `until`.

A partition of an asset is a *point*: its values in the order of the dimensions' names.
Values of one dimension have one type, so points compare as partition keys do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import product
from math import prod
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from arco.epoch import EPOCH
from servo.contract import manifest
from servo.contract.partition import PartitionKey, Scalar
from servo.errors import Invalid

Value: TypeAlias = str | date
"""Of one dimension; a timestamp (naive, in UTC) is a date to the type checker."""
Point: TypeAlias = tuple[Value, ...]
Ranges: TypeAlias = tuple[range, ...]
"""Numbers of keys: ascending, apart from each other, none of them empty."""

HOUR: Final = timedelta(hours=1)
_LAST_DAY: Final = date(9999, 12, 1)  # room for the end of the last period
_LAST_HOUR: Final = datetime(9999, 12, 1)


class Calendar:
    """The periods of a time dimension."""

    def __init__(self, dimension: manifest.TimeDimension, until: datetime | None = None) -> None:
        """`until` is in UTC (naive, or converted); without an `end` it must be given."""
        if until is None and dimension.end is None:
            raise Invalid(
                f"the dimension {dimension.name!r} has no end", hint="give an end to count to"
            )
        self.dimension = dimension
        self.name = dimension.name
        self.every = dimension.every
        self.zone = _zone(dimension)
        self.type: type = datetime if dimension.every == "hour" else date
        begin = self._boundary(dimension.start, "start")
        self.phase = (begin - EPOCH) % HOUR if isinstance(begin, datetime) else timedelta()
        number, self._key = _GRIDS.get(self.every) or _hours(self.phase)
        self._number: Callable[[date], int] = number
        self._keys: dict[int, date] = {}
        self.spelled: dict[Value, str] = {}
        self.first = self._round_up(begin)
        self.bound = self._bound(dimension)
        """After the last period of the dimension."""
        self.complete = self.bound if until is None else min(self.bound, self.at(until))
        self.complete = max(self.complete, self.first)
        """After the last complete period."""

    def key(self, number: int) -> date:
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = self._key(number)
        return key

    def number(self, value: Value) -> int:
        """Of the period that holds this instant or day."""
        assert isinstance(value, date)
        return self._number(value)

    def end(self, number: int) -> datetime:
        """The instant (UTC) at which a period is over."""
        following = self.key(number + 1)
        return following if isinstance(following, datetime) else self._midnight(following)

    def has(self, value: Value) -> bool:
        """Whether this is the key of a period between start and end, complete or not."""
        if type(value) is not self.type:
            return False
        number = self.number(value)
        return self.first <= number < self.bound and self.key(number) == value

    def find(self, value: Value) -> int | None:
        """The number of the period with this key, wherever it is; None if it begins none."""
        if type(value) is not self.type:
            return None
        number = self.number(value)
        return number if self._key(number) == value else None

    def shift(self, value: Value, start: int, end: int) -> list[Value]:
        """The keys from `start` to `end` periods away, clipped to the dimension."""
        at = self.number(value)
        return self._keys_of(range(at + start, at + end + 1))

    def following(self, own: Calendar, value: Value) -> list[Value]:
        """The keys of the periods in another calendar's period, or of the one that it is in.

        A period is in the one in which it begins. Hours are in the days of the other's zone;
        days, weeks and months are dates, whatever their zones. Clipped to the dimension.
        """
        if manifest.GRAINS.index(self.every) < manifest.GRAINS.index(own.every):
            at = own.number(value)
            return self._keys_of(self.beginning_in(own, own.key(at), own.key(at + 1)))
        if isinstance(value, datetime) and self.type is date:
            value = self._day_of(value)
        at = self.number(value)
        return self._keys_of(range(at, at + 1))

    def every_key(self) -> range:
        return range(self.first, self.complete)

    def end_of(self, number: int) -> datetime:
        """When a period is over, in UTC."""
        after = self.key(number + 1)
        return after if isinstance(after, datetime) else self._midnight(after)

    def hours_of(self, day: date) -> range:
        """The hours of a day of the zone: 24 of them, or 23, or 25."""
        return self.beginning_in(self, day, _next(day))

    def beginning_in(self, own: Calendar, begin: date, end: date) -> range:
        """The periods that begin on the other's days from `begin` to before `end`."""
        if self.every == "hour":
            begin, end = own._midnight(begin), own._midnight(end)
        return range(self._round_up(begin), self._round_up(end))

    def _keys_of(self, numbers: range) -> list[Value]:
        low, high = max(numbers.start, self.first), min(numbers.stop, self.bound)
        return [self.key(number) for number in range(low, high)]

    def _day_of(self, instant: datetime) -> date:
        """The day of the zone that this is in, from one midnight to the next.

        Where clocks are put back from after midnight to before it, their date is another one.
        """
        day = instant.replace(tzinfo=UTC).astimezone(self.zone).date()
        return _next(day) if instant >= self._midnight(_next(day)) else day

    def _bound(self, dimension: manifest.TimeDimension) -> int:
        if dimension.end is not None:
            return self._number(self._boundary(dimension.end, "end"))
        return self._number(_LAST_HOUR if self.type is datetime else _LAST_DAY)

    def at(self, until: datetime) -> int:
        """The period that is going on, or begins, at this instant."""
        aware = until.replace(tzinfo=UTC) if until.tzinfo is None else until.astimezone(UTC)
        if self.type is datetime:
            return self._number(aware.replace(tzinfo=None))
        return self._number(aware.astimezone(self.zone).date())

    def _round_up(self, begin: date) -> int:
        number = self._number(begin)
        return number if self._key(number) == begin else number + 1

    def _boundary(self, text: str, what: str) -> date:
        """`start` or `end`: a day, or an instant in UTC for hours."""
        try:
            if self.type is date:
                return date.fromisoformat(text)
            return self._utc(datetime.fromisoformat(text))
        except ValueError:
            shape = "2025-01-01" if self.type is date else "2025-01-01T00:00"
            raise Invalid(
                f"dimension {self.name!r}: its {what} {text!r} is not a date",
                hint=f"write it like {shape}",
            ) from None

    def _midnight(self, day: date) -> datetime:
        return self._utc(datetime(day.year, day.month, day.day))

    def _utc(self, local: datetime) -> datetime:
        """A skipped local time is the time of the clock change; a repeated one is the first."""
        aware = local.replace(tzinfo=self.zone) if local.tzinfo is None else local
        return aware.astimezone(UTC).replace(tzinfo=None)


class Names:
    """The values of a static, tenant or dynamic dimension."""

    def __init__(
        self, name: str, values: Iterable[str], *, tenant: bool = False, keys: str = ""
    ) -> None:
        self.name = name
        self.values = tuple(sorted(set(values)))
        self.tenant = tenant
        self.keys = keys
        """The set of a dynamic dimension."""
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self.spelled: dict[Value, str] = {}

    def key(self, number: int) -> str:
        return self.values[number]

    def number(self, value: Value) -> int:
        return self._numbers[str(value)]

    def has(self, value: Value) -> bool:
        return value in self._numbers

    def find(self, value: Value) -> int | None:
        return self._numbers.get(str(value))

    def every_key(self) -> range:
        return range(len(self.values))


Keys: TypeAlias = Calendar | Names


def keys_of(
    dimension: manifest.Dimension,
    until: datetime | None = None,
    dynamic: Callable[[str], Sequence[str]] = lambda _: (),
) -> Keys:
    """A dimension's keys; `dynamic` gives those of a dynamic dimension's set."""
    if isinstance(dimension, manifest.TimeDimension):
        return Calendar(dimension, until)
    if isinstance(dimension, manifest.DynamicDimension):
        return Names(dimension.name, dynamic(dimension.keys), keys=dimension.keys)
    tenant = isinstance(dimension, manifest.TenantDimension)
    return Names(dimension.name, dimension.values, tenant=tenant)


class Space:
    """All dimensions of one asset: between points, keys and their texts."""

    def __init__(self, dimensions: Sequence[Keys]) -> None:
        self.dimensions = tuple(sorted(dimensions, key=lambda keys: keys.name))
        self.names = tuple(keys.name for keys in self.dimensions)

    @classmethod
    def of(cls, asset: manifest.Asset, keys: Callable[[manifest.Dimension], Keys]) -> Space:
        """`keys` is `keys_of`, or a cache of it: equal dimensions may share their keys."""
        try:
            return cls([keys(dimension) for dimension in asset.partitions])
        except Invalid as error:
            raise Invalid(f"{asset.key}: {error.message}", hint=error.hint) from None

    def key(self, point: Point) -> PartitionKey:
        return PartitionKey(dict(zip(self.names, point, strict=True)))

    def text(self, point: Point) -> str:
        """`str(self.key(point))`, but each value is spelled only once."""
        return ",".join(
            [
                keys.spelled[value] if value in keys.spelled else _spell(keys, value)
                for keys, value in zip(self.dimensions, point, strict=True)
            ]
        )

    def has(self, point: Point) -> bool:
        return all(keys.has(value) for keys, value in zip(self.dimensions, point, strict=True))

    def point(self, text: str) -> Point | None:
        """The point of a key's text; None for a partition that this asset has no more."""
        values = PartitionKey.parse(text).dimensions
        if tuple(values) != self.names:
            return None
        point = tuple(_value(value) for value in values.values())
        return point if self.has(point) else None

    def points(self, chosen: Sequence[Ranges]) -> list[Point]:
        """The product of the chosen keys of each dimension, in order."""
        axes = [
            [keys.key(number) for numbers in ranges for number in numbers]
            for keys, ranges in zip(self.dimensions, chosen, strict=True)
        ]
        return list(product(*axes))


def count(chosen: Sequence[Ranges]) -> int:
    """How many points `Space.points` would give."""
    return prod(sum(len(numbers) for numbers in ranges) for ranges in chosen)


def merged(ranges: Iterable[range]) -> Ranges:
    """The same numbers, each once and in order."""
    result: list[range] = []
    for numbers in sorted((r for r in ranges if r), key=lambda r: (r.start, r.stop)):
        if result and numbers.start <= result[-1].stop:
            result[-1] = range(result[-1].start, max(result[-1].stop, numbers.stop))
        else:
            result.append(numbers)
    return tuple(result)


def _spell(keys: Keys, value: Value) -> str:
    text = keys.spelled[value] = str(PartitionKey({keys.name: value}))
    return text


def _value(value: Scalar) -> Value:
    """A value of another type (an integer, null) becomes a text that no dimension has."""
    return value if isinstance(value, str | date) else f"\0{value!r}"


def _zone(dimension: manifest.TimeDimension) -> ZoneInfo:
    try:
        return ZoneInfo(dimension.timezone)
    except (KeyError, ValueError, OSError):
        raise Invalid(
            f"dimension {dimension.name!r}: unknown time zone {dimension.timezone!r}",
            hint="write it like Europe/Berlin or UTC",
        ) from None


def _next(day: date) -> date:
    return date.fromordinal(day.toordinal() + 1)


_Grid: TypeAlias = tuple[Callable[[date], int], Callable[[int], date]]


def _hours(phase: timedelta) -> _Grid:
    origin = EPOCH + phase

    def number(value: date) -> int:
        assert isinstance(value, datetime)
        return (value - origin) // HOUR

    return number, lambda number: origin + number * HOUR


_GRIDS: dict[str, _Grid] = {
    "day": (date.toordinal, date.fromordinal),
    # The first of January of year 1 is a Monday.
    "week": (lambda v: (v.toordinal() - 1) // 7, lambda n: date.fromordinal(n * 7 + 1)),
    "month": (lambda v: v.year * 12 + v.month - 1, lambda n: date(n // 12, n % 12 + 1, 1)),
}
