"""Checks of written files, without Spark."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.spark.settings import Machine
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from arco.worker.checks import Around, Subject, duck, evaluate, limits
from arco.worker.checks.columns import Columns
from arco.worker.checks.duck import DuckEngine
from arco.worker.failures import Interrupted, TaskFailed, TaskTimeout, failed
from arco.worker.secrets import Redactor
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
from servo.context import AssetIn
from servo.contract.manifest import Check, Code, Gating
from servo.contract.partition import PartitionKey
from servo.contract.task import CheckResult, InputRef, MaterializationRef
from tests.kit.clocks import SimClock

ORDERS = pa.table(
    {
        "Id": [1, 2, 2, None, 5],
        "email": ["a@x.example", "b@x.example", "c", None, "e@x.example"],
        "amount": pa.array([1, 2, 3, 4, None], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2025, 1, day) for day in range(1, 6)], pa.timestamp("us", "UTC")),
    }
)


class Files:
    """Versions of assets in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._count = 0

    def put(self, asset: str, *tables: pa.Table, partition: str = "", **options: Any) -> InputRef:
        self._count += 1
        folder = f"data/{asset}/{partition or '_'}/{self._count}"
        for at, table in enumerate(tables):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, **options)
            self.store.put(f"{folder}/part-{at}.parquet", sink.getvalue().to_pybytes())
        version = MaterializationRef(
            partition=partition, materialization_id=str(self._count), path=folder
        )
        return InputRef(asset=asset, materializations=(version,))

    def results(self, ref: InputRef, *checks: Check, **around: Any) -> list[CheckResult]:
        subject = Subject.read(self.store, ref)
        return list(evaluate(checks, subject, Around(self.store, **around)))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(LocalStore(tmp_path))


def joined(*refs: InputRef) -> InputRef:
    versions = tuple(version for ref in refs for version in ref.materializations)
    return InputRef(asset=refs[0].asset, materializations=versions)


def told(results: Sequence[CheckResult]) -> dict[str, tuple[Any, ...]]:
    return {each.name: (each.status, each.method, each.failing) for each in results}


# -- results ------------------------------------------------------------------------------


def test_a_result_says_what_was_expected_and_what_was_found(files: Files) -> None:
    (found,) = files.results(files.put("shop.orders", ORDERS), unique("id", severity="critical"))
    assert msgspec.structs.replace(found, wall_ms=0, sample=()) == CheckResult(
        name="unique(id)",
        passed=False,
        severity="critical",
        message="1 of 5 rows repeat the Id of another row",
        kind="unique",
        columns=("id",),
        status="failed",
        action="fail_run",
        expected="no two rows with the same Id",
        actual="1 of 5 rows",
        rows=5,
        failing=1,
        method="duckdb",
    )
    assert {json.loads(each)["Id"] for each in found.sample} == {2}


def test_results_keep_the_order_of_the_checks(files: Files) -> None:
    checks = [
        unique("id"),
        row_count(min=1),
        matches("email", ".+@.+"),
        not_null("id"),
        in_range("amount", min=1, max=4),
    ]
    found = files.results(files.put("shop.orders", ORDERS), *checks)
    assert told(found) == {
        "unique(id)": ("failed", "duckdb", 1),
        "row_count": ("passed", "footer", None),
        "matches(email)": ("failed", "duckdb", 1),
        "not_null(id)": ("failed", "footer", 1),
        "in_range(amount)": ("passed", "footer", 0),
    }
    assert [each.name for each in found] == [check.name for check in checks]


@pytest.mark.parametrize(
    ("gating", "severity", "action"),
    [
        (Gating(), "info", "continue"),
        (Gating(), "error", "block"),
        (Gating(preset="quarantine"), "critical", "quarantine"),
        (Gating(warning="fail_task"), "warning", "fail_task"),
    ],
)
def test_gating_turns_a_failure_into_an_action(
    files: Files, gating: Gating, severity: Any, action: str
) -> None:
    ref = files.put("shop.orders", ORDERS)
    bad, good = files.results(
        ref,
        row_count(max=1, severity=severity, name="bad"),
        row_count(max=9, severity=severity, name="good"),
        gating=gating,
    )
    assert (bad.action, good.action) == (action, "continue")


