"""Large files in merges: a part of their bytes is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.errors import Corrupt
from arco.state import file_encoder, opened_file
from arco.state.opened_file import FetchedParts, OpenedFile
from arco.state.row_groups import RowGroups

GROUP = 10
ROWS = pa.table(
    {
        "k": [f"key{n:05}" for n in range(1_000)],
        "_bucket": pa.array([n // 5 for n in range(1_000)], pa.int32()),
        "row_version": range(1_000),
        "_deleted": [False] * 1_000,
    }
)
RAW, REF = file_encoder.encode(
    ROWS, "some/file", key=["k"], shard=1, now=datetime(2026, 1, 1, tzinfo=UTC), group_rows=GROUP
)
METADATA = pq.read_metadata(pa.BufferReader(RAW))
GROUPS = RowGroups(METADATA)


class Fetches:
    def __init__(self, change: Callable[[int, bytes], bytes] = lambda number, raw: raw) -> None:
        self._change = change
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, start: int, length: int) -> bytes:
        self.ranges.append((start, start + length))
        return self._change(len(self.ranges), RAW[start : start + length])

    def opened(self) -> OpenedFile:
        return OpenedFile(REF, FetchedParts(REF, METADATA, self))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "PART_BYTES", 10_000)


def damaged(raw: bytes) -> bytes:
    """With another last byte of the first page, of the keys."""
    at = METADATA.row_group(0).column(0).total_compressed_size - 1
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def test_windows_in_order_fetch_each_byte_once_in_bounded_parts() -> None:
    fetches = Fetches()
    file = fetches.opened()
    windows = [file.between(low, low + 6) for low in range(0, 200, 7)]
    assert pa.concat_tables(windows).equals(ROWS.cast(windows[0].schema))
    assert 2 < len(fetches.ranges) < METADATA.num_row_groups
    starts, ends = zip(*fetches.ranges, strict=True)
    assert starts[1:] == ends[:-1], "each part begins where the one before ends"
    assert starts[0] == GROUPS[0].start and ends[-1] == GROUPS[-1].start + GROUPS[-1].length
    assert all(end - start <= 10_000 for start, end in fetches.ranges)


def test_row_group_larger_than_a_part_is_fetched_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "PART_BYTES", 1)
    fetches = Fetches()
    rows = fetches.opened().between(0, 5)
    assert rows.num_rows == 30 and len(fetches.ranges) == 3


def test_counts_of_buckets_do_not_hold_the_file() -> None:
    fetches = Fetches()
    assert fetches.opened().bucket_counts() == dict.fromkeys(range(200), 5)
    assert all(end - start <= 10_000 for start, end in fetches.ranges)


def test_rows_of_no_group_are_an_empty_table_with_the_columns() -> None:
    rows = Fetches().opened().between(500, 600)
    assert rows.num_rows == 0 and rows.column_names == ROWS.column_names


def test_damaged_part_is_fetched_once_more() -> None:
    fetches = Fetches(lambda number, raw: damaged(raw) if number == 1 else raw)
    assert fetches.opened().between(0, 1).num_rows == 10
    assert len(fetches.ranges) == 2 and fetches.ranges[0] == fetches.ranges[1]


def test_part_that_stays_damaged_is_reported_with_the_path() -> None:
    fetches = Fetches(lambda number, raw: damaged(raw))
    with pytest.raises(Corrupt, match="some/file"):
        fetches.opened().between(0, 199)
