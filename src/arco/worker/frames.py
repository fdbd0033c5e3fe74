"""Frames of libraries that are imported only by the code of assets."""

from __future__ import annotations

import sys


def is_frame(value: object, library: str) -> bool:
    """Whether `value` is a DataFrame of pandas or polars.

    A module that another thread is importing is in `sys.modules` before it has its names; no
    value can be of a class that is not there yet.
    """
    frame = getattr(sys.modules.get(library), "DataFrame", None)
    return isinstance(frame, type) and isinstance(value, frame)