def test_a_check_of_an_input_says_which(files: Files) -> None:
    ref = msgspec.structs.replace(files.put("raw.orders", ORDERS), parameter="yesterday")
    before, after = files.results(ref, row_count(min=1, phase="before"), row_count(min=1))
    assert (before.phase, before.input, before.parameter) == ("before", "raw.orders", "yesterday")
    assert (after.phase, after.input, after.parameter) == ("after", "", "")


# -- from the footers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (row_count(min=5, max=5), "passed", ""),
        (row_count(min=6), "failed", "there are 5 rows"),
        (row_count(max=4), "failed", "there are 5 rows"),
    ],
)
def test_rows_are_counted_by_the_footers(
    files: Files, given: Check, status: str, message: str
) -> None:
    (found,) = files.results(files.put("shop.orders", ORDERS), given)
    assert (found.status, found.message, found.method) == (status, message, "footer")


@pytest.mark.parametrize(
    ("previous", "bounds", "status", "actual"),
    [
        (10, (-50, 0), "passed", "-50.0%"),
        (10, (-49, None), "failed", "-50.0%"),
        (4, (None, 25), "passed", "+25.0%"),
        (3, (None, 66), "failed", "+66.7%"),
        (None, (0, 0), "passed", ""),
        (0, (0, 0), "passed", ""),
    ],
)
def test_rows_are_compared_with_the_version_before(
    files: Files, previous: int | None, bounds: Any, status: str, actual: str
) -> None:
    given = row_count_change(min_percent=bounds[0], max_percent=bounds[1])
    (found,) = files.results(files.put("shop.orders", ORDERS), given, previous=previous)
    assert (found.status, found.actual, found.method) == (status, actual, "catalog")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["bigint", "string", "decimal(10,2)", "timestamp"], ""),
        (["LONG", "varchar(20)", "decimal( 10 , 2 )", "timestamp_ltz"], ""),
        (["int", "string", "numeric(10,2)", "timestamp"], "'Id' is bigint and not int"),
    ],
)
def test_a_schema_is_compared_in_sparks_terms(files: Files, types: list[str], message: str) -> None:
    given = schema_is(dict(zip(ORDERS.column_names, types, strict=True)))
    (found,) = files.results(files.put("shop.orders", ORDERS), given)
    assert (found.message, found.passed, found.method) == (message, not message, "footer")


def test_a_schema_may_name_the_partition_or_not(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [1]}), partition="day=d:2025-01-01")
    without, with_it, other = files.results(
        ref,
        schema_is({"x": "bigint"}, name="without"),
        schema_is({"x": "bigint", "day": "date"}, name="with"),
        schema_is({"day": "date", "x": "bigint"}, name="other"),
    )
    assert [without.passed, with_it.passed, other.passed] == [True, True, False]
    assert other.message == "'day' is missing"


def test_columns_in_another_order_are_another_schema(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [1], "y": ["a"]}))
    (found,) = files.results(ref, schema_is({"y": "string", "x": "bigint"}))
    assert found.message == "the columns are in another order"


def test_the_schema_of_every_version_is_compared(files: Files) -> None:
    tables = [pa.table({"x": pa.array([1], type)}) for type in (pa.int32(), pa.float64())]
    refs = [files.put("a.b", each, partition=f"n=i:{at}") for at, each in enumerate(tables)]
    wanted = schema_is({"x": "int"})
    for given in (joined(*refs), joined(*reversed(refs))):
        (found,) = files.results(given, wanted)
        message = "'x' is double and not int, in partition 'n=i:1'"
        assert (found.message, found.actual) == (message, "x double")
    (found,) = files.results(joined(refs[0], refs[0]), wanted)
    assert (found.passed, found.actual) == (True, "x int")
    plain = [files.put("a.b", each) for each in tables]
    (found,) = files.results(joined(*plain), wanted)
    path = plain[1].materializations[0].path
    assert found.message == f"'x' is double and not int, in {path}"


