"""How a partition finds the partitions of its input.

    identity                 the same value (what happens if nothing is said)
    window(-6, 0)            that of six periods ago, up to the same one
    time_window()            all days of a month, or the month that a day is in
    all_upstream             every one there is
    latest                   the greatest one that has been made
    by_dimension(date=window(-6, 0), region=all_upstream)

A mapping holds for every dimension of the *upstream* (a window for those of time, the
others being mapped by identity); `by_dimension` says it for each one, and `identity`
for those that it does not name.

Between two time dimensions of one name but different units, `identity` is `time_window()`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from servo.contract import manifest as wire
from servo.source import misdeclared


class ByDimension(Struct, frozen=True):
    dimensions: dict[str, wire.Mapping]


PartitionMapping: TypeAlias = wire.Mapping | ByDimension

identity: Final = wire.Input(asset="").mapping  # the default itself, which is left out on the wire
all_upstream: Final = wire.AllUpstream()
latest: Final = wire.Latest()


def window(start: int, end: int) -> wire.Window:
    """Periods from `start` to `end` relative to this one, inclusive: (-6, 0) is the last seven."""
    if type(start) is not int or type(end) is not int:
        misdeclared(f"window({start!r}, {end!r}) takes whole numbers of periods")
    return wire.Window(start, end)


def time_window(dimension: str = "") -> wire.TimeWindow:
    """Periods of another unit: those in this one, or the one that this one is in.

    `dimension` names the time dimension of the asset that reads; without it that is the
    one of the same name, or the only one if both assets have only one.
    """
    if not isinstance(dimension, str):
        misdeclared(
            f"time_window({dimension!r}) takes the name of a time dimension",
            hint='write time_window() or time_window("month")',
        )
    return wire.TimeWindow(dimension)


def by_dimension(**dimensions: wire.Mapping) -> ByDimension:
    """A mapping for each named dimension of the upstream; `identity` for the others."""
    for name, mapping in dimensions.items():
        if not isinstance(mapping, wire.Mapping):
            misdeclared(f"by_dimension: {name}={mapping!r} is not a mapping", hint=MAPPINGS)
    return ByDimension(dimensions)


MAPPINGS: Final = (
    "use identity, window(-6, 0), time_window(), all_upstream or latest, without quotes"
)
