"""Tables that functions return, written as Parquet."""

from __future__ import annotations

import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.storage.memory import MemoryStore
from arco.worker import output
from arco.worker.failures import TaskFailed
from arco.worker.output import Written, tables_of, write
from arco.worker.secrets import Redactor
from tests.kit.clocks import SimClock

TABLE = pa.table({"x": [1, 2, 3]})


def store() -> MemoryStore:
    return MemoryStore(SimClock())


def written(value: Any, target: MemoryStore | None = None, **settings: Any) -> Written:
    redact = settings.pop("redact", Redactor())
    return write(target or store(), "out", tables_of(value), redact=redact, **settings)


@pytest.mark.parametrize(
    "value",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        [TABLE.slice(0, 1), TABLE.slice(1)],
        (batch for batch in TABLE.to_batches(max_chunksize=1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_table_is_written(value: Any) -> None:
    target = store()
    found = written(value, target)
    data = target.get("out/part-00000.parquet").data
    assert (found.files, found.rows, found.bytes) == (("part-00000.parquet",), 3, len(data))
    assert pq.read_table(pa.BufferReader(data)).to_pydict() == TABLE.to_pydict()


def test_pandas_frames_are_written() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    for value in (frame, [frame, frame]):
        assert [(c.name, c.min, c.max) for c in written(value).schema] == [("x", "1", "3")]


def test_the_columns_of_a_pandas_frame_do_not_depend_on_its_rows() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    for value in (frame[frame.x != 2], [frame, frame[frame.x > 1]], frame.set_index([[9, 8, 7]])):
        assert [c.name for c in written(value).schema] == ["x"]
    levels = [frame.x.rename("day"), frame.x.rename(None)]
    for value in (frame.rename_axis("day"), frame.set_index(levels)):
        assert [c.name for c in written(value).schema] == ["day", "x"]
    with pytest.raises(TaskFailed, match="index cannot become a column"):
        written(frame.rename_axis("x"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"": [1]}), "no name"),
        (pa.table({"n": pa.nulls(2)}), "'n' is of type void"),
        (pa.table({"s": pa.array([{"a": 1, "A": 2}])}), "in column 's'.* differ only in case"),
        (pa.table({"s": pa.array([{}], pa.struct([]))}), "struct without fields"),
    ],
)
def test_columns_that_spark_may_not_write_are_refused_from_others_too(
    table: pa.Table, message: str
) -> None:
    with pytest.raises(TaskFailed, match=message) as caught:
        written(table)
    assert caught.value.info.code == "output.columns" and caught.value.info.hint


def test_columns_of_later_batches_are_not_dropped() -> None:
    with pytest.raises(TaskFailed, match="'y', 'z'") as caught:
        written([TABLE, pa.table({"x": [1], "y": [1], "z": [1]})])
    assert caught.value.info.code == "output.schema"


def test_polars_frames_are_known_without_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Polars:
        class DataFrame:
            def to_arrow(self) -> pa.Table:
                return TABLE

    monkeypatch.setitem(sys.modules, "polars", Polars)
    assert written(Polars.DataFrame()).rows == 3


def test_an_empty_output_keeps_its_schema() -> None:
    for value in (TABLE.slice(0, 0), TABLE.schema.empty_table().to_reader()):
        found = written(value)
        assert (found.rows, len(found.files), found.schema[0].name) == (0, 1, "x")
    assert written(iter(())) == Written()


def test_an_output_is_cut_into_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "GROUP_ROWS", 10)
    target = store()
    found = written(pa.table({"x": range(35)}), target, target_bytes=1)
    assert len(found.files) == 4
    back = [pq.read_table(pa.BufferReader(target.get(f"out/{name}").data)) for name in found.files]
    assert pa.concat_tables(back).column("x").to_pylist() == list(range(35))
    assert (found.rows, found.schema[0].min, found.schema[0].max) == (35, "0", "34")


