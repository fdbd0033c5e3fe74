"""The status of a partition as rows tell it, and a picture of many.

Rows are looked at as columns: what decides about the status is the same for most of them.
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


class PartitionLook(NamedTuple):
    """The two columns of a partition's status."""

    state: PartitionState
    quality: Quality


NEVER = PartitionLook(PartitionState.MISSING, Quality.UNKNOWN)


class PartitionCells(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of partitions in their order."""

    share: int
    """How many partitions a cell stands for; the last cell may stand for fewer."""
    looks: list[PartitionLook]
    runs: list[int]
    """Pairs: the number of a look, and how many cells in a row have it."""


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


def _severity(look: PartitionLook) -> int:
    """What of a look says most: a failure, then what checks say, then the state."""
    if look.state != PartitionState.FAILED and look.quality in _WORST_FIRST:
        return _WORST_FIRST.index(look.quality)
    return _WORST_FIRST.index(look.state)


def cells_of(codes: bytearray, looks: Sequence[PartitionLook], most: int) -> PartitionCells:
    """Partitions in at most so many cells, by the numbers of their looks."""
    share = max(1, -(-len(codes) // most))
    by_rank = sorted(range(len(looks)), key=lambda code: _severity(looks[code]))
    ranks = bytes(by_rank.index(code) if code in by_rank else 0 for code in range(256))
    worst = ranked = codes.translate(ranks)
    if share > 1:
        worst = bytearray(min(ranked[at : at + share]) for at in range(0, len(ranked), share))
    runs = [(rank, sum(1 for _ in same)) for rank, same in groupby(worst)]
    return PartitionCells(
        share=share,
        looks=[looks[code] for code in by_rank],
        runs=[number for run in runs for number in run],
    )


def codes_of(rows: pa.RecordBatch, code: Callable[[PartitionLook], int]) -> pa.Array:
    """By rows of `PARTITION_LOOKS`, the numbers of the looks; `code` gives the number of one."""
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
        codes.append(code(PartitionLook(state, quality)))
    return pa.array(codes, pa.uint8()).take(kinds.indices)
