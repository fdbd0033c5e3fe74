"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, candidates: Iterable[str], *, likeness: float = 0.6) -> str:
    """`did you mean 'x'?` for the known word that is nearest, whatever its case; or nothing.

    With a `likeness` of 1 only equal words are near.
    """
    by_lower = {each.lower(): each for each in sorted(candidates)}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=likeness)
    return f"did you mean {by_lower[near[0]]!r}?" if near else ""
