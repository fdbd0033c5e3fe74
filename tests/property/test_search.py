"""Search finds every name, first; and its documents are what the catalog has."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog.tables import ASSET_CODE, ASSETS, COLUMNS
from arco.execution.states import GOOD_PARTITIONS
from arco.execution.tables import PARTITION_STATUS
from arco.search.fold import document_of
from arco.search.index import SearchIndex
from arco.search.tables import DOCUMENTS, FAILING, DocumentRow
from arco.search.terms import STATES, parse
from tests.kit.depth import examples
from tests.kit.histories import Draw, draws, history
from tests.kit.runs import ANYTHING, Node, World
from tests.kit.workspace import make_workspace, seeded_ulids, to_events

_words = st.sampled_from(["a", "ab", "order", "orders", "sale", "sales", "x1", "x2", "stale"])
_names = st.lists(_words, min_size=1, max_size=3).map("_".join)
_keys = st.tuples(_names, _names)


def index_of(keys: list[tuple[str, str]], text: str) -> SearchIndex:
    same: dict[str, Any] = dict.fromkeys(DOCUMENTS.columns, f"\n {text} \n") | {"active": True}
    rows = [
        DocumentRow(**(same | {"namespace": namespace, "name": name, "asset_id": f"A{number}"}))
        for number, (namespace, name) in enumerate(keys)
    ]
    return SearchIndex(DOCUMENTS.to_arrow({DOCUMENTS.key_of(row): (1, row) for row in rows}))


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(_keys, min_size=1, max_size=6, unique=True), _names)
def test_every_exact_name_is_found_first(keys: list[tuple[str, str]], text: str) -> None:
    index = index_of(keys, text)
    for namespace, name in keys:
        (best,) = index.rank(parse(f"{namespace}.{name}"), 1).documents
        assert (best.document.namespace, best.document.name) == (namespace, name)
        named = {key for key in keys if key[1] == name}
        query = f'"{name}"' if name in STATES else name
        first = index.rank(parse(query), len(named)).documents
        assert {(each.document.namespace, each.document.name) for each in first} == named


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(draws, min_size=1, max_size=40), st.integers(1, 10))
def test_documents_are_what_the_catalog_has(drawn: list[Draw], size: int) -> None:
    w = make_workspace()
    ids = seeded_ulids(w.clock, 7)
    events = to_events(w, history(drawn, ids), ids)
    for start in range(0, len(events), size):
        w.ledger.append(events[start : start + size])
        w.committer.commit()
    snapshot = w.read.snapshot()
    expected = [
        document_of(
            asset,
            snapshot.rows(COLUMNS, asset.asset_id),
            snapshot.get(ASSET_CODE, asset.asset_id),
        )
        for asset in snapshot.all(ASSETS)
    ]
    assert set(snapshot.all(DOCUMENTS)) == set(expected)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_failing_partitions_are_those_whose_last_attempt_is_not_good(seed: int) -> None:
    dag = (Node(), Node((0,)), Node((0,)), Node((1, 2)), Node((3,)))
    world = World(dag, random.Random(seed).randrange(10**6), fates=ANYTHING, chaos=True).played()
    statuses = world.rows.get(PARTITION_STATUS, {})
    expected = {
        key: row.status
        for key, (_, row) in statuses.items()
        if row is not None and row.status not in GOOD_PARTITIONS
    }
    failing = world.rows.get(FAILING, {})
    assert {key: row.status for key, (_, row) in failing.items() if row is not None} == expected
