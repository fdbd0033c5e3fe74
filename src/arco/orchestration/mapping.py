"""Which partitions of an input a partition reads.

The upstream's dimensions are mapped one by one:

* `identity`: the same value. The downstream must have the dimension, in the same
  periods; its own start, end and zone do not matter, nor whether names are static,
  dynamic or tenants.
* `window`: the periods around it, clipped to the upstream's start and end: the first
  days of a seven-day window read fewer. A window given for the input as a whole is for
  its time dimensions; the others are mapped by identity.
* `time_window`: between time dimensions, which may have different names and units. The
  periods in this one (the days of a month), or the one that this one is in (the month of
  a day), clipped to the upstream's start and end. Days, weeks and months are matched as
  dates; hours as instants, with the days of the other's zone, of which some have 23 or 25.
  Weeks and months cannot be matched: a week may be in two months. Between dimensions of
  one name whose units differ, identity means this.
* `all`: every partition there is, that is in the plan or has been materialized.
* `latest`: the greatest of those, for each combination of the other dimensions.

Dimensions that only the downstream has are ignored: all its partitions read the same.
Dimensions that only the upstream has need `all` or `latest`.

A dependency without data (no parameter) only requires an order, so what cannot be matched by value
waits for all.

Of `window` and `time_window`, what is neither in the plan nor materialized is left out;
there must be one.

`identity`, `window` and `time_window` are computed from the value; `all` and `latest` are looked up
in an index of what exists, made once for an input. Neither reads other partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from msgspec import Struct

from arco.orchestration.partition_space import Calendar, Keys, Point, Space, Value
from servo.contract.manifest import (
    AllUpstream,
    Every,
    Identity,
    Input,
    Latest,
    TimeWindow,
    Window,
)
from servo.contract.manifest import Mapping as DimensionMapping
from servo.contract.matching import Mismatch, are_in_step, unit_mismatch, window_mismatch
from servo.errors import Invalid
from servo.suggest import did_you_mean


class _Axis(Struct, frozen=True):
    """An upstream dimension that follows from a downstream one."""

    at: int
    """Its place in the upstream's points."""
    source: int
    """Its place in the downstream's points."""
    rule: DimensionMapping
    keys: Keys
    own: Keys
    """Those of the downstream."""

    def values(self, value: Value) -> Sequence[Value]:
        match self.rule, self.keys, self.own:
            case Window(start, end), Calendar() as keys, _:
                return keys.shift(value, start, end)
            case TimeWindow(), Calendar() as keys, Calendar() as own:
                return keys.following(own, value)
        return (value,)

    def sources(self, value: Value) -> Sequence[Value]:
        """The downstream's values for which `values` has this one of the upstream."""
        match self.rule, self.keys, self.own:
            case Window(start, end), _, Calendar() as own:
                return own.shift(value, -end, -start)
            case TimeWindow(), Calendar() as keys, Calendar() as own:
                return own.following(keys, value)
        return (value,)


class Resolver:
    """One input of one asset: from its partitions to the input's."""

    def __init__(
        self,
        reader: str,
        input: Input,
        downstream: Space,
        upstream: Space,
        existing: Callable[[], Iterable[Point]],
    ) -> None:
        """`existing` gives the upstream's points that are planned or materialized."""
        rules = mappings(reader, input, downstream, upstream)
        self._axes: list[_Axis] = []
        for at, (keys, rule) in enumerate(zip(upstream.dimensions, rules, strict=True)):
            if isinstance(rule, Identity | Window | TimeWindow):
                name = rule.dimension if isinstance(rule, TimeWindow) else keys.name
                source = downstream.names.index(name)
                self._axes.append(_Axis(at, source, rule, keys, downstream.dimensions[source]))
        self._sources = tuple(axis.source for axis in self._axes)
        self._whole = self._sources == tuple(range(len(downstream.names)))
        self._rules = rules
        self._width = len(downstream.names)
        self._existing = existing
        self._index: Mapping[Point, Sequence[Point]] | None = None

    def relevant(self, point: Point) -> Point:
        """The part of a downstream point that determines what it reads."""
        return point if self._whole else tuple([point[source] for source in self._sources])

    def resolve(self, relevant: Point) -> Sequence[Point]:
        """The upstream's points, in order.

        Where all is computed they need not exist; where some is looked up they do.
        """
        axes = [axis.values(value) for axis, value in zip(self._axes, relevant, strict=True)]
        if len(self._axes) == len(self._rules):
            return list(product(*axes))
        if self._index is None:
            self._index = self._indexed()
        matching = [self._index[fixed] for fixed in product(*axes) if fixed in self._index]
        if len(matching) == 1:
            return matching[0]
        return sorted(point for points in matching for point in points)

    def readers(self, point: Point) -> list[Sequence[Value] | None]:
        """For each of the downstream's dimensions, the values of what may read an upstream point;
        None where all of them do.

        Of `latest` any point may be the one that is read.
        """
        values: list[Sequence[Value] | None] = [None] * self._width
        for axis in self._axes:
            before, own = values[axis.source], axis.sources(point[axis.at])
            values[axis.source] = (
                own if before is None else [value for value in own if value in before]
            )
        return values

    @property
    def free(self) -> set[int]:
        """The downstream's dimensions along which all partitions read the same."""
        return set(range(self._width)).difference(self._sources)

    def _indexed(self) -> Mapping[Point, Sequence[Point]]:
        """Existing points, indexed by computed values; for `latest`, only the greatest."""
        fixed = [axis.at for axis in self._axes]
        newest = [at for at, rule in enumerate(self._rules) if isinstance(rule, Latest)]
        points: Iterable[Point] = self._existing()
        if newest:
            points = _latest(points, newest)
        index: dict[Point, list[Point]] = {}
        for point in sorted(points):
            index.setdefault(tuple([point[at] for at in fixed]), []).append(point)
        return index


