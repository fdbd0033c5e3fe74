"""Spark's types without Spark: as PySpark itself names them, and closed under widening."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.columns import types
from arco.columns.arrow import arrow_fields, from_arrow, plain, to_arrow
from arco.columns.widening import widened
from arco.spark.schema import ddl, readable_as

_NAMES = st.text("abcXY .`:<>,ü", min_size=1, max_size=4)
_LEAVES = st.sampled_from(
    [
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(4), pa.date32(),
        pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.time64("us"), pa.duration("us"),
        pa.null(), pa.dictionary(pa.int32(), pa.string()),
    ]
)  # fmt: skip
_DECIMALS = st.integers(1, 38).flatmap(
    lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p))
)


def _field(name: str, type: pa.DataType, nullable: bool) -> pa.Field:
    return pa.field(name, type, nullable or pa.types.is_null(type))


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = st.builds(_field, _NAMES, inner, st.booleans())
    unique = st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name)
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda type: pa.list_(type, 3)),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32()]), inner),
        unique.map(pa.struct),
    )


ARROW = st.recursive(st.one_of(_LEAVES, _DECIMALS), _nested, max_leaves=6)


@given(ARROW)
def test_arrow_types_are_what_pyspark_makes_of_them(type: pa.DataType) -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    ours = from_arrow(type)
    theirs = from_arrow_type(type)
    assert ours == theirs.jsonValue()
    assert types.text(ours) == theirs.simpleString()


@given(ARROW)
def test_types_survive_arrow_and_do_not_depend_on_how_values_are_packed(type: pa.DataType) -> None:
    spark = types.nullable(from_arrow(type))
    assert types.nullable(from_arrow(to_arrow(spark))) == spark
    (flat,) = plain(pa.schema([("x", type)])).types
    assert from_arrow(flat) == from_arrow(type)
    assert "dictionary" not in str(flat)


@given(ARROW)
def test_types_survive_their_json(type: pa.DataType) -> None:
    from pyspark.sql.types import StructType

    field = types.nullable_field(types.field("x", from_arrow(type), False))
    parsed = StructType.fromJson(msgspec.json.decode(msgspec.json.encode(types.struct([field]))))
    assert parsed.jsonValue() == types.struct([field])
    assert parsed.fields[0].nullable


@given(ARROW, ARROW)
def test_a_wider_type_does_not_depend_on_the_order(one: pa.DataType, other: pa.DataType) -> None:
    a, b = from_arrow(one), from_arrow(other)
    wide = widened(a, b)
    assert widened(a, a) == a
    assert (wide is None) == (widened(b, a) is None)
    if wide is not None:
        assert widened(wide, a) == wide
        assert _sorted(widened(b, a)) == _sorted(wide)


def _sorted(type: Any) -> Any:
    """Fields of structs are in the order of first appearance, and first nullability."""
    if isinstance(type, dict):
        fields = [{**f, "type": _sorted(f["type"]), "nullable": 0} for f in type.get("fields", [])]
        inner = {k: _sorted(v) for k, v in type.items() if k.endswith("Type")}
        return {"type": type["type"], **inner, "fields": sorted(fields, key=lambda f: f["name"])}
    return type


@given(st.lists(ARROW, min_size=1, max_size=3))
def test_what_is_read_has_the_shape_that_is_wanted(given_types: list[pa.DataType]) -> None:
    found = [from_arrow(type) for type in given_types]
    wide: Any = found[0]
    for each in found[1:]:
        wide = None if wide is None else widened(wide, each)
    if wide is None:
        return
    for each in found:
        read = readable_as(each, wide)
        if each != "void":
            assert _shape(read) == _shape(wide) or "void" in types.text(each)
    assert readable_as(wide, wide) == wide


def _shape(type: Any) -> Any:
    if isinstance(type, str):
        return ""
    return [
        type["type"],
        [(f["name"], _shape(f["type"])) for f in type.get("fields", [])],
        [_shape(type[k]) for k in ("elementType", "keyType", "valueType") if k in type],
    ]


@pytest.mark.parametrize(
    ("one", "other", "wide"),
    [
        ("byte", "long", "long"),
        ("integer", "float", "double"),
        ("integer", "double", "double"),
        ("short", "float", "double"),
        ("long", "double", None),
        ("long", "float", None),
        ("float", "double", "double"),
        ("decimal(5,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,0)", "decimal(4,4)", "decimal(14,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("integer", "decimal(5,2)", "decimal(12,2)"),
        ("void", "string", "string"),
        ("string", "long", None),
        ("date", "timestamp", None),
        ("timestamp", "timestamp_ntz", None),
        ("boolean", "integer", None),
    ],
)
def test_leaves_widen_as_the_table_says(one: str, other: str, wide: str | None) -> None:
    assert widened(one, other) == wide


@given(st.permutations(["byte", "integer", "long", "float", "double"]))
def test_whether_numbers_go_together_does_not_depend_on_the_order(names: list[str]) -> None:
    def all_of(given: list[str]) -> Any:
        wide: Any = "void"
        for name in given:
            wide = None if wide is None else widened(wide, name)
        return wide

    assert all_of(names) is None
    assert all_of([name for name in names if name != "long"]) == "double"


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.date64(), "date"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.timestamp("ms", tz="Europe/Berlin"), "timestamp"),
        (pa.string_view(), "string"),
        (pa.uuid(), "binary"),
        (pa.list_view(pa.int8()), "array<tinyint>"),
    ],
)
def test_types_that_only_arrow_has_are_those_that_spark_reads(type: pa.DataType, text: str) -> None:
    assert types.text(from_arrow(type)) == text


def test_a_type_that_spark_lacks_is_refused_with_its_column() -> None:
    schema = pa.schema({"ok": pa.int64(), "odd": pa.month_day_nano_interval()})
    with pytest.raises(ValueError, match="column 'odd'"):
        arrow_fields(schema)


def test_names_are_quoted_in_schemas() -> None:
    field = types.field("a`b", types.struct([types.field("x y", "long")]))
    assert ddl([field, types.field("c", "string")]) == "`a``b` struct<`x y`: bigint>, `c` string"
