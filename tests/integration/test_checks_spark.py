"""Checks that need Spark: its SQL, its errors, its cancellation, and data that is far away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.storage.local import LocalStore
from arco.worker.checks import CheckContext, Subject, duck, evaluate
from arco.worker.failures import Interrupted, TaskFailed
from servo.check import expression, in_range, matches, not_null, references, schema_is, unique
from servo.contract.manifest import Check
from servo.contract.task import CheckResult, InputRef, MaterializationRef
from tests.kit.spark_task import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TAG = "checks-under-test"

SLOW = "aggregate(sequence(1L, 4000L + id % 2), 0L, (a, x) -> a + x) > 0"
"""A tenth of a millisecond for each row: Spark looks between rows whether it is to stop."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    session = spark_session()
    session.sparkContext.addJobTag(TAG)
    yield session
    session.sparkContext.removeJobTag(TAG)


class Far(LocalStore):
    """The same files, as if they were not on this machine's disk."""

    @property
    def url(self) -> str:
        return "far://away"


class Lake:
    def __init__(self, root: Path, session: Any) -> None:
        self.root, self.session = root, session
        self.near, self.far = LocalStore(root), Far(root)
        self.asked: list[str] = []

    def put(self, asset: str, table: pa.Table) -> InputRef:
        folder = self.root / "data" / asset
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "part-0.parquet", write_statistics=False)
        return self.ref(asset)

    def ref(self, asset: str) -> InputRef:
        version = MaterializationRef(partition="", materialization_id="m", path=f"data/{asset}")
        return InputRef(asset=asset, materializations=(version,))

    def frame(self, ref: InputRef) -> Any:
        self.asked.append(ref.asset)
        return self.session.read.parquet(f"file://{self.root}/{ref.materializations[0].path}")

    def results(self, ref: InputRef, *checks: Check, **around: Any) -> list[CheckResult]:
        context = self.session.sparkContext
        given = {"store": self.near, "frame": self.frame, **around}
        given.setdefault("cancel", lambda: context.cancelJobsWithTag(TAG))
        return list(evaluate(checks, Subject.read(self.near, ref), CheckContext(**given)))


@pytest.fixture
def lake(tmp_path: Path, session: Any) -> Lake:
    return Lake(tmp_path, session)


@pytest.fixture
def orders(lake: Lake) -> InputRef:
    table = pa.table({"id": [1, 2, 3], "Price": [1.0, -1.0, None], "email": ["a@b", "c", None]})
    return lake.put("shop.orders", table)


def test_spark_is_asked_only_where_it_is_needed(lake: Lake, orders: InputRef) -> None:
    lake.results(orders, unique("id"), not_null("price"), matches("email", ".*"))
    assert lake.asked == []
    found = lake.results(orders, unique("id"), expression("abs(price) = price OR price IS NULL"))
    assert [(each.method, each.failing) for each in found] == [("duckdb", 0), ("spark", 1)]
    assert json.loads(found[1].sample[0]) == {"id": 2, "Price": -1.0, "email": "c"}
    assert found[1].message == "abs(price) = price OR price IS NULL is not true in 1 of 3 rows"


def test_distant_data_that_is_large_stays_where_it_is(
    lake: Lake, orders: InputRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "FETCHED_BYTES", 0)
    other = lake.put("shop.known", pa.table({"k": [1, 2]}))
    found = lake.results(
        orders,
        unique("id"),
        in_range("price", min=0),
        references("id", "shop.known.k"),
        store=lake.far,
        references=(other,),
        pii=frozenset({"email"}),
    )
    assert [(each.method, each.failing) for each in found] == [
        ("spark", 0),
        ("spark", 1),
        ("spark", 1),
    ]
    assert json.loads(found[2].sample[0]) == {"id": 3, "Price": None, "email": None}
    assert json.loads(found[1].sample[0]) == {"Price": -1.0, "id": 2, "email": "***"}


def test_columns_of_any_name_do_not_get_in_sparks_way(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck, "FETCHED_BYTES", 0)
    other = lake.put("a.known", pa.table({"id": ["k1", "k2"], "_key": ["no", "no"]}))
    row = {"_key": "k1", "_k0": "k1", "__K": "k1"}
    table = pa.Table.from_pylist([{**row, "cid": "no"}, {**row, "cid": "no"}, {**row, "cid": "k1"}])
    found = lake.results(
        lake.put("a.b", table),
        references("cid", "a.known.id"),
        unique("cid"),
        store=lake.far,
        references=(other,),
    )
    assert [(each.method, each.failing) for each in found] == [("spark", 2), ("spark", 1)]
    for each in found:
        assert [json.loads(sample) for sample in each.sample] == [{**row, "cid": "no"}] * 2


