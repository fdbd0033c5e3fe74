"""Outputs: what was returned, as files with statistics, committed once, and read back."""

from __future__ import annotations

import importlib.util
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.errors import AlreadyExists, Corrupt, Unavailable
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.worker import output
from arco.worker.commit import commit_output, committed
from arco.worker.failures import TaskFailed
from arco.worker.inputs import read_input
from arco.worker.output import Written, materialization, metadata_of, tables_of, write
from arco.worker.secrets import Redactor
from servo.contract.task import InputRef, MaterializationRef, OutputCommit
from tests.kit.clocks import SimClock
from tests.unit.test_worker_envelope import make_request

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
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2, 3]})
    for value in (frame, [frame, frame]):
        assert [(c.name, c.min, c.max) for c in written(value).schema] == [("x", "1", "3")]


def test_the_columns_of_a_pandas_frame_do_not_depend_on_its_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2, 3]})
    for value in (frame[frame.x != 2], [frame, frame[frame.x > 1]], frame.set_index([[9, 8, 7]])):
        assert [c.name for c in written(value).schema] == ["x"]
    levels = [frame.x.rename("day"), frame.x.rename(None)]
    for value in (frame.rename_axis("day"), frame.set_index(levels)):
        assert [c.name for c in written(value).schema] == ["day", "x"]
    with pytest.raises(TaskFailed, match="index is no column"):
        written(frame.rename_axis("x"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"": [1]}), "no name"),
        (pa.table({"n": pa.nulls(2)}), "'n' is of type void"),
        (pa.table({"s": pa.array([{"a": 1, "A": 2}])}), "in column 's'.* differ only in case"),
        (pa.table({"s": pa.array([{}], pa.struct([]))}), "struct of nothing"),
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
    with pytest.raises(TaskFailed, match="do not fit"):
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
    conformed = output._conformed

    def spied(table: pa.Table, schema: pa.Schema) -> pa.Table:
        seen.append(table.num_rows)
        return conformed(table, schema)

    monkeypatch.setattr(output, "_conformed", spied)
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


# -- commit -------------------------------------------------------------------------------


class Answering(MemoryStore):
    """Applies a put of a marker, or not, and then answers with an error, `times` times."""

    def __init__(self, answer: Exception, *, applies: bool, times: int) -> None:
        super().__init__(SimClock())
        self._answer, self._applies, self._times = answer, applies, times

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        if self._times == 0:
            return super().put(path, data, mode)
        self._times -= 1
        if self._applies:
            super().put(path, data, mode)
        raise self._answer


def made(id: str) -> OutputCommit:
    output = materialization(make_request(), id, Written(rows=1), {"note": 1})
    return OutputCommit(materialization=output)


@pytest.mark.parametrize("answer", [AlreadyExists("x"), Unavailable("x")])
def test_a_commit_whose_answer_was_lost_is_ours(answer: Exception) -> None:
    target = Answering(answer, applies=True, times=1)
    assert commit_output(target, make_request(), made("m1")) == (made("m1"), False)


def test_a_commit_that_did_not_arrive_is_repeated_for_a_while() -> None:
    target = Answering(Unavailable("x"), applies=False, times=2)
    assert commit_output(target, make_request(), made("m1")) == (made("m1"), False)
    with pytest.raises(Unavailable):
        commit_output(
            Answering(Unavailable("x"), applies=False, times=99), make_request(), made("m1")
        )


def test_a_loser_adopts_the_winner() -> None:
    target = store()
    commit_output(target, make_request(), made("m1"))
    assert commit_output(target, make_request(), made("m2")) == (made("m1"), True)
    assert committed(target, make_request()) == made("m1")


def test_tasks_do_not_see_each_others_commits() -> None:
    target = store()
    commit_output(target, make_request(), made("m1"))
    assert committed(target, make_request(run_id="r2")) is None
    path = paths.output_commit("data/sales/orders/_", "r2", "t1")
    target.put(path, target.get(paths.output_commit("data/sales/orders/_", "r1", "t1")).data)
    with pytest.raises(Corrupt):
        committed(target, make_request(run_id="r2"))


