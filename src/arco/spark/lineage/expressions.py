"""The flow of the columns of a plan through an expression.

An expression is a list of nodes in pre-order with `num-children`, as `toJSON` prints
it. It is evaluated from its end, with a stack: then a node finds its children on top,
and no depth is too deep. The body of a lambda is evaluated when its parameters are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from arco.lineage import nested
from arco.lineage.flow import KNOWN, NOTHING, SOMEWHERE, TRANSFORMATION, Flow, deciding, lift, merge
from arco.lineage.functions import function_of
from arco.lineage.nested import beside, decided, mixed

PlanNode = dict[str, Any]
Env = Mapping[int, Flow]
SubqueryFlows = Callable[[list[PlanNode], Env], tuple[list[Flow], Flow]]
"""Evaluates the plan of a sub-query, within an environment, to its columns and its influences."""


class Term(NamedTuple):
    """An evaluated expression, with its first node."""

    node: PlanNode
    flow: Flow


class Context(NamedTuple):
    """`outer` has the columns around the sub-query that an expression is in."""

    env: Env
    outer: Env
    query: SubqueryFlows

    def of(self, nodes: Sequence[PlanNode]) -> Flow:
        terms = self.terms(nodes)
        return terms[0].flow if terms else NOTHING

    def terms(self, nodes: Sequence[PlanNode]) -> list[Term]:
        """Several expressions, one behind the other."""
        stack: list[Term] = []
        for node in reversed(_without_bodies(nodes)):
            count = node["num-children"]
            children = stack[: -count - 1 : -1] if count else []
            if count:
                del stack[-count:]
            stack.append(Term(node, self._flow(node, children)))
        return stack[::-1]

    def _flow(self, node: PlanNode, children: list[Term]) -> Flow:
        name = name_of(node)
        if name == "AttributeReference":
            return self.env.get(expr_id(node), SOMEWHERE)
        if name == "NamedLambdaVariable":
            return self.env.get(expr_id(node), NOTHING)
        if name in _WITH_PLAN:
            return _WITH_PLAN[name](*self.query(node["plan"], self.env))
        if name == "NullIf":  # what replaces it shares its parts by ids, which are not printed
            left, right = (self.of(node[side]) for side in ("left", "right"))
            return decided([left], [left, right])
        if name == "OuterReference":
            return self._replace(env=self.outer).of(node["e"])
        if not children:
            return NOTHING
        if name in _LAMBDAS:
            return _LAMBDAS[name](self, children)
        if name in _NESTED:
            return _NESTED[name](node, children)
        if any("body" in child.node for child in children):
            return self._unknown_lambdas(children)
        return function_of(name, [child.flow for child in children])

    def call(self, function: PlanNode, arguments: Sequence[Flow]) -> Flow:
        """The flow of a lambda's body. Parameters come behind it."""
        body = function["body"]
        count = function["parameters"]
        parameters = [expr_id(node) for node in body[len(body) - count :]]
        bound = dict(zip(parameters, arguments, strict=False))
        return self._replace(env={**self.env, **bound}).of(body[: len(body) - count])

    def _unknown_lambdas(self, children: list[Term]) -> Flow:
        given = mixed([child.flow for child in children])
        functions = [child.node for child in children if "body" in child.node]
        called = [self.call(each, [given] * each["parameters"]) for each in functions]
        return mixed([given, *called])


def name_of(node: PlanNode) -> str:
    kind: str = node["class"]
    return kind[kind.rfind(".") + 1 :]


def expr_id(node: PlanNode) -> int:
    id: int = node["exprId"]["id"]
    return id


def flow_of(nodes: Sequence[PlanNode], env: Env, outer: Env, query: SubqueryFlows) -> Flow:
    """The flow of an expression among the columns in `env`."""
    return Context(env, outer, query).of(nodes)


def _without_bodies(nodes: Sequence[PlanNode]) -> Sequence[PlanNode]:
    """Each lambda as one node, which holds its body and parameters."""
    if not any(name_of(node) == "LambdaFunction" for node in nodes):
        return nodes
    result: list[PlanNode] = []
    at = 0
    while at < len(nodes):
        node = nodes[at]
        end = at + 1
        if name_of(node) == "LambdaFunction":
            end = _end(nodes, at)
            count = node["num-children"]
            node = {
                "class": node["class"],
                "num-children": 0,
                "parameters": count - 1,
                "body": nodes[at + 1 : end],
            }
        result.append(node)
        at = end
    return result