def test_statistics_come_from_the_footers() -> None:
    table = pa.table(
        {
            "i": pa.array([3, None, -1]),
            "f": pa.array([0.5, 2.0, None]),
            "s": pa.array(["b", "a", None]),
            "b": pa.array([True, False, True]),
            "d": pa.array([date(2025, 1, 2), date(2025, 1, 1), None]),
            "t": pa.array([datetime(2025, 1, 2), None, None], pa.timestamp("us")),
            "m": pa.array([Decimal("1.50"), Decimal("0.25"), None]),
            "n": pa.nulls(3, pa.int64()),
            "l": pa.array([[1], [2], None]),
            "long": pa.array(["z" * 1000, "y", None]),
        },
    )
    found = {c.name: (c.type, c.nulls, c.min, c.max) for c in written(table).schema}
    assert found == {
        "i": ("bigint", 1, "-1", "3"),
        "f": ("double", 1, "0.5", "2.0"),
        "s": ("string", 1, "a", "b"),
        "b": ("boolean", 0, "false", "true"),
        "d": ("date", 1, "2025-01-01", "2025-01-02"),
        "t": ("timestamp_ntz", 2, "2025-01-02T00:00:00", "2025-01-02T00:00:00"),
        "m": ("decimal(3,2)", 1, "0.25", "1.50"),
        "n": ("bigint", 3, None, None),
        "l": ("array<bigint>", None, None, None),
        "long": ("string", 1, "y", None),
    }


def test_the_schema_hash_follows_names_and_types() -> None:
    one = written(pa.table({"x": [1]})).schema_hash
    assert one == written(pa.table({"x": [2, 3]})).schema_hash
    others = [pa.table({"y": [1]}), pa.table({"x": ["1"]}), pa.table({"x": [1], "y": [1]})]
    assert len({one, *(written(other).schema_hash for other in others)}) == 4


def test_a_secret_does_not_leave_through_statistics() -> None:
    column = written(pa.table({"x": ["hunter2", "z"]}), redact=Redactor(["hunter2"])).schema[0]
    assert (column.min, column.max) == (None, "z")


def test_what_is_personal_does_not_leave_through_statistics() -> None:
    table = pa.table({"Email": ["a@b.c", None], "x": [1, 2]})
    found = written(table, pii=("email",)).schema
    assert [(c.nulls, c.min, c.max) for c in found] == [(1, None, None), (0, "1", "2")]


@pytest.mark.parametrize("value", [1, "x", b"x", {"a": 1}, object(), [1], ["x"], [None]])
def test_anything_else_is_refused_with_what_is_allowed(value: Any) -> None:
    with pytest.raises(TaskFailed) as caught:
        written(value)
    info = caught.value.info
    assert (info.category, info.code) == ("user_code", "output.type")
    assert "pyarrow Table" in info.hint


def test_batches_that_differ_or_double_columns_are_refused() -> None:
    with pytest.raises(TaskFailed, match="do not match"):
        written([pa.table({"x": [1], "y": [1]}), pa.table({"y": [1]})])
    with pytest.raises(TaskFailed, match="two columns"):
        written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]))


def test_columns_that_differ_only_in_case_and_tables_without_any_are_refused() -> None:
    with pytest.raises(TaskFailed, match="'Id' and 'id' differ only in case"):
        written(pa.table({"Id": [1], "id": [2]}))
    with pytest.raises(TaskFailed, match="no columns"):
        written(pa.table({}))


def test_times_are_kept_in_microseconds_and_nothing_is_lost_silently() -> None:
    fine = pa.timestamp("ns")
    target = store()
    given = {"t": pa.array([1_000], fine), "h": pa.array([0.5], pa.float16())}
    found = written(pa.table(given), target)
    assert [column.type for column in found.schema] == ["timestamp_ntz", "float"]
    read = pq.read_schema(pa.BufferReader(target.get("out/part-00000.parquet").data))
    assert read.types == [pa.timestamp("us"), pa.float32()]
    with pytest.raises(TaskFailed, match="would lose data"):
        written(pa.table({"t": pa.array([1_001], fine)}))


