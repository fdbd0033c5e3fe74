"""Compares the rows of two versions with Spark, by key: what DuckDB does with smaller ones."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from arco.columns.quoting import backticked
from arco.execution.version_diff import (
    DiffColumns,
    DuplicateKeys,
    KeyChanges,
    RowChange,
    duplicates_refused,
    example_of,
)
from arco.spark.read import HasSession, read_frame
from arco.storage.port import Store
from servo.contract.task import InputRef, MaterializationRef

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def compare_with_spark(
    task: HasSession,
    store: Store,
    asset: str,
    versions: tuple[MaterializationRef, MaterializationRef],
    columns: DiffColumns,
    examples: int,
    hidden: Collection[str],
) -> KeyChanges:
    """`versions` are the first and the second one. Invalid if the key is none."""
    frames = [
        _numbered(
            read_frame(task, store, InputRef(asset=asset, materializations=(ref,))), side, columns
        )
        for side, ref in zip("ab", versions, strict=True)
    ]
    for version, side, frame in zip(("first", "second"), "ab", frames, strict=True):
        keys = [f"{side}k{at}" for at in range(len(columns.keys))]
        count = frame.groupBy(*keys).count().where("count > 1").count()
        if count:
            raise duplicates_refused(DuplicateKeys(version, count), columns)  # type: ignore[arg-type]
    joined = _joined(frames[0], frames[1], columns)
    return _changes(joined, columns, examples, hidden)


def _numbered(frame: DataFrame, side: str, columns: DiffColumns) -> DataFrame:
    from pyspark.sql import functions as F

    names = [
        *((f"{side}k{at}", column) for at, column in enumerate(columns.keys)),
        *((f"{side}v{at}", column) for at, column in enumerate(columns.values)),
    ]
    return frame.select(
        F.lit(True).alias(f"in_{side}"),
        *(
            F.col(backticked(column.before if side == "a" else column.after)).alias(name)
            for name, column in names
        ),
    )


def _joined(before: DataFrame, after: DataFrame, columns: DiffColumns) -> DataFrame:
    from pyspark.sql import functions as F

    keys, values = range(len(columns.keys)), range(len(columns.values))
    matches = reduce(and_, (F.col(f"ak{at}").eqNullSafe(F.col(f"bk{at}")) for at in keys))
    frame = before.join(after, matches, "full_outer")
    differs = {f"d{at}": ~F.col(f"av{at}").eqNullSafe(F.col(f"bv{at}")) for at in values}
    frame = frame.withColumns(differs) if differs else frame
    both = F.col("in_a").isNotNull() & F.col("in_b").isNotNull()
    any_differs: Column = reduce(or_, (F.col(name) for name in differs), F.lit(False))
    change = (
        F.when(F.col("in_a").isNull(), "added")
        .when(F.col("in_b").isNull(), "removed")
        .when(both & any_differs, "changed")
        .otherwise("same")
    )
    named = {f"k{at}": F.coalesce(F.col(f"ak{at}"), F.col(f"bk{at}")) for at in keys}
    return frame.withColumns({"change": change, **named})


def _changes(
    joined: DataFrame, columns: DiffColumns, examples: int, hidden: Collection[str]
) -> KeyChanges:
    from pyspark.sql import functions as F

    kinds = ("added", "removed", "changed", "same")
    count_of = [F.count(F.when(F.col("change") == kind, 1)) for kind in kinds]
    count_of += [
        F.count(F.when((F.col("change") == "changed") & F.col(f"d{at}"), 1))
        for at in range(len(columns.values))
    ]
    row = joined.agg(*(each.alias(f"c{at}") for at, each in enumerate(count_of))).collect()[0]
    counts = dict(zip(kinds, row[:4], strict=True))
    by_column = zip(columns.values, row[4:], strict=True)
    listed = [
        example
        for kind in ("changed", "added", "removed")
        if counts[kind]
        for example in _examples(joined, kind, columns, examples, hidden)
    ]
    return KeyChanges(
        key=tuple(column.name for column in columns.keys),
        engine="spark",
        **counts,
        columns={column.name: count for column, count in by_column if count},
        not_compared=columns.not_compared,
        examples=tuple(listed),
    )


def _examples(
    joined: DataFrame, change: Any, columns: DiffColumns, limit: int, hidden: Collection[str]
) -> list[RowChange]:
    from pyspark.sql import functions as F

    keys, values = range(len(columns.keys)), range(len(columns.values))
    order = [f"k{at}" for at in keys]
    names = [*order, *(f"av{at}" for at in values), *(f"bv{at}" for at in values)]
    texts = [F.col(name).cast("string").alias(f"t{at}") for at, name in enumerate(names)]
    rows = (
        joined.where(F.col("change") == change)
        .orderBy(*order)
        .limit(limit)
        .select(*texts, *(f"d{at}" for at in values))
        .collect()
    )
    end_of_keys, end_of_before = len(keys), len(keys) + len(values)
    end_of_after = end_of_before + len(values)
    return [
        example_of(
            change,
            columns,
            (row[:end_of_keys], row[end_of_keys:end_of_before], row[end_of_before:end_of_after]),
            row[end_of_after:],
            hidden,
        )
        for row in rows
    ]
