"""Parts of logs for callers who do not see everything: whole lines, so that no name is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arco.api.reads.run_reads import whole_lines

LOG = b"read hr.salaries\nwrote 3 rows\n\nlast line without an end"


@given(st.integers(0, len(LOG)), st.integers(1, len(LOG)))
def test_a_part_has_whole_lines_of_the_log_alone(start: int, length: int) -> None:
    data = LOG[start : start + length]
    starts_line = start == 0 or LOG[start - 1 : start] == b"\n"
    is_last = start + length >= len(LOG)
    skipped, part = whole_lines(data, starts_line=starts_line, is_last=is_last)
    assert data[skipped : skipped + len(part)] == part
    assert set(part.splitlines()) <= set(LOG.splitlines())


def test_parts_in_order_give_the_whole_log() -> None:
    read, start = b"", 0
    while start < len(LOG):
        data = LOG[start : start + 30]
        skipped, part = whole_lines(data, starts_line=True, is_last=start + 30 >= len(LOG))
        assert skipped == 0 and part
        read, start = read + part, start + len(part)
    assert read == LOG