def _latest(points: Iterable[Point], newest: Sequence[int]) -> Iterable[Point]:
    best: dict[Point, tuple[Point, Point]] = {}
    for point in points:
        rest = tuple([value for at, value in enumerate(point) if at not in newest])
        rank = tuple([point[at] for at in newest])
        if rest not in best or best[rest][0] < rank:
            best[rest] = rank, point
    return [point for _, point in best.values()]


def mappings(
    reader: str, input: Input, downstream: Space, upstream: Space
) -> tuple[DimensionMapping, ...]:
    """How each of the upstream's dimensions is mapped; Invalid if it cannot be so.

    A `time_window` names the downstream's dimension.
    """
    for name in input.dimensions:
        if name not in upstream.names:
            raise Invalid(
                f"{reader} maps the dimension {name!r} of {input.asset}, which does not have it",
                hint=did_you_mean(name, upstream.names) or "remove it from the mapping",
            )
    return tuple(
        _mapping(reader, input, keys, downstream, upstream) for keys in upstream.dimensions
    )


def _mapping(
    reader: str, input: Input, keys: Keys, downstream: Space, upstream: Space
) -> DimensionMapping:
    rule = input.mapping_of(keys.name, of_time=isinstance(keys, Calendar))
    if isinstance(rule, AllUpstream | Latest):
        return rule
    name = keys.name
    if isinstance(rule, TimeWindow):
        name = rule.followed(keys.name, _times(upstream), _times(downstream))
    own = next((own for own in downstream.dimensions if own.name == name), None)
    problem = _problem(rule, keys, own)
    if problem and not input.parameter:
        return AllUpstream()
    if problem:
        raise Invalid(
            f"{reader} cannot read {input.asset} by {_called(rule)} over {keys.name!r}: {problem}",
            hint=f"map {keys.name!r} with all_upstream or latest, or change its partitions",
        )
    return TimeWindow(name) if _between_units(rule, keys, own) else rule


def _times(space: Space) -> list[str]:
    return [keys.name for keys in space.dimensions if isinstance(keys, Calendar)]


def _between_units(rule: DimensionMapping, keys: Keys, own: Keys | None) -> bool:
    if not isinstance(keys, Calendar) or not isinstance(own, Calendar):
        return False
    return isinstance(rule, TimeWindow) or keys.every != own.every


def _called(rule: DimensionMapping) -> str:
    match rule:
        case Window(start, end):
            return f"window({start}, {end})"
        case TimeWindow(dimension):
            return f'time_window("{dimension}")' if dimension else "time_window()"
    return "identity"


def _problem(rule: DimensionMapping, keys: Keys, own: Keys | None) -> str:
    match window_mismatch(rule, _every(keys)):
        case Mismatch.NOT_TIME:
            return "only time dimensions have windows"
        case Mismatch.REVERSED:
            return "it ends before it starts"
    if own is None:
        return (
            "it has no such dimension itself"
            if not isinstance(rule, TimeWindow) or rule.dimension
            else "it does not say which time dimension of its own to follow"
        )
    units = f"the input's is by {_every(keys)}, its own by {_every(own)}"
    match unit_mismatch(rule, _every(keys), _every(own), lambda: _are_in_step(keys, own)):
        case Mismatch.ONE_OF_TIME:
            return "one of them is a time dimension, the other is not"
        case Mismatch.OTHER_UNIT:
            return units
        case Mismatch.UNNESTED:
            return f"{units}, and a week may be in two months"
        case Mismatch.OUT_OF_STEP:
            return f"{units}, and these begin at different minutes of an hour"
    return ""


def _every(keys: Keys) -> Every | None:
    return keys.every if isinstance(keys, Calendar) else None


def _are_in_step(keys: Keys, own: Keys) -> bool:
    assert isinstance(keys, Calendar) and isinstance(own, Calendar)
    return are_in_step(keys.dimension, own.dimension)
