"""Whether each input's mapping can find partitions, given both assets' dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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


def mappings_fit(assets: Sequence[Asset]) -> Iterator[Problem]:
    by_key = {asset.key: asset for asset in assets}
    for asset in assets:
        for each in asset.inputs:
            upstream = by_key.get(each.asset)
            if upstream is None or upstream is asset:
                continue
            for flaw in _flaws(each, upstream, asset):
                message = f"input {each.asset}: {flaw.message}"
                yield Problem.at(asset.code, message, flaw.hint, asset.key)


def _flaws(each: Input, upstream: Asset, asset: Asset) -> Iterator[Flaw]:
    yield from _unknown_dimensions(each, upstream)
    if isinstance(each.mapping, Window) and not upstream.partitions:
        yield Flaw("a window over an asset without partitions", "leave the mapping out")
    own = {dimension.name: dimension for dimension in asset.partitions}
    for theirs in upstream.partitions:
        match each.dimensions.get(theirs.name, each.mapping):
            case Identity():
                yield from _identity_flaws(theirs, own, asset.key)
            case Window() as window if isinstance(theirs, TimeDimension):
                yield from _window_flaws(window, theirs, own, asset.key)
            case Window() as window:
                yield _not_of_time(window, theirs.name, upstream)
            case AllUpstream() | Latest():
                pass


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


def _grain(dimension: Dimension) -> str:
    return f"by {dimension.every}" if isinstance(dimension, TimeDimension) else "not of time"


def _window_flaws(
    window: Window, theirs: TimeDimension, own: Mapping[str, Dimension], asset: str
) -> Iterator[Flaw]:
    name = theirs.name
    if window.start > window.end:
        hint = f"write window({window.end}, {window.start})"
        yield Flaw(f"window({window.start}, {window.end}) ends before it starts", hint)
    if name not in own:
        hint = f"by_dimension({name}=all_upstream) or by_dimension({name}=latest)"
        yield Flaw(f"a window over {name!r}, by which {asset} is not partitioned", hint)
    else:
        yield from _granularity_flaws(theirs, own[name])


def _not_of_time(window: Window, name: str, upstream: Asset) -> Flaw:
    times = [each.name for each in upstream.partitions if isinstance(each, TimeDimension)]
    hint = "use identity, all_upstream or latest"
    if times:
        hint = f"write by_dimension({times[0]}=window({window.start}, {window.end}))"
    return Flaw(f"a window over {name!r}, which is not a dimension of time", hint)
