"""Whether each input's mapping can find partitions, given both assets' dimensions.

A window that is given for an input as a whole is for its dimensions of time; the
others are mapped by identity. Between dimensions of time that have one name and different
units, identity is a `time_window`. A dependency without data waits for all partitions of
what identity cannot match, so nothing is wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
    TimeWindow,
    Window,
)
from servo.contract.matching import Mismatch, are_in_step, unit_mismatch, window_mismatch
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
        yield from _unit_flaws(Identity(), source, target, own)
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
        if isinstance(target, TimeDimension) and not _mismatch(TimeWindow(), source, target)
    )


def _unit_flaws(
    rule: wire.Mapping, source: Dimension, target: Dimension, own: Mapping[str, Dimension]
) -> Iterator[Flaw]:
    """Why periods of one cannot be matched with those of the other."""
    units = f"its dimension {source.name!r} is {_grain(source)}, {_here(source, target)}"
    hint = _all_or_latest(source.name)
    match _mismatch(rule, source, target):
        case Mismatch.ONE_OF_TIME | Mismatch.OTHER_UNIT:
            windows = _time_windows(source, own) if isinstance(rule, Window) else ""
            yield Flaw(units, f"{windows}{hint}, or the same unit")
        case Mismatch.UNNESTED:
            yield Flaw(f"{units}, and a week may be in two months", f"{hint}, or read days")
        case Mismatch.OUT_OF_STEP:
            message = f"{units}, and these begin at different minutes of an hour"
            yield Flaw(message, "use the same time zone")


def _mismatch(rule: wire.Mapping, source: Dimension, target: Dimension) -> Mismatch | None:
    return unit_mismatch(rule, _every(source), _every(target), lambda: _are_in_step(source, target))


def _are_in_step(source: Dimension, target: Dimension) -> bool:
    assert isinstance(source, TimeDimension) and isinstance(target, TimeDimension)
    try:
        return are_in_step(source, target)
    except (ValueError, OSError, LookupError):
        return True  # a start or a zone that is reported for itself


def _every(dimension: Dimension) -> wire.Every | None:
    return dimension.every if isinstance(dimension, TimeDimension) else None


def _here(source: Dimension, target: Dimension) -> str:
    name = "it" if target.name == source.name else repr(target.name)
    return f"here {name} is {_grain(target)}"


def _grain(dimension: Dimension) -> str:
    return f"by {dimension.every}" if isinstance(dimension, TimeDimension) else "not by time"


def _window_flaws(
    window: Window, source: Dimension, own: Mapping[str, Dimension], asset: str
) -> Iterator[Flaw]:
    name = source.name
    match window_mismatch(window, _every(source)):
        case Mismatch.NOT_TIME:
            yield Flaw(f"a window over {name!r}, which is not a time dimension", _WITHOUT_WINDOW)
            return
        case Mismatch.REVERSED:
            hint = f"write window({window.end}, {window.start})"
            yield Flaw(f"window({window.start}, {window.end}) ends before it starts", hint)
    if name not in own:
        message = f"a window over {name!r}, by which {asset} is not partitioned"
        yield Flaw(message, _all_or_latest(name))
    else:
        yield from _unit_flaws(window, source, own[name], own)


def _time_window_flaws(
    window: TimeWindow, source: Dimension, upstream: Asset, asset: Asset
) -> Iterator[Flaw]:
    name, times = source.name, _times(asset)
    if window_mismatch(window, _every(source)):
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
        own = {dimension.name: dimension for dimension in asset.partitions}
        yield from _unit_flaws(window, source, own[followed], own)
