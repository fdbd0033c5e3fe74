"""How columns of inputs affect a value, and how expressions change that.

A *flow* says of one value, a column or an expression, which columns of which inputs reach it, and
how. For each of them there is at most one direct entry: the strongest kind of all paths (identity <
transformation < aggregation), masked only if every path is. Beside it there is at most one entry
for each indirect kind.

    flow(a + sum(a)) = {(orders, a): aggregation}

The flow of a struct, an array or a map also has *parts*, as far as the expression that
built it is known (`nested`): then a field that is taken out has the sources of that field.

Flows are never changed once made, so that columns which pass through a hundred nodes
share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, cast

from servo.contract.task import DIRECT, ColumnSource, Confidence, Influence

IDENTITY, TRANSFORMATION, AGGREGATION = range(len(DIRECT))
KNOWN, LIKELY, UNKNOWN = range(3)
"""All sources are known; they are at most those named; there may be others."""

CONFIDENCE: Final[tuple[Confidence, ...]] = ("high", "medium", "low")

SourcePlace = tuple[str, str, str]
"""Asset, column, and `direct` or the indirect kind."""
Sources = dict[SourcePlace, tuple[int, bool]]
"""The strength of a direct entry (0 for others), and whether it is masked."""


class Flow(NamedTuple):
    sources: Sources
    doubt: int = KNOWN
    parts: NestedParts | None = None
    mixed: bool = False
    """A function computed it from several columns: a field may come from only some of them."""


class NestedParts(NamedTuple):
    """The fields of a struct, the items of an array, or the keys and values of a map."""

    kind: Literal["struct", "array", "map"]
    flows: tuple[Flow, ...]
    """Fields, items, values. One item stands for all of them unless `positional`."""
    own: Flow
    """What decides whether the struct is null, or how many items there are."""
    names: tuple[str, ...] = ()
    """Of the fields; the keys of a map, if all are literals."""
    keys: Flow = Flow({})
    rest: Flow | None = None
    """Of a struct: its fields that are not named here."""
    positional: bool = False


NOTHING: Final = Flow({})
"""A constant, or a generated value: it comes from no column."""
SOMEWHERE: Final = Flow({}, UNKNOWN)


def column(asset: str, name: str) -> Flow:
    return Flow({(asset, name, "direct"): (IDENTITY, False)})


def merge(flows: Iterable[Flow]) -> Flow:
    """The flow of a value that comes from any of several flows."""
    nonempty = [flow for flow in flows if flow.sources or flow.doubt or flow.parts]
    if len(nonempty) <= 1:
        return nonempty[0] if nonempty else NOTHING
    sources = dict(nonempty[0].sources)
    for flow in nonempty[1:]:
        add(sources, flow.sources)
    doubt = max(flow.doubt for flow in nonempty)
    if not any(flow.parts for flow in nonempty):
        return Flow(sources, doubt, None, any(flow.mixed for flow in nonempty))
    parts = _merged(nonempty)
    return Flow(sources, doubt, parts, parts is None)


def _merged(flows: Sequence[Flow]) -> NestedParts | None:
    """Part by part. A column without known parts may give any part of itself to each."""
    if any(flow.mixed for flow in flows):
        return None
    candidates = [flow.parts for flow in flows if flow.parts]
    kind, names, positional = candidates[0].kind, candidates[0].names, candidates[0].positional
    if any(parts.kind != kind for parts in candidates):
        return None
    lifted = [lift(flow, TRANSFORMATION) for flow in flows if not flow.parts]
    own = merge([*(parts.own for parts in candidates), *lifted])
    keys = merge([*(parts.keys for parts in candidates), *(lifted if kind == "map" else ())])
    rest = [parts.rest for parts in candidates if parts.rest]
    alike = all(
        (len(parts.flows), parts.names, parts.positional)
        == (len(candidates[0].flows), names, positional)
        for parts in candidates
    )
    if kind == "struct":
        if len({len(parts.flows) for parts in candidates}) > 1 or (rest and not alike):
            return None
    elif not alike:
        every = merge([*(flow for parts in candidates for flow in parts.flows), *lifted])
        return NestedParts(kind, (every,), own, keys=keys)
    columns = zip(*(parts.flows for parts in candidates), strict=True)
    merged = tuple(merge([*column, *lifted]) for column in columns)
    return NestedParts(kind, merged, own, names, keys, merge(rest) if rest else None, positional)


def add(sources: Sources, more: Sources) -> None:
    """Merge `more` into `sources`, which the caller owns."""
    for place, (strength, masked) in more.items():
        strength_before = sources.get(place)
        if strength_before is not None:
            strength, masked = max(strength, strength_before[0]), masked and strength_before[1]
        sources[place] = (strength, masked)


def lift(flow: Flow, least: int, *, mask: bool = False) -> Flow:
    """The flow of an expression from the flows of its values."""
    if not flow.sources:
        return flow
    sources = {
        place: (max(source[0], least), source[1] or mask) if place[2] == "direct" else source
        for place, source in flow.sources.items()
    }
    parts = flow.parts and each_part(flow.parts, lambda part: lift(part, least, mask=mask))
    return Flow(sources, flow.doubt, parts, flow.mixed)


def each_part(parts: NestedParts, change: Callable[[Flow], Flow]) -> NestedParts:
    return parts._replace(
        flows=tuple(change(flow) for flow in parts.flows),
        own=change(parts.own),
        keys=change(parts.keys),
        rest=parts.rest and change(parts.rest),
    )


def deciding(flow: Flow, kind: Influence) -> Flow:
    """The same columns as an indirect influence: they decide, and do not flow."""
    return Flow(turned(flow.sources, kind), flow.doubt)


def turned(sources: Sources, kind: Influence) -> Sources:
    converted: Sources = {}
    for (asset, name, _), (_, masked) in sources.items():
        place = (asset, name, kind)
        converted[place] = (0, masked and converted.get(place, (0, True))[1])
    return converted


def listed(sources: Sources) -> tuple[ColumnSource, ...]:
    """As the contract spells them, sorted."""
    column_sources = [
        ColumnSource(asset, name, _kind(how, strength), masked)
        for (asset, name, how), (strength, masked) in sources.items()
    ]
    return tuple(sorted(column_sources))


def _kind(how: str, strength: int) -> Influence:
    return DIRECT[strength] if how == "direct" else cast(Influence, how)
