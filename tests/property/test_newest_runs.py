"""A page of the newest rows is what sorting all of them gives, wherever it begins and ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=examples(100), deadline=None)
@given(
    rows=st.dictionaries(ids, times, max_size=30),
    after=st.none() | st.tuples(times, ids),
    since=st.none() | times,
)
def test_a_page_begins_and_ends_where_sorting_says(
    rows: dict[str, datetime], after: tuple[datetime, str] | None, since: datetime | None
) -> None:
    arrow = MOMENTS.to_arrow({(id,): (1, MomentRow(id=id, at=at)) for id, at in rows.items()})
    page = SortedRows(MOMENTS, arrow, "at", "id").following(after, since)
    newest = sorted(((at, id) for id, at in rows.items()), reverse=True)
    expected = [
        (at, id)
        for at, id in newest
        if (after is None or (at, id) < after) and (since is None or at >= since)
    ]
    assert [(row.at, row.id) for row in page] == expected
