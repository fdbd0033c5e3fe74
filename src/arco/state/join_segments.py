"""Joining segments: one object for the commits of a day, instead of one for each.

Segments are the log, and stay for ever. Those of days that are over are joined, in the order
of their positions, into segments of up to `BYTES`; the rows of `log.segments` follow. A
rollback's segment stays as it is, since its row says what it takes back. GC removes the old
segments once no kept generation is from before they were joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import msgspec
import pyarrow as pa

from arco.log import segment
from arco.log.contents import GenerationTables
from arco.log.manifest import FileRef, SegmentRef, sha256
from arco.state.core import Core
from arco.state.rewrite import Rewriter, Swap
from arco.state.system import SEGMENTS, SegmentRow, segment_ref
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.unique_objects import put_own

BYTES = 32 << 20
EVENTS = 100_000
"""Maximum of events in a joined segment: it is read completely, into more memory."""
PORTION = 256
FEW = 8
"""A day or month with fewer segments is left as it is."""
FILES = 4
"""Maximum of days that are joined in one merge."""


class SegmentJoiner:
    def __init__(self, core: Core, rewriter: Rewriter) -> None:
        self._files = core.files
        self._rewriter = rewriter
        self._clock = core.clock
        self._ids = core.ids
        self._done: set[str] = set()

    def join(self, contents: GenerationTables, keep: Callable[[], None]) -> Iterator[Swap]:
        """Swaps of `log.segments`, for the oldest days whose segments are not joined yet."""
        left = FILES
        for ref in self.due(contents):
            keep()
            swap = self._join_file(ref, keep) if left else None
            if swap is not None:
                left -= 1
                yield swap

    def due(self, contents: GenerationTables) -> list[FileRef]:
        """History files of days that are over, with segments that can be joined."""
        history = contents.table(str(SEGMENTS), SEGMENTS.manifest()).history
        over = (contents.head.manifest.log_time - timedelta(days=1)).date()
        return [
            ref
            for ref in history
            if ref.rows > FEW
            and ref.days is not None
            and ref.days[1] < over
            and ref.path not in self._done
        ]

    def _join_file(self, ref: FileRef, keep: Callable[[], None]) -> Swap | None:
        rows = self._files.table(SEGMENTS, ref)
        before = sorted(SEGMENTS.rows_of(rows), key=lambda row: row.first_position)
        after = [self._joined(run, keep) for run in _runs(before)]
        if len(after) == len(before):
            self._done.add(ref.path)  # segments that are large, or rollbacks
            return None
        versioned = {(row.first_position,): (row.last_position, row) for row in after}
        return self._rewriter.replace_history(SEGMENTS, ref, SEGMENTS.to_arrow(versioned))

    def _joined(self, run: Sequence[SegmentRow], keep: Callable[[], None]) -> SegmentRow:
        if len(run) == 1:
            return run[0]
        store = self._files.store
        tables: list[pa.Table] = []
        for start in range(0, len(run), PORTION):
            keep()
            portion = run[start : start + PORTION]
            tables += each(store, lambda row: segment.read_table(store, segment_ref(row)), portion)
        raw = segment.encode_table(pa.concat_tables(tables))
        first, last = run[0].first_position, run[-1].last_position
        ref = SegmentRef(
            paths.segment(first, last, self._ids()), sha256(raw), len(raw), first, last
        )
        put_own(store, ref.path, raw)
        return msgspec.structs.replace(
            run[0],
            last_position=last,
            path=ref.path,
            sha256=ref.sha256,
            bytes=ref.bytes,
            last_received_at=run[-1].last_received_at,
            joined_at=self._clock.now(),
        )


def _runs(rows: Sequence[SegmentRow]) -> Iterator[list[SegmentRow]]:
    """Consecutive segments that make one of a suitable size together."""
    run: list[SegmentRow] = []
    size = 0
    for row in rows:
        follows = run and run[-1].last_position + 1 == row.first_position
        alone = row.rolled_back_to is not None or (run and run[-1].rolled_back_to is not None)
        events = row.last_position - run[0].first_position + 1 if run else 0
        large = size + row.bytes > BYTES or events > EVENTS
        if run and (not follows or alone or large):
            yield run
            run, size = [], 0
        run.append(row)
        size += row.bytes
    if run:
        yield run
