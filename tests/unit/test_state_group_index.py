"""Files with an index of row groups: the same rows, with less that is read and parsed."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.log.manifest import FileRef
from arco.state.group_index import LEAST_GROUPS, GroupIndex, GroupKeys, encode_index
from arco.state.lookup import look_up, slices
from arco.state.parquet import Files
from arco.state.rewrite import write_file
from arco.state.row_groups import RowGroups
from arco.state.table import LOOKED_UP_GROUP, Key, Row, Table
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore


class NoteRow(Row, frozen=True):
    book: str
    note: int
    text: str


def notes_table(shard: int = 1, spread: int = 1) -> Table[NoteRow]:
    key, size = ["book", "note"], LOOKED_UP_GROUP
    return Table("t", "notes", NoteRow, key=key, shard=shard, spread=spread, group_rows=size)


NOTES, SPREAD, BY_BOTH = notes_table(), notes_table(spread=32), notes_table(shard=2)
ROWS = 12 * LOOKED_UP_GROUP


class Notes:
    """A file of a table: three notes for each book, and many for one."""

    def __init__(self, table: Table[NoteRow]) -> None:
        rng, clock = random.Random(1), SimClock()
        self.table = table
        self.store = HookStore(MemoryStore(clock))
        keys = [(f"book {n // 3:05d}", n % 3) for n in range(ROWS)]
        keys += [("many", n) for n in range(3 * LOOKED_UP_GROUP)]
        self.rows = {key: NoteRow(*key, rng.randbytes(40).hex()) for key in keys}
        arrow = table.to_arrow({key: (1, row) for key, row in self.rows.items()})
        self.ref: FileRef = write_file(Files(self.store), table, arrow, "base", "N", clock.now())
        self.raw = self.store.get(self.ref.path).data

    def found(self, ref: FileRef, key: Key) -> NoteRow | None:
        return look_up(Files(self.store), [ref], self.table, key)[1]

    def of_shard(self, ref: FileRef, shard: Key) -> list[NoteRow]:
        batches = slices(Files(self.store), [ref], self.table, shard)
        rows = [row for batch in batches for row in self.table.rows_of(batch)]
        return sorted(rows, key=self.table.key_of)

    def reads(self, ref: FileRef, key: Key) -> int:
        self.store.calls.clear()
        self.found(ref, key)
        return len([op for op, _ in self.store.calls if op == "get_range"])


@pytest.fixture(scope="module", params=[NOTES, SPREAD, BY_BOTH], ids=["plain", "spread", "both"])
def notes(request: pytest.FixtureRequest) -> Notes:
    notes = Notes(request.param)
    assert notes.ref.index_bytes
    return notes


def test_rows_are_found_with_the_index_as_without(notes: Notes) -> None:
    without = msgspec.structs.replace(notes.ref, index_bytes=0)
    rng = random.Random(2)
    keys = [*rng.sample(sorted(notes.rows), 60), ("many", 2_000), ("many", 99_999), ("none", 1)]
    for key in keys:
        assert notes.found(notes.ref, key) == notes.found(without, key) == notes.rows.get(key)
    for shard in {key[: notes.table.shard] for key in keys[-5:]}:
        expected = [row for key, row in sorted(notes.rows.items()) if key[: len(shard)] == shard]
        assert notes.of_shard(notes.ref, shard) == notes.of_shard(without, shard) == expected


def test_a_shard_key_that_is_not_there_is_not_read(notes: Notes) -> None:
    absent = [(f"book {n:05d} too", 1) for n in range(40)]
    reads = [notes.reads(notes.ref, key) for key in absent]
    assert set(reads) <= {1, 2}, "the footer, and a row group that may hold it"
    assert reads.count(1) > 30


def test_others_read_the_file_as_if_it_had_no_index(notes: Notes, tmp_path: Path) -> None:
    table = pq.read_table(pa.BufferReader(notes.raw))
    assert set(map(notes.table.key_of, notes.table.rows_of(table))) == set(notes.rows)
    path = tmp_path / "n.parquet"
    path.write_bytes(notes.raw)
    query = f"SELECT count(*), count(DISTINCT text) FROM '{path}'"
    answer = duckdb.connect().execute(query).fetchall()
    assert answer == [(len(notes.rows), len(notes.rows))]


def test_the_footer_of_some_row_groups_describes_them(notes: Notes) -> None:
    end = notes.raw[-notes.ref.footer_bytes :]
    whole = pq.read_metadata(pa.BufferReader(end))
    index = GroupIndex(end, notes.ref.index_bytes)
    numbers = [1, 4, whole.num_row_groups - 1]
    part = index.metadata(numbers)
    assert [RowGroups(part)[i] for i in range(3)] == [RowGroups(whole)[i] for i in numbers]
    assert part.schema.equals(whole.schema)


def test_a_footer_that_is_written_otherwise_gets_no_index(notes: Notes) -> None:
    footer = notes.raw[-notes.ref.footer_bytes + notes.ref.index_bytes :]
    groups = pq.read_metadata(pa.BufferReader(footer)).num_row_groups
    keys = [GroupKeys([b"a"], [])] * groups
    assert groups >= LEAST_GROUPS and encode_index(footer, keys)
    assert encode_index(footer, keys[1:]) == b"", "another number of row groups"
    assert encode_index(footer.replace(b"parquet-cpp", b"parquet-new"), keys) == b""