def test_what_spark_says_of_a_personal_value_is_not_shown(lake: Lake, orders: InputRef) -> None:
    given = expression("cast(email AS int) > 0")
    (found,) = lake.results(orders, given)
    assert found.status == "error" and "a@b" in found.message
    (found,) = lake.results(orders, given, pii=frozenset({"email"}))
    assert (found.status, found.message) == ("error", "CAST_INVALID_INPUT")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (expression("pric > 0"), "pric"),
        (expression("price >"), "PARSE_SYNTAX_ERROR"),
        (expression("price + 1"), "DATATYPE_MISMATCH"),
        (expression("max(price) > 0"), "INVALID_WHERE_CONDITION"),
        (expression("no_such(price)"), "no_such"),
        (expression("true); DROP TABLE x --"), "PARSE_SYNTAX_ERROR"),
        (matches("email", "(?=a"), "(?=a"),
    ],
)
def test_what_spark_cannot_read_is_misconfigured(
    lake: Lake, orders: InputRef, given: Check, message: str
) -> None:
    with pytest.raises(TaskFailed) as caught:
        lake.results(orders, given)
    info = caught.value.info
    assert (info.category, info.code) == ("configuration", "checks.invalid")
    assert info.message.startswith(f"shop.orders: the check {given.name!r} is not valid: ")
    assert message.lower() in info.message.lower()
    assert "\n" not in info.message


def test_sql_is_read_even_if_there_are_no_rows(lake: Lake) -> None:
    empty = lake.put("shop.orders", pa.table({"id": pa.array([], pa.int64())}))
    (found,) = lake.results(empty, expression("id > 0"))
    assert (found.status, found.failing) == ("passed", 0)
    with pytest.raises(TaskFailed):
        lake.results(empty, expression("idd > 0"))


def test_sql_that_fails_on_a_row_is_an_error_and_the_others_stand(
    lake: Lake, orders: InputRef
) -> None:
    found = lake.results(
        orders,
        expression("1 / (id - 2) < 9", name="breaks"),
        expression("abs(id) > 1", name="holds for two"),
    )
    assert [(each.status, each.failing) for each in found] == [("error", None), ("failed", 1)]
    assert "DIVIDE_BY_ZERO" in found[0].message


def test_a_driver_that_is_gone_is_no_matter_of_a_check(lake: Lake, orders: InputRef) -> None:
    given = expression("1 / (id - 2) < 9")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.results(orders, given, fatal=lambda error: True)


def many(lake: Lake) -> InputRef:
    return lake.put("shop.many", pa.table({"id": range(1, 500_001)}))


def test_a_slow_predicate_is_cancelled_and_the_others_are_answered(lake: Lake) -> None:
    found = lake.results(
        many(lake),
        expression(SLOW, timeout=2),
        expression("abs(id) > 0", name="quick"),
    )
    assert [(each.status, each.message) for each in found] == [
        ("error", "it took longer than 2s"),
        ("passed", ""),
    ]


def test_a_task_that_is_to_stop_ends_its_jobs(lake: Lake) -> None:
    stop = threading.Event()
    timer = threading.Timer(2, stop.set)
    timer.start()

    def reason() -> BaseException | None:
        return Interrupted() if stop.is_set() else None

    with pytest.raises(Interrupted):
        lake.results(many(lake), expression(SLOW), reason=reason)
    timer.join()


def test_what_spark_wrote_is_described_in_its_own_terms(lake: Lake, session: Any) -> None:
    frame = session.sql(
        "SELECT 1 AS id, timestamp'2025-01-01' AS at, timestamp_ntz'2025-01-01' AS local, "
        "cast(1.5 AS decimal(6,1)) AS price, named_struct('a', array(1L)) AS inside, "
        "map('k', cast(1 AS tinyint)) AS pairs"
    )
    frame.write.parquet(f"file://{lake.root}/data/a.b")
    types = {
        "id": "int",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "price": "decimal(6,1)",
        "inside": "struct<a:array<bigint>>",
        "pairs": "map<string,tinyint>",
    }
    found = lake.results(
        lake.ref("a.b"),
        schema_is(types),
        in_range("at", min="2025-01-01", max="2025-01-01T00:00:00Z"),
        in_range("local", max="2024-12-31T23:59:59.999999", name="too late"),
        unique("at", "local", "price"),
    )
    assert [(each.status, each.message) for each in found[:2]] == [("passed", "")] * 2
    assert [each.status for each in found[2:]] == ["failed", "passed"]
