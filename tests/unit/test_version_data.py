"""The files of a version and its first rows: what is read, and what is hidden."""

from __future__ import annotations

import os
from datetime import datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.answers.version_data import DESCRIBED, files_of, first_rows
from arco.cli import render, sqltable
from arco.errors import Corrupt, Invalid, NotFound
from arco.execution.states import VersionStatus
from arco.execution.tables import MaterializationRow
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock

FOLDER = "data/shop/orders/p/01"
HOSTILE = [
    "it's",
    'a"b',
    "x;DROP TABLE a",
    "a,b",
    "a.b",
    "\x1b[31mred",
    "two\nlines",
    "=cmd()",
    "..",
]


def version(partition: str = "date=d:2026-01-01", **fields: Any) -> MaterializationRow:
    values: dict[str, Any] = {
        "asset_id": "A",
        "materialization_id": "01",
        "partition_key": partition,
        "status": VersionStatus.GOOD,
        "reason": "",
        "version": 1,
        "path": FOLDER,
        "files": 1,
        "rows": 3,
        "bytes": 1,
        "created_at": datetime(2026, 1, 1),
        "metadata": {},
    }
    texts = ("run_id", "task_id", "attempt_id", "schema_hash", "fingerprint")
    return MaterializationRow(**{**dict.fromkeys(texts, ""), **values, **fields})


def put(store: MemoryStore, number: int, table: pa.Table, **options: Any) -> None:
    file = BytesIO()
    pq.write_table(table, file, **options)
    store.put(f"{FOLDER}/part-{number:05d}.parquet", file.getvalue())


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SimClock())


def test_rows_come_from_as_many_files_and_row_groups_as_are_needed(store: MemoryStore) -> None:
    for number in range(3):
        table = pa.table({"id": [10 * number + n for n in range(4)], "x": ["a"] * 4})
        put(store, number, table, row_group_size=2)
    rows = first_rows(store, version(), 7)
    assert rows.table.to_pydict() == {
        "id": [0, 1, 2, 3, 10, 11, 12],
        "x": ["a"] * 7,
        "date": [datetime(2026, 1, 1).date()] * 7,
    }
    assert first_rows(store, version(), 99).table.num_rows == 12
    chosen = first_rows(store, version(), 2, ["DATE,Id"]).table
    assert chosen.column_names == ["date", "id"]
    assert first_rows(store, version(), 5, ["date"]).table.num_rows == 5
    with pytest.raises(Invalid, match="no column 'idd'"):
        first_rows(store, version(), 2, ["idd"])


def test_only_the_beginning_of_columns_that_are_shown_is_fetched(store: MemoryStore) -> None:
    texts = [os.urandom(512).hex() for _ in range(3_000)]
    table = pa.table({"id": list(range(3_000)), "note": texts, "secret": texts})
    put(store, 0, table, data_page_size=64 << 10, use_dictionary=False)
    size = store.get(f"{FOLDER}/part-00000.parquet").data
    narrow = first_rows(store, version(), 20, ["id"])
    assert narrow.table["id"].to_pylist() == list(range(20))
    assert narrow.fetched < len(size) // 20
    whole = first_rows(store, version(), 20, hidden={"secret"})
    assert whole.table["note"].to_pylist() == texts[:20]
    assert whole.table["secret"].to_pylist() == ["***"] * 20
    assert whole.masked == ["secret"]
    assert whole.fetched < len(size) // 4


def test_hostile_names_of_columns_are_shown_as_text(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, 0, pa.table({name: [f"{at}"] for at, name in enumerate(HOSTILE)}))
    rows = first_rows(store, version(""), 5)
    assert rows.table.column_names == HOSTILE
    assert first_rows(store, version(""), 5, ["a,b", "a.b"]).table.to_pydict() == {
        "a,b": ["3"],
        "a.b": ["4"],
    }
    render.show(sqltable.fitted(rows.table, 1_000).body)
    header, line = capsys.readouterr().out.splitlines()
    assert r"\x1b[31mred" in header and "two lines" in header
    assert line.split() == [str(at) for at in range(len(HOSTILE))]
    assert [c.name for c in files_of(store, version("")).files[0].columns] == HOSTILE


def test_of_ten_files_statistics_are_told_and_of_the_others_sizes(store: MemoryStore) -> None:
    for number in range(DESCRIBED + 2):
        put(store, number, pa.table({"id": [number], "email": ["a@b.c"]}))
    listed = files_of(store, version(), {"email"})
    assert listed.total == DESCRIBED + 2
    assert [entry.row_count for entry in listed.files] == [1] * DESCRIBED + [None, None]
    assert all(entry.size_bytes > 0 for entry in listed.files)
    id, email = listed.files[3].columns
    assert (id.name, id.min, id.max, id.nulls) == ("id", "3", "3", 0)
    assert (email.name, email.min, email.max, email.nulls) == ("email", None, None, 0)


def test_what_is_gone_or_damaged_is_told_apart(store: MemoryStore) -> None:
    with pytest.raises(NotFound, match="has no files: they are missing"):
        first_rows(store, version(), 1)
    expired = version(status=VersionStatus.EXPIRED, reason="its asset keeps 1 version")
    with pytest.raises(NotFound, match="expired: its asset keeps 1 version"):
        files_of(store, expired)
    assert first_rows(store, version(files=0), 1).table.num_rows == 0
    store.put(f"{FOLDER}/part-00000.parquet", b"no Parquet")
    for read in (lambda: first_rows(store, version(), 1), lambda: files_of(store, version())):
        with pytest.raises(Corrupt, match="part-00000"):
            read()
