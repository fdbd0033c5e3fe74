"""Arrow columns of Python values. Most columns have few different values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

FEW = 16
"""Up to this number, values are converted as they are."""


def array_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """A column. A value that all rows have is converted once; so are equal times."""
    count = len(values)
    if count < FEW or not _is_plain(type):
        return pa.array(values, type)
    first = values[0]
    if values[-1] == first and values[count // 2] == first and values.count(first) == count:
        return pa.repeat(pa.scalar(first, type), count)
    if pa.types.is_timestamp(type):
        return _moments(values, type)
    return pa.array(values, type)


def _is_plain(type: pa.DataType) -> bool:
    """Whether equal values are the same value: 0.0 and -0.0 are not."""
    return not pa.types.is_floating(type) and not pa.types.is_nested(type)


def _moments(values: Sequence[datetime | None], type: pa.DataType) -> pa.Array:
    """Converting a datetime is slow, so equal neighbours are converted once."""
    last: datetime | None = None
    distinct: list[datetime | None] = [None]
    places = []
    for value in values:
        if value is not last and value != last:
            last = value
            distinct.append(value)
        places.append(len(distinct) - 1 if value is not None else 0)
    if 4 * len(distinct) > len(values):
        return pa.array(values, type)
    return pa.array(distinct, type).take(pa.array(places, pa.int32()))
