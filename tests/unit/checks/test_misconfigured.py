"""Checks that do not suit the data they are declared for."""

from __future__ import annotations

import pytest

from arco.worker.failures import TaskFailed
from servo.check import (
    accepted_values,
    expression,
    freshness,
    in_range,
    matches,
    not_null,
    references,
    row_count,
    schema_is,
    unique,
)
from servo.contract.manifest import Check, Code
from tests.kit.checked_files import ORDERS, Files, python


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            not_null("emial"),
            "names the column 'emial', which does not exist",
            "did you mean 'email'?",
        ),
        (unique("idd"), "names the column 'idd', which does not exist", "did you mean 'Id'?"),
        (not_null("zzz"), "names the column 'zzz'", "there are Id, email, amount, at"),
        (not_null("email.x"), "names the column 'email.x'", ""),
        (matches("id", "x"), "needs texts, and 'Id' is bigint", ""),
        (freshness("id", max_age=1), "needs timestamps or dates, and 'Id' is bigint", ""),
        (
            in_range("amount", min="x"),
            "compares 'amount' with at least x: that is not a number",
            "",
        ),
        (in_range("at", max="soon"), "that is neither a date nor a date-time", ""),
        (
            accepted_values("id", ["1", "x"]),
            "accepts 1, x for 'Id', bigint: one is not a number",
            "",
        ),
        (schema_is({"Id": "bigger"}), "expects 'Id' to be 'bigger', which is not a Spark type", ""),
        (references("id", "shop.orders.idd"), "names the column 'idd' of shop.orders", "'Id'?"),
        (references("id", "shop.orders.email"), "compares 'Id', bigint, with shop.orders", ""),
        (Check(kind="magic", name="m"), "is of the unknown kind 'magic'", "there are row_count"),
    ],
)
def test_a_check_that_does_not_suit_the_columns_is_misconfigured(
    files: Files, given: Check, message: str, hint: str
) -> None:
    ref = files.put("shop.orders", ORDERS)
    with pytest.raises(TaskFailed) as caught:
        files.results(ref, row_count(min=1), given, references=(ref,))
    info = caught.value.info
    assert (info.category, info.code) == ("configuration", "checks.invalid")
    assert info.message.startswith(f"shop.orders: the check {given.name!r} ")
    assert message in info.message
    assert hint in info.hint


def test_all_that_is_wrong_is_said_at_once(files: Files) -> None:
    with pytest.raises(TaskFailed, match=r"'emial'.*'idd'"):
        files.results(files.put("shop.orders", ORDERS), not_null("emial"), unique("idd"))


def test_nothing_is_evaluated_when_one_is_wrong(files: Files) -> None:
    called: list[Code] = []
    with pytest.raises(TaskFailed):
        files.results(
            files.put("shop.orders", ORDERS),
            python(lambda data: True),
            unique("x"),
            load=called.append,
        )
    assert called == []


def test_spark_sql_without_spark_is_an_error(files: Files) -> None:
    found = files.results(
        files.put("a.b", ORDERS), expression("abs(id) > 0"), matches("email", "(?i)a")
    )
    assert {(each.status, each.message) for each in found} == {
        ("error", "this check needs Spark, which this worker does not have")
    }
