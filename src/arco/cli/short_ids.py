"""Short ids for people: as many first characters as tell them apart.

An id begins with the millisecond of its creation, which says in which files it may be; see
`arco.state.days`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

CHARS = 10
"""Number of first characters that hold the creation time, to the millisecond."""


def short(id: str) -> str:
    return id[:CHARS]


def shorts(ids: Iterable[str]) -> dict[str, str]:
    """The first characters of each id, as many as are needed to make all of them different."""
    ordered = sorted(set(ids))
    least = dict.fromkeys(ordered, CHARS)
    for one, other in pairwise(ordered):
        same = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one)
        )
        least[one] = max(least[one], same + 1)
        least[other] = max(least[other], same + 1)
    return {id: id[:count] for id, count in least.items()}
