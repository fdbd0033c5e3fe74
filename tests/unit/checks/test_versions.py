"""Checks over several versions, types and partitions."""

from __future__ import annotations

import contextlib
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arco.machine import Machine
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.worker.checks import CheckContext, Subject, duck
from arco.worker.checks.duck import DuckEngine
from arco.worker.checks.subject_columns import Columns
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
    row_count_change,
    schema_is,
    unique,
)
from servo.contract.partition import PartitionKey
from servo.contract.task import InputRef
from tests.kit.checked_files import ORDERS, Files, column, joined, told, versions
from tests.kit.clocks import SimClock


def test_columns_are_found_whatever_their_case_and_inside_of_structs(files: Files) -> None:
    table = pa.table({"Place": [{"City": "x"}, {"City": None}, None]})
    found = files.results(
        files.put("a.b", table),
        not_null("PLACE"),
        not_null("place.city"),
        accepted_values("place.CITY", ["x"]),
    )
    assert told(found) == {
        "not_null(PLACE)": ("failed", "duckdb", 1),
        "not_null(place.city)": ("failed", "footer", 2),
        "accepted_values(place.CITY)": ("passed", "duckdb", 0),
    }


def test_versions_are_one_table_with_their_partitions_as_columns(files: Files) -> None:
    first = files.put(
        "a.b", pa.table({"x": pa.array([1, 2], pa.int32())}), partition="day=d:2025-01-01,n=i:1"
    )
    second = files.put(
        "a.b", pa.table({"y": ["a"], "x": pa.array([1 << 40])}), partition="day=d:2025-01-02,n=i:2"
    )
    found = files.results(
        joined(first, second),
        row_count(min=3, max=3),
        not_null("y"),
        in_range("day", min=date(2025, 1, 1), max=date(2025, 1, 2)),
        in_range("day", max=date(2025, 1, 1), name="too early"),
        accepted_values("n", ["1"]),
        unique("day", "n"),
        in_range("x", max=5),
    )
    assert told(found) == {
        "row_count": ("passed", "footer", None),
        "not_null(y)": ("failed", "footer", 2),
        "in_range(day)": ("passed", "footer", 0),
        "too early": ("failed", "duckdb", 1),
        "accepted_values(n)": ("failed", "duckdb", 1),
        "unique(day, n)": ("failed", "duckdb", 1),
        "in_range(x)": ("failed", "duckdb", 1),
    }
    assert json.loads(found[3].sample[0])["day"] == "2025-01-02"


@pytest.mark.parametrize("statistics", [True, False])
def test_versions_of_other_types_are_compared_as_the_widest_of_them(
    files: Files, statistics: bool
) -> None:
    one, other = column(pa.int32(), 1), column(pa.float64(), 2.4, 1.7)
    options = {"write_statistics": statistics}
    ref = joined(*(files.put("a.b", each, partition="n=i:1", **options) for each in (one, other)))
    for given in (ref, joined(*reversed([joined_one(ref, at) for at in (0, 1)]))):
        found = files.results(
            given, in_range("x", max="2"), accepted_values("x", ["1", "2"]), unique("x")
        )
        assert told(found) == {
            "in_range(x)": ("failed", "duckdb", 1),
            "accepted_values(x)": ("failed", "duckdb", 2),
            "unique(x)": ("passed", "duckdb", 0),
        }
        assert [json.loads(each)["x"] for each in found[0].sample] == [2.4]


def joined_one(ref: InputRef, at: int) -> InputRef:
    return InputRef(asset=ref.asset, materializations=ref.materializations[at : at + 1])


