"""What breaks a contract, and the version that a change needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.contract_changes import contract_changes, version_problem
from arco.catalog.contract_checks import contract_checks, with_promised
from arco.columns.promises import PromisedColumns, broken, promised_columns
from arco.columns.schema_columns import SchemaColumn, actual_columns, declared_columns
from servo import in_range, not_null, row_count
from servo.contract.manifest import (
    Check,
    ColumnDef,
    ContractStatement,
    FreshnessSpec,
    Retention,
)
from servo.contract.task import ColumnInfo

replace = msgspec.structs.replace
ID, AMOUNT = ColumnDef(name="id", type="bigint", nullable=False), ColumnDef(name="amount")
BASE = ContractStatement(
    name="sales.orders",
    version="1.0.0",
    consumers=("finance",),
    columns=(ID, AMOUNT),
    key=("id",),
    checks=(row_count(min=1),),
    freshness=FreshnessSpec(max_age_s=3600),
    retention=Retention(days=7),
)


@pytest.mark.parametrize(
    ("change", "text", "breaks"),
    [
        ({"columns": (ID,)}, "amount was removed", True),
        ({"columns": (replace(ID, type="int"), AMOUNT)}, "id was narrowed", True),
        ({"columns": (replace(ID, type="string"), AMOUNT)}, "id was retyped", True),
        ({"columns": (replace(ID, nullable=True), AMOUNT)}, "id may be null now", True),
        ({"columns": (ID, replace(AMOUNT, nullable=False))}, "amount is not null now", False),
        ({"columns": (replace(ID, type="decimal(30,0)"), AMOUNT)}, "id was widened", False),
        ({"columns": (ID, AMOUNT, ColumnDef(name="x"))}, "x is promised", False),
        (
            {"columns": (ID, ColumnDef(name="total", renamed_from="amount"))},
            "amount was renamed to total",
            True,
        ),
        ({"key": ()}, "the key id left", True),
        ({"key": ("id", "amount")}, "the key was changed from id to id, amount", True),
        ({"checks": ()}, "the check row_count was removed", True),
        ({"checks": (row_count(min=2),)}, "the check row_count was changed", True),
        ({"checks": (row_count(min=1, name="rows"),)}, "", None),
        ({"checks": (row_count(min=1), not_null("amount"))}, "not_null(amount) was added", False),
        ({"freshness": None}, "data was at most 1h old, and is of any age now", True),
        ({"freshness": FreshnessSpec(max_age_s=60)}, "and is 1m now", False),
        ({"freshness": FreshnessSpec(max_age_s=3600, cron="0 6 * * *")}, "at 0 6", True),
        ({"retention": Retention(days=1)}, "1 days of versions are kept, and 7 were", True),
        ({"retention": Retention(days=7, versions=2)}, "2 versions of versions", False),
        ({"terms": "free"}, "terms was changed", False),
        ({"consumers": ()}, "finance is no consumer any more", False),
    ],
)
def test_each_change_is_told_with_whether_it_breaks(
    change: dict[str, Any], text: str, breaks: bool | None
) -> None:
    changes = contract_changes(BASE, replace(BASE, **change))
    if breaks is None:
        assert changes == ()
    else:
        (told,) = changes
        assert text in told.text and told.breaks is breaks


def problem(version: str, **change: Any) -> str:
    new = replace(BASE, version=version, **change)
    return (version_problem(BASE, new, contract_changes(BASE, new)) or ("", ""))[0]


def test_what_breaks_needs_a_higher_first_number() -> None:
    without = {"columns": (ID,)}
    assert problem("2.0.0", **without) == ""
    assert problem("1.1.0", **without) == (
        "the contract of sales.orders breaks what version 1.0.0 promises: amount was removed "
        "(finance rely on it)"
    )
    assert "has version 0.9.0, and 1.0.0 is in effect" in problem("0.9.0", **without)


def test_another_promise_needs_a_higher_version_and_words_do_not() -> None:
    more = {"columns": (ID, AMOUNT, ColumnDef(name="x"))}
    assert "promises something else under version 1.0.0" in problem("1.0.0", **more)
    assert problem("1.0.1", **more) == problem("1.0.0", terms="free") == problem("1.0.0") == ""


def kinds(*columns: ColumnInfo, excused: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    promise = PromisedColumns(promised_columns((ID, replace(AMOUNT, type="double"))), excused)
    return [(each.kind, each.column) for each in broken(promise, actual_columns(columns))]


def test_columns_are_compared_as_consumers_read_them() -> None:
    id, amount = ColumnInfo(name="id", type="bigint"), ColumnInfo(name="amount", type="double")
    more = ColumnInfo(name="more", type="string", nullable=False)
    assert kinds(more, amount, id) == []  # order, other columns and nulls are no matter of it
    assert kinds(id) == [("removed", "amount")]
    assert kinds(id, excused=("amount",)) == []
    assert kinds(id, replace(amount, type="float")) == [("narrowed", "amount")]
    assert kinds(id, replace(amount, type="string")) == [("retyped", "amount")]
    assert kinds(id, replace(amount, name="total")) == [("renamed", "amount")]
    assert kinds(replace(id, type="decimal(20,0)"), amount) == []  # it holds more than it has to


NAMES = st.sampled_from("abcd")
TYPES = st.sampled_from(["int", "bigint", "double", "string", "date"])
COLUMN = st.builds(ColumnDef, name=NAMES, type=TYPES)
COLUMN_LISTS = st.lists(COLUMN, unique_by=lambda column: column.name, max_size=4).map(tuple)


@given(COLUMN_LISTS, COLUMN_LISTS, COLUMN_LISTS)
def test_what_keeps_a_new_version_that_breaks_nothing_keeps_the_old_one(
    old: tuple[ColumnDef, ...], new: tuple[ColumnDef, ...], output: tuple[ColumnDef, ...]
) -> None:
    before, after = (replace(BASE, columns=columns, key=()) for columns in (old, new))
    if any(each.breaks for each in contract_changes(before, after)):
        return
    columns: tuple[SchemaColumn, ...] = declared_columns(output)
    if not broken(PromisedColumns(promised_columns(new)), columns):
        assert not broken(PromisedColumns(promised_columns(old)), columns)


def test_checks_of_a_contract_join_those_of_the_asset() -> None:
    contract = replace(BASE, checks=(row_count(min=1), in_range("amount", min=0)))
    own: list[Check] = [row_count(min=1, name="rows"), not_null("amount")]
    checks = with_promised(own, contract_checks(contract))
    assert [(check.name, check.contract) for check in checks] == [
        ("rows", "1.0.0"),
        ("not_null(amount)", ""),
        ("contract:not_null(id)", "1.0.0"),
        ("contract:key(id)", "1.0.0"),
        ("contract:in_range(amount)", "1.0.0"),
    ]
    excused = contract_checks(contract, {"id", "amount"})
    assert [check.name for check in excused] == ["row_count"]
