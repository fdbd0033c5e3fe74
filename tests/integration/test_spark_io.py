"""Frames in and out: exactly the planned versions, written once, on a real Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.clock import SystemClock
from arco.columns import types
from arco.columns.compatibility import compare
from arco.columns.schema_columns import SchemaColumn, declared_type
from arco.errors import Invalid
from arco.execution.duck_diff import compare_with_duckdb
from arco.execution.version_diff import diff_columns
from arco.spark.compare import compare_with_spark
from arco.spark.host import SparkHost, SparkTask
from arco.spark.location import spark_url
from arco.spark.read import read_frame
from arco.spark.relation import DataFile, VersionFolder, relation
from arco.spark.write import write_frame
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.scoped import ScopedStore
from arco.tasks.failure import TaskFailed
from arco.worker.footers import columns_of, read_footers
from arco.worker.output import summed_up, tables_of, write
from arco.worker.secrets import Redactor
from servo.contract.partition import PartitionKey, Scalar, path_segment
from servo.contract.task import InputRef, MaterializationRef
from tests.kit.spark_task import StandIn, spark_host, spark_task

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def host() -> Iterator[SparkHost]:
    with spark_host() as made:
        yield made


@pytest.fixture(scope="module")
def task(host: SparkHost) -> Iterator[SparkTask]:
    with spark_task(host) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> ScopedStore:
    return ScopedStore(LocalStore(tmp_path / "ws {a} %41"), "acme", "main")


def put(store: ScopedStore, table: pa.Table, **dimensions: Scalar) -> MaterializationRef:
    key = PartitionKey(dimensions)
    path = f"data/sales/up/{path_segment(key)}/m1"
    write(store, path, tables_of(table), redact=Redactor())
    return MaterializationRef(partition=str(key), materialization_id="m1", path=path)


def asset(*versions: MaterializationRef) -> InputRef:
    return InputRef(asset="sales.up", parameter="up", materializations=versions)


def rows(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


def listing(store: ScopedStore, folder: str = "out") -> list[str]:
    root = Path(store.url.removeprefix("file://"), folder)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# -- reading ------------------------------------------------------------------------------


def test_one_version_is_read_without_columns_for_a_partition_it_does_not_have(
    task: SparkTask, store: ScopedStore
) -> None:
    frame = read_frame(task, store, asset(put(store, pa.table({"x": [1, 2]}))))
    assert (frame.dtypes, rows(frame)) == ([("x", "bigint")], [{"x": 1}, {"x": 2}])


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ((date(2025, 1, 1), date(1960, 2, 29)), "date"),
        (("eu/west=1", "ü:%20"), "string"),
        ((1, -(1 << 62)), "bigint"),
        ((True, False), "boolean"),
        ((datetime(2025, 1, 1, 6), datetime(1960, 1, 1, 0, 0, 0, 1)), "timestamp"),
        ((None, "a"), "string"),
        ((None,), "string"),
    ],
)
def test_dimensions_are_columns_of_their_types_and_prune(
    task: SparkTask, store: ScopedStore, values: tuple[Scalar, ...], type: str
) -> None:
    refs = [put(store, pa.table({"x": [i]}), dim=value) for i, value in enumerate(values)]
    frame = read_frame(task, store, asset(*refs))
    assert frame.dtypes == [("x", "bigint"), ("dim", type)]
    assert [(row.x, row.dim) for row in frame.orderBy("x").collect()] == list(enumerate(values))
    pruned = frame.where("dim is null")
    assert pruned.count() == values.count(None)
    plan = pruned._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnull(dim" in plan or "LocalTableScan <empty>" in plan


def test_a_connect_session_reads_the_same(task: SparkTask, store: ScopedStore) -> None:
    refs = [put(store, pa.table({"x": [i]}), region=r, n=i) for i, r in enumerate(("eu", "us"))]
    frame = read_frame(StandIn(task.session, connect=True), store, asset(*refs))
    assert rows(frame) == [
        {"x": 0, "n": 0, "region": "eu"},
        {"x": 1, "n": 1, "region": "us"},
    ]


def test_many_partitions_are_one_scan_without_a_job_to_find_them(
    task: SparkTask, store: ScopedStore
) -> None:
    refs = [put(store, pa.table({"x": [i]}), n=i) for i in range(40)]
    tracker = task.session.sparkContext._jsc.sc().statusTracker()
    task.session.sparkContext.setJobGroup("listing", "")
    frame = read_frame(task, store, asset(*refs))
    assert list(tracker.getJobIdsForGroup("listing")) == []
    assert frame.where("n >= 38").count() == 2
    assert frame._jdf.queryExecution().analyzed().toString().count("Relation") == 1


def test_files_that_are_known_are_not_looked_for(task: SparkTask, store: ScopedStore) -> None:
    """As from a bucket, where each look costs a request."""
    folders = []
    for i in range(2):
        path = put(store, pa.table({"x": [i, i]}), n=i).path
        files = [DataFile(spark_url(store, m.path), m.size, 0) for m in store.list(f"{path}/")]
        folders.append(VersionFolder(spark_url(store, path), (i,), tuple(files)))
    fields = [types.field("x", "long")], [types.field("n", "long")]
    ghost = VersionFolder(spark_url(store, "nowhere"), (2,), ())
    frame = relation(task.session, *fields, [*folders, ghost], {}, listed=True)
    assert rows(frame.groupBy("n").count()) == [{"n": 0, "count": 2}, {"n": 1, "count": 2}]


def test_a_dimension_that_is_a_column_already_stays(task: SparkTask, store: ScopedStore) -> None:
    eu = put(store, pa.table({"region": ["EU!"]}), region="eu")
    us = put(store, pa.table({"x": [1]}), region="us")
    assert rows(read_frame(task, store, asset(eu))) == [{"region": "EU!"}]
    assert rows(read_frame(task, store, asset(eu, us))) == [
        {"region": "EU!", "x": None},
        {"region": "us", "x": 1},
    ]


def test_versions_are_matched_by_name_and_widened(task: SparkTask, store: ScopedStore) -> None:
    old = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "f": pa.array([0.5], pa.float32()),
            "m": pa.array([1], pa.decimal128(5, 2)),
            "d": pa.array([3], pa.int32()),
            "s": pa.array([{"a": 1}], pa.struct({"a": pa.int32()})),
        }
    )
    new = pa.table(
        {
            "f": [1.5],
            "i": [1 << 40],
            "m": pa.array([2], pa.decimal128(12, 4)),
            "d": [2.5],
            "s": pa.array([{"b": "x", "a": 1}], pa.struct({"b": pa.string(), "a": pa.int64()})),
            "new": ["n"],
        }
    )
    frame = read_frame(task, store, asset(put(store, old, p=1), put(store, new, p=2)))
    assert dict(frame.dtypes) == {
        "i": "bigint",
        "f": "double",
        "m": "decimal(12,4)",
        "d": "double",
        "s": "struct<a:bigint,b:string>",
        "new": "string",
        "p": "bigint",
    }
    found = frame.orderBy("p").collect()
    assert [(r.i, r.f, r.d, r.new, r.s.a, r.s.b) for r in found] == [
        (1, 0.5, 3.0, None, 1, None),
        (1 << 40, 1.5, 2.5, "n", 1, "x"),
    ]


def test_types_that_do_not_meet_and_names_that_differ_in_case_are_refused(
    task: SparkTask, store: ScopedStore
) -> None:
    number = put(store, pa.table({"x": [1]}), p=1)
    for other, why in (
        ({"x": ["s"]}, "'x' is bigint in one and string"),
        ({"x": [0.5]}, "'x' is bigint in one and double in another"),
        ({"X": [1]}, "case"),
    ):
        with pytest.raises(TaskFailed, match=why) as caught:
            read_frame(task, store, asset(number, put(store, pa.table(other), p=len(why))))
        assert caught.value.info.code == "input.schema"


def test_what_is_missing_is_named_and_never_an_empty_frame(
    task: SparkTask, store: ScopedStore
) -> None:
    there = put(store, pa.table({"x": [1]}), p=1)
    gone = MaterializationRef(partition="p=i:2", materialization_id="m", path="data/up/2/m")
    for ref, texts in (
        (asset(), ["sales.up"]),
        (asset(there, gone), ["sales.up", "[p=2] is damaged", "data/up/2/m"]),
    ):
        with pytest.raises(TaskFailed) as caught:
            read_frame(task, store, ref)
        assert (caught.value.info.category, caught.value.info.code) == ("input", "input.missing")
        assert all(text in caught.value.info.message for text in texts)
    store.put("data/up/2/m/part-0.parquet", b"no parquet")
    with pytest.raises(TaskFailed, match=r"part-0\.parquet is not a readable"):
        read_frame(task, store, asset(gone))


def test_a_damaged_page_is_an_error_and_never_other_values(
    task: SparkTask, store: ScopedStore
) -> None:
    names = pa.table({"name": [f"customer {n}" for n in range(1000)]})
    good, bad = put(store, names, p=1), put(store, names, p=2)
    bad = msgspec.structs.replace(bad, materialization_id="m2", path=bad.path[:-1] + "2")
    write(store, bad.path, tables_of(names), redact=Redactor())
    (file,) = Path(store.url.removeprefix("file://"), bad.path).glob("*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    frame = read_frame(task, store, asset(good, bad))
    for use in (frame.collect, lambda: write_frame(task, store, "out", frame)):
        with pytest.raises(Exception) as caught:
            use()
        failure = task.failure(caught.value, [asset(good, bad)])
        assert failure is not None
        assert (failure.category, failure.code) == ("input", "input.corrupt"), failure
        assert failure.message.startswith("version m2 of sales.up[p=2] is damaged: ")
        assert failure.hint == "run it again with `servo run sales.up -p p=2 --force`"


def test_old_dates_of_another_writer_are_the_same_days(task: SparkTask, store: ScopedStore) -> None:
    given = {"d": [date(1500, 1, 1)], "t": pa.array([datetime(1500, 1, 1)], pa.timestamp("ms"))}
    ref = asset(put(store, pa.table(given)))
    assert rows(read_frame(task, store, ref)) == [
        {"d": date(1500, 1, 1), "t": datetime(1500, 1, 1)}
    ]


def test_the_alias_is_the_assets_name(task: SparkTask, store: ScopedStore) -> None:
    frame = read_frame(task, store, asset(put(store, pa.table({"x": [1]}))))
    assert frame.select("`@sales.up`.x").count() == 1


def test_a_store_in_memory_is_refused(task: SparkTask) -> None:
    with pytest.raises(Invalid, match="cannot reach"):
        read_frame(task, MemoryStore(SystemClock()), asset())


# -- writing ------------------------------------------------------------------------------

TYPES = """
    SELECT true AS boolean, 1Y AS tiny, 1S AS small, 1 AS int, 1L AS big, 0.5F AS float,
      0.5D AS double, CAST(1.5 AS DECIMAL(38,18)) AS wide, CAST(1.5 AS DECIMAL(5,2)) AS narrow,
      'ü' AS string, X'00FF' AS binary, DATE'1500-01-01' AS date, DATE'2025-01-01' AS day,
      TIMESTAMP'2025-01-01 06:00:00.123456Z' AS at, TIMESTAMP_NTZ'2025-01-01 06:00:00' AS ntz,
      INTERVAL '1-2' YEAR TO MONTH AS months, INTERVAL '1 2' DAY TO HOUR AS hours,
      ARRAY(1, NULL) AS numbers, MAP('a', ARRAY(1.5D)) AS map,
      NAMED_STRUCT('x', 1, 'y', ARRAY(NAMED_STRUCT('z', 'deep'))) AS nested,
      ARRAY(NAMED_STRUCT('a', MAP(1, X'01'))) AS structs, CAST(NULL AS STRING) AS nothing,
      CAST('ab' AS CHAR(3)) AS char, CAST('ab' AS VARCHAR(3)) AS varchar,
      1 AS `a b`, 2 AS `dot.ted`, 3 AS `x;{}()=,`, 4 AS `tick``s`
