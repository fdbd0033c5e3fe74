"""Partition ranges, as people write them: `date=2025-01-01..2025-01-31`.

| text | which keys |
|---|---|
| `date=2025-01-01` | one |
| `date=2025-01-01,2025-01-05` | several; so are two ranges for one dimension |
| `date=2025-01-01..2025-01-31` | a range, both ends included |
| `date=2025-01-01..`, `date=..2025-01-31` | from there to the latest; from the first to there |
| `date=latest` | the latest complete period |
| `date=all` | every complete period; every value |
| `region=eu` | a value of a static, tenant or dynamic dimension |

Periods are named by their keys, so a week by its Monday and a month by its first day
(or `2025-01`). A range may also end with the last day of a week or a month. An hour is
`2025-01-01T05`, in UTC like its key, unless an offset follows; a day stands for all
hours of that day in the dimension's zone, and a month (`2025-01`) for all its days, or
hours. Where dimensions of one name have different units, a text counts for those of which
it names whole periods: `date=2025-01-05` for days, and not for months.

A value that is spelled `all`, contains a comma, begins or ends with blanks, or is empty (`region=`)
takes precedence over syntax; other blanks are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct

from arco.orchestration.partition_space import Calendar, Keys, Names, Ranges, merged
from servo.errors import Invalid
from servo.suggest import did_you_mean

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH = re.compile(r"\d{4}-\d\d")
_TWO = re.compile(
    r"(\d{4}-\d\d(?:-\d\d)?(?:T[\d:]+)?)\W*(?:to)?\W*(\d{4}-\d\d(?:-\d\d)?(?:T[\d:]+)?)"
)
"""Two periods with something else than two dots between them."""
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d(:\d\d){0,2}(\.\d+)?(Z|[+-]\d\d:?\d\d)?")


class _NotAPeriod(Invalid):
    """A text names no period of this unit; it may name one of another."""


class Picked(Struct, frozen=True):
    """The keys of a range that a dimension has, and the first missing one.

    The error message is computed lazily: a suggestion compares all values.
    """

    keys: Ranges
    problem: Callable[[], Invalid] | None = None


def by_dimension(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`name=range` texts, by their dimension's name. The ranges keep their blanks."""
    texts_of: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise Invalid(
                f"{text!r} is not a partition range", hint="write date=2025-01-01..2025-01-31"
            )
        texts_of.setdefault(name, []).append(values)
    return {name: tuple(values) for name, values in texts_of.items()}


def check_dimension(name: str, names: Iterable[str], where: str = "the selected assets") -> None:
    names = sorted(set(names))
    if name not in names:
        all_of_them = (
            f"they have: {', '.join(names)}" if names else "these assets have no partitions"
        )
        raise Invalid(
            f"{where} have no dimension {name!r}", hint=did_you_mean(name, names) or all_of_them
        )


def pick(keys: Keys, text: str) -> Picked:
    """The keys that a text names. What the dimension lacks is reported, not raised.

    Several assets may share a dimension's name: a key counts where it exists, and is
    wrong only if it exists nowhere. What cannot be read in any unit is raised.
    """
    if isinstance(keys, Names) and keys.has(text):
        return _pick_name(keys, text)
    if isinstance(keys, Names):
        picked = [_pick_name(keys, _value(keys, item)) for item in text.split(",")]
    else:
        picked = [_pick_period(keys, item.strip()) for item in text.split(",")]
    problem = next((each.problem for each in picked if each.problem), None)
    return Picked(merged(numbers for each in picked for numbers in each.keys), problem)


def latest(keys: Keys) -> Ranges:
    """The last complete period (or the greatest value), or nothing if there is none yet."""
    return merged([keys.every_key()[-1:]])


# -- values -------------------------------------------------------------------------------


def _value(names: Names, item: str) -> str:
    """With its blanks if there is such a value, and without them otherwise."""
    return item if names.has(item) else item.strip()


def _pick_name(names: Names, item: str) -> Picked:
    if names.has(item):
        number = names.number(item)
        return Picked((range(number, number + 1),))
    if item == "all":
        return Picked(merged([names.every_key()]))
    if item == "latest" or ".." in item:
        raise Invalid(
            f"{names.name}={item}: {names.name!r} is not a time dimension, so it has no "
            + ("latest key" if item == "latest" else "ranges"),
            hint=f"name its values, as in {names.name}=a,b; or {names.name}=all",
        )
    return Picked((), lambda: _no_such_value(names, item))


def _no_such_value(names: Names, item: str) -> Invalid:
    some = ", ".join(names.values[:10]) + (", …" if len(names.values) > 10 else "")
    hint = did_you_mean(item, names.values) or (f"it has: {some}" if some else "it has none yet")
    if names.keys:
        hint += f"; add a key with: servo partitions add {names.keys} {item}"
    return Invalid(f"{names.name}={item}: {item!r} is not a value of {names.name!r}", hint=hint)