def test_a_version_may_hold_its_partition_and_another_not(files: Files) -> None:
    held = files.put("a.b", pa.table({"x": [1], "n": [1]}), partition="n=i:1")
    added = files.put("a.b", pa.table({"x": [1]}), partition="n=i:2")
    (found,) = files.results(joined(held, added), schema_is({"x": "bigint", "n": "bigint"}))
    assert found.passed


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(("hours", "status"), [(24, "passed"), (25, "failed")])
def test_freshness_is_the_age_of_the_newest(
    files: Files, statistics: bool, hours: int, status: str
) -> None:
    clock = SimClock()
    newest = clock.now() - timedelta(hours=hours)
    at = pa.array([newest - timedelta(days=9), newest, None], pa.timestamp("us", tz="UTC"))
    ref = files.put("a.b", pa.table({"at": at}), write_statistics=statistics)
    (found,) = files.results(ref, freshness("AT", max_age="1d"), clock=clock)
    assert (found.status, found.method) == (status, "footer" if statistics else "duckdb")
    assert found.expected == "at most 1d old"
    assert found.actual == ("1d old" if hours == 24 else "1d 1h old")


def test_nothing_is_not_fresh(files: Files) -> None:
    at = pa.array([None], pa.timestamp("us"))
    (found,) = files.results(files.put("a.b", pa.table({"at": at})), freshness("at", max_age=60))
    assert (found.status, found.message) == ("failed", "there is no value to tell an age from")


def test_bounds_of_floats_prove_nothing(files: Files) -> None:
    ref = files.put("a.b", pa.table({"x": [0.5, float("nan")]}))
    for given in (in_range("x", min=0), in_range("x", max=1)):
        (found,) = files.results(ref, given)
        assert (found.method, found.failing) == ("duckdb", 1)


NAN = float("nan")


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "given",
    [
        in_range("x", min=0),
        in_range("x", max=5),
        in_range("x", min=0, max=2),
        in_range("s.x", max=5),
        in_range("small", max=5),
        accepted_values("x", ["1", "2"]),
        expression("x <= 5"),
        expression("NOT (x > 5)"),
        unique("x"),
    ],
    ids=lambda given: given.name,
)
def test_nan_is_counted_and_shown_whatever_the_statistics_say(
    files: Files, given: Check, statistics: bool
) -> None:
    x = pa.array([1.0, NAN, 2.0, NAN, None])
    table = pa.table(
        {"x": x, "small": x.cast(pa.float32()), "s": pa.StructArray.from_arrays([x], ["x"])}
    )
    (found,) = files.results(files.put("a.b", table, write_statistics=statistics), given)
    assert (found.status, found.method) == ("failed", "duckdb")
    shown = [json.loads(sample)["x"] for sample in found.sample]
    if given.kind == "expression":  # a null is not true either
        assert (found.failing, shown.count("nan"), shown.count(None)) == (3, 2, 1)
    else:
        assert (found.failing, shown) == (1 if given.kind == "unique" else 2, ["nan", "nan"])


# -- days and moments that Python has no value for -----------------------------------------


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

    monkeypatch.setattr(DuckEngine, "_listed", broken)
    (found,) = files.results(files.put("a.b", beyond()), in_range("n", min=0))
    assert (found.status, found.failing, found.sample) == ("failed", 3, ())


# -- which data ---------------------------------------------------------------------------


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


def versions(files: Files, *tables: pa.Table) -> InputRef:
    """Of one asset, each with its partition as a column of its own."""
    return joined(*(files.put("a.b", t, partition=f"n=i:{at}") for at, t in enumerate(tables)))