def test_a_marker_that_cannot_be_read_is_corrupt_and_not_absent() -> None:
    target = store()
    target.put(paths.output_commit("data/sales/orders/_", "r1", "t1"), b"{")
    with pytest.raises(Corrupt):
        committed(target, make_request())


def test_metadata_is_scalar_and_redacted() -> None:
    given = {"f": 0.5, "big": 1 << 70, "s": "hunter2", "l": [1]}
    found = metadata_of(given, Redactor(["hunter2"]))
    assert found == {"f": "0.5", "big": str(1 << 70), "s": "***", "l": "[1]"}


# -- inputs -------------------------------------------------------------------------------


def ref(target: MemoryStore, **versions: Any) -> InputRef:
    """An input of these tables, by their partition's `region`."""
    refs = []
    for region, table in versions.items():
        path = f"data/up/{region}/m"
        if table is not None:
            write(target, path, tables_of(table), redact=Redactor())
        refs.append(
            MaterializationRef(partition=f"region=s:{region}", materialization_id="m", path=path)
        )
    return InputRef(asset="sales.up", parameter="up", materializations=tuple(refs))


def test_versions_are_joined_by_name_with_their_dimensions() -> None:
    target = store()
    given = ref(
        target, eu=pa.table({"x": pa.array([1], pa.int32())}), us=pa.table({"y": ["a"], "x": [2]})
    )
    sizes: list[int] = []
    found = read_input(target, given, "arrow", on_bytes=sizes.append)
    assert found.to_pylist() == [
        {"x": 1, "region": "eu", "y": None},
        {"x": 2, "region": "us", "y": "a"},
    ]
    assert sizes == [sum(m.size for m in target.list("data/"))]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (["y", "X"], [{"y": None, "x": 1}, {"y": "a", "x": 2}]),
        (["region"], [{"region": "eu"}, {"region": "us"}]),
        (
            ["odd.name", "region"],
            [{"odd.name": 7, "region": "eu"}, {"odd.name": 8, "region": "us"}],
        ),
    ],
)
def test_some_columns_are_read_alone(columns: list[str], rows: list[dict[str, object]]) -> None:
    target = store()
    given = ref(
        target,
        eu=pa.table({"x": [1], "z": [0.5], "odd.name": [7]}),
        us=pa.table({"y": ["a"], "x": [2], "odd.name": [8]}),
    )
    assert read_input(target, given, columns=columns).to_pylist() == rows


def test_a_column_that_no_version_has_is_told() -> None:
    target = store()
    given = ref(target, eu=pa.table({"amount": [1], "id": [2]}))
    with pytest.raises(TaskFailed, match=r"sales.up has no column 'amonut'") as caught:
        read_input(target, given, columns=["amonut"])
    assert caught.value.info.hint == "did you mean 'amount'?"
    with pytest.raises(TaskFailed) as caught:
        read_input(target, given, columns=["w"])
    assert caught.value.info.hint == "it has amount, id, region"


def test_a_dimension_that_is_a_column_already_stays() -> None:
    target = store()
    given = ref(target, eu=pa.table({"region": ["EU!"]}))
    assert read_input(target, given).to_pydict() == {"region": ["EU!"]}


def test_pandas_is_made_and_polars_is_missed() -> None:
    pandas = pytest.importorskip("pandas")
    target = store()
    given = ref(target, eu=TABLE)
    assert isinstance(read_input(target, given, "pandas"), pandas.DataFrame)
    if importlib.util.find_spec("polars") is None:
        with pytest.raises(TaskFailed, match="polars"):
            read_input(target, given, "polars")
    with pytest.raises(TaskFailed, match="spark"):
        read_input(target, given, "spark")


