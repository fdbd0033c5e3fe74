"""Personal data flows as a naive closure of all paths says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.lineage.personal_flow import LEVELS, SENSITIVITY, OwnLabel, labels_of, way_of
from arco.lineage.reader import Link, Node
from servo.contract.task import DIRECT
from tests.kit.depth import examples

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
            way = way_of(kind, node, labels)
            assert way[-1].target == node
            start = own[way[0].source]
            assert (start.sensitivity if kind == SENSITIVITY else start.pii) not in ("", "none")
            assert [a.target for a in way[:-1]] == [b.source for b in way[1:]]