def column(type: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"x": pa.array(values, type), "n": pa.array([None] * len(values), pa.int64())})


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
            "1" if failing else "",
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
    assert caught.value.info.message == f"the versions of a.b do not go together: {why}"


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
    with contextlib.closing(DuckEngine(subject, Columns(subject), Around(files.store))) as engine:
        relation = engine._table(subject)
        assert relation.count("read_parquet") == 1
        assert engine._table(subject) is relation


def test_paths_are_no_patterns_and_tell_no_columns(tmp_path: Path) -> None:
    files = Files(LocalStore(tmp_path / "a[1]*?b" / "k=v"))
    (found,) = files.results(files.put("a.b", pa.table({"x": [1.5]})), in_range("x", max=1))
    assert found.sample == ('{"x": 1.5}',)


def test_duckdb_takes_what_this_machine_has(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "machine", lambda: Machine(cores=3, memory_bytes=1 << 30))
    subject = Subject.read(files.store, files.put("a.b", ORDERS))
    with contextlib.closing(DuckEngine(subject, Columns(subject), Around(files.store))) as engine:
        asked = "current_setting('threads'), current_setting('memory_limit')"
        assert engine._query(f"SELECT {asked}") == [(3, "256.0 MiB")]


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
        ("error", "there is no data to look at"),
    ]


# -- references ---------------------------------------------------------------------------


def test_orphans_are_found_and_shown(files: Files) -> None:
    ref, known = files.put("shop.orders", ORDERS), files.put("shop.known", pa.table({"K": [1, 2]}))
    (found,) = files.results(ref, references("id", "shop.known.k"), references=(known,))
    assert (found.failing, found.expected) == (1, "in shop.known.K")
    assert found.message == "1 of 5 rows have a value of Id that is not in shop.known.K"
    assert [json.loads(each)["Id"] for each in found.sample] == [5]


def test_a_reference_may_be_the_partition_of_the_other(files: Files) -> None:
    ref = files.put("a.b", pa.table({"region": ["eu", "us", None]}))
    known = files.put("a.regions", pa.table({"x": [1]}), partition="region=s:eu")
    (found,) = files.results(ref, references("region", "a.regions.region"), references=(known,))
    assert found.failing == 1


def test_columns_of_any_name_do_not_get_in_the_way_of_references(files: Files) -> None:
    names = ["_k", "_key", "__K"]
    table = pa.table({**{name: ["k1", "k2", "k1"] for name in names}, "cid": ["no", "k2", None]})
    known = files.put("a.known", pa.table({"id": ["k1", "k2"], "_key": ["no", "no"]}))
    (found,) = files.results(
        files.put("a.b", table), references("cid", "a.known.id"), references=(known,)
    )
    assert (found.status, found.failing) == ("failed", 1)
    row = {"cid": "no", "_k": "k1", "_key": "k1", "__K": "k1"}
    assert [json.loads(each) for each in found.sample] == [row]


@pytest.mark.parametrize("known", [(), (InputRef(asset="shop.known"),)])
def test_without_the_other_asset_a_reference_is_an_error(files: Files, known: Any) -> None:
    ref = files.put("shop.orders", ORDERS)
    (found,) = files.results(ref, references("id", "shop.known.k"), references=known)
    assert (found.status, found.message) == ("error", "shop.known has no data yet")
    assert found.action == "block"


# -- checks that cannot be meant ----------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            not_null("emial"),
            "names the column 'emial', which is not there",
            "did you mean 'email'?",
        ),
        (unique("idd"), "names the column 'idd', which is not there", "did you mean 'Id'?"),
        (not_null("zzz"), "names the column 'zzz'", "there are Id, email, amount, at"),
        (not_null("email.x"), "names the column 'email.x'", ""),
        (matches("id", "x"), "needs texts, and 'Id' is bigint", ""),
        (freshness("id", max_age=1), "needs timestamps or dates, and 'Id' is bigint", ""),
        (in_range("amount", min="x"), "compares 'amount' with at least x: that is no number", ""),
        (in_range("at", max="soon"), "that is neither a date nor a date-time", ""),
        (accepted_values("id", ["1", "x"]), "accepts 1, x for 'Id', bigint: one is no number", ""),
        (schema_is({"Id": "bigger"}), "expects 'Id' to be 'bigger', which is no type", ""),
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
        ("error", "this needs Spark, which this worker does not have")
    }