@pytest.mark.parametrize(
    ("older", "newer", "accepted", "failing"),
    [
        (column(pa.float32(), 1.5), column(pa.float64(), 0.1), ["1.5", "0.1"], 0),
        (column(pa.int8(), 1), column(pa.float32(), 0.1), ["1", "0.1"], 1),
        (column(pa.int32(), 1), column(pa.int64(), 1 << 40), ["1", str(1 << 40)], 0),
        (column(pa.uint8(), 200), column(pa.int8(), -100), ["200", "-100"], 0),
        (
            column(pa.decimal128(10, 2), Decimal("1.00")),
            column(pa.decimal128(10, 4), Decimal("1.0049")),
            ["1"],
            1,
        ),
        (
            column(pa.decimal128(5, 2), Decimal("0.25")),
            column(pa.int64(), (1 << 63) - 1),
            ["0.25", str((1 << 63) - 1)],
            0,
        ),
        (column(pa.string(), "a"), column(pa.large_string(), "b"), ["a", "b"], 0),
        (
            column(pa.dictionary(pa.int8(), pa.string()), "a"),
            column(pa.string(), "b", "c"),
            ["a", "b"],
            1,
        ),
    ],
    ids=lambda given: str(given.schema.field("x").type) if isinstance(given, pa.Table) else "",
)
def test_no_value_changes_with_the_types_of_other_versions(
    files: Files, older: pa.Table, newer: pa.Table, accepted: list[str], failing: int
) -> None:
    for tables in ((older, newer), (newer, older)):
        (found,) = files.results(versions(files, *tables), accepted_values("x", accepted))
        assert (found.method, found.failing, found.message[:1]) == (
            "duckdb",
            failing,
            "x" if failing else "",
        )


def test_fields_of_structs_are_matched_by_name(files: Files) -> None:
    older = pa.table({"s": pa.array([{"a": 1, "b": "x"}])})
    newer = pa.table({"s": pa.array([{"c": 0.5, "b": "y", "a": 2}])})
    found = files.results(
        versions(files, older, newer),
        accepted_values("s.b", ["x"]),
        not_null("s.c"),
        in_range("s.a", min=1, max=1),
    )
    assert [each.failing for each in found] == [1, 1, 1]
    assert json.loads(found[0].sample[0])["s"] == {"a": 2, "b": "y", "c": 0.5}


def test_zones_do_not_keep_versions_apart(files: Files) -> None:
    noon = pa.array([datetime(2025, 7, 1, 12)], pa.timestamp("us", "UTC"))
    zones = ("UTC", "Europe/Berlin", "+02:00")
    tables = [pa.table({"at": noon.cast(pa.timestamp("us", zone))}) for zone in zones]
    found = files.results(
        versions(files, *tables), unique("at"), in_range("at", max="2025-07-01T12:00:00Z")
    )
    assert [each.failing for each in found] == [2, 0]


@pytest.mark.parametrize(
    ("older", "newer", "why"),
    [
        ({"x": [1]}, {"x": [0.5]}, "column 'x' is bigint in one and double in another"),
        ({"x": [1]}, {"x": ["a"]}, "column 'x' is bigint in one and string in another"),
        ({"ID": [1]}, {"id": [1]}, "the columns 'ID' and 'id' differ only in case"),
        ({"n": ["a"]}, {"x": [1]}, "column 'n' is string in one and bigint in another"),
    ],
)
def test_versions_that_spark_would_not_read_together_are_refused(
    files: Files, older: Any, newer: Any, why: str
) -> None:
    with pytest.raises(TaskFailed) as caught:
        files.results(versions(files, pa.table(older), pa.table(newer)), row_count(min=1))
    assert caught.value.info.code == "input.schema"
    assert caught.value.info.message == f"the versions of a.b have incompatible columns: {why}"