def test_moments_are_kept_in_utc_and_dictionaries_as_their_values() -> None:
    noon = pa.array([datetime(2025, 7, 1, 10)], pa.timestamp("us", "Europe/Berlin"))
    kind = pa.array(["a"]).dictionary_encode()
    nested = pa.StructArray.from_arrays([noon, kind, kind.cast(pa.string())], ["at", "k", "s"])
    target = store()
    found = written(
        [
            pa.table({"at": noon, "kind": kind, "in": nested}),
            pa.table({"at": noon, "kind": kind, "in": nested}).slice(0, 0),
        ],
        target,
    )
    read = pq.read_table(pa.BufferReader(target.get("out/part-00000.parquet").data))
    utc = pa.timestamp("us", "UTC")
    inside = pa.struct([("at", utc), ("k", pa.string()), ("s", pa.string())])
    assert read.schema.types == [utc, pa.string(), inside]
    assert read.column("at").to_pylist() == noon.cast(utc).to_pylist()
    assert read.column("in").to_pylist() == [{"at": noon.cast(utc)[0].as_py(), "k": "a", "s": "a"}]
    plain = pa.table({"at": noon.cast(utc), "kind": ["a"], "in": nested.cast(inside)})
    assert found.schema_hash == written(plain).schema_hash
    assert found.schema == written(plain).schema


def test_large_dictionaries_are_unpacked_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "GROUP_ROWS", 10)
    seen: list[int] = []
    conformed = output.conformed

    def spied(table: pa.Table, schema: pa.Schema) -> pa.Table:
        seen.append(table.num_rows)
        return conformed(table, schema)

    monkeypatch.setattr(output, "conformed", spied)
    values = ["a", "b", None, "a", "c"] * 7
    target = store()
    written(pa.table({"x": pa.array(values).dictionary_encode()}), target)
    data = target.get("out/part-00000.parquet").data
    assert pq.read_table(pa.BufferReader(data)).column("x").to_pylist() == values
    assert seen == [10, 10, 10, 5]


def test_floats_with_nan_have_no_bounds() -> None:
    found = written(pa.table({"f": [1.0, float("nan")], "g": [1.0, 2.0]})).schema
    assert [(c.min, c.max) for c in found] == [(None, None), ("1.0", "2.0")]


def test_what_a_file_said_of_its_columns_is_not_said_of_others() -> None:
    given = pa.table({"f": [1.0, float("nan")]})
    stale = {
        "org.apache.spark.sql.parquet.row.metadata": '{"type":"struct","fields":[]}',
        "arco.nan_columns": "[]",
        "mine": "kept",
    }
    target = store()
    found = written(given.replace_schema_metadata(stale), target)
    assert [(c.name, c.type, c.max) for c in found.schema] == [("f", "double", None)]
    metadata = pq.read_metadata(pa.BufferReader(target.get("out/part-00000.parquet").data)).metadata
    assert metadata[b"mine"] == b"kept"
    assert metadata[b"arco.nan_columns"] == b'["f"]'
    again = pq.read_table(pa.BufferReader(target.get("out/part-00000.parquet").data))
    assert written(again.rename_columns(["g"])).schema[0].name == "g"


def test_files_are_written_as_asked_for() -> None:
    target = store()
    written(pa.table({"x": range(99)}), target, io={"compression": "gzip"})
    written(TABLE, io={"target_file_size": "1MiB", "compression": "none"})
    footer = pq.read_metadata(pa.BufferReader(target.get("out/part-00000.parquet").data))
    assert footer.row_group(0).column(0).compression == "GZIP"
    for io in ({"sort_by": "x"}, {"files": "2"}, {"comprssion": "zstd"}):
        with pytest.raises(TaskFailed) as caught:
            written(TABLE, io=io)
        assert caught.value.info.code == "io.invalid"


def test_the_footers_come_along() -> None:
    target = store()
    found = written(TABLE, target)
    assert [(f.path, f.size, f.metadata.num_rows) for f in found.footers] == [
        ("out/part-00000.parquet", found.bytes, 3)
    ]