# -- samples ------------------------------------------------------------------------------


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
        with duck._answered():
            raise duckdb.ConversionException("Conversion Error: Could not convert 'a@x'\nat 1")

    monkeypatch.setattr(DuckEngine, "_query", broken)
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


# -- Python -------------------------------------------------------------------------------


def python(function: Callable[[AssetIn], Any], name: str = "mine", timeout_s: int = 0) -> Check:
    return Check(
        kind="python",
        name=name,
        code=Code(module="m", name=name, file=Path(__file__).name),
        timeout_s=timeout_s,
    )


def said(files: Files, function: Callable[[AssetIn], Any], **around: Any) -> CheckResult:
    timeout_s = around.pop("timeout", 0)
    (found,) = files.results(
        files.put("a.b", pa.table({"x": [1, 2]})),
        python(function, timeout_s=timeout_s),
        load=lambda code: function,
        **around,
    )
    return found


@pytest.mark.parametrize(
    ("returned", "status", "message"),
    [
        (True, "passed", ""),
        ((True, "fine"), "passed", "fine"),
        (False, "failed", "it returned False"),
        ((False, "odd"), "failed", "odd"),
        (None, "error", "it returned a NoneType; return a bool, or a bool and a message"),
        ((1, "x"), "error", "it returned a tuple; return a bool, or a bool and a message"),
    ],
)
def test_a_function_says_whether_the_data_is_good(
    files: Files, returned: Any, status: str, message: str
) -> None:
    found = said(files, lambda data: returned)
    assert (found.status, found.message, found.method) == (status, message, "python")


def test_a_function_reads_the_data_through_its_input(files: Files) -> None:
    def reader(data: AssetIn, shape: str, columns: tuple[str, ...] = ()) -> Any:
        return data.asset, shape, columns, len(data.materializations)

    def look(data: AssetIn) -> Any:
        both = data.arrow(), data.arrow(columns=["x"])
        return both == (("a.b", "arrow", (), 1), ("a.b", "arrow", ("x",), 1)), ""

    assert said(files, look, reader=reader).passed


def raises(data: AssetIn) -> bool:
    raise ValueError("no hunter22 here")


def test_an_exception_is_an_error_with_its_line(files: Files) -> None:
    found = said(files, raises, redact=Redactor(["hunter22"]))
    line = raises.__code__.co_firstlineno + 1
    assert found.status == "error"
    assert found.message == f"ValueError: no *** here ({Path(__file__).name}:{line})"


def test_an_exit_is_an_error_too(files: Files) -> None:
    def leaves(data: AssetIn) -> bool:
        raise SystemExit(3)

    assert said(files, leaves).message.startswith("SystemExit: 3")


def test_data_that_cannot_be_read_is_no_verdict(files: Files) -> None:
    def reader(data: AssetIn, shape: str) -> Any:
        raise failed("infrastructure", "input.corrupt", "broken")

    with pytest.raises(TaskFailed, match="broken"):
        said(files, lambda data: data.arrow(), reader=reader)


def test_a_function_that_takes_too_long_is_an_error(files: Files) -> None:
    def spin(data: AssetIn) -> bool:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            pass
        return True

    found = said(files, spin, timeout=1)
    assert (found.status, found.message) == ("error", "it took longer than 1s")


class Spark:
    """Of a task, as checks see it; there is none behind it."""

    def __init__(self) -> None:
        self.broken_off = 0

    def around(self) -> dict[str, Any]:
        return {
            "frame": lambda ref: None,
            "reader": lambda data, shape: None,
            "broken_off": self._break,
        }

    def _break(self) -> None:
        self.broken_off += 1


