"""The moment that times are counted from."""

from __future__ import annotations

from datetime import datetime
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)
"""In UTC and without a zone, like all times of events and rows."""
