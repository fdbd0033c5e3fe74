"""Whether each input's mapping can find partitions, given both assets' dimensions.

A window that is given for an input as a whole is for its dimensions of time; the
others are mapped by identity. Between dimensions of time that have one name and different
units, identity is a `time_window`. A dependency without data waits for all partitions of
what identity cannot match, so nothing is wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from servo.contract import manifest as wire
from servo.contract.manifest import (
    UNNESTED,
    AllUpstream,
    Asset,
    Dimension,
    DynamicDimension,
    Identity,
    Input,
    Latest,
    TimeDimension,
    TimeWindow,
    Window,
)
from servo.project import Problem
from servo.signature import Flaw
from servo.suggest import did_you_mean

_WITHOUT_WINDOW: Final = "use identity, all_upstream or latest"


def mappings_fit(assets: Sequence[Asset]) -> Iterator[Problem]:
    by_key = {asset.key: asset for asset in assets}
    for asset in assets:
        for each in asset.inputs:
            if each.is_pinned and not each.parameter:
                message = f"deps names a version of {each.asset}"
                hint = "deps= only waits for the asset; use ins= to read a version"
                yield Problem.at(asset.code, message, hint, asset.key)
            upstream = by_key.get(each.asset)
            if upstream is None or (upstream is asset and not own_past(each, asset)):
                continue
            for flaw in _flaws(each, upstream, asset):
                message = f"input {each.asset}: {flaw.message}"
                yield Problem.at(asset.code, message, flaw.hint, asset.key)


def own_past(each: Input, asset: Asset) -> list[str]:
    """The dimensions of time along which an asset's input of itself is over before it."""
    rules = {dimension.name: _rule(each, dimension) for dimension in asset.partitions}
    return [name for name in _times(asset) if isinstance(at := rules[name], Window) and at.end < 0]


def _flaws(each: Input, upstream: Asset, asset: Asset) -> Iterator[Flaw]:
    yield from _unknown_dimensions(each, upstream)
    if isinstance(each.mapping, Window | TimeWindow) and not _times(upstream):
        what = "a time window" if isinstance(each.mapping, TimeWindow) else "a window"
        yield Flaw(f"{what} over an asset that is not partitioned by time", _WITHOUT_WINDOW)
        return
    own = {dimension.name: dimension for dimension in asset.partitions}
    for theirs in upstream.partitions:
        match _rule(each, theirs):
            case Identity() if each.parameter:
                yield from _identity_flaws(theirs, own, asset.key)
            case Window() as window:
                yield from _window_flaws(window, theirs, own, asset.key)
            case TimeWindow() as window:
                yield from _time_window_flaws(window, theirs, upstream, asset)
            case Identity() | AllUpstream() | Latest():
                pass


def _rule(each: Input, theirs: Dimension) -> wire.Mapping:
    return each.mapping_of(theirs.name, of_time=isinstance(theirs, TimeDimension))


def _times(asset: Asset) -> list[str]:
    return [each.name for each in asset.partitions if isinstance(each, TimeDimension)]


def _unknown_dimensions(each: Input, upstream: Asset) -> Iterator[Flaw]:
    names = [dimension.name for dimension in upstream.partitions]
    for name in each.dimensions:
        if name not in names:
            hint = did_you_mean(name, names) or f"it has {', '.join(names) or 'no partitions'}"
            yield Flaw(f"it has no dimension {name!r}", hint)


def _identity_flaws(theirs: Dimension, own: Mapping[str, Dimension], asset: str) -> Iterator[Flaw]:
    name = theirs.name
    ours = own.get(name)
    if ours is None:
        hint = f"map it: {_time_windows(theirs, own)}{_all_or_latest(name)}"
        yield Flaw(f"it is partitioned by {name!r}, and {asset} is not", hint)
    elif isinstance(theirs, TimeDimension) or isinstance(ours, TimeDimension):
        yield from _unit_flaws(theirs, ours)
    elif not isinstance(theirs, DynamicDimension) and not isinstance(ours, DynamicDimension):
        missing = [value for value in ours.values if value not in theirs.values]
        if missing:
            message = f"its dimension {name!r} lacks {', '.join(map(repr, missing[:5]))}"
            yield Flaw(message, f"share the values, or use by_dimension({name}=all_upstream)")


