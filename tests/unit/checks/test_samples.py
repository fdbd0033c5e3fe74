"""Samples of failing rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from arco.worker.checks import duck
from arco.worker.checks.duck import DuckEngine
from arco.worker.secrets import Redactor
from servo.check import (
    accepted_values,
    in_range,
    unique,
)
from servo.contract.task import InputRef
from tests.kit.checked_files import ORDERS, Files


def test_samples_are_few_and_mask_what_is_personal_or_secret(files: Files) -> None:
    table = pa.table(
        {
            "Email": [f"{n}@x.example" for n in range(9)],
            "note": ["the hunter22 is out"] * 9,
            "n": [-1] * 9,
        }
    )
    (found,) = files.results(
        files.put("a.b", table),
        in_range("n", min=0),
        pii=frozenset({"email"}),
        redact=Redactor(["hunter22"]),
    )
    row = '{"n": -1, "Email": "***", "note": "the *** is out"}'
    assert (found.failing, found.sample) == (9, (row,) * 5)


@pytest.mark.parametrize("pii", ["person.email", "Person.mail.work", "person", "other"])
def test_a_column_with_something_personal_in_it_is_masked(files: Files, pii: str) -> None:
    table = pa.table({"Person": [{"email": "a@x", "mail": {"work": "b@x"}}, None], "n": [-1, -1]})
    (found,) = files.results(
        files.put("a.b", table), in_range("n", min=0), pii=frozenset({pii.lower()})
    )
    whole = {"email": "a@x", "mail": {"work": "b@x"}}
    assert [json.loads(each)["Person"] for each in found.sample] == [
        whole if pii == "other" else "***",
        None,
    ]


@pytest.mark.parametrize(
    ("around", "message"),
    [
        ({}, "Conversion Error: Could not convert 'a@x'"),
        ({"pii": frozenset({"email"})}, "ConversionException"),
        ({"references": (InputRef(asset="a.c", pii=("email",)),)}, "ConversionException"),
    ],
)
def test_what_an_engine_says_of_a_personal_value_is_not_shown(
    files: Files, monkeypatch: pytest.MonkeyPatch, around: Any, message: str
) -> None:
    def broken(engine: DuckEngine, sql: str, *, without: str = "") -> Any:
        with duck.answered():
            raise duckdb.ConversionException("Conversion Error: Could not convert 'a@x'\nat 1")

    monkeypatch.setattr(DuckEngine, "query", broken)
    ref = files.put("a.b", ORDERS)
    for given in (accepted_values("email", ["x"]), unique("email")):
        (found,) = files.results(ref, given, **around)
        assert (found.status, found.message) == ("error", message)


def test_samples_are_short_and_still_json(files: Files) -> None:
    wide = {f"c{n:02}": ["é" * 5_000] for n in range(20)}
    (found,) = files.results(files.put("a.b", pa.table({**wide, "n": [-1]})), in_range("n", min=0))
    (sample,) = found.sample
    assert len(sample.encode()) <= 1024
    shown = json.loads(sample)
    assert list(shown)[:2] == ["n", "c00"]
    assert shown["c00"] == "é" * 199 + "…"


def test_samples_of_every_type_are_json(files: Files) -> None:
    table = pa.table(
        {
            "n": [-1],
            "nan": [float("nan")],
            "raw": [b"\xff"],
            "day": [date(2025, 1, 1)],
            "at": [datetime(2025, 1, 1, tzinfo=UTC)],
            "none": pa.array([None], pa.string()),
            "some": [[1, None]],
            "pairs": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "inside": [{"x": {"y": 1}}],
        }
    )
    (found,) = files.results(files.put("a.b", table), in_range("n", min=0))
    shown = json.loads(found.sample[0])
    pairs = shown.pop("pairs")
    assert pairs in ({"a": 1}, [["a", 1]])
    assert shown == {
        "n": -1,
        "nan": "nan",
        "raw": "ff",
        "day": "2025-01-01",
        "at": "2025-01-01T00:00:00+00:00",
        "none": None,
        "some": [1, None],
        "inside": {"x": {"y": 1}},
    }
