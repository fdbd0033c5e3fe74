"""How personal data flows from column to column.

A column has a *label*: kinds of personal data, and a sensitivity. The classification of the column
itself, by code or by a person, takes precedence, separately for both. Otherwise the column inherits
from the columns whose values flow into it. Indirect influences (filters, join keys, conditions)
pass nothing on. A value that was hashed or masked is not personal any more, and at most `internal`;
one that was only counted says nothing. `none`: code or a person states that a column is not
personal, whatever flows into it.

Labels only grow along the edges, so the worklist terminates, also for cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from arco.lineage.reader import Link, Node
from servo.contract.task import DIRECT, NOT_PERSONAL

LEVELS: Final = ("", "public", "internal", "confidential", "restricted")
SENSITIVITY: Final = "sensitivity"
"""Used as a kind in the paths of labels."""


class Label(NamedTuple):
    pii: frozenset[str] = frozenset()
    sensitivity: str = ""

    def __bool__(self) -> bool:
        return bool(self.pii or self.sensitivity)

    @property
    def is_hidden(self) -> bool:
        """Whether values of the column are masked by default."""
        return bool(self.pii) or self.sensitivity == LEVELS[-1]

    def joined(self, other: Label) -> Label:
        return Label(self.pii | other.pii, max(self.sensitivity, other.sensitivity, key=_level))


class OwnLabel(NamedTuple):
    """The classification of a column itself; empty if there is none."""

    pii: str = ""
    sensitivity: str = ""

    def over(self, inherited: Label) -> Label:
        """The label of the column from this classification and the inherited label."""
        pii = inherited.pii
        if self.pii:
            pii = frozenset() if self.pii == NOT_PERSONAL else frozenset([self.pii])
        return Label(pii, self.sensitivity or inherited.sensitivity)


NOTHING: Final = Label()


def _level(sensitivity: str) -> int:
    return LEVELS.index(sensitivity) if sensitivity in LEVELS else len(LEVELS)


def passed_on(label: Label, kind: str, masked: bool) -> Label:
    """What an edge takes of the label of its source to its target."""
    if kind not in DIRECT or (masked and kind == "aggregation"):
        return NOTHING
    if masked:
        return Label(frozenset(), min(label.sensitivity, "internal", key=_level))
    return label


class LabelledColumn(Struct, frozen=True):
    label: Label
    via: Mapping[str, Link]
    """By kind, or SENSITIVITY: the edge that it was first inherited through. Others are its own."""


def labels_of(links: Iterable[Link], own: Callable[[Node], OwnLabel]) -> dict[Node, LabelledColumn]:
    """The labels of all columns at the ends of these edges."""
    links_of: dict[Node, list[Link]] = {}
    nodes: dict[Node, None] = {}
    for link in links:
        links_of.setdefault(link.source, []).append(link)
        nodes.update({link.source: None, link.target: None})
    inherited: dict[Node, Label] = dict.fromkeys(nodes, NOTHING)
    via: dict[Node, dict[str, Link]] = {node: {} for node in nodes}
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        label = own(node).over(inherited[node])
        for link in links_of.get(node, ()):
            brought = passed_on(label, link.kind, link.masked)
            joined = inherited[link.target].joined(brought)
            if joined == inherited[link.target]:
                continue
            _note(via[link.target], link, inherited[link.target], joined)
            inherited[link.target] = joined
            waiting.append(link.target)
    return {
        node: LabelledColumn(own(node).over(inherited[node]), _without_own(own(node), via[node]))
        for node in nodes
    }


def _note(via: dict[str, Link], link: Link, before: Label, after: Label) -> None:
    for kind in after.pii - before.pii:
        via[kind] = link
    if after.sensitivity != before.sensitivity:
        via[SENSITIVITY] = link


def _without_own(own: OwnLabel, via: Mapping[str, Link]) -> Mapping[str, Link]:
    """The edges without those of kinds that the column has itself."""
    return {
        kind: link
        for kind, link in via.items()
        if not (own.sensitivity if kind == SENSITIVITY else own.pii)
    }


def path_of(kind: str, node: Node, labels: Mapping[Node, LabelledColumn]) -> list[Link]:
    """The edges through which a column inherited a kind, from the classified column on."""
    path: list[Link] = []
    seen = {node}
    while (link := labels[node].via.get(kind)) is not None:
        path.append(link)
        node = link.source
        if node in seen:
            break
        seen.add(node)
    return path[::-1]
