"""Rows of runs and of requests for runs, cut to a part of a list that has the newest first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from arco.state.table import Row, Table

R = TypeVar("R", bound=Row)


def in_states(rows: pa.Table, states: Collection[str]) -> pa.Table:
    if not states:
        return rows
    return rows.filter(pc.is_in(rows.column("state"), pa.array(states, pa.string())))


def created_since(rows: pa.Table, since: datetime | None) -> pa.Table:
    if since is None:
        return rows
    return rows.filter(pc.greater_equal(rows.column("created_at"), pa.scalar(since)))


def first_rows(
    table: Table[R], rows: pa.Table, order: list[tuple[str, str]], count: int
) -> list[R]:
    return list(table.rows_of(rows.take(pc.select_k_unstable(rows, count, order))))


def following(rows: pa.Table, after: tuple[datetime, str] | None, time: str, id: str) -> pa.Table:
    """The rows that come after one with this time and id, the newest first."""
    if after is None:
        return rows
    times, ids = rows.column(time), rows.column(id)
    last, last_id = pa.scalar(after[0], times.type), pa.scalar(after[1])
    same = pc.and_(pc.equal(times, last), pc.less(ids, last_id))
    return rows.filter(pc.or_(pc.less(times, last), same))
