"""How versions differ by key, compared with a plain model."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.errors import Invalid
from arco.execution.duck_diff import compare_with_duckdb
from arco.execution.version_diff import KeyChanges, column_changes, diff_columns
from arco.storage.memory import MemoryStore
from arco.worker.footers import columns_of, read_footers
from servo.contract.task import ColumnInfo
from tests.kit.clocks import SimClock
from tests.kit.depth import examples

KEY, NAME = 'k"; DROP VIEW a; --', "it's a `value`\n"
Rows = dict[int | None, float | None]


def columns(store: MemoryStore, folder: str) -> tuple[ColumnInfo, ...]:
    return columns_of(read_footers(store, folder), None, lambda text: text)


def put(store: MemoryStore, folder: str, *tables: pa.Table) -> None:
    for number, table in enumerate(tables):
        file = BytesIO()
        pq.write_table(table, file)
        store.put(f"{folder}/part-{number}.parquet", file.getvalue())


def compared(
    before: pa.Table, after: pa.Table, *key: str, hidden: frozenset[str] = frozenset()
) -> KeyChanges:
    store = MemoryStore(SimClock())
    put(store, "data/a", before.slice(0, 1), before.slice(1))
    put(store, "data/b", after)
    chosen = diff_columns(columns(store, "data/a"), columns(store, "data/b"), key)
    return compare_with_duckdb(store, ("data/a", "data/b"), chosen, 5, hidden)


def table(rows: Rows) -> pa.Table:
    keys, values = list(rows), list(rows.values())
    return pa.table({KEY: pa.array(keys, pa.int64()), NAME: pa.array(values, pa.float64())})


rows = st.dictionaries(
    st.none() | st.integers(0, 6), st.none() | st.sampled_from([0.0, 1.5, float("nan")]), max_size=8
)


@given(rows, rows)
@settings(max_examples=examples(25), deadline=None)
def test_duckdb_counts_what_the_model_counts(before: Rows, after: Rows) -> None:
    changes = compared(table(before), table(after), KEY)
    both = [key for key in before if key in after]
    # As text: NaN is the same as NaN.
    changed = [key for key in both if repr(before[key]) != repr(after[key])]
    assert (changes.added, changes.removed) == (len(after) - len(both), len(before) - len(both))
    assert (changes.changed, changes.same) == (len(changed), len(both) - len(changed))
    assert changes.columns == ({NAME: len(changed)} if changed else {})


def test_examples_say_what_changed_and_mask_what_is_personal() -> None:
    before = pa.table({"id": [1, 2], "mail": ["a", "b"], "n": [1, None]})
    after = pa.table({"id": [2, 3], "mail": ["b", "c"], "n": [5, 6]})
    changes = compared(before, after, "ID", hidden=frozenset({"mail"}))
    listed = [(each.change, each.key, each.before, each.after) for each in changes.examples]
    assert listed == [
        ("changed", {"id": "2"}, {"n": None}, {"n": "5"}),
        ("added", {"id": "3"}, {}, {"mail": "***", "n": "6"}),
        ("removed", {"id": "1"}, {"mail": "***", "n": "1"}, {}),
    ]


def test_columns_whose_type_has_changed_are_not_compared_but_numbers_are() -> None:
    before = pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([1], pa.int32()), "x": ["1"]})
    after = pa.table({"id": pa.array([1], pa.int64()), "n": [1.0], "x": [1], "new": [True]})
    changes = compared(before, after, "id")
    assert (changes.same, changes.not_compared) == (1, ("x",))


def test_what_is_no_key_is_refused() -> None:
    twice = pa.table({"id": [1, 1], "n": [1, 2]})
    once = pa.table({"id": [1], "n": [1]})
    with pytest.raises(Invalid, match="id is not unique in the first version: 1 values"):
        compared(twice, once, "id")
    with pytest.raises(Invalid, match="not unique in the second version"):
        compared(once, twice, "id")
    assert compared(once, twice, "id,n").added == 1
    with pytest.raises(Invalid, match="neither version has the key column 'idd'"):
        compared(once, twice, "idd")
    with pytest.raises(Invalid, match="one of the versions lacks the key column 'm'"):
        compared(once, pa.table({"id": [1], "m": [1]}), "m")
    with pytest.raises(Invalid, match="is bigint in one version, string in the other"):
        compared(once, pa.table({"id": ["1"], "n": [1]}), "id")


def test_columns_are_added_removed_and_changed() -> None:
    def column(name: str, **fields: Any) -> ColumnInfo:
        return ColumnInfo(name=name, **{"type": "int", **fields})

    before = [column("a"), column("b", nulls=1), column("c"), column("gone")]
    after = [column("new"), column("a"), column("b", nulls=2), column("c", nullable=False)]
    assert [(each.name, each.change) for each in column_changes(before, after)] == [
        ("new", "added"),
        ("a", "same"),
        ("b", "statistics"),
        ("c", "type"),
        ("gone", "removed"),
    ]
