"""The columns of a query, and the influences on its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from arco.lineage.flow import SOMEWHERE, UNKNOWN, Flow, Sources, add, merge, turned
from servo.contract.task import Influence

Outputs = Sequence[tuple[str, Flow]]


class SqlRelation(NamedTuple):
    outputs: Outputs
    influences: Sources
    partial: bool = False
    """Whether columns are missing, whose names or number the text does not tell."""


def united(relations: Sequence[SqlRelation]) -> list[tuple[str, Flow]]:
    """By position, under the names of the first. If columns are missing, positions are unknown."""
    rows = zip(*(relation.outputs for relation in relations), strict=False)
    columns = [(row[0][0], merge(flow for _, flow in row)) for row in rows]
    if any(relation.partial for relation in relations):
        return [(name, flow._replace(doubt=UNKNOWN)) for name, flow in columns]
    return columns


def renamed(relation: SqlRelation, columns: Sequence[exp.Expr]) -> SqlRelation:
    if not columns:
        return relation
    if relation.partial:
        return SqlRelation([(each.name, SOMEWHERE) for each in columns], relation.influences)
    pairs = zip(columns, relation.outputs, strict=False)
    return SqlRelation([(each.name, flow) for each, (_, flow) in pairs], relation.influences)


def everything(outputs: Outputs, kind: Influence) -> Sources:
    return turned(merge(flow for _, flow in outputs).sources, kind)


def joined(*parts: Sources) -> Sources:
    result: Sources = {}
    for part in parts:
        add(result, part)
    return result
