from __future__ import annotations

import pytest

from arco.orchestration.selection import Graph, evaluate, select
from servo.errors import Invalid
from tests.kit.planning import asset, manifest, reads

#  raw.orders ─► sales.orders ─► sales.daily ─► report.board
#  raw.users ──► sales.users ─┘                 ops.audit (waits for sales.daily)
GRAPH = Graph(
    manifest(
        asset("report.board", reads("sales.daily"), tags={"tier": "gold", "lang": "py"}),
        asset("sales.daily", reads("sales.orders"), reads("sales.users"), group="finance"),
        asset("ops.audit", reads("sales.daily", parameter="")),
        asset("sales.orders", reads("raw.orders"), tags={"tier": "silver"}, group="finance"),
        asset("sales.users", reads("raw.users"), tags={"tier": "gold"}),
        asset("raw.users", reads("elsewhere.unknown")),
        asset("raw.orders", reads("raw.orders")),
    )
)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("sales.daily", ["sales.daily"]),
        ("daily", ["sales.daily"]),
        (" daily ", ["sales.daily"]),
        ("+sales.orders", ["raw.orders", "sales.orders"]),
        ("1+daily", ["sales.daily", "sales.orders", "sales.users"]),
        ("0+daily", ["sales.daily"]),
        ("daily+", ["ops.audit", "report.board", "sales.daily"]),
        ("sales.users+1", ["sales.daily", "sales.users"]),
        ("+sales.users+1", ["raw.users", "sales.daily", "sales.users"]),
        ("1+daily+1", ["ops.audit", "report.board", "sales.daily", "sales.orders", "sales.users"]),
        ("sales.*", ["sales.daily", "sales.orders", "sales.users"]),
        ("+raw.*", ["raw.orders", "raw.users"]),
        ("tag:tier", ["report.board", "sales.orders", "sales.users"]),
        ("tag:tier=gold", ["report.board", "sales.users"]),
        ("+tag:tier=silver", ["raw.orders", "sales.orders"]),
        ("group:finance", ["sales.daily", "sales.orders"]),
        ("*", sorted(GRAPH.assets)),
        ("+*", sorted(GRAPH.assets)),
    ],
)
def test_terms(term: str, expected: list[str]) -> None:
    assert sorted(evaluate(GRAPH, term)) == expected


def test_a_selection_is_the_union_less_the_excluded() -> None:
    assert list(select(GRAPH, ["sales.daily", "raw.*"], ["raw.users"])) == [
        "raw.orders",
        "sales.daily",
    ]
    assert list(select(GRAPH, ["*"], ["+daily", "tag:tier"])) == ["ops.audit"]


def test_each_asset_is_there_for_a_term_whatever_their_order() -> None:
    expected = {"raw.users": "+sales.users", "sales.users": "+sales.users"}
    assert select(GRAPH, ["sales.users", "+sales.users"]) == expected
    assert select(GRAPH, ["+sales.users", "sales.users"]) == expected


@pytest.mark.parametrize(
    ("term", "message", "hint"),
    [
        ("sales.dayly", "no asset 'sales.dayly'", "did you mean 'sales.daily'?"),
        ("dailly", "no asset 'dailly'", "did you mean 'daily'?"),
        ("orders", "'orders' is ambiguous", "write one of: raw.orders, sales.orders"),
        ("sale.*", "no namespace 'sale'", "did you mean 'sales'?"),
        ("tag:teir", "no asset has the tag 'teir'", "did you mean 'tier'?"),
        ("tag:owner=me", "no asset has the tag", "tags: lang=py, tier=gold, tier=silver"),
        ("tag:lang=c++", "no asset has the tag", ""),
        ("group:finanse", "no group", "did you mean 'finance'?"),
        ("group:", "no group", "groups: finance"),
        ("", "empty", "*"),
        ("+", "no asset", ""),
        ("-1+daily", "no asset", ""),
        ("sal*", "no asset", ""),
    ],
)
def test_a_term_that_means_nothing_is_invalid(term: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid, match=message) as error:
        evaluate(GRAPH, term)
    assert hint in error.value.hint


def test_nothing_selected_is_invalid() -> None:
    with pytest.raises(Invalid, match="nothing is selected"):
        select(GRAPH, [])
    with pytest.raises(Invalid, match="all of it is excluded"):
        select(GRAPH, ["sales.daily"], ["sales.*"])
    with pytest.raises(Invalid, match=r"no asset 'sales\.dailly'"):
        select(GRAPH, ["sales.daily"], ["sales.dailly"])
    with pytest.raises(Invalid, match="there are no assets"):
        select(Graph(manifest()), ["*"])


def test_circles_do_not_trap_a_selection() -> None:
    graph = Graph(manifest(asset("a.a", reads("a.b")), asset("a.b", reads("a.a"))))
    assert evaluate(graph, "+a.a+") == {"a.a", "a.b"}
