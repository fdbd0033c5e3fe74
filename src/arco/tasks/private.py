"""What the processes that run user code must not have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

VARIABLES: Final = ("ARCO_TASK_KEYS",)
"""Of the environment: the keys that sign envelopes."""


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """What is started meanwhile does not inherit them."""
    kept = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
