"""Whether each input's mapping can find partitions, given both assets' dimensions.

A window that is given for an input as a whole is for its dimensions of time; the
others are mapped by identity. A dependency without data waits for all partitions of
what identity cannot match, so nothing is wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from servo.contract import manifest as wire
from servo.contract.manifest import (
    AllUpstream,
    Asset,
    Dimension,
    DynamicDimension,
    Identity,
    Input,
    Latest,
    TimeDimension,
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
            upstream = by_key.get(each.asset)
            if upstream is None or (upstream is asset and not own_past(each, asset)):
                continue
            for flaw in _flaws(each, upstream, asset):
                message = f"input {each.asset}: {flaw.message}"
                yield Problem.at(asset.code, message, flaw.hint, asset.key)


def own_past(each: Input, asset: Asset) -> list[str]:
    """The dimensions of time along which an asset's input of itself is over before it."""
    rules = {dimension.name: _rule(each, dimension) for dimension in asset.partitions}
    times = [each.name for each in asset.partitions if isinstance(each, TimeDimension)]
    return [name for name in times if isinstance(at := rules[name], Window) and at.end < 0]


def _flaws(each: Input, upstream: Asset, asset: Asset) -> Iterator[Flaw]:
    yield from _unknown_dimensions(each, upstream)
    if isinstance(each.mapping, Window) and not _times(upstream):
        yield Flaw("a window over an asset that is not partitioned by time", _WITHOUT_WINDOW)
        return
    own = {dimension.name: dimension for dimension in asset.partitions}
    for theirs in upstream.partitions:
        match _rule(each, theirs):
            case Identity() if each.parameter:
                yield from _identity_flaws(theirs, own, asset.key)
            case Window() as window:
                yield from _window_flaws(window, theirs, own, asset.key)
            case Identity() | AllUpstream() | Latest():
                pass


def _rule(each: Input, theirs: Dimension) -> wire.Mapping:
    return each.mapping_of(theirs.name, of_time=isinstance(theirs, TimeDimension))


def _times(asset: Asset) -> bool:
    return any(isinstance(dimension, TimeDimension) for dimension in asset.partitions)


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
        hint = f"map it: by_dimension({name}=all_upstream) or by_dimension({name}=latest)"
        yield Flaw(f"it is partitioned by {name!r}, and {asset} is not", hint)
    elif isinstance(theirs, TimeDimension) or isinstance(ours, TimeDimension):
        yield from _granularity_flaws(theirs, ours)
    elif not isinstance(theirs, DynamicDimension) and not isinstance(ours, DynamicDimension):
        missing = [value for value in ours.values if value not in theirs.values]
        if missing:
            message = f"its dimension {name!r} lacks {', '.join(map(repr, missing[:5]))}"
            yield Flaw(message, f"share the values, or use by_dimension({name}=all_upstream)")


def _granularity_flaws(theirs: Dimension, ours: Dimension) -> Iterator[Flaw]:
    there, here = _grain(theirs), _grain(ours)
    if there != here:
        name = theirs.name
        hint = f"by_dimension({name}=all_upstream) or by_dimension({name}=latest), or the same unit"
        yield Flaw(f"its dimension {name!r} is {there}, here it is {here}", hint)
    elif _minute(theirs) != _minute(ours):
        message = (
            f"the hours of its dimension {theirs.name!r} begin at other minutes than this asset's"
        )
        yield Flaw(message, "use the same time zone")


def _minute(dimension: Dimension) -> timedelta | None:
    """When hours begin, in UTC; None for what has no hours, or is reported for itself."""
    if not isinstance(dimension, TimeDimension) or dimension.every != "hour":
        return None
    try:
        start = datetime.fromisoformat(dimension.start).replace(tzinfo=ZoneInfo(dimension.timezone))
    except (ValueError, OSError, LookupError):
        return None
    return (start.utcoffset() or timedelta()) % timedelta(hours=1)


def _grain(dimension: Dimension) -> str:
    return f"by {dimension.every}" if isinstance(dimension, TimeDimension) else "not of time"


def _window_flaws(
    window: Window, theirs: Dimension, own: Mapping[str, Dimension], asset: str
) -> Iterator[Flaw]:
    name = theirs.name
    if not isinstance(theirs, TimeDimension):
        yield Flaw(f"a window over {name!r}, which is not a dimension of time", _WITHOUT_WINDOW)
        return
    if window.start > window.end:
        hint = f"write window({window.end}, {window.start})"
        yield Flaw(f"window({window.start}, {window.end}) ends before it starts", hint)
    if name not in own:
        hint = f"by_dimension({name}=all_upstream) or by_dimension({name}=latest)"
        yield Flaw(f"a window over {name!r}, by which {asset} is not partitioned", hint)
    else:
        yield from _granularity_flaws(theirs, own[name])