def _end(nodes: Sequence[PlanNode], start: int) -> int:
    """Behind the last node of the expression that starts there."""
    missing, at = 1, start
    while missing:
        missing += nodes[at]["num-children"] - 1
        at += 1
    return at


# -- functions that look at their arguments' nodes ----------------------------------------


def _literal(node: PlanNode) -> str | None:
    return str(node["value"]) if name_of(node) == "Literal" and "value" in node else None


def _position(node: PlanNode) -> int | None:
    text = _literal(node)
    return int(text) if text and text.lstrip("-").isdigit() else None


def _struct(node: PlanNode, children: list[Term]) -> Flow:
    names = [_literal(child.node) or "" for child in children[::2]]
    return nested.struct(names, [child.flow for child in children[1::2]])


def _fields_of_items(node: PlanNode, children: list[Term]) -> Flow:
    array = children[0].flow
    entry = nested.field(nested.element(array), node["field"]["name"], node.get("ordinal"))
    return nested.array_of(entry, nested.length(array))


def _updated(node: PlanNode, children: list[Term]) -> Flow:
    result = children[0].flow
    for operation, value in children[1:]:
        if name_of(operation) == "WithField":
            result = nested.with_field(result, operation["name"], value)
        elif name_of(operation) == "DropField":
            result = nested.without_field(result, operation["name"])
        else:
            return mixed([child.flow for child in children])
    return result


def _cast(node: PlanNode, children: list[Term]) -> Flow:
    """Fields keep their positions, and have the names of the new type."""
    flow = lift(children[0].flow, TRANSFORMATION)
    return _renamed(flow, node.get("dataType"))


def _renamed(flow: Flow, type: Any) -> Flow:
    if flow.parts is None:
        return flow
    if not isinstance(type, dict):
        return mixed([flow])
    parts = flow.parts
    inner = {
        "struct": [each["type"] for each in type.get("fields", ())],
        "array": [type.get("elementType")] * len(parts.flows),
        "map": [type.get("valueType")] * len(parts.flows),
    }[parts.kind]
    if parts.rest is not None or len(inner) != len(parts.flows):
        return mixed([flow])
    flows = tuple(_renamed(each, t) for each, t in zip(parts.flows, inner, strict=True))
    names = tuple(each["name"] for each in type.get("fields", ())) or parts.names
    return flow._replace(parts=parts._replace(flows=flows, names=names))


def _item(node: PlanNode, children: list[Term]) -> Flow:
    """`array[n]`, from 0."""
    array, at = children
    if array.flow.parts is None:
        return mixed([nested.part_of(array.flow), at.flow])
    return nested.chosen_by(nested.item(array.flow, _position(at.node)), at.flow)


def _map(node: PlanNode, children: list[Term]) -> Flow:
    keys, values = children[::2], children[1::2]
    names = [_literal(key.node) for key in keys]
    return nested.map_of(
        [key.flow for key in keys],
        [value.flow for value in values],
        [name for name in names if name is not None] if None not in names else (),
    )


def _value(node: PlanNode, children: list[Term]) -> Flow:
    """`map[key]`."""
    mapping, key = children
    if mapping.flow.parts is None:
        return mixed([nested.part_of(mapping.flow), key.flow])
    return nested.chosen_by(nested.value_at(mapping.flow, _literal(key.node)), key.flow)


def _element_at(node: PlanNode, children: list[Term]) -> Flow:
    """Of a map by its key, of an array from 1, or from its end."""
    value, key = children[:2]
    parts = value.flow.parts
    if parts is None or parts.kind == "map":
        return _value(node, [value, key])
    at = _position(key.node)
    if at is not None and at > 0:
        at -= 1
    return nested.chosen_by(nested.item(value.flow, at), key.flow)


def _zipped(node: PlanNode, children: list[Term]) -> Flow:
    names = [_literal(each[0]) or "" for each in node["names"]]
    flows = [child.flow for child in children]
    items = nested.struct(names, [nested.element(flow) for flow in flows])
    return nested.array_of(items, merge(nested.length(flow) for flow in flows))