@pytest.mark.parametrize("name", ["x", "file_index", "FILE_INDEX", "filename"])
@pytest.mark.parametrize("near", [True, False])
def test_each_file_has_the_dimensions_of_its_partition(
    tmp_path: Path, name: str, near: bool
) -> None:
    files = Files(LocalStore(tmp_path / "a[1]*") if near else MemoryStore(SimClock()))
    days = [date(2025, 1, 1) + timedelta(days=at) for at in range(9)]
    refs = [
        files.put(
            "a.b",
            *[pa.table({name: [at]})] * (1 + at % 2),
            partition=str(PartitionKey({"day": day, "word": "" if at else "é'", "z": None})),
        )
        for at, day in enumerate(days)
    ]
    found = files.results(
        joined(*reversed(refs)),
        in_range("day", min="2025-01-03", name="early"),
        accepted_values("word", [""], name="quoted"),
        unique("day", name="repeated"),
        unique(name, "day", name="both"),
        expression(f"z IS NULL AND {name} < 8", name="last"),
    )
    assert [each.failing for each in found] == [3, 1, 4, 4, 1]
    assert [json.loads(each)["day"] for each in found[4].sample] == ["2025-01-09"]
    assert {json.loads(each)["day"] for each in found[0].sample} == {"2025-01-01", "2025-01-02"}


def test_a_dimension_may_have_the_name_of_duckdbs_own_column(files: Files) -> None:
    refs = [files.put("a.b", pa.table({"x": [n]}), partition=f"file_index=i:{n}") for n in (7, 8)]
    (found,) = files.results(joined(*refs), expression("file_index = x"))
    assert (found.method, found.failing) == ("duckdb", 0)


def test_many_partitions_are_one_scan(files: Files) -> None:
    refs = [files.put("a.b", pa.table({"x": [n]}), partition=f"n=i:{n}") for n in range(30)]
    subject = Subject.read(files.store, joined(*refs))
    with contextlib.closing(
        DuckEngine(subject, Columns(subject), CheckContext(files.store))
    ) as engine:
        relation = engine.table_of(subject)
        assert relation.count("read_parquet") == 1
        assert engine.table_of(subject) is relation


def test_paths_are_no_patterns_and_tell_no_columns(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path / "a[1]*?b" / "k=v"))
    (found,) = files.results(files.put("a.b", pa.table({"x": [1.5]})), in_range("x", max=1))
    assert found.sample == ('{"x": 1.5}',)


def test_duckdb_takes_what_this_machine_has(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "machine", lambda: Machine(cores=3, memory_bytes=1 << 30))
    subject = Subject.read(files.store, files.put("a.b", ORDERS))
    with contextlib.closing(
        DuckEngine(subject, Columns(subject), CheckContext(files.store))
    ) as engine:
        asked = "current_setting('threads'), current_setting('memory_limit')"
        assert engine.query(f"SELECT {asked}") == [(3, "256.0 MiB")]


def test_small_data_is_fetched_from_a_distant_store() -> None:
    files = Files(MemoryStore(SimClock()))
    ref, other = files.put("shop.orders", ORDERS), files.put("shop.known", pa.table({"k": [1, 5]}))
    found = files.results(ref, unique("id"), references("id", "shop.known.k"), references=(other,))
    assert told(found) == {
        "unique(id)": ("failed", "duckdb", 1),
        "references(id)": ("failed", "duckdb", 2),
    }


EVERY = (
    row_count(min=0),
    not_null("id"),
    unique("id"),
    accepted_values("email", ["x"]),
    in_range("amount", min=5),
    matches("email", "x"),
    references("id", "shop.orders.id"),
    schema_is({"Id": "bigint", "email": "string", "amount": "decimal(10,2)", "at": "timestamp"}),
    row_count_change(min_percent=-100),
)


def test_no_rows_pass_but_are_not_fresh(files: Files) -> None:
    ref = files.put("shop.orders", ORDERS.slice(0, 0))
    found = files.results(ref, *EVERY, freshness("at", max_age=60), references=(ref,))
    assert [each.status for each in found] == ["passed"] * len(EVERY) + ["failed"]


def test_no_files_are_an_error_for_checks_that_look_at_columns(files: Files) -> None:
    ref = InputRef(asset="shop.orders")
    found = files.results(ref, row_count(min=1), not_null("id"))
    assert [(each.status, each.message) for each in found] == [
        ("failed", "there are 0 rows"),
        ("error", "there is no data to check"),
    ]
