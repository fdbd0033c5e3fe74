"""Some columns of an input cost their own bytes, and a few calls at a time."""

from __future__ import annotations

import functools
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.clock import SystemClock
from arco.errors import Corrupt
from arco.storage.memory import MemoryStore
from arco.worker.column_ranges import WHOLE_BYTES, read_columns
from arco.worker.failures import TaskFailed
from arco.worker.inputs import read_input
from servo.contract.task import InputRef, MaterializationRef
from tests.kit.latency import LatencyStore, round_trips

ROWS = 50_000


def wide(start: int = 0, columns: int = 20) -> pa.Table:
    values = list(range(start, start + ROWS))
    return pa.table(
        {f"c{n}": pa.array([v * 7919 % 1_000_003 for v in values]) for n in range(columns)}
    )


def encoded(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def lake(*tables: pa.Table, latency_s: float = 0.0) -> tuple[LatencyStore, InputRef, int]:
    """A store with one version of an asset for each table; and their sizes together."""
    inner, total = MemoryStore(SystemClock()), 0
    versions = []
    for n, table in enumerate(tables):
        data = encoded(table, row_group_size=ROWS // 2)
        inner.put(f"data/v{n}/part-00000.parquet", data)
        total += len(data)
        ref = MaterializationRef(
            partition=f"day=s:{n}", materialization_id=f"m{n}", path=f"data/v{n}"
        )
        versions.append(ref)
    read = InputRef(asset="shop.orders", parameter="orders", materializations=tuple(versions))
    return LatencyStore(inner, latency_s), read, total


def test_two_of_twenty_columns_cost_a_tenth_of_the_bytes() -> None:
    store, ref, total = lake(wide(), wide(ROWS))
    counted: list[int] = []
    table = read_input(store, ref, columns=["c3", "C17"], on_bytes=counted.append)
    assert table.column_names == ["c3", "c17"]
    whole = read_input(store, ref)
    assert table.equals(whole.select(["c3", "c17"]).replace_schema_metadata(table.schema.metadata))
    ranged = store.size("get") - total
    assert ranged < 0.15 * total
    assert counted[0] <= ranged


def test_many_files_take_no_more_round_trips_than_one() -> None:
    store, ref, _ = lake(*(wide(n) for n in range(12)), latency_s=0.02)
    read_input(store, ref, columns=["c3"])
    assert round_trips(store.calls) < 12  # listings, footers, ranges: each for all files at once
    assert store.count("get") == 24 + 12  # two row groups each


def test_small_files_are_fetched_whole_in_one_call() -> None:
    small = pa.table({"a": [1, 2], "b": ["x", "y"]})
    store, ref, total = lake(small, small)
    assert total < 2 * WHOLE_BYTES
    assert read_input(store, ref, columns=["b"]).to_pydict() == {"b": ["x", "y"] * 2}
    assert (store.count("get"), store.size("get")) == (2, total)


def test_column_that_is_missing_is_named_without_another_read() -> None:
    store, ref, total = lake(wide())
    with pytest.raises(TaskFailed, match="has no column 'c33'") as raised:
        read_input(store, ref, columns=["c33"])
    assert "c3" in raised.value.info.hint
    assert store.size("get") < 0.1 * total


def test_dimension_of_the_partition_is_a_column_that_costs_nothing() -> None:
    store, ref, total = lake(wide())
    table = read_input(store, ref, columns=["day", "c0"])
    assert table.column_names == ["day", "c0"]
    assert set(table["day"].to_pylist()) == {"0"}
    assert store.size("get") < 0.1 * total


@given(
    names=st.lists(
        st.sampled_from(["a", "a.b", "b", "B", "list", "struct", "dict", "none"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    rows=st.sampled_from([0, 1, 5, 3_000]),
    group=st.sampled_from([3, 10_000, 100_000]),
    options=st.sampled_from([{}, {"use_dictionary": False}, {"compression": "none"}]),
)
def test_any_columns_are_what_the_whole_file_has(
    names: list[str], rows: int, group: int, options: dict[str, object]
) -> None:
    table = table_of(rows)
    store = MemoryStore(SystemClock())
    if rows > 100 and group == 3:
        group = 1_000
    store.put("f.parquet", encoded(table, row_group_size=group, **options))
    (read,) = read_columns(store, list(store.list("")), names)
    own = [n for n in table.column_names if n.lower() in {name.lower() for name in names}]
    assert read.table.column_names == own
    assert read.table.to_pydict() == table.select(own).to_pydict()
    assert read.schema.names == table.column_names


@functools.cache
def table_of(rows: int) -> pa.Table:
    return pa.table(
        {
            "a": pa.array(range(rows), pa.int64()),
            "a.b": pa.array([float(n) for n in range(rows)]),
            "list": pa.array([[n, n + 1] for n in range(rows)], pa.list_(pa.int32())),
            "struct": pa.array(
                [{"a": n, "b": str(n)} for n in range(rows)],
                pa.struct([("a", pa.int32()), ("b", pa.string())]),
            ),
            "dict": pa.array([str(n % 7) for n in range(rows)]).dictionary_encode(),
            "b": pa.array([str(n) for n in range(rows)], pa.string()),
        }
    )


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 200_000, b"x" * 100])
def test_file_that_is_no_parquet_is_named(data: bytes) -> None:
    store = MemoryStore(SystemClock())
    store.put("f.parquet", data)
    with pytest.raises(Corrupt, match=r"f\.parquet"):
        read_columns(store, list(store.list("")), ["a"])
