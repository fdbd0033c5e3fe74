"""What people type: times, columns, tags."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from arco.catalog.events import Column
from arco.cli.catalog_options import ClearableField, DetailOptions, column, entries
from arco.cli.run_options import PlanOptions
from arco.errors import Invalid
from arco.times import iso, parse_time

NOW = datetime(2026, 1, 31, 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-30T10:00:00Z", datetime(2026, 1, 30, 10)),
        ("2026-01-30T10:00+02:00", datetime(2026, 1, 30, 8)),
        ("2026-01-30 10:00", datetime(2026, 1, 30, 10)),
        ("2026-01-30", datetime(2026, 1, 30)),
        ("90s", datetime(2026, 1, 31, 11, 58, 30)),
        ("2h", datetime(2026, 1, 31, 10)),
        ("3d ago", datetime(2026, 1, 28, 12)),
    ],
)
def test_time_is_read_as_utc(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "3 fortnights", "99999999d", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_time(text, NOW)


def test_time_is_shown_with_microseconds_and_z() -> None:
    assert iso(NOW) == "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id:bigint", Column(name="id", type="bigint")),
        ("id:bigint:not_null", Column(name="id", type="bigint", nullable=False)),
        ("s:struct<a:int,b:string>", Column(name="s", type="struct<a:int,b:string>")),
        ("s:map<int,int>:not_null", Column(name="s", type="map<int,int>", nullable=False)),
    ],
)
def test_column_is_name_type_and_perhaps_not_null(text: str, expected: Column) -> None:
    assert column(text) == expected


@pytest.mark.parametrize("text", ["", "id", "id:", ":int", "id:not_null", "id::not_null"])
def test_what_is_no_column_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a column"):
        column(text)


def test_entry_may_hold_more_equal_signs() -> None:
    assert entries(["a=b=c", "d="], "--tag") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("texts", [["a"], ["=b"], ["a=1", "a=2"]])
def test_what_is_no_entry_is_refused(texts: list[str]) -> None:
    with pytest.raises(Invalid):
        entries(texts, "--tag")


def test_cleared_fields_become_empty_and_the_rest_stays() -> None:
    changes = DetailOptions(tag=["a=b"]).changes([ClearableField.owners])
    assert (changes["owners"], changes["tags"], changes["properties"]) == ([], {"a": "b"}, None)
    with pytest.raises(Invalid, match="both given and cleared"):
        DetailOptions(owner=["ana"]).changes([ClearableField.owners])


def test_file_of_ranges_without_any_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.txt"
    file.write_text("date=latest\n\n")
    request = PlanOptions(["*"], [f"@{file}"]).request(10)
    assert request.partitions == ("date=latest",)
    file.write_text(" \n")
    with pytest.raises(Invalid, match="the file has no ranges"):
        PlanOptions(["*"], [f"@{file}"]).request(10)