_NESTED: Final[dict[str, Callable[[PlanNode, list[Term]], Flow]]] = {
    "CreateNamedStruct": _struct,
    "GetStructField": lambda node, children: nested.field(
        children[0].flow, node.get("name") or "", node.get("ordinal")
    ),
    "GetArrayStructFields": _fields_of_items,
    "UpdateFields": _updated,
    "Cast": _cast,
    "GetArrayItem": _item,
    "CreateMap": _map,
    "GetMapValue": _value,
    "ElementAt": _element_at,
    "ArraysZip": _zipped,
}


# -- functions of functions ---------------------------------------------------------------

_ROUNDS: Final = 20
"""Maximum of rounds until the flow of a repeated function does not change any more."""


def _transform(context: Context, children: list[Term]) -> Flow:
    array, function = children
    size = nested.length(array.flow)
    result = context.call(function.node, [nested.element(array.flow), size])
    return nested.array_of(lift(result, TRANSFORMATION), lift(size, TRANSFORMATION))


def _filter(context: Context, children: list[Term]) -> Flow:
    array, function = children
    own = array.flow.parts is not None  # else the items decide about themselves
    given = nested.element(array.flow) if own else NOTHING
    size = nested.length(array.flow) if own else NOTHING
    return decided([array.flow], [context.call(function.node, [given, size])])


def _tested(context: Context, children: list[Term]) -> Flow:
    """Whether a condition holds for items of an array."""
    array, function = children
    test = context.call(function.node, [nested.element(array.flow)])
    return mixed([test, nested.length(array.flow)])


def _folded(context: Context, children: list[Term]) -> Flow:
    array, zero, step, *finish = children
    result, given = zero.flow, nested.element(array.flow)
    for _ in range(_ROUNDS):
        before, result = result, merge([result, context.call(step.node, [result, given])])
        if result == before:
            break
    for each in finish:
        result = context.call(each.node, [result])
    return beside(lift(result, TRANSFORMATION), [mixed([nested.length(array.flow)])])


def _sorted(context: Context, children: list[Term]) -> Flow:
    array, function = children
    item = nested.element(array.flow)
    return nested.reordered(array.flow, [context.call(function.node, [item, item])])


def _zipped_with(context: Context, children: list[Term]) -> Flow:
    left, right, function = children
    given = [nested.element(left.flow), nested.element(right.flow)]
    own = merge([nested.length(left.flow), nested.length(right.flow)])
    result = context.call(function.node, given)
    return nested.array_of(lift(result, TRANSFORMATION), lift(own, TRANSFORMATION))


def _of_entries(context: Context, children: list[Term]) -> tuple[Flow, Flow, Flow, Flow]:
    """Of a function over the entries of a map: keys, values, how many, and its result."""
    mapping, function = children
    keys, values = nested.keys_of(mapping.flow), nested.values_of(mapping.flow)
    result = lift(context.call(function.node, [keys, values]), TRANSFORMATION)
    return keys, values, nested.length(mapping.flow), result


def _new_keys(context: Context, children: list[Term]) -> Flow:
    _, values, own, result = _of_entries(context, children)
    return nested.map_of([result], [values], own=own)


def _new_values(context: Context, children: list[Term]) -> Flow:
    keys, _, own, result = _of_entries(context, children)
    return nested.map_of([keys], [result], own=own)


def _some_entries(context: Context, children: list[Term]) -> Flow:
    if children[0].flow.parts is None:
        return decided([children[0].flow], [context.call(children[1].node, [])])
    keys, values, own, result = _of_entries(context, children)
    return nested.map_of([keys], [values], own=merge([own, deciding(result, "conditional")]))


_LAMBDAS: Final[dict[str, Callable[[Context, list[Term]], Flow]]] = {
    "ArrayTransform": _transform,
    "ArrayFilter": _filter,
    "ArrayExists": _tested,
    "ArrayForAll": _tested,
    "ArrayAggregate": _folded,
    "ArraySort": _sorted,
    "ZipWith": _zipped_with,
    "TransformKeys": _new_keys,
    "TransformValues": _new_values,
    "MapFilter": _some_entries,
}


# -- sub-queries --------------------------------------------------------------------------


_WITH_PLAN: Final[dict[str, Callable[[list[Flow], Flow], Flow]]] = {
    "ScalarSubquery": lambda columns, influences: beside(merge(columns[:1]), [influences]),
    "Exists": lambda columns, influences: Flow(influences.sources, KNOWN),
    "ListQuery": lambda columns, influences: merge([*columns, influences]),
}
"""Children of these are the outer columns that they use, which their plans name too."""