def test_a_version_without_files_is_missing_and_not_empty() -> None:
    target = store()
    for given in (ref(target, eu=TABLE, us=None), InputRef(asset="sales.up")):
        with pytest.raises(TaskFailed) as caught:
            read_input(target, given)
        assert (caught.value.info.category, caught.value.info.code) == ("input", "input.missing")


def test_broken_files_and_types_that_do_not_meet_are_told_apart() -> None:
    target = store()
    target.put("data/up/eu/m/part-00001.parquet", b"no parquet")
    with pytest.raises(TaskFailed, match="part-00001"):
        read_input(target, ref(target, eu=TABLE))
    other = store()
    given = ref(other, a=TABLE, b=pa.table({"x": ["s"]}))
    with pytest.raises(TaskFailed, match="go together"):
        read_input(other, given)


@pytest.mark.parametrize(
    ("one", "other", "wide"),
    [
        (pa.int64(), pa.float64(), None),
        (pa.int64(), pa.float32(), None),
        (pa.decimal128(5, 2), pa.float64(), None),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int8(), pa.float32(), pa.float64()),
        (pa.int64(), pa.decimal128(5, 2), pa.decimal128(22, 2)),
        (pa.large_string(), pa.string_view(), pa.string()),
        (
            pa.struct([("a", pa.int32())]),
            pa.struct([("b", pa.string()), ("a", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.int64())),
    ],
)
def test_versions_are_widened_only_as_far_as_nothing_is_lost(
    one: pa.DataType, other: pa.DataType, wide: pa.DataType | None
) -> None:
    target = store()
    given = ref(target, a=pa.table({"x": pa.nulls(1, one)}), b=pa.table({"x": pa.nulls(1, other)}))
    if wide is not None:
        assert read_input(target, given).schema.field("x").type == wide
        return
    with pytest.raises(TaskFailed, match=r"column 'x' is .* in one and .* in another") as caught:
        read_input(target, given)
    assert (caught.value.info.category, caught.value.info.code) == ("input", "input.schema")


def put(target: MemoryStore, *tables: pa.Table) -> InputRef:
    """An input of versions that hold tables just as they are."""
    refs = []
    for at, table in enumerate(tables):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        target.put(f"data/up/{at}/part-0.parquet", sink.getvalue().to_pybytes())
        version = MaterializationRef(partition="", materialization_id="m", path=f"data/up/{at}")
        refs.append(version)
    return InputRef(asset="sales.up", parameter="up", materializations=tuple(refs))


def test_zones_and_dictionaries_do_not_keep_versions_apart() -> None:
    noon = pa.array([datetime(2025, 7, 1, 12)], pa.timestamp("us", "UTC"))
    packed = pa.array(["a"]).dictionary_encode()
    tables = [
        pa.table({"at": noon.cast(pa.timestamp("us", zone)), "kind": kind})
        for zone, kind in (("+01:00", packed), ("Europe/Berlin", pa.array(["a"])), ("UTC", packed))
    ]
    expected = pa.table({"at": noon, "kind": ["a"]})
    for count in (1, 2, 3):
        target = store()
        found = read_input(target, put(target, *tables[:count]))
        assert found.equals(pa.concat_tables([expected] * count))


def test_names_that_differ_only_in_case_are_refused_as_spark_refuses_them() -> None:
    target = store()
    given = ref(target, a=pa.table({"ID": [1]}), b=pa.table({"id": [2]}))
    with pytest.raises(TaskFailed, match="'ID' and 'id' differ only in case") as caught:
        read_input(target, given)
    assert (caught.value.info.category, caught.value.info.code) == ("input", "input.schema")


def test_large_whole_numbers_survive_a_version_with_decimals() -> None:
    target = store()
    given = put(
        target,
        pa.table({"x": [1 << 62]}),
        pa.table({"x": pa.array([Decimal("0.25")], pa.decimal128(5, 2))}),
    )
    assert read_input(target, given).to_pydict() == {"x": [Decimal(1 << 62), Decimal("0.25")]}
