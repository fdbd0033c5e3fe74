"""What a look-up reads of a file: row groups that may hold the key; of views some columns alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arco.log.manifest import FileRef
from arco.state.bucket_windows import GROUPS, RecentRows
from arco.state.lookup import look_up, slices
from arco.state.parquet import WHOLE_FILE_BYTES, Files
from arco.state.rewrite import write_file
from arco.state.table import BUCKETS, LOOKED_UP_GROUP, Row, Table
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore


class PageRow(Row, frozen=True):
    book: str
    page: int
    text: str
    marks: list[str]


class MarksRow(Row, frozen=True):
    book: str
    page: int
    marks: list[str]


PAGES = Table("t", "pages", PageRow, key=["book", "page"], group_rows=LOOKED_UP_GROUP)
SPREAD_PAGES = Table(
    "t", "pages", PageRow, key=["book", "page"], spread=32, group_rows=LOOKED_UP_GROUP
)
MARKS = PAGES.view(MarksRow)
ROWS = 6 * LOOKED_UP_GROUP


class Shelf:
    """A table file of many rows, of a few pages for each book."""

    def __init__(self, table: Table[PageRow], chars: int) -> None:
        rng, clock = random.Random(1), SimClock()
        self.table = table
        self.store = HookStore(MemoryStore(clock))
        self.files = Files(self.store)
        rows = [
            PageRow(f"book {n // 3:05d}", n % 3, rng.randbytes(chars // 2).hex(), [str(n)])
            for n in range(ROWS)
        ]
        arrow = table.to_arrow({table.key_of(row): (1, row) for row in rows})
        self.rows = {table.key_of(row): row for row in rows}
        self.ref: FileRef = write_file(self.files, table, arrow, "base", "N", clock.now())
        self.store.calls.clear()

    def reads(self) -> list[str]:
        return [op for op, _ in self.store.calls if op in ("get", "get_range")]


@pytest.fixture(scope="module")
def small() -> Shelf:
    shelf = Shelf(PAGES, 0)
    assert shelf.ref.bytes < WHOLE_FILE_BYTES
    return shelf


def test_a_look_up_in_a_small_file_of_many_rows_fetches_it_once_and_decodes_one_group(
    small: Shelf,
) -> None:
    for key in (("book 00007", 1), ("book 01234", 2)):
        batches = small.files.batches(PAGES, small.ref, PAGES.bucket(key), key)
        assert look_up(small.files, [small.ref], PAGES, key) == (1, small.rows[key])
        assert [batch.num_rows <= LOOKED_UP_GROUP for batch in batches] == [True]
    assert small.reads() == ["get"]


def test_a_key_that_is_not_there_is_not_found(small: Shelf) -> None:
    assert look_up(small.files, [small.ref], PAGES, ("book 00007", 9)) == (0, None)


def test_a_view_reads_the_columns_that_it_has() -> None:
    shelf = Shelf(PAGES, 200)
    key = ("book 00100", 0)
    (batch,) = shelf.files.batches(MARKS, shelf.ref, MARKS.bucket(key), key)
    assert "text" not in batch.schema.names
    expected = MarksRow(*key, shelf.rows[key].marks)
    assert look_up(shelf.files, [shelf.ref], MARKS, key) == (1, expected)
    assert look_up(shelf.files, [shelf.ref], PAGES, key) == (1, shelf.rows[key])


def test_rows_of_a_shard_key_over_many_buckets_are_fetched_at_once() -> None:
    shelf = Shelf(SPREAD_PAGES, 200)
    shard = ("book 00042",)
    for _ in range(2):
        found = _rows(shelf, shard)
        assert found == [row for key, row in shelf.rows.items() if key[0] == shard[0]]
    assert len(shelf.reads()) == 2  # the footer, and all groups of those buckets
    kept = shelf.files.shard_batches(
        shelf.table, shelf.ref, shard, list(shelf.table.buckets(shard))
    )
    assert all(shard[0] in batch.column("book").to_pylist() for batch in kept)


def test_a_shard_key_without_rows_has_none() -> None:
    assert _rows(Shelf(SPREAD_PAGES, 200), ("no such book",)) == []


def test_a_merge_takes_a_few_row_groups_at_a_time(small: Shelf) -> None:
    recent = RecentRows(small.files, PAGES, [small.ref])
    windows = list(recent.windows(0, BUCKETS - 1))
    counts = [sum(recent.counts[b] for b in range(low, high + 1)) for low, high in windows]
    assert sum(counts) == ROWS
    assert max(counts) <= GROUPS * LOOKED_UP_GROUP
    assert sum(recent.between(window).num_rows for window in windows) == ROWS


def _rows(shelf: Shelf, shard: tuple[Any, ...]) -> list[PageRow]:
    batches = slices(shelf.files, [shelf.ref], shelf.table, shard)
    return sorted(
        (row for batch in batches for row in shelf.table.rows_of(batch)),
        key=shelf.table.key_of,
    )
