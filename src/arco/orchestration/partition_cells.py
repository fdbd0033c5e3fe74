"""Partition status computed from rows, and a compact picture of many partitions.

Rows are processed as columns, because most of them have the same status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.execution.states import (
    PartitionState,
    PartitionStatus,
    Quality,
    quality_of,
    state_of,
)


class PartitionStateQuality(NamedTuple):
    """State and quality: the two columns of a partition's status."""

    state: PartitionState
    quality: Quality


NEVER = PartitionStateQuality(PartitionState.MISSING, Quality.UNKNOWN)


class PartitionCells(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions in order, several of them combined into one cell."""

    share: int
    """Partitions per cell; the last cell may have fewer."""
    statuses: list[PartitionStateQuality]
    runs: list[int]
    """Run-length encoded: an index into `statuses`, then the number of consecutive cells."""


_WORST_FIRST = (
    PartitionState.FAILED,
    Quality.QUARANTINED,
    Quality.BLOCKED,
    Quality.REJECTED,
    PartitionState.STALE,
    PartitionState.MATERIALIZING,
    Quality.WARNED,
    PartitionState.MISSING,
    PartitionState.MATERIALIZED,
)


def _severity(status: PartitionStateQuality) -> int:
    """The rank of a status: failures first, then check results, then the state."""
    if status.state != PartitionState.FAILED and status.quality in _WORST_FIRST:
        return _WORST_FIRST.index(status.quality)
    return _WORST_FIRST.index(status.state)


def cells_of(
    codes: bytearray, statuses: Sequence[PartitionStateQuality], most: int
) -> PartitionCells:
    """Combine partitions into at most `most` cells; each has the worst status of its partitions."""
    share = max(1, -(-len(codes) // most))
    by_rank = sorted(range(len(statuses)), key=lambda code: _severity(statuses[code]))
    ranks = bytes(by_rank.index(code) if code in by_rank else 0 for code in range(256))
    worst = ranked = codes.translate(ranks)
    if share > 1:
        worst = bytearray(min(ranked[at : at + share]) for at in range(0, len(ranked), share))
    runs = [(rank, sum(1 for _ in same)) for rank, same in groupby(worst)]
    return PartitionCells(
        share=share,
        statuses=[statuses[code] for code in by_rank],
        runs=[number for run in runs for number in run],
    )


def codes_of(rows: pa.RecordBatch, code: Callable[[PartitionStateQuality], int]) -> pa.Array:
    """The status codes of rows of `PARTITION_STATUS_ROWS`; `code` gives the code of a status."""
    empty = pa.scalar("")
    kinds = pc.binary_join_element_wise(
        rows.column("status"),
        pc.not_equal(rows.column("current"), empty).cast(pa.string()),
        pc.not_equal(rows.column("last"), empty).cast(pa.string()),
        rows.column("error_code"),
        "\n",
    ).dictionary_encode()
    codes = []
    for kind in kinds.dictionary.to_pylist():
        text, current, last, error_code = kind.split("\n", 3)
        status = PartitionStatus(text)
        state = state_of(status, "" if current == "false" else current)
        quality = quality_of(status, "" if last == "false" else last, error_code)
        codes.append(code(PartitionStateQuality(state, quality)))
    return pa.array(codes, pa.uint8()).take(kinds.indices)
