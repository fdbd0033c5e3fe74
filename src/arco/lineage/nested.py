"""The flows of structs, arrays and maps, and of their parts.

A value without known parts is a column of an input, or the result of a function. A field of a
column comes from that column. A field of a function's result comes from some of its columns: all
are named, and the confidence is not high.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from arco.lineage.flow import (
    AGGREGATION,
    LIKELY,
    NOTHING,
    TRANSFORMATION,
    Flow,
    NestedParts,
    Sources,
    deciding,
    lift,
    merge,
)
from servo.contract.task import Influence


def mixed(flows: Sequence[Flow], least: int = TRANSFORMATION, *, mask: bool = False) -> Flow:
    """The result of an unknown function of its arguments."""
    sources, doubt, _, _ = lift(merge(flows), least, mask=mask)
    return Flow(sources, doubt, None, _several(sources))


def built(parts: NestedParts) -> Flow:
    """A nested value; as a whole it comes from all of its parts."""
    flows = [*parts.flows, parts.keys, *([parts.rest] if parts.rest else [])]
    values = lift(merge(_whole(flow) for flow in flows), TRANSFORMATION)
    own = {
        place: entry
        for place, entry in parts.own.sources.items()
        if (*place[:2], "direct") not in values.sources or place[2] == "direct"
    }
    every = merge([values, Flow(own, parts.own.doubt)])
    return Flow(every.sources, every.doubt, parts)


def beside(flow: Flow, conditions: Sequence[Flow]) -> Flow:
    """The value, with conditions that decide whether it is null."""
    more = merge(_whole(each) for each in conditions)
    if not more.sources and not more.doubt:
        return flow
    both = merge([_whole(flow), more])
    parts = flow.parts and flow.parts._replace(own=merge([flow.parts.own, more]))
    return Flow(both.sources, both.doubt, parts, flow.mixed)


def decided(
    values: Sequence[Flow], conditions: Sequence[Flow], kind: Influence = "conditional"
) -> Flow:
    chosen = merge([lift(value, TRANSFORMATION) for value in values])
    return beside(chosen, [deciding(each, kind) for each in conditions])


# -- structs ------------------------------------------------------------------------------


def struct(names: Sequence[str], flows: Sequence[Flow]) -> Flow:
    """A flow without a name stands for any number of fields."""
    if "" not in names:
        return built(NestedParts("struct", tuple(flows), NOTHING, tuple(names)))
    pairs = list(zip(names, flows, strict=True))
    rest = merge(flow for name, flow in pairs if not name)
    fields = tuple(flow for name, flow in pairs if name)
    return built(NestedParts("struct", fields, NOTHING, tuple(filter(None, names)), rest=rest))


def field(flow: Flow, name: str, at: int | None = None) -> Flow:
    """A field by its name; by its position, where no name or several are the same."""
    parts = flow.parts
    if parts is None or parts.kind != "struct":
        return part_of(flow)
    alike = _positions(parts.names).get(name.lower(), ())
    if len(alike) == 1:
        entry = parts.flows[alike[0]]
    elif parts.rest is not None:
        entry = parts.rest
    elif at is not None and at < len(parts.flows):
        entry = parts.flows[at]
    else:
        return part_of(flow)
    return beside(entry, [parts.own])


@functools.lru_cache(maxsize=64)
def _positions(names: tuple[str, ...]) -> dict[str, list[int]]:
    """Of each name, in lower case, where it is."""
    result: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        result.setdefault(name.lower(), []).append(at)
    return result


def with_field(flow: Flow, name: str, value: Flow) -> Flow:
    fields = _fields(flow)
    alike = [i for i, each in enumerate(fields.names) if each.lower() == name.lower()]
    flows = tuple(value if i in alike else each for i, each in enumerate(fields.flows))
    if alike:
        return built(fields._replace(flows=flows))
    return built(fields._replace(flows=(*flows, value), names=(*fields.names, name)))


def without_field(flow: Flow, name: str) -> Flow:
    fields = _fields(flow)
    pairs = [
        (n, f) for n, f in zip(fields.names, fields.flows, strict=True) if n.lower() != name.lower()
    ]
    return built(
        fields._replace(names=tuple(n for n, _ in pairs), flows=tuple(f for _, f in pairs))
    )


def _fields(flow: Flow) -> NestedParts:
    if flow.parts is not None and flow.parts.kind == "struct":
        return flow.parts
    return NestedParts("struct", (), deciding(flow, "conditional"), rest=part_of(flow))


def extreme(flow: Flow) -> Flow:
    """The largest or smallest struct: each field is decided by those before it."""
    parts = flow.parts
    if parts is None or parts.kind != "struct" or parts.rest is not None:
        return mixed([flow])
    chosen = [decided([each], parts.flows[:at]) for at, each in enumerate(parts.flows)]
    return built(parts._replace(flows=tuple(chosen)))


# -- arrays -------------------------------------------------------------------------------


def array(items: Sequence[Flow]) -> Flow:
    return built(NestedParts("array", tuple(items), NOTHING, positional=True))


def array_of(element: Flow, own: Flow) -> Flow:
    """An array of unknown length, which `own` decides."""
    return built(NestedParts("array", (element,), own))


def length(flow: Flow) -> Flow:
    """What decides how many items an array or a map has, or whether there is a struct."""
    return _whole(flow) if flow.parts is None else flow.parts.own


def element(flow: Flow) -> Flow:
    """Any item of an array."""
    parts = flow.parts
    if parts is None or parts.kind != "array":
        return part_of(flow)
    return merge(parts.flows)


def item(flow: Flow, at: int | None) -> Flow:
    """The item of an array at a position from 0, or at one that is not known."""
    parts = flow.parts
    if parts is None or parts.kind != "array":
        return part_of(flow)
    if not parts.positional or at is None:
        return beside(element(flow), [parts.own])
    entry = parts.flows[at] if -len(parts.flows) <= at < len(parts.flows) else NOTHING
    return beside(entry, [parts.own])


def collected(flow: Flow, *, distinct: bool = False) -> Flow:
    """The values of many rows as one array. Nulls are left out."""
    size = flow.parts.own if flow.parts is not None else flow
    if distinct:
        size = merge([size, deciding(flow, "conditional")])
    return array_of(flow, lift(_whole(size), AGGREGATION, mask=True))


def reordered(flow: Flow, keys: Sequence[Flow], kind: Influence = "sort") -> Flow:
    """The same items in another order, or some of them, as `keys` decide."""
    if flow.parts is None:  # the items themselves decide, and are there already
        return mixed([flow])
    others = [deciding(key, kind) for key in keys]
    return array_of(element(flow), merge([length(flow), *others]))


# -- maps ---------------------------------------------------------------------------------


def map_of(
    keys: Sequence[Flow], values: Sequence[Flow], names: Sequence[str] = (), own: Flow = NOTHING
) -> Flow:
    flows = tuple(values) if names else (merge(values),)
    return built(NestedParts("map", flows, own, tuple(names), merge(keys)))


def keys_of(flow: Flow) -> Flow:
    return flow.parts.keys if flow.parts and flow.parts.kind == "map" else part_of(flow)


def values_of(flow: Flow) -> Flow:
    return merge(flow.parts.flows) if flow.parts and flow.parts.kind == "map" else part_of(flow)


def value_at(flow: Flow, key: str | None) -> Flow:
    """The value of a literal key, or of one that is not known."""
    parts = flow.parts
    if parts is None or parts.kind != "map":
        return part_of(flow)
    if key is not None and parts.names:
        entry = [v for k, v in zip(parts.names, parts.flows, strict=True) if k == key]
        return beside(merge(entry), [parts.own])
    return beside(merge(parts.flows), [parts.own, deciding(parts.keys, "conditional")])


def chosen_by(value: Flow, key: Flow) -> Flow:
    """An item or a value that a position or a key chooses, which may be a literal."""
    return decided([value], [key]) if key.sources else value


# -- all of them --------------------------------------------------------------------------


def part_of(flow: Flow) -> Flow:
    """A part of a value whose parts are not known."""
    result = lift(_whole(flow), TRANSFORMATION)
    several = flow.mixed or (flow.parts is not None and _several(flow.sources))
    return Flow(
        result.sources, max(result.doubt, LIKELY) if several else result.doubt, None, several
    )


def _whole(flow: Flow) -> Flow:
    return flow if flow.parts is None else Flow(flow.sources, flow.doubt)


def _several(sources: Sources) -> bool:
    return sum(place[2] == "direct" for place in sources) > 1