"""


@pytest.mark.parametrize("parts", [1, 3])
def test_every_type_comes_back_as_it_was(task: SparkTask, store: ScopedStore, parts: int) -> None:
    one = task.session.sql(TYPES)
    frame = one if parts == 1 else one.union(one).union(one).repartition(parts)
    footers = write_frame(task, store, "out", frame)
    assert len(footers) == 1
    ref = asset(MaterializationRef(partition="", materialization_id="m", path="out"))
    back = read_frame(task, store, ref)
    assert back.dtypes == frame.dtypes
    # Python has no value for months.
    one, other = (each.withColumn("months", each.months.cast("string")) for each in (back, frame))
    assert one.collect() == other.collect()


def test_a_variant_comes_back_and_is_not_joined(task: SparkTask, store: ScopedStore) -> None:
    frame = task.session.range(3, numPartitions=3).selectExpr("parse_json('{\"a\": 1}') AS v")
    assert len(write_frame(task, store, "out", frame)) == 3
    ref = asset(MaterializationRef(partition="", materialization_id="m", path="out"))
    assert read_frame(task, store, ref).selectExpr("v:a::int AS a").distinct().collect()[0].a == 1


def test_spark_and_arrow_describe_the_same_columns_alike(
    task: SparkTask, store: ScopedStore
) -> None:
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.int32()),
            "s": ["a", None],
            "f": [0.5, 1.5],
            "b": [True, False],
            "d": [date(2025, 1, 1)] * 2,
            "t": pa.array([datetime(2025, 1, 1)] * 2, pa.timestamp("us", tz="UTC")),
            "n": pa.array([datetime(2025, 1, 1)] * 2, pa.timestamp("us")),
            "m": pa.array([1, 2], pa.decimal128(12, 2)),
            "l": [[1], [2]],
            "o": pa.array([{"a": 1}] * 2, pa.struct({"a": pa.int16()})),
        }
    )
    ours = write(store, "arrow", tables_of(table), redact=Redactor())
    ref = asset(MaterializationRef(partition="", materialization_id="m", path="arrow"))
    frame = read_frame(task, store, ref)
    theirs = summed_up(write_frame(task, store, "spark", frame), Redactor())
    assert theirs.schema == ours.schema
    assert (theirs.schema_hash, theirs.rows) == (ours.schema_hash, ours.rows)
    assert [column.max for column in theirs.schema][:6] == [
        "2", "a", "1.5", "true", "2025-01-01", "2025-01-01T00:00:00+00:00",
    ]  # fmt: skip


def test_floats_with_nan_have_no_bounds_whoever_wrote_them(
    task: SparkTask, store: ScopedStore
) -> None:
    frame = task.session.sql("SELECT explode(array(1.0D, double('NaN'))) AS f, 1.0D AS g")
    one = write_frame(task, store, "one", frame.coalesce(1))
    joined = write_frame(task, store, "two", frame.repartition(2))
    for footers in (one, joined):
        found = columns_of(footers, None, str)
        assert [(c.min, c.max) for c in found] == [(None, None), ("1.0", "1.0")]


def test_an_empty_frame_makes_one_file_with_its_columns(
    task: SparkTask, store: ScopedStore
) -> None:
    empty = task.session.createDataFrame([], "x int, y array<string>")
    for name, frame in (
        ("a", empty),
        ("b", task.session.range(10, numPartitions=4).where("id > 100")),
        ("c", task.session.range(10).where("false").orderBy("id")),
    ):
        footers = write_frame(task, store, name, frame)
        assert [footer.metadata.num_rows for footer in footers] == [0]
        assert columns_of(footers, None, str)[0].name == frame.columns[0]


def test_few_rows_in_many_partitions_are_one_file_and_nothing_else_is_left(
    task: SparkTask, store: ScopedStore
) -> None:
    footers = write_frame(task, store, "out", task.session.range(100, numPartitions=8))
    assert (listing(store), footers[0].path) == (["part-00000.parquet"], "out/part-00000.parquet")
    assert footers[0].size == store.head("out/part-00000.parquet").size
    assert pq.read_table(pa.BufferReader(store.get("out/part-00000.parquet").data)).num_rows == 100


def test_large_partitions_are_cut_and_files_without_rows_go(
    task: SparkTask, store: ScopedStore
) -> None:
    frame = task.session.range(4000, numPartitions=2).where("id >= 2000").selectExpr("rand(1)")
    footers = write_frame(task, store, "out", frame, target_bytes=4 * 1000)
    assert [footer.metadata.num_rows for footer in footers] == [1000, 1000]
    assert listing(store) == [footer.path.removeprefix("out/") for footer in footers]


def test_files_order_and_compression_are_as_asked_for(task: SparkTask, store: ScopedStore) -> None:
    frame = task.session.range(1000, numPartitions=3).selectExpr("id", "id % 7 AS g")
    asked = {"files": "2", "sort_by": "g desc, id", "compression": "snappy"}
    footers = write_frame(task, store, "out", frame, io=asked)
    assert [f.metadata.row_group(0).column(0).compression for f in footers] == ["SNAPPY"] * 2
    tables = [pq.read_table(pa.BufferReader(store.get(f.path).data)) for f in footers]
    found = [(row["g"], row["id"]) for row in pa.concat_tables(tables).to_pylist()]
    assert found == sorted(found, key=lambda row: (-row[0], row[1]))
    joined = write_frame(task, store, "joined", frame, io={"sort_by": "g desc, id"})
    assert len(joined) == 1
    table = pq.read_table(pa.BufferReader(store.get(joined[0].path).data))
    assert [(row["g"], row["id"]) for row in table.to_pylist()] == found


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none", "lz4"])
def test_every_compression_can_be_read_again(
    task: SparkTask, store: ScopedStore, compression: str
) -> None:
    for name, parts in (("a", 1), ("b", 2)):
        frame = task.session.range(10, numPartitions=parts)
        footers = write_frame(task, store, name, frame, io={"compression": compression})
        data = store.get(footers[0].path).data
        assert pq.read_table(pa.BufferReader(data)).num_rows == 10
        ref = asset(MaterializationRef(partition="", materialization_id="m", path=name))
        assert read_frame(task, store, ref).count() == 10


@pytest.mark.parametrize(
    ("io", "why"),
    [
        ({"comprssion": "zstd"}, "comprssion"),
        ({"compression": "rar"}, "rar"),
        ({"files": "0"}, "'0'"),
        ({"files": "many"}, "many"),
        ({"target_file_size": "big"}, "big"),
        ({"sort_by": "nope"}, "nope"),
        ({"sort_by": "id,,"}, "sort_by"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    task: SparkTask, store: ScopedStore, io: dict[str, str], why: str
) -> None:
    with pytest.raises(TaskFailed, match=why) as caught:
        write_frame(task, store, "out", task.session.range(1), io=io)
    info = caught.value.info
    assert (info.category, info.code, bool(info.hint)) == ("configuration", "io.invalid", True)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1 AS a, 2 AS a", "two columns have the name 'a'"),
        ("SELECT 1 AS a, 2 AS A", "'a' and 'A' differ only in case"),
        ("SELECT 1 AS a, NULL AS b", "'b' is of type void"),
        ("SELECT ARRAY() AS b", r"'b\[\]' is of type void"),
        ("SELECT NAMED_STRUCT('x', NULL) AS b", r"'b\.x' is of type void"),
        ("SELECT NAMED_STRUCT('x', 1, 'X', 2) AS b", "in column 'b', the columns 'x' and 'X'"),
        ("SELECT make_interval(1) AS i", "'i' is of type interval"),
    ],
)
def test_columns_that_parquet_or_its_readers_cannot_have_are_refused(
    task: SparkTask, store: ScopedStore, sql: str, why: str
) -> None:
    with pytest.raises(TaskFailed, match=why) as caught:
        write_frame(task, store, "out", task.session.sql(sql))
    assert (caught.value.info.category, caught.value.info.code) == ("user_code", "output.columns")
    with pytest.raises(TaskFailed, match="no columns"):
        write_frame(task, store, "out", task.session.range(1).drop("id"))


def test_a_write_that_fails_or_is_ended_leaves_nothing(task: SparkTask, store: ScopedStore) -> None:
    broken = task.session.range(8, numPartitions=4).selectExpr(
        "id", "CASE WHEN id = 7 THEN int(raise_error('no sevens')) END AS e"
    )
    with pytest.raises(Exception, match="no sevens"):
        write_frame(task, store, "out", broken)
    assert listing(store) == []

    calls: list[int] = []

    def stop_after_the_write() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_frame(task, store, "out", task.session.range(3), check=stop_after_the_write)
    assert (calls, listing(store)) == ([0, 1], [])


def test_a_cancelled_write_leaves_nothing(host: SparkHost, store: ScopedStore) -> None:
    sleep = "CASE WHEN id = 3 THEN java_method('java.lang.Thread', 'sleep', 60000L) ELSE id END"

    def attempt() -> str:
        with host.task("cancelled", input_bytes=1) as own:
            slow = own.session.range(4, numPartitions=4).selectExpr(f"{sleep} AS x")
            threading.Timer(1.0, own.cancel).start()
            try:
                write_frame(own, store, "out", slow)
            except Exception as error:
                return str(error).lower()
            return "was not cancelled"

    with ThreadPoolExecutor(1) as threads:
        assert "spark_job_cancelled" in threads.submit(attempt).result()
    assert not [name for name in listing(store) if name.endswith(".parquet")]


def test_two_attempts_write_at_once_and_do_not_meet(task: SparkTask, store: ScopedStore) -> None:
    found: dict[str, int] = {}

    def attempt(name: str, rows: int) -> None:
        own = StandIn(task.session.newSession())
        frame = own.session.range(rows, numPartitions=3)
        footers = write_frame(own, store, f"out/{name}", frame)
        found[name] = sum(footer.metadata.num_rows for footer in footers)

    threads = [
        threading.Thread(target=attempt, args=(f"m{i}", 100 + i), daemon=True) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"m{i}": 100 + i for i in range(4)}
    assert listing(store) == sorted(
        [f"m{i}" for i in range(4)] + [f"m{i}/part-00000.parquet" for i in range(4)]
    )


# -- comparing ----------------------------------------------------------------------------


def test_spark_finds_the_differences_that_duckdb_finds(task: SparkTask, store: ScopedStore) -> None:
    names = {"k": 'id"; --', "n": "it's `n`", "m": "mail", "s": "parts"}
    nan = float("nan")
    tables = [
        pa.table(
            {
                names["k"]: [1, 2, 3, None, 5],
                names["n"]: pa.array([1, None, nan, 4, 5], pa.float32()),
                names["m"]: ["a", "b", "c", "d", "e"],
                names["s"]: [{"x": [1]}, {"x": [2]}, None, {"x": []}, {"x": [5]}],
            }
        ),
        pa.table(
            {
                names["k"]: pa.array([2, 3, None, 5, 6], pa.int32()),
                names["n"]: [2.0, nan, 4.0, 5.0, 6.0],
                names["m"]: ["b", "c", "d", "x", "f"],
                names["s"]: [{"x": [2]}, None, {"x": [9]}, {"x": [5]}, None],
            }
        ),
    ]
    refs = [put(store, table, side=side) for table, side in zip(tables, "ab", strict=True)]
    infos = [columns_of(read_footers(store, ref.path), None, str) for ref in refs]
    columns = diff_columns(infos[0], infos[1], [names["k"]])
    hidden = {"mail"}
    spark = compare_with_spark(task, store, "sales.up", (refs[0], refs[1]), columns, 5, hidden)
    duck = compare_with_duckdb(store, (refs[0].path, refs[1].path), columns, 5, hidden)
    assert (spark.added, spark.removed, spark.changed, spark.same) == (1, 1, 3, 1)
    assert spark.columns == {names["n"]: 1, names["m"]: 1, names["s"]: 1}
    assert msgspec.structs.replace(duck, engine="spark", examples=()) == msgspec.structs.replace(
        spark, examples=()
    )
    found = [
        {(e.change, str(e.key.get(names["k"]))) for e in each.examples} for each in (spark, duck)
    ]
    assert found[0] == found[1] and len(found[0]) == 5
    twice = put(store, pa.table({names["k"]: [1, 1], names["n"]: [1.0, 2.0]}), side="c")
    columns = diff_columns(infos[0][:2], infos[0][:2], [names["k"]])
    with pytest.raises(Invalid, match="is not unique in the second version"):
        compare_with_spark(task, store, "sales.up", (refs[0], twice), columns, 5, hidden)


def test_spark_reads_files_by_schemas_that_are_called_compatible(
    task: SparkTask, tmp_path: Path
) -> None:
    """The extreme values of each type, and what changed inside of structs, arrays and maps.

    A file is old and the reader new (backward), or the file new and the reader old (forward).
    """
    widths = (8, 16, 32, 64)
    texts = dict(zip(("tinyint", "smallint", "int", "bigint"), widths, strict=True))
    old = {
        **{
            text: pa.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1], f"int{bits}")
            for text, bits in texts.items()
        },
        "float": pa.array([0.5, 3.0e38], pa.float32()),
        "double": pa.array([0.5, 1e300]),
        "decimal(9,2)": pa.array(["-9999999.99", "9999999.99"]).cast(pa.decimal128(9, 2)),
    }
    new = (*old, "decimal(12,2)", "decimal(22,2)")
    pairs = [
        (stored, reader)
        for stored in old
        for reader in new
        if stored != reader and (_is_backward(stored, reader) or _is_forward(reader, stored))
    ]
    assert len(pairs) > 15
    for number, (stored, reader) in enumerate(pairs):
        pq.write_table(pa.table({"x": old[stored]}), tmp_path / f"{number}.parquet")
        frame = task.session.read.schema(f"x {reader}").parquet(str(tmp_path / f"{number}.parquet"))
        assert [row.x for row in frame.collect()] == old[stored].to_pylist(), (stored, reader)
    nested = pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())]))
    pq.write_table(pa.table({"x": nested}), tmp_path / "nested.parquet")
    more = "struct<a:int,b:string>"
    assert not compare(_column("struct<a:int>"), _column(more)).violations
    frame = task.session.read.schema(f"x {more}, y int").parquet(str(tmp_path / "nested.parquet"))
    assert [tuple(row) for row in frame.collect()] == [((1, None), None), (None, None)]


NESTED: list[tuple[str, Any, str, list[Any]]] = [
    (
        "array<struct<a:int>>",
        pa.list_(pa.struct([("a", pa.int32())])),
        "array<struct<a:bigint,b:int>>",
        [[{"a": 2**31 - 1}, None], [], None],
    ),
    (
        "map<string,struct<a:int>>",
        pa.map_(pa.string(), pa.struct([("a", pa.int32())])),
        "map<string,struct<a:bigint>>",
        [[("k", {"a": -(2**31)})], None],
    ),
    (
        "struct<a:array<smallint>>",
        pa.struct([("a", pa.list_(pa.int16()))]),
        "struct<a:array<int>>",
        [{"a": [-(2**15), None]}, None],
    ),
]


@pytest.mark.parametrize(("stored", "arrow", "reader", "values"), NESTED)
def test_spark_reads_nested_types_by_schemas_that_are_called_compatible(
    task: SparkTask, tmp_path: Path, stored: str, arrow: Any, reader: str, values: list[Any]
) -> None:
    assert _is_backward(stored, reader)
    file = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"x": pa.array(values, arrow)}), file)

    def rows(type: str) -> list[str]:
        frame = task.session.read.schema(f"x {type}").parquet(str(file))
        return [row.t for row in frame.selectExpr("to_json(struct(x)) AS t").collect()]

    assert rows(reader) == rows(stored)  # to_json leaves out what is null


def _is_backward(old: str, new: str) -> bool:
    return not compare(_column(old), _column(new), "backward").violations


def _is_forward(old: str, new: str) -> bool:
    return not compare(_column(old), _column(new), "forward").violations


def _column(type: str) -> list[SchemaColumn]:
    return [SchemaColumn(name="x", type=declared_type(type))]
