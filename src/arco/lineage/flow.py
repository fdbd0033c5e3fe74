"""How columns of inputs bear on a value, and what expressions do to that.

A *flow* says of one value, a column or an expression, which columns of which inputs
reach it, and how. For each of them there is at most one direct entry: the strongest
kind of all ways (identity < transformation < aggregation), masked only if every way
is. Beside it there is at most one entry for each indirect kind.

    flow(a + sum(a)) = {(orders, a): aggregation}

Flows are never changed once made, so that columns which pass through a hundred nodes
share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from servo.contract.task import DIRECT, ColumnSource, Confidence, Influence

IDENTITY, TRANSFORMATION, AGGREGATION = range(len(DIRECT))
KNOWN, LIKELY, UNKNOWN = range(3)
"""All sources are known; they are, at most, those named; there may be others."""

CONFIDENCE: Final[tuple[Confidence, ...]] = ("high", "medium", "low")

Place = tuple[str, str, str]
"""Asset, column, and `direct` or the indirect kind."""
Sources = dict[Place, tuple[int, bool]]
"""The strength of a direct entry (0 for others), and whether it is masked."""


class Flow(NamedTuple):
    sources: Sources
    doubt: int = KNOWN


NOTHING: Final = Flow({})
"""A constant, or something made here: it comes from no column."""
SOMEWHERE: Final = Flow({}, UNKNOWN)


def column(asset: str, name: str) -> Flow:
    return Flow({(asset, name, "direct"): (IDENTITY, False)})


def merge(flows: Iterable[Flow]) -> Flow:
    """What reaches a value through any of several ways."""
    some = [flow for flow in flows if flow.sources or flow.doubt]
    if len(some) <= 1:
        return some[0] if some else NOTHING
    sources = dict(some[0].sources)
    for flow in some[1:]:
        add(sources, flow.sources)
    return Flow(sources, max(flow.doubt for flow in some))


def add(sources: Sources, more: Sources) -> None:
    """Merge `more` into `sources`, which the caller owns."""
    for place, (strength, masked) in more.items():
        known = sources.get(place)
        if known is not None:
            strength, masked = max(strength, known[0]), masked and known[1]
        sources[place] = (strength, masked)


def lift(flow: Flow, least: int, *, mask: bool = False) -> Flow:
    """What an expression makes of the values that flow into it."""
    if not flow.sources:
        return flow
    sources = {
        place: (max(found[0], least), found[1] or mask) if place[2] == "direct" else found
        for place, found in flow.sources.items()
    }
    return Flow(sources, flow.doubt)


def deciding(flow: Flow, kind: Influence) -> Flow:
    """The same columns as an indirect influence: they decide, and do not flow."""
    return Flow(turned(flow.sources, kind), flow.doubt)


def turned(sources: Sources, kind: Influence) -> Sources:
    made: Sources = {}
    for (asset, name, _), (_, masked) in sources.items():
        place = (asset, name, kind)
        made[place] = (0, masked and made.get(place, (0, True))[1])
    return made


def listed(sources: Sources) -> tuple[ColumnSource, ...]:
    """As the contract spells them, sorted."""
    made = [
        ColumnSource(asset, name, _kind(how, strength), masked)
        for (asset, name, how), (strength, masked) in sources.items()
    ]
    return tuple(sorted(made))


def _kind(how: str, strength: int) -> Influence:
    return DIRECT[strength] if how == "direct" else cast(Influence, how)
