"""Personal data flows as a naive closure of all paths says, and is found wherever it flows."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.app import Workspace
from arco.catalog.events import Column
from arco.errors import Error
from arco.lineage.personal_flow import LEVELS, SENSITIVITY, OwnLabel, labels_of, path_of
from arco.lineage.reader import Link, Node
from arco.orchestration.personal_data import PersonalDataReader
from arco.search.reader import SearchReader
from servo.contract.task import DIRECT
from tests.kit.clocks import SimClock
from tests.kit.depth import examples
from tests.kit.workspace import make_workspace

NODES = [Node("n.a", c) for c in "xy"] + [Node("n.b", c) for c in "xy"] + [Node("n.c", "x")]
links = st.lists(
    st.builds(
        Link,
        st.just(1),
        st.sampled_from(NODES),
        st.sampled_from(NODES),
        st.sampled_from(["identity", "transformation", "aggregation", "filter", "join"]),
        st.booleans(),
    ),
    max_size=10,
)
owns = st.dictionaries(
    st.sampled_from(NODES),
    st.builds(
        OwnLabel, st.sampled_from(["", "", "email", "name", "none"]), st.sampled_from(LEVELS)
    ),
)


def kinds_by_paths(node: Node, edges: list[Link], own: dict[Node, OwnLabel]) -> set[str]:
    """Every kind that some path of open edges brings, from a column that says it."""
    if said := own.get(node, OwnLabel()).pii:
        return {said} - {"none"}
    reached, waiting = {node}, [node]
    kinds: set[str] = set()
    while waiting:
        end = waiting.pop()
        for edge in edges:
            is_open = edge.target == end and edge.kind in DIRECT and not edge.masked
            if not is_open or edge.source in reached:
                continue
            reached.add(edge.source)
            if said := own.get(edge.source, OwnLabel()).pii:
                kinds.add(said)
            else:
                waiting.append(edge.source)
    return kinds - {"none"}


def sensitivity_by_paths(node: Node, edges: list[Link], own: dict[Node, OwnLabel]) -> str:
    """The greatest level that any path brings; a masked edge lets `internal` through at most."""
    if said := own.get(node, OwnLabel()).sensitivity:
        return said
    best, states = 0, {(node, len(LEVELS))}
    waiting = list(states)
    while waiting:
        end, cap = waiting.pop()
        for edge in edges:
            if edge.target != end or edge.kind not in DIRECT:
                continue
            if edge.masked and edge.kind == "aggregation":
                continue
            through = min(cap, LEVELS.index("internal")) if edge.masked else cap
            if said := own.get(edge.source, OwnLabel()).sensitivity:
                best = max(best, min(LEVELS.index(said), through))
            elif (edge.source, through) not in states:
                states.add((edge.source, through))
                waiting.append((edge.source, through))
    return LEVELS[best]


@given(links, owns)
@settings(max_examples=examples(200))
def test_labels_are_those_of_all_paths(edges: list[Link], own: dict[Node, OwnLabel]) -> None:
    labels = labels_of(edges, lambda node: own.get(node, OwnLabel()))
    for node, labelled in labels.items():
        assert labelled.label.pii == kinds_by_paths(node, edges, own)
        assert labelled.label.sensitivity == sensitivity_by_paths(node, edges, own)
        for kind in labelled.via:
            way = path_of(kind, node, labels)
            assert way[-1].target == node
            start = own[way[0].source]
            assert (start.sensitivity if kind == SENSITIVITY else start.pii) not in ("", "none")
            assert [a.target for a in way[:-1]] == [b.source for b in way[1:]]


columns = st.sampled_from(NODES)
steps = st.one_of(
    st.tuples(st.just("edge"), columns, columns, st.booleans()),
    st.tuples(st.just("say"), columns, st.sampled_from(["email", "name", "none", ""])),
    st.tuples(st.just("rename column"), columns, st.sampled_from("vw")),
    st.tuples(st.just("rename asset"), columns, st.sampled_from("pq")),
)


class NamedColumns:
    """Columns by the names that they had at first."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.w: Workspace = make_workspace(clock=self.clock)
        self._assets = {node.asset: node.asset for node in NODES}
        self._columns = {node: node.column for node in NODES}
        self.w.commands.catalog.create_namespace("n")
        for asset in self._assets:
            names = [Column(name=n.column, type="string") for n in NODES if n.asset == asset]
            self.w.commands.catalog.create_asset(asset, columns=names)

    def now(self, node: Node) -> Node:
        return Node(self._assets[node.asset], self._columns[node])

    def do(self, step: tuple[Any, ...]) -> None:
        """Take a step, unless a rule of the catalog refuses it."""
        self.clock.advance(timedelta(minutes=1))
        catalog, lineage, node = self.w.commands.catalog, self.w.commands.lineage, self.now(step[1])
        with contextlib.suppress(Error):
            match step:
                case "edge", _, target, masked:
                    lineage.add(node, self.now(target), masked=masked)
                case "say", _, pii:
                    catalog.update_column(*node, pii=pii)
                case "rename column", first, name:
                    catalog.update_column(*node, name=name)
                    self._columns[first] = name
                case "rename asset", first, name:
                    catalog.rename_asset(node.asset, name)
                    self._assets[first.asset] = f"n.{name}"


@given(st.lists(steps, min_size=3, max_size=10))
@settings(max_examples=examples(15))
def test_a_search_and_the_list_have_what_each_column_says(taken: list[tuple[Any, ...]]) -> None:
    named = NamedColumns()
    for step in taken:
        named.do(step)
    snapshot = named.w.read.snapshot()
    reader = PersonalDataReader(snapshot)
    labels = {node: reader.explain(*node).label for node in map(named.now, NODES)}
    listed = {Node(each.asset, each.column): set(each.pii) for each in reader.everything()}
    assert listed == {node: label.pii for node, label in labels.items() if label}
    hits = SearchReader(snapshot).search("has:pii").hits
    found = {Node(hit.asset, match.text) for hit in hits for match in hit.matches}
    assert found == {node for node, label in labels.items() if label.pii}