def _all_or_latest(name: str) -> str:
    return f"by_dimension({name}=all_upstream) or by_dimension({name}=latest)"


def _time_windows(theirs: Dimension, own: Mapping[str, Dimension]) -> str:
    """How to follow each dimension of time whose periods can be matched; ends with a comma."""
    return "".join(
        f'by_dimension({theirs.name}=time_window("{name}")), '
        for name, ours in own.items()
        if isinstance(ours, TimeDimension) and not [*_unit_flaws(theirs, ours)]
    )


def _unit_flaws(theirs: Dimension, ours: Dimension) -> Iterator[Flaw]:
    """Why periods of one cannot be matched with those of the other, whatever their units."""
    units = f"its dimension {theirs.name!r} is {_grain(theirs)}, {_here(theirs, ours)}"
    hint = _all_or_latest(theirs.name)
    if not isinstance(theirs, TimeDimension) or not isinstance(ours, TimeDimension):
        yield Flaw(units, f"{hint}, or the same unit")
    elif {theirs.every, ours.every} == UNNESTED:
        yield Flaw(f"{units}, and a week may be in two months", f"{hint}, or read days")
    elif "hour" in (theirs.every, ours.every):
        day = max(theirs.start[:10], ours.start[:10])
        minutes = {_minute(theirs, day), _minute(ours, day)}
        if len(minutes) == 2 and None not in minutes:
            message = f"{units}, and these begin at different minutes of an hour"
            yield Flaw(message, "use the same time zone")


def _minute(dimension: TimeDimension, day: str) -> timedelta | None:
    """When hours begin, or this day, in UTC; None for what is reported for itself."""
    text = dimension.start if dimension.every == "hour" else day
    try:
        start = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(dimension.timezone))
    except (ValueError, OSError, LookupError):
        return None
    return (start.utcoffset() or timedelta()) % timedelta(hours=1)


def _here(theirs: Dimension, ours: Dimension) -> str:
    name = "it" if ours.name == theirs.name else repr(ours.name)
    return f"here {name} is {_grain(ours)}"


def _grain(dimension: Dimension) -> str:
    return f"by {dimension.every}" if isinstance(dimension, TimeDimension) else "not by time"


def _window_flaws(
    window: Window, theirs: Dimension, own: Mapping[str, Dimension], asset: str
) -> Iterator[Flaw]:
    name = theirs.name
    if not isinstance(theirs, TimeDimension):
        yield Flaw(f"a window over {name!r}, which is not a time dimension", _WITHOUT_WINDOW)
        return
    if window.start > window.end:
        hint = f"write window({window.end}, {window.start})"
        yield Flaw(f"window({window.start}, {window.end}) ends before it starts", hint)
    if name not in own:
        message = f"a window over {name!r}, by which {asset} is not partitioned"
        yield Flaw(message, _all_or_latest(name))
    elif _grain(theirs) != _grain(own[name]):
        message = f"its dimension {name!r} is {_grain(theirs)}, {_here(theirs, own[name])}"
        yield Flaw(message, f"{_time_windows(theirs, own)}{_all_or_latest(name)}, or the same unit")
    else:
        yield from _unit_flaws(theirs, own[name])


def _time_window_flaws(
    window: TimeWindow, theirs: Dimension, upstream: Asset, asset: Asset
) -> Iterator[Flaw]:
    name, times = theirs.name, _times(asset)
    if not isinstance(theirs, TimeDimension):
        message = f"a time window over {name!r}, which is not a time dimension"
        yield Flaw(message, _WITHOUT_WINDOW)
    elif not times:
        message = f"a time window over {name!r}, and {asset.key} is not partitioned by time"
        yield Flaw(message, _all_or_latest(name))
    elif not (followed := window.followed(name, _times(upstream), times)):
        hint = " or ".join(f'by_dimension({name}=time_window("{each}"))' for each in times)
        message = (
            f"a time window over {name!r} does not say which dimension of {asset.key} to follow"
        )
        yield Flaw(message, hint)
    elif followed not in times:
        hint = did_you_mean(followed, times) or f"it has {', '.join(times)}"
        yield Flaw(f"{asset.key} has no time dimension {followed!r}", hint)
    else:
        ours = next(each for each in asset.partitions if each.name == followed)
        yield from _unit_flaws(theirs, ours)