def spin() -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass


def spin_in_py4j() -> None:
    """As `spin` would, were it a module of py4j's."""
    names = {"__name__": "py4j.clientserver", "time": time}
    FunctionType(spin.__code__, names)()


def with_frame(data: AssetIn) -> bool:
    data.read()
    spin()
    return True


def in_a_call(data: AssetIn) -> bool:
    try:
        spin_in_py4j()
    except BaseException:
        raise ValueError("something else") from None
    return True


def deaf(data: AssetIn) -> bool:
    data.read()
    with contextlib.suppress(BaseException):
        spin()
    return True


@pytest.mark.parametrize("function", [with_frame, in_a_call, deaf])
def test_a_check_that_is_interrupted_in_its_use_of_spark_ends_the_attempt(
    files: Files, function: Callable[[AssetIn], bool]
) -> None:
    spark = Spark()
    with pytest.raises(TaskFailed, match="it took longer than 1s") as caught:
        said(files, function, timeout=1, **spark.around())
    info = caught.value.info
    assert (info.category, info.code) == ("infrastructure", "checks.interrupted")
    assert spark.broken_off == 1


def test_a_check_that_does_without_spark_is_an_error_when_it_is_interrupted(files: Files) -> None:
    def alone(data: AssetIn) -> bool:
        data.arrow()
        spin()
        return True

    spark = Spark()
    found = said(files, alone, timeout=1, **spark.around())
    assert (found.status, found.message) == ("error", "it took longer than 1s")
    assert spark.broken_off == 0


def test_a_check_whose_jobs_are_cancelled_has_time_to_say_so(files: Files) -> None:
    cancelled = threading.Event()

    def waits(data: AssetIn) -> bool:
        data.read()
        while not cancelled.is_set():
            time.sleep(0.01)
        raise ValueError("the job was cancelled")

    spark = Spark()
    found = said(files, waits, timeout=1, cancel=cancelled.set, **spark.around())
    assert (found.status, found.message) == ("error", "it took longer than 1s")
    assert spark.broken_off == 0


# -- time-outs and cancellation -----------------------------------------------------------


def test_a_stop_that_hangs_does_not_keep_the_task(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STOPPED_S", 0.1)
    hangs, released = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        released.wait()

    with pytest.raises(limits.TooSlow), limits.limited(Around(files.store), 0, hang):
        hangs.wait()
        raise ValueError
    released.set()


STUBBORN = 100_000


@pytest.fixture(scope="module")
def stubborn() -> pa.Table:
    # Each text is another one: DuckDB looks at those that are repeated only once.
    return pa.table({"x": range(STUBBORN), "s": [f"{n}{'ab' * 400}" for n in range(STUBBORN)]})


SLOW = r"(?:a|b|ab|[0-9]|ba)*c?(?:a|b|ab|[0-9]){0,900}x?"


def test_a_slow_query_ends_and_the_others_are_answered(files: Files, stubborn: pa.Table) -> None:
    ref = files.put("a.b", *[stubborn] * 4)
    found = files.results(
        ref,
        matches("s", SLOW, timeout=1),
        accepted_values("x", ["1"], name="quick"),
    )
    assert (found[0].status, found[0].message) == ("error", "it took longer than 1s")
    assert found[1].failing == 4 * STUBBORN - 4


@pytest.mark.parametrize("reason", [Interrupted, TaskTimeout])
def test_a_task_that_is_to_stop_stops_in_a_query(
    files: Files, stubborn: pa.Table, reason: type[BaseException]
) -> None:
    ref = files.put("a.b", *[stubborn] * 4)
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    with pytest.raises(reason):
        files.results(ref, matches("s", SLOW), reason=lambda: reason() if stop.is_set() else None)
    timer.join()


def test_a_task_that_is_to_stop_begins_nothing(files: Files) -> None:
    with pytest.raises(Interrupted):
        files.results(files.put("a.b", ORDERS), unique("id"), reason=Interrupted)
