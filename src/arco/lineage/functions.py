"""The flows of functions, by Spark's names of their expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from arco.lineage import nested
from arco.lineage.flow import AGGREGATION, NOTHING, TRANSFORMATION, Flow, deciding, lift, merge
from arco.lineage.nested import beside, decided, mixed

_SAME: Final = frozenset(
    {
        "Alias",
        "AssertNotNull",
        "KnownFloatingPointNormalized",
        "KnownNotNull",
        "KnownNullable",
        "NamedArgumentExpression",
        "NormalizeNaNAndZero",
        "PromotePrecision",
        "SortOrder",
        "TempResolvedColumn",
        "WithField",
    }
)
"""Functions that return their argument unchanged."""
_ALTERNATIVES: Final = frozenset({"AnyValue", "Coalesce", "First", "Last", "MapConcat"})
"""Functions that return one of their arguments."""
_MASKING: Final = frozenset(
    {"Md5", "Sha1", "Sha2", "Crc32", "Murmur3Hash", "XxHash64", "HiveHash", "CollationKey", "Mask"}
)
_COUNTING: Final = frozenset({"Count", "CountIf", "HyperLogLogPlusPlus", "RegrCount"})
_RANKING: Final = frozenset({"Rank", "DenseRank", "PercentRank"})
"""Their arguments are the order of their window, which is handled separately."""


def function_of(name: str, children: list[Flow]) -> Flow:
    if name in _SAME:
        return merge(children)
    if name in _ALTERNATIVES:
        return lift(merge(children), TRANSFORMATION)
    if name in _MASKING:
        return mixed(children, mask=True)
    if name in _COUNTING:
        return mixed(children, AGGREGATION, mask=True)
    if name in _RANKING:
        return NOTHING
    result = _SPECIAL.get(name)
    return mixed(children) if result is None else result(children)


def _case(children: list[Flow]) -> Flow:
    """Condition and value in turns, then perhaps the value of ELSE."""
    pairs, last = divmod(len(children), 2)
    values = children[1 : 2 * pairs : 2] + children[len(children) - last :]
    return decided(values, children[0 : 2 * pairs : 2])


def _aggregate(children: list[Flow]) -> Flow:
    function, *conditions = children
    return beside(
        lift(function, AGGREGATION), [deciding(each, "conditional") for each in conditions]
    )


def _window(children: list[Flow]) -> Flow:
    function, spec = children
    return decided([function], [spec], "window")


def _neighbour(children: list[Flow]) -> Flow:
    """A value of another row, how many rows away, and perhaps a default."""
    value, offset, *default = children
    return beside(lift(merge([value, *default]), TRANSFORMATION), [mixed([offset])])


def _concatenated(children: list[Flow]) -> Flow:
    if not all(child.parts and child.parts.kind == "array" for child in children):
        return mixed(children)
    own = merge(nested.length(child) for child in children)
    return nested.array_of(merge(nested.element(child) for child in children), own)


OF_PARTS: Final[dict[str, Callable[[list[Flow]], Flow]]] = {
    "Concat": _concatenated,
    "Reverse": lambda children: nested.reordered(children[0], []),
    "Shuffle": lambda children: nested.reordered(children[0], []),
    "Slice": lambda children: (
        nested.reordered(children[0], children[1:], "conditional")
        if children[0].parts
        else mixed(children)
    ),
    "SortArray": lambda children: nested.reordered(children[0], [nested.element(children[0])]),
    "ArrayDistinct": lambda children: nested.reordered(
        children[0], [nested.element(children[0])], "conditional"
    ),
    "Flatten": lambda children: nested.array_of(
        nested.element(nested.element(children[0])),
        merge([nested.length(children[0]), nested.length(nested.element(children[0]))]),
    ),
    "Size": lambda children: mixed([nested.length(children[0])]),
    "IsNull": lambda children: mixed([nested.length(children[0])]),
    "IsNotNull": lambda children: mixed([nested.length(children[0])]),
    "MapKeys": lambda children: nested.array_of(
        nested.keys_of(children[0]), nested.length(children[0])
    ),
    "MapValues": lambda children: nested.array_of(
        nested.values_of(children[0]), nested.length(children[0])
    ),
    "MapEntries": lambda children: nested.array_of(
        nested.struct(
            ("key", "value"), (nested.keys_of(children[0]), nested.values_of(children[0]))
        ),
        nested.length(children[0]),
    ),
    "MapFromArrays": lambda children: nested.map_of(
        [nested.element(children[0])],
        [nested.element(children[1])],
        own=merge(nested.length(child) for child in children),
    ),
    "MapFromEntries": lambda children: nested.map_of(
        [nested.field(nested.element(children[0]), "key", 0)],
        [nested.field(nested.element(children[0]), "value", 1)],
        own=nested.length(children[0]),
    ),
}
"""Functions of arrays and maps. A column without known parts is one value to them."""

_SPECIAL: Final[dict[str, Callable[[list[Flow]], Flow]]] = {
    **OF_PARTS,
    "CaseWhen": _case,
    "If": lambda children: decided(children[1:], children[:1]),
    "AggregateExpression": _aggregate,
    "WindowExpression": _window,
    "PivotFirst": lambda children: decided(children[1:], children[:1]),
    "Lag": _neighbour,
    "Lead": _neighbour,
    "NthValue": _neighbour,
    "MaxBy": lambda children: decided(children[:1], children[1:]),
    "MaxMinByK": lambda children: decided(children[:1], children[1:]),
    "MinBy": lambda children: decided(children[:1], children[1:]),
    "Max": lambda children: nested.extreme(children[0]),
    "Min": lambda children: nested.extreme(children[0]),
    "ListAgg": lambda children: decided([mixed(children[:2])], children[2:], "sort"),
    "CollectList": lambda children: nested.collected(children[0]),
    "CollectSet": lambda children: nested.collected(children[0], distinct=True),
    "CreateArray": nested.array,
}
