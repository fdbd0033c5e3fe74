"""A page of the newest rows is what sorting all of them gives, wherever it begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.orchestration import newest_rows
from arco.orchestration.newest_rows import SortedRows
from arco.state.table import Row, Table
from tests.kit.depth import examples

START = datetime(2026, 1, 1)


class MomentRow(Row, frozen=True):
    id: str
    at: datetime


MOMENTS: Table[Any] = Table("tests", "moments", MomentRow, key=("id",))
times = st.integers(0, 6).map(lambda number: START + timedelta(seconds=number, microseconds=number))
ids = st.text("abc", min_size=1, max_size=3)


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    """So that few rows are several chunks, of which the first are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_rows, "FIRST_CHUNK", 3)
        patch.setattr(newest_rows, "FIRST_CHUNKS", 4)
        patch.setattr(newest_rows, "CHUNK", 5)
        yield


@settings(max_examples=examples(100), deadline=None)
@given(
    rows=st.dictionaries(ids, times, max_size=30),
    pages=st.lists(
        st.tuples(st.none() | st.tuples(times, ids), st.none() | times), min_size=1, max_size=3
    ),
)
def test_a_page_begins_and_ends_where_sorting_says(
    rows: dict[str, datetime],
    pages: list[tuple[tuple[datetime, str] | None, datetime | None]],
) -> None:
    arrow = MOMENTS.to_arrow({(id,): (1, MomentRow(id=id, at=at)) for id, at in rows.items()})
    sorted_rows = SortedRows(MOMENTS, arrow, "at", "id")
    newest = sorted(((at, id) for id, at in rows.items()), reverse=True)
    for after, since in pages:
        expected = [
            (at, id)
            for at, id in newest
            if (after is None or (at, id) < after) and (since is None or at >= since)
        ]
        assert [(row.at, row.id) for row in sorted_rows.following(after, since)] == expected
