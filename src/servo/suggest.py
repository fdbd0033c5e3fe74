"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the known word that is nearest, or nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""
