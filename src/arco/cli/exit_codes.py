"""Exit codes of `servo`."""

from __future__ import annotations

from collections.abc import Mapping

BY_KIND: Mapping[str, int] = {
    "invalid": 2,
    "not_found": 3,
    "denied": 4,
    "conflict": 5,
    "unavailable": 6,
    "fenced": 7,
    "corrupt": 8,
}
"""Of errors, by their kind."""
DIFFERENT = 1
"""The command worked and its answer is no: fsck found errors, a rebuild differs."""
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
