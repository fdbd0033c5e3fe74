"""The moment that times are counted from, and moments out of their counts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)
"""In UTC and without a zone, like all times of events and rows."""
_KEPT: Final = 4_096


class _Moments(dict[int, datetime]):
    """Moments by the microseconds since the epoch, with the last ones kept.

    Rows that changed together have the same moment, and creating one takes longer than reading any
    other value.
    """

    def __missing__(self, microseconds: int) -> datetime:
        moment = EPOCH + timedelta(0, 0, microseconds)
        if len(self) >= _KEPT:
            self.clear()
        self[microseconds] = moment
        return moment


MOMENTS: Final = _Moments()
