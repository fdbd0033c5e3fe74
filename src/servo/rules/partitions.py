from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import assert_never
from zoneinfo import ZoneInfo

from servo.contract import manifest
from servo.contract.keys import check_name
from servo.errors import Invalid
from servo.project import Problem
from servo.signature import Flaw


def partitions_are_sound(assets: Sequence[manifest.Asset]) -> Iterator[Problem]:
    for asset in assets:
        for flaw in _flaws(asset.partitions):
            yield Problem.at(asset.code, flaw.message, flaw.hint, asset.key)


def check_timezone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError, TypeError):
        raise Invalid(
            f"the time zone {name!r} is unknown", hint='write it like "Europe/Berlin"'
        ) from None


def _flaws(dimensions: Sequence[manifest.Dimension]) -> Iterator[Flaw]:
    for name, count in Counter(dimension.name for dimension in dimensions).items():
        if count > 1:
            yield Flaw(f"two dimensions are called {name!r}", "give each its own name")
    for dimension in dimensions:
        yield from _refused(partial(check_name, dimension.name, "partition dimension"))
        yield from _dimension_flaws(dimension)


def _dimension_flaws(dimension: manifest.Dimension) -> Iterator[Flaw]:
    match dimension:
        case manifest.TimeDimension():
            yield from _time_flaws(dimension)
        case manifest.StaticDimension() | manifest.TenantDimension():
            yield from _value_flaws(dimension)
        case manifest.DynamicDimension():
            yield from _refused(partial(check_name, dimension.keys, "set of partition keys"))
        case _ as never:
            assert_never(never)


def _value_flaws(dimension: manifest.StaticDimension | manifest.TenantDimension) -> Iterator[Flaw]:
    if not dimension.values:
        yield Flaw(f"the dimension {dimension.name!r} has no values", "give at least one")
    twice = [value for value, count in Counter(dimension.values).items() if count > 1]
    if twice:
        yield Flaw(f"the dimension {dimension.name!r} has {twice[0]!r} twice")


def _time_flaws(dimension: manifest.TimeDimension) -> Iterator[Flaw]:
    yield from _refused(partial(check_timezone, dimension.timezone))
    bounds = {"start": dimension.start, "end": dimension.end}
    moments = []
    for what, text in bounds.items():
        if text is None:
            continue
        flaw = _moment_flaw(text, dimension.every)
        if flaw is None:
            moments.append(datetime.fromisoformat(text))
        else:
            message = f"the dimension {dimension.name!r}: its {what} {text!r} {flaw.message}"
            yield Flaw(message, flaw.hint)
    if len(moments) == 2 and moments[0] >= moments[1]:
        message = f"the dimension {dimension.name!r} starts {dimension.start}, not before its end"
        yield Flaw(f"{message} {dimension.end}", "the end is not included")


def _moment_flaw(text: str, every: manifest.Every) -> Flaw | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return Flaw("is not a date", "write it like 2025-01-31")
    if every == "hour":
        whole = moment.tzinfo is None and moment == moment.replace(minute=0, second=0)
        return None if whole else Flaw("is not a whole hour without offset", "2025-01-31T06:00")
    if "T" in text:
        return Flaw("is not a date", f"write {moment.date()}")
    first = _first_day(moment.date(), every)
    return None if first == moment.date() else Flaw(f"does not begin a {every}", f"write {first}")


def _first_day(day: date, every: manifest.Every) -> date:
    match every:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case _:
            return day


def _refused(check: Callable[[], object]) -> Iterator[Flaw]:
    try:
        check()
    except Invalid as error:
        yield Flaw(error.message, error.hint)