def without_keys(dimensions: Iterable[Keys]) -> str:
    """A hint for dynamic dimensions without keys; empty if all have some."""
    sets = sorted({d.keys for d in dimensions if isinstance(d, Names) and d.keys and not d.values})
    return "; ".join(
        f"{keys} has no keys yet; add some with: servo partitions add {keys} KEY" for keys in sets
    )


# -- periods ------------------------------------------------------------------------------


def _pick_period(calendar: Calendar, item: str) -> Picked:
    if item == "all":
        return Picked(merged([calendar.every_key()]))
    if item == "latest":
        return Picked(
            latest(calendar), None if calendar.every_key() else lambda: _none_yet(calendar)
        )
    try:
        numbers = _range(calendar, item) if ".." in item else _period(calendar, item)
    except _NotAPeriod as error:
        problem = error
        return Picked((), lambda: problem)
    inside = range(max(numbers.start, calendar.first), min(numbers.stop, calendar.complete))
    outside = _outside(calendar, numbers, item)
    return Picked(merged([inside]), None if outside is None else lambda: outside)


def _range(calendar: Calendar, item: str) -> range:
    low, _, high = (part.strip() for part in item.partition(".."))
    if not low and not high:
        raise Invalid(
            f"{calendar.name}={item} has neither start nor end",
            hint=f"for all of them write {calendar.name}=all",
        )
    start = _period(calendar, low).start if low else calendar.first
    if not high:
        return range(start, max(calendar.complete, start + 1))
    stop = _period(calendar, high, last_day=True).stop
    if low and stop <= start:
        raise Invalid(
            f"{calendar.name}={item} ends before it starts",
            hint=f"write {calendar.name}={high}..{low}",
        )
    return range(start, max(stop, start + 1)) if low else range(min(start, stop - 1), stop)


def _period(calendar: Calendar, text: str, *, last_day: bool = False) -> range:
    """The numbers that one key, or one day of hours, stands for."""
    try:
        if calendar.every == "hour" and _DAY.fullmatch(text):
            return calendar.hours_of(date.fromisoformat(text))
        if calendar.every in ("hour", "day") and _MONTH.fullmatch(text):
            first = date.fromisoformat(f"{text}-01")
            after = (first + timedelta(days=31)).replace(day=1)
            return calendar.beginning_in(calendar, first, after)
        value = _read(calendar, text)
    except (ValueError, OverflowError):
        raise _unreadable(calendar, text) from None
    number = calendar.number(value)
    if calendar.key(number) == value:
        return range(number, number + 1)
    if last_day and _is_last_day(calendar, number, value):
        return range(number, number + 1)
    raise _NotAPeriod(
        f"{calendar.name}={text} does not begin {_a(calendar)}",
        hint=f"the {calendar.every} it lies in is {show(calendar, number)}",
    )


def _read(calendar: Calendar, text: str) -> date:
    if calendar.every == "hour":
        if not _HOUR.fullmatch(text):
            raise ValueError(text)
        instant = datetime.fromisoformat(text)
        return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)
    if calendar.every == "month" and _MONTH.fullmatch(text):
        return date.fromisoformat(f"{text}-01")
    if not _DAY.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _is_last_day(calendar: Calendar, number: int, value: date) -> bool:
    if calendar.every == "hour" or number >= calendar.bound:  # which is near the end of time
        return False
    return (calendar.key(number + 1) - value).days == 1


def _outside(calendar: Calendar, numbers: range, item: str) -> Invalid | None:
    what = f"{calendar.name}={item}"
    if not calendar.every_key():
        return _none_yet(calendar)
    if numbers.start < calendar.first:
        first = show(calendar, calendar.first)
        return Invalid(f"{what} is before the first partition", hint=f"the first is {first}")
    if numbers.stop <= calendar.complete:
        return None
    last = f"the last is {show(calendar, calendar.complete - 1)}"
    if numbers.stop > calendar.bound:
        return Invalid(f"{what} is after the end of {calendar.name!r}", hint=last)
    return Invalid(
        f"{what} is not over yet", hint=f"{last}; {_a(calendar)} is complete when it is over"
    )


def _none_yet(calendar: Calendar) -> Invalid:
    return Invalid(
        f"{calendar.name!r} has no complete {calendar.every} yet",
        hint=f"the first one is {show(calendar, calendar.first)}",
    )


def _unreadable(calendar: Calendar, text: str) -> _NotAPeriod:
    shape = "2025-01-01T05 (in UTC), or a day" if calendar.every == "hour" else "2025-01-01"
    two = _TWO.fullmatch(text)
    return _NotAPeriod(
        f"{calendar.name}={text}: {text!r} is not {_a(calendar)}",
        hint=f"write it like {shape}"
        if two is None
        else f"write a range with two dots: {calendar.name}={two[1]}..{two[2]}",
    )


def _a(calendar: Calendar) -> str:
    return f"an {calendar.every}" if calendar.every == "hour" else f"a {calendar.every}"


def show(calendar: Calendar, number: int) -> str:
    """A period's key as a range spells it."""
    key = calendar.key(number)
    return key.isoformat(timespec="minutes") if isinstance(key, datetime) else key.isoformat()
