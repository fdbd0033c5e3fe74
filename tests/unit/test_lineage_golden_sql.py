"""The golden queries, from their text alone."""

from __future__ import annotations

import pytest

from arco.lineage.sql import analyze
from tests.golden.lineage.case import COLUMNS, Case, actual
from tests.golden.lineage.cases import CASES

QUERIES = [case for case in CASES if case.sql]


def analyzed(case: Case) -> object:
    sql = case.sql.format(
        orders='{{ ref("shop.orders") }}', customers="{{ ref('shop.customers') }}"
    )
    return actual(analyze(sql, COLUMNS))


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name)
def test_the_text_of_a_query_says_what_its_plan_says(case: Case) -> None:
    if case.sql_differs:
        assert analyzed(case) != case.expected, "no longer less precise: take the mark away"
    else:
        assert analyzed(case) == case.expected


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
