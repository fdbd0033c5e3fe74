"""The golden queries, from their text alone."""

from __future__ import annotations

import pytest

from arco.lineage.sql import analyze
from arco.lineage.traced import TracedColumns
from tests.golden.lineage.case import COLUMNS, Case, actual, source
from tests.golden.lineage.cases import CASES

QUERIES = [case for case in CASES if case.sql]


def analyzed(case: Case) -> TracedColumns:
    sql = case.sql.format(
        orders='{{ ref("shop.orders") }}', customers="{{ ref('shop.customers') }}"
    )
    return analyze(sql, COLUMNS)


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name)
def test_the_text_of_a_query_says_what_its_plan_says_or_less(case: Case) -> None:
    found = analyzed(case)
    if not case.sql_differs:
        assert actual(found) == case.expected
        assert {each.confidence for each in found.columns} <= set(case.confidence.split())
        return
    assert actual(found) != case.expected, "no longer less precise: take the mark away"
    sources = {tuple(sorted(map(source, given))) for given in case.columns.values()}
    sure = [each for each in found.columns if each.confidence == "high"]
    assert {tuple(sorted(each.sources)) for each in sure} <= sources


def test_names_of_cases_are_unique_and_enough() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 60


def test_values_that_are_filled_in_are_literals() -> None:
    sql = """
        SELECT id, amount * {{ config("rate") }} AS amount, {{ partition('date') }} AS day
        FROM {{ ref("shop.orders") }} WHERE amount > {{ config("least") }}
    """
    found = analyze(sql, {"shop.orders": ["id", "amount"]})
    assert {each.column: [s.column for s in each.sources] for each in found.columns} == {
        "id": ["id"],
        "amount": ["amount"],
        "day": [],
    }
    assert [(each.column, each.kind) for each in found.influences] == [("amount", "filter")]
