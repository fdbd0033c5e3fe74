"""Compatibility of schemas, against a judge: pyarrow that reads real Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.columns.arrow import arrow_fields
from arco.columns.compatibility import compare
from arco.columns.schema_columns import (
    SchemaColumn,
    actual_columns,
    declared_type,
    plain_type,
    shape_of,
)
from arco.columns.types import text
from servo.contract.task import ColumnInfo
from tests.kit.depth import examples

LEAVES: dict[Any, list[Any]] = {
    pa.int8(): [-(2**7), 2**7 - 1],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.float32(): [0.1, 3.0e38],
    pa.float64(): [0.1, 1.0e300],
    pa.decimal128(9, 2): ["-9999999.99", "9999999.99"],
    pa.decimal128(12, 2): ["-9999999999.99", "9999999999.99"],
    pa.decimal128(22, 0): ["-9999999999999999999999", "9999999999999999999999"],
    pa.string(): ["", "7"],
    pa.bool_(): [True, False],
}
"""With the extreme values of each: what holds those holds all."""


def values(type: Any, nullable: bool) -> list[Any]:
    some: list[Any]
    if pa.types.is_struct(type):
        columns = [values(each.type, each.nullable) for each in type]
        rows = max(map(len, columns))
        filled = [[column[i % len(column)] for i in range(rows)] for column in columns]
        some = [
            {each.name: column[i] for each, column in zip(type, filled, strict=True)}
            for i in range(rows)
        ]
    elif pa.types.is_list(type):
        some = [values(type.value_type, type.value_field.nullable), []]
    elif pa.types.is_map(type):
        items = values(type.item_type, type.item_field.nullable)
        keys = values(type.key_type, False)
        some = [[(keys[i], items[i]) for i in range(min(len(keys), len(items)))]]
    else:
        some = pa.array(LEAVES[type]).cast(type).to_pylist()
    return [*some, None] if nullable else some


def table(schema: pa.Schema) -> pa.Table:
    columns = [values(each.type, each.nullable) for each in schema]
    rows = max(map(len, columns))
    arrays = [
        pa.array([column[i % len(column)] for i in range(rows)], each.type)
        for each, column in zip(schema, columns, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def reads(file: Path, reader: pa.Schema, *, may_lack: bool) -> bool:
    """Whether pyarrow reads a file as another schema, with the same values and no new nulls.

    Columns are found by name. `may_lack`: the file may lack columns that may be null.
    """
    stored = pq.read_table(file)
    if not may_lack and not set(reader.names) <= set(stored.schema.names):
        return False
    try:
        result = ds.dataset(file, schema=reader, format="parquet").to_table()
        result.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    for each in reader:
        column = result.column(each.name)
        if not fits(column.combine_chunks(), each):
            return False
        if each.name in stored.schema.names and not same(
            stored.column(each.name).to_pylist(), column.to_pylist()
        ):
            return False
    return True


def fits(array: Any, field: Any) -> bool:
    """Whether there is no null where the field has none, at any depth."""
    if not field.nullable and array.null_count:
        return False
    type = field.type
    if pa.types.is_struct(type):
        present = array.filter(array.is_valid())
        return all(fits(pc.struct_field(present, [i]), type.field(i)) for i in range(len(type)))
    if pa.types.is_map(type):
        return fits(array.items, type.item_field)
    if pa.types.is_list(type):
        return fits(array.flatten(), type.value_field)
    return True


def same(before: Any, after: Any) -> bool:
    """Equal values of the same sort; fields that only one of them has do not count."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(same(before[name], after[name]) for name in before.keys() & after.keys())
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(same, before, after))
    return bool(before == after) and isinstance(before, bool) == isinstance(after, bool)


def columns_of(schema: pa.Schema) -> tuple[SchemaColumn, ...]:
    return tuple(
        SchemaColumn(name=each["name"], type=plain_type(each["type"]), nullable=each["nullable"])
        for each in arrow_fields(schema)
    )


leaf = st.sampled_from(list(LEAVES))
pairs = st.one_of(
    st.tuples(leaf, leaf), leaf.map(lambda type: (type, type)), leaf.map(lambda type: (type, type))
)
nulls = st.tuples(st.booleans(), st.booleans())


