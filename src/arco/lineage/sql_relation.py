"""What a query puts out, and what decides about its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from arco.lineage.flow import Flow, Sources, add, merge, turned
from servo.contract.task import Influence

Outputs = Sequence[tuple[str, Flow]]


class SqlRelation(NamedTuple):
    outputs: Outputs
    influences: Sources


def united(left: Outputs, right: Outputs) -> list[tuple[str, Flow]]:
    """By position, under the names of the first."""
    pairs = zip(left, right, strict=False)
    return [(name, merge([flow, other])) for (name, flow), (_, other) in pairs]


def renamed(relation: SqlRelation, columns: Sequence[exp.Expr]) -> SqlRelation:
    if not columns:
        return relation
    pairs = zip(columns, relation.outputs, strict=False)
    return SqlRelation([(each.name, flow) for each, (_, flow) in pairs], relation.influences)


def everything(outputs: Outputs, kind: Influence) -> Sources:
    return turned(merge(flow for _, flow in outputs).sources, kind)


def joined(*parts: Sources) -> Sources:
    result: Sources = {}
    for part in parts:
        add(result, part)
    return result
