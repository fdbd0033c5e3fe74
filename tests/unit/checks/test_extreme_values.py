"""Dates and timestamps that Python has no value for."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from arco.worker.checks.duck import DuckEngine
from servo.check import (
    accepted_values,
    expression,
    freshness,
    in_range,
    not_null,
    references,
    unique,
)
from servo.contract.manifest import Check
from tests.kit.checked_files import Files, told

LATE_DAY, LATE_US = 4_759_000, 1 << 61


def beyond() -> pa.Table:
    days = pa.array([1, LATE_DAY, None], pa.int32())
    return pa.table(
        {
            "n": [-1, -1, -1],
            "day": days.cast(pa.date32()),
            "at": pa.array([0, LATE_US, None], pa.timestamp("us", "UTC")),
            "local": pa.array([0, -LATE_US, None], pa.timestamp("us")),
            "days": pa.array([[1], [LATE_DAY], None], pa.list_(pa.int32())).cast(
                pa.list_(pa.date32())
            ),
        }
    )


def test_what_python_cannot_hold_is_compared_all_the_same(files: Files) -> None:
    found = files.results(
        files.put("a.b", beyond()),
        in_range("day", min="1970-01-01", max="9999-12-31"),
        in_range("at", max="2025-01-01"),
        in_range("local", min="0001-01-01"),
        in_range("n", max=0),
        not_null("day"),
        unique("day"),
        unique("day", "at"),
        freshness("at", max_age=60),
    )
    assert told(found) == {
        "in_range(day)": ("failed", "duckdb", 1),
        "in_range(at)": ("failed", "duckdb", 1),
        "in_range(local)": ("failed", "duckdb", 1),
        "in_range(n)": ("passed", "footer", 0),
        "not_null(day)": ("failed", "footer", 1),
        "unique(day)": ("passed", "duckdb", 0),
        "unique(day, at)": ("passed", "duckdb", 0),
        "freshness(at)": ("passed", "duckdb", None),
    }


def test_what_python_cannot_hold_is_shown_as_text(files: Files) -> None:
    bad, day = files.results(
        files.put("a.b", beyond()),
        in_range("n", min=0, name="n"),
        in_range("day", max="2025-01-01", name="day"),
    )
    shown = [json.loads(sample) for sample in bad.sample]
    assert {row["day"] for row in shown} == {"1970-01-02", "14999-09-13", None}
    (late,) = [json.loads(sample) for sample in day.sample]
    assert late["day"] == "14999-09-13"
    assert late["at"].startswith("75039-04-04 19:00:13")
    assert late["days"] == "[14999-09-13]"
    assert late["n"] == -1


def test_whatever_goes_wrong_with_a_sample_leaves_the_verdict(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(engine: DuckEngine, column: pa.Table) -> list[Any]:
        raise RuntimeError("cannot be shown")

    monkeypatch.setattr(DuckEngine, "listed", broken)
    (found,) = files.results(files.put("a.b", beyond()), in_range("n", min=0))
    assert (found.status, found.failing, found.sample) == ("failed", 3, ())


MAX_US, MAX_DAYS = (1 << 63) - 1, (1 << 31) - 1
"""Infinity for DuckDB and PostgreSQL; the negative of each is minus infinity."""


def moments(type: pa.DataType, *values: int | None) -> pa.Table:
    whole = pa.int32() if type == pa.date32() else pa.int64()
    return pa.table({"x": pa.array(values, whole).cast(type)})


INFINITE = [
    (pa.timestamp("us"), MAX_US),
    (pa.timestamp("us", "UTC"), MAX_US),
    (pa.date32(), MAX_DAYS),
]


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(("type", "greatest"), INFINITE)
@pytest.mark.parametrize(
    ("check", "failing"),
    [
        (in_range("x", max="2030-01-01"), 1),
        (in_range("x", min="1970-01-01"), 1),
        (in_range("x", min="1970-01-01", max="2030-01-01"), 2),
        (accepted_values("x", ["1970-01-01"]), 2),
        (accepted_values("x", ["2030-01-01"]), 3),
        (not_null("x"), 1),
        (unique("x"), 0),
        (references("x", "a.known.x"), 2),
        (expression("x = x"), 1),
    ],
)
def test_infinity_is_a_value_like_others(
    files: Files,
    type: pa.DataType,
    greatest: int,
    check: Check,
    failing: int,
    statistics: bool,
) -> None:
    ref = files.put("a.b", moments(type, greatest, -greatest, 0, None), write_statistics=statistics)
    known = files.put("a.known", moments(type, 0))
    (found,) = files.results(ref, check, references=(known,))
    status = "failed" if failing else "passed"
    assert (found.status, found.failing) == (status, failing), found.message


@pytest.mark.parametrize(("type", "greatest"), INFINITE)
def test_infinity_has_no_age(files: Files, type: pa.DataType, greatest: int) -> None:
    (late,) = files.results(
        files.put("a.b", moments(type, 0, greatest)), freshness("x", max_age="1d")
    )
    (early,) = files.results(
        files.put("a.b", moments(type, -greatest)), freshness("x", max_age="1d")
    )
    (far,) = files.results(
        files.put("a.b", moments(type, greatest - 1)), freshness("x", max_age="1d")
    )
    assert (late.status, late.message) == ("error", "the newest x is infinity, which has no age")
    assert (early.status, far.status) == ("failed", "passed")


def test_an_infinite_value_is_shown_in_a_sample(files: Files) -> None:
    for type, greatest in INFINITE:
        (found,) = files.results(
            files.put("a.b", moments(type, greatest)), in_range("x", max="2030-01-01")
        )
        assert [json.loads(each)["x"] for each in found.sample] == ["infinity"]
