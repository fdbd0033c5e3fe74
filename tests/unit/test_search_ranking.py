"""Which assets a query finds, and in which order: `tests/golden/search` has queries and rankings.

`ARCO_UPDATE_GOLDEN=1` writes the rankings anew; look at the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from arco.catalog.events import Column
from arco.errors import Invalid, NotFound
from arco.search.matches import SearchMatch
from arco.search.reader import SearchReader
from tests.kit.clocks import SimClock
from tests.kit.workspace import make_workspace

GOLDEN = Path(__file__).parents[1] / "golden" / "search"
QUERIES: dict[str, list[str]] = json.loads((GOLDEN / "queries.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def reader() -> SearchReader:
    workspace = make_workspace(clock=SimClock(), actor="ana")
    assets: list[dict[str, Any]] = json.loads((GOLDEN / "assets.json").read_text("utf-8"))
    for namespace in sorted({asset["key"].partition(".")[0] for asset in assets}):
        workspace.commands.catalog.create_namespace(namespace)
    for asset in assets:
        columns = [name.partition(":")[::2] for name in asset["columns"]]
        workspace.commands.catalog.create_asset(
            asset["key"],
            description=asset["description"],
            owners=asset.get("owners", []),
            tags=asset.get("tags", {}),
            columns=[Column(name=name, type="string", pii=pii) for name, pii in columns],
        )
    return SearchReader(workspace.read.snapshot())


def test_queries_are_answered_in_the_recorded_order(reader: SearchReader) -> None:
    rankings = {q: [hit.asset for hit in reader.search(q).hits] for q in QUERIES}
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        text = ",\n".join(
            f"  {json.dumps(query, ensure_ascii=False)}: {json.dumps(assets)}"
            for query, assets in rankings.items()
        )
        (GOLDEN / "queries.json").write_text(f"{{\n{text}\n}}\n", "utf-8")
    assert rankings == QUERIES


def test_hit_says_where_it_matches(reader: SearchReader) -> None:
    hits = {hit.asset: hit.matches for hit in reader.search("orders").hits}
    assert hits["sales.orders"] == [SearchMatch("name", "exact", "orders", [(0, 6)])]
    assert hits["ops.sales_orders"] == [SearchMatch("name", "word", "sales_orders", [(6, 12)])]
    assert hits["marketing.campaigns"] == [SearchMatch("column", "exact", "orders", [(0, 6)])]
    assert hits["raw.preorders"] == [SearchMatch("name", "part", "preorders", [(3, 9)])]


def test_words_in_one_text_share_a_match(reader: SearchReader) -> None:
    (hit,) = reader.search("nobody parcels").hits
    text = "Parcels that nobody picked up"
    assert hit.matches == [SearchMatch("description", "word", text, [(0, 7), (13, 19)])]


def test_typing_error_is_corrected_and_named(reader: SearchReader) -> None:
    result = reader.search("custmoer_id")
    assert result.corrected == {"custmoer_id": ["customer id"]}
    first = result.hits[0].matches[0]
    assert first == SearchMatch("column", "typo", "customer_id", [(0, 11)], "customer id")


def test_filters_say_what_they_hold_for(reader: SearchReader) -> None:
    (hit,) = reader.search("has:pii owner:bob").hits
    assert hit.matches == [
        SearchMatch("personal data", "filter", "email", []),
        SearchMatch("owner", "filter", "bob", [(0, 3)]),
    ]


def test_total_counts_more_than_the_limit_lists(reader: SearchReader) -> None:
    result = reader.search("orders", limit=2)
    assert [hit.asset for hit in result.hits] == ["sales.orders", "sales.orders_daily"]
    assert (result.total, result.generation) == (6, reader.snapshot.generation)


@pytest.mark.parametrize("query", ["orders namespace:sales", "custmoer namespace:sales,finance"])
def test_search_in_a_namespace_is_the_search_without_the_others(
    reader: SearchReader, query: str
) -> None:
    reader.search("orders")  # has all documents; a reader that has none reads the namespaces' alone
    assert SearchReader(reader.snapshot).search(query) == reader.search(query)


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("tgs:x", "there is no filter tgs:; the filters are tag:, owner:,", "did you mean 'tag'?"),
        ("colour:red", "there is no filter colour:", 'to search for the text, write "colour:red"'),
        ("has:pi", "has: does not take 'pi'", "did you mean 'pii'?"),
        ("owner:", "the filter owner: has no value", "write owner:ana"),
        ('"daily', "a quote is not closed", 'write "…" around a phrase'),
        ("  ", "the query has no words", "name an asset, a column, or a filter"),
        ("...", "the query has no words", "name an asset, a column, or a filter"),
        ("a " * 17, "the query has 17 words; the limit is 16", ""),
    ],
)
def test_bad_query_is_refused(reader: SearchReader, query: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid) as caught:
        reader.search(query)
    assert message in str(caught.value)
    assert caught.value.hint == hint


def test_unknown_namespace_is_not_found(reader: SearchReader) -> None:
    with pytest.raises(NotFound, match="there is no namespace sale") as caught:
        reader.search("orders namespace:sale")
    assert caught.value.hint == "did you mean 'sales'?"


@pytest.mark.parametrize(
    "query", ["'; DROP TABLE docs; --", "$v0", "100%", "\\", "a\x00b", "\n \n"]
)
def test_query_is_only_text(reader: SearchReader, query: str) -> None:
    try:
        result = reader.search(query)
    except Invalid:
        return
    assert result.total == 0


def test_a_tag_is_found_by_its_key_and_by_its_value(reader: SearchReader) -> None:
    for query, span in (("tag:tier", (0, 4)), ("tag:gold", (5, 9)), ("tag:tier=gold", (0, 9))):
        (hit,) = (each for each in reader.search(query).hits if each.asset == "finance.revenue")
        assert hit.matches == [SearchMatch("tag", "filter", "tier=gold", [span])]
    assert reader.search("tag:old").hits == reader.search("tag:tie").hits == []
