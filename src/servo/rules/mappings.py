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


def own_past(input: Input, asset: Asset) -> list[str]:
    """The dimensions of time along which an asset's input of itself is over before it."""
    rules = {dimension.name: _rule(input, dimension) for dimension in asset.partitions}
    return [name for name in _times(asset) if isinstance(at := rules[name], Window) and at.end < 0]


def _flaws(input: Input, upstream: Asset, asset: Asset) -> Iterator[Flaw]:
    yield from _unknown_dimensions(input, upstream)
    if isinstance(input.mapping, Window | TimeWindow) and not _times(upstream):
        what = "a time window" if isinstance(input.mapping, TimeWindow) else "a window"
        yield Flaw(f"{what} over an asset that is not partitioned by time", _WITHOUT_WINDOW)
        return
    own = {dimension.name: dimension for dimension in asset.partitions}
    for source in upstream.partitions:
        match _rule(input, source):
            case Identity() if input.parameter:
                yield from _identity_flaws(source, own, asset.key)
            case Window() as window:
                yield from _window_flaws(window, source, own, asset.key)
            case TimeWindow() as window:
                yield from _time_window_flaws(window, source, upstream, asset)
            case Identity() | AllUpstream() | Latest():
                pass


def _rule(input: Input, source: Dimension) -> wire.Mapping:
    return input.mapping_of(source.name, of_time=isinstance(source, TimeDimension))


def _times(asset: Asset) -> list[str]:
    return [each.name for each in asset.partitions if isinstance(each, TimeDimension)]


def _unknown_dimensions(input: Input, upstream: Asset) -> Iterator[Flaw]:
    names = [dimension.name for dimension in upstream.partitions]
    for name in input.dimensions:
        if name not in names:
            hint = did_you_mean(name, names) or f"it has {', '.join(names) or 'no partitions'}"
            yield Flaw(f"it has no dimension {name!r}", hint)


def _identity_flaws(source: Dimension, own: Mapping[str, Dimension], asset: str) -> Iterator[Flaw]:
    name = source.name
    target = own.get(name)
    if target is None:
        hint = f"map it: {_time_windows(source, own)}{_all_or_latest(name)}"
        yield Flaw(f"it is partitioned by {name!r}, and {asset} is not", hint)
    elif isinstance(source, TimeDimension) or isinstance(target, TimeDimension):
        yield from _unit_flaws(source, target)
    elif not isinstance(source, DynamicDimension) and not isinstance(target, DynamicDimension):
        missing = [value for value in target.values if value not in source.values]
        if missing:
            message = f"its dimension {name!r} lacks {', '.join(map(repr, missing[:5]))}"
            yield Flaw(message, f"share the values, or use by_dimension({name}=all_upstream)")


def _all_or_latest(name: str) -> str:
    return f"by_dimension({name}=all_upstream) or by_dimension({name}=latest)"


def _time_windows(source: Dimension, own: Mapping[str, Dimension]) -> str:
    """How to follow each dimension of time whose periods can be matched; ends with a comma."""
    return "".join(
        f'by_dimension({source.name}=time_window("{name}")), '
        for name, target in own.items()
        if isinstance(target, TimeDimension) and not [*_unit_flaws(source, target)]
    )


def _unit_flaws(source: Dimension, target: Dimension) -> Iterator[Flaw]:
    """Why periods of one cannot be matched with those of the other, whatever their units."""
    units = f"its dimension {source.name!r} is {_grain(source)}, {_here(source, target)}"
    hint = _all_or_latest(source.name)
    if not isinstance(source, TimeDimension) or not isinstance(target, TimeDimension):
        yield Flaw(units, f"{hint}, or the same unit")
    elif {source.every, target.every} == UNNESTED:
        yield Flaw(f"{units}, and a week may be in two months", f"{hint}, or read days")
    elif "hour" in (source.every, target.every):
        day = max(source.start[:10], target.start[:10])
        minutes = {_minute(source, day), _minute(target, day)}
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


def _here(source: Dimension, target: Dimension) -> str:
    name = "it" if target.name == source.name else repr(target.name)
    return f"here {name} is {_grain(target)}"


def _grain(dimension: Dimension) -> str:
    return f"by {dimension.every}" if isinstance(dimension, TimeDimension) else "not by time"


def _window_flaws(
    window: Window, source: Dimension, own: Mapping[str, Dimension], asset: str
) -> Iterator[Flaw]:
    name = source.name
    if not isinstance(source, TimeDimension):
        yield Flaw(f"a window over {name!r}, which is not a time dimension", _WITHOUT_WINDOW)
        return
    if window.start > window.end:
        hint = f"write window({window.end}, {window.start})"
        yield Flaw(f"window({window.start}, {window.end}) ends before it starts", hint)
    if name not in own:
        message = f"a window over {name!r}, by which {asset} is not partitioned"
        yield Flaw(message, _all_or_latest(name))
    elif _grain(source) != _grain(own[name]):
        message = f"its dimension {name!r} is {_grain(source)}, {_here(source, own[name])}"
        yield Flaw(message, f"{_time_windows(source, own)}{_all_or_latest(name)}, or the same unit")
    else:
        yield from _unit_flaws(source, own[name])


def _time_window_flaws(
    window: TimeWindow, source: Dimension, upstream: Asset, asset: Asset
) -> Iterator[Flaw]:
    name, times = source.name, _times(asset)
    if not isinstance(source, TimeDimension):
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
        target = next(each for each in asset.partitions if each.name == followed)
        yield from _unit_flaws(source, target)