@st.composite
def type_pairs(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    """A type and what became of it."""
    kind = draw(st.sampled_from(["leaf", "leaf", "struct", "list", "map"])) if depth else "leaf"
    if kind == "struct":
        before, after = draw(field_pairs(depth - 1))
        return pa.struct(before), pa.struct(after)
    if kind == "list":
        inner, (was, is_) = draw(type_pairs(depth - 1)), draw(nulls)
        return (
            pa.list_(pa.field("element", inner[0], was)),
            pa.list_(pa.field("element", inner[1], is_)),
        )
    if kind == "map":
        inner, (was, is_) = draw(type_pairs(depth - 1)), draw(nulls)
        return (
            pa.map_(pa.string(), pa.field("value", inner[0], was)),
            pa.map_(pa.string(), pa.field("value", inner[1], is_)),
        )
    one, other = draw(pairs)
    return one, other


@st.composite
def field_pairs(draw: st.DrawFn, depth: int = 2) -> tuple[list[Any], list[Any]]:
    """Fields and what became of them: each may have left, or come."""
    old: list[Any] = []
    new: list[Any] = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        (before, after), (was, is_) = draw(type_pairs(depth)), draw(nulls)
        where = draw(st.sampled_from(["both", "both", "both", "old", "new"]))
        if where != "new":
            old.append(pa.field(name, before, was))
        if where != "old":
            new.append(pa.field(name, after, is_))
    keep = pa.field("k", pa.int64(), True)
    return [*old, keep], [*new, keep]


def no_violation(old: pa.Schema, new: pa.Schema, mode: Any) -> bool:
    return not compare(columns_of(old), columns_of(new), mode).violations


@given(fields=field_pairs())
@settings(max_examples=examples(60), deadline=None)
def test_compatible_schemas_read_each_others_files(
    fields: tuple[list[Any], list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    old, new = map(pa.schema, fields)
    folder = tmp_path_factory.mktemp("files")
    for name, schema in (("old", old), ("new", new)):
        pq.write_table(table(schema), folder / f"{name}.parquet")
    if no_violation(old, new, "backward"):
        assert reads(folder / "old.parquet", new, may_lack=True)
    if no_violation(old, new, "forward"):
        assert reads(folder / "new.parquet", old, may_lack=False)


def test_every_pair_of_types_is_judged_as_pyarrow_reads_it(tmp_path: Path) -> None:
    targets = (pa.float32(), pa.decimal128(9, 2))
    exact = {(small, target) for small in (pa.int8(), pa.int16()) for target in targets}
    """pyarrow reads these without loss; Spark does not read them."""
    for before in LEAVES:
        old = pa.schema([pa.field("a", before, False)])
        pq.write_table(table(old), tmp_path / "old.parquet")
        for after in LEAVES:
            new = pa.schema([pa.field("a", after, False)])
            allowed = no_violation(old, new, "backward")
            judged = reads(tmp_path / "old.parquet", new, may_lack=True)
            assert allowed == judged or (before, after) in exact, f"{before} -> {after}"
            assert allowed == no_violation(new, old, "forward")


@pytest.mark.parametrize("was", [True, False])
@pytest.mark.parametrize("is_", [True, False])
def test_nullability_is_judged_as_pyarrow_reads_it(tmp_path: Path, was: bool, is_: bool) -> None:
    old = pa.schema([pa.field("a", pa.int64(), was), pa.field("k", pa.int64())])
    new = pa.schema([pa.field("a", pa.int64(), is_), pa.field("k", pa.int64())])
    pq.write_table(table(old), tmp_path / "old.parquet")
    pq.write_table(table(new), tmp_path / "new.parquet")
    by_new = reads(tmp_path / "old.parquet", new, may_lack=True)
    by_old = reads(tmp_path / "new.parquet", old, may_lack=False)
    # Backward protects those who read by the old columns, too.
    assert no_violation(old, new, "backward") == (by_new and by_old)
    assert no_violation(old, new, "forward") == by_old
    assert no_violation(old, new, "full") == (by_new and by_old)


NESTED = [
    ("struct<x:int>", "struct<x:int,y:string>", True),
    ("struct<x:int,y:string>", "struct<x:int>", False),
    ("array<struct<x:int>>", "array<struct<x:bigint,y:int>>", True),
    ("array<struct<x:bigint>>", "array<struct<x:int>>", False),
    ("map<string,struct<x:int>>", "map<string,struct<x:bigint>>", True),
    ("map<string,struct<x:int>>", "map<string,struct<x:string>>", False),
    ("varchar(3)", "varchar(4)", True),
]


@pytest.mark.parametrize(("before", "after", "allowed"), NESTED)
def test_what_is_inside_of_types_counts(before: str, after: str, allowed: bool) -> None:
    old, new = ([SchemaColumn(name="a", type=declared_type(each))] for each in (before, after))
    assert (not compare(old, new).violations) == allowed


@given(fields=field_pairs(3))
@settings(max_examples=examples(60), deadline=None)
def test_a_type_survives_the_wire(fields: tuple[list[Any], list[Any]]) -> None:
    """As a text where that says all of it, or else with its shape."""
    for column in columns_of(pa.schema(fields[0])):
        info = ColumnInfo(
            name=column.name,
            type=text(column.type),
            nullable=bool(column.nullable),
            shape=shape_of(column.type),
        )
        assert actual_columns([info]) == (column,)
