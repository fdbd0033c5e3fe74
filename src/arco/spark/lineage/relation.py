"""The output of a node of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arco.lineage.flow import Flow, Sources, add, merge, turned
from servo.contract.task import Influence


class Output(NamedTuple):
    id: int
    name: str
    flow: Flow


class Relation(NamedTuple):
    """The output of a node. `influences` is shared between nodes, and never changed."""

    outputs: Sequence[Output]
    influences: Sources

    def env(self) -> dict[int, Flow]:
        return {output.id: output.flow for output in self.outputs}


def side_by_side(children: Sequence[Relation]) -> Relation:
    if len(children) == 1:
        return children[0]
    outputs = [output for child in children for output in child.outputs]
    return Relation(outputs, joined(*(child.influences for child in children)))


def everything(relation: Relation, kind: Influence) -> Sources:
    return turned(merge(output.flow for output in relation.outputs).sources, kind)


def joined(*parts: Sources) -> Sources:
    nonempty = [part for part in parts if part]
    if len(nonempty) <= 1:
        return nonempty[0] if nonempty else {}
    result = dict(nonempty[0])
    for part in nonempty[1:]:
        add(result, part)
    return result
