"""What an expression of a plan makes of its columns.

An expression is a list of nodes in pre-order with `num-children`, as `toJSON` prints
it. It is evaluated from its end, with a stack: then a node finds its children on top,
and no depth is too deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from arco.lineage.flow import (
    AGGREGATION,
    KNOWN,
    NOTHING,
    SOMEWHERE,
    TRANSFORMATION,
    Flow,
    deciding,
    lift,
    merge,
)

Node = dict[str, Any]
Env = Mapping[int, Flow]
Query = Callable[[list[Node], Env], tuple[list[Flow], Flow]]
"""Evaluates the plan of a sub-query, within an environment, to its columns and its influences."""

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
    }
)
"""What passes a value on as it is."""
_MASKING: Final = frozenset(
    {"Md5", "Sha1", "Sha2", "Crc32", "Murmur3Hash", "XxHash64", "HiveHash", "CollationKey", "Mask"}
)
_COUNTING: Final = frozenset({"Count", "CountIf", "HyperLogLogPlusPlus", "RegrCount"})
_RANKING: Final = frozenset({"Rank", "DenseRank", "PercentRank"})
"""Their arguments are the order of their window, which is told beside them."""
_CHOOSING: Final = frozenset({"MaxBy", "MinBy", "ArrayFilter", "MapFilter"})
"""The second argument decides about the first."""


def name_of(node: Node) -> str:
    kind: str = node["class"]
    return kind[kind.rfind(".") + 1 :]


def expr_id(node: Node) -> int:
    id: int = node["exprId"]["id"]
    return id


def flow_of(nodes: Sequence[Node], env: Env, outer: Env, query: Query) -> Flow:
    """The flow of an expression among the columns in `env`.

    `outer` has the columns around the sub-query that this is in.
    """
    stack: list[Flow] = []
    for node in reversed(nodes):
        count = node["num-children"]
        children = stack[: -count - 1 : -1] if count else []
        if count:
            del stack[-count:]
        stack.append(_flow(node, children, env, outer, query))
    return stack[0] if stack else NOTHING


def _flow(node: Node, children: list[Flow], env: Env, outer: Env, query: Query) -> Flow:
    name = name_of(node)
    if name == "AttributeReference":
        return env.get(expr_id(node), SOMEWHERE)
    if name in _SAME:
        return merge(children)
    if name in _WITH_PLAN:
        return _WITH_PLAN[name](*query(node["plan"], env))
    if name == "NullIf":  # what replaces it shares its parts by ids, which are not printed
        return _null_if(*(flow_of(node[side], env, outer, query) for side in ("left", "right")))
    if name == "OuterReference":
        return flow_of(node["e"], outer, outer, query)
    if not children:
        return NOTHING
    return _of_children(name, children)


def _of_children(name: str, children: list[Flow]) -> Flow:
    if name in _MASKING:
        return lift(merge(children), TRANSFORMATION, mask=True)
    if name in _COUNTING:
        return lift(merge(children), AGGREGATION, mask=True)
    if name in _RANKING:
        return NOTHING
    if name in _CHOOSING:
        return _decided(children[:1], children[1:])
    made = _SPECIAL.get(name)
    return lift(merge(children), TRANSFORMATION) if made is None else made(children)


def _decided(values: Sequence[Flow], conditions: Sequence[Flow]) -> Flow:
    chosen = [lift(value, TRANSFORMATION) for value in values]
    return merge([*chosen, *(deciding(each, "conditional") for each in conditions)])


def _case(children: list[Flow]) -> Flow:
    """Condition and value in turns, then perhaps the value of ELSE."""
    pairs, last = divmod(len(children), 2)
    values = children[1 : 2 * pairs : 2] + children[len(children) - last :]
    return _decided(values, children[0 : 2 * pairs : 2])


def _null_if(value: Flow, other: Flow) -> Flow:
    return _decided([value], [value, other])


def _aggregate(children: list[Flow]) -> Flow:
    function, *conditions = children
    decided = [deciding(each, "conditional") for each in conditions]
    return merge([lift(function, AGGREGATION), *decided])


def _window(children: list[Flow]) -> Flow:
    function, spec = children
    return merge([lift(function, TRANSFORMATION), deciding(spec, "window")])


def _pivot(children: list[Flow]) -> Flow:
    pivot, value = children
    return _decided([value], [pivot])


_SPECIAL: Final[dict[str, Callable[[list[Flow]], Flow]]] = {
    "CaseWhen": _case,
    "If": lambda children: _decided(children[1:], children[:1]),
    "AggregateExpression": _aggregate,
    "WindowExpression": _window,
    "PivotFirst": _pivot,
    "LambdaFunction": lambda children: children[0],
}


def _scalar(columns: list[Flow], influences: Flow) -> Flow:
    return merge([*columns[:1], influences])


def _exists(columns: list[Flow], influences: Flow) -> Flow:
    return Flow(influences.sources, KNOWN)


def _list(columns: list[Flow], influences: Flow) -> Flow:
    return merge([*columns, influences])


_WITH_PLAN: Final[dict[str, Callable[[list[Flow], Flow], Flow]]] = {
    "ScalarSubquery": _scalar,
    "Exists": _exists,
    "ListQuery": _list,
}
"""Children of these are the outer columns that they use, which their plans name too."""
