"""A stored cache of what GC has read of immutable objects.

A thinned generation is kept for weeks, and a file of `log.segments` for ever. What the first refers
to, and which segments the second names, is computed once and stored beside the floor, so that GC
does not read all of them every time. If it is lost or damaged, they are read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from arco.errors import Corrupt, NotFound
from arco.log.manifest import decode_sealed, encode_sealed
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.storage.seal import read_checked

Referred = Mapping[int, frozenset[str]]
"""The objects that each generation refers to."""


class LiveSegment(msgspec.Struct, frozen=True, array_like=True):
    first: int
    path: str
    joined_at: datetime | None = None


class Marks(msgspec.Struct, frozen=True):
    generations: dict[int, frozenset[str]] = {}
    """The objects that thinned generations refer to."""
    segments: dict[str, list[LiveSegment]] = {}
    """The segments that history files of `log.segments` name."""


class _StoredMarks(msgspec.Struct, frozen=True):
    paths: list[str]
    generations: list[tuple[int, list[int]]]
    """Each with the numbers of its paths."""
    segments: dict[str, list[LiveSegment]] = {}


def read_marks(store: Store, floor: int) -> Marks:
    """The marks beside the floor of a number, or the one before it; none if there are none."""
    for number in (floor, floor - 1):
        path = paths.marks(number)
        try:
            stored = read_checked(
                store, path, lambda raw: decode_sealed(raw, _StoredMarks, "marks")
            )
        except (NotFound, Corrupt):
            continue
        generations = {
            generation: frozenset(stored.paths[n] for n in numbers)
            for generation, numbers in stored.generations
        }
        return Marks(generations, stored.segments)
    return Marks()


def write_marks(store: Store, floor: int, marks: Marks) -> None:
    all_paths = sorted(set().union(*marks.generations.values()))
    number_of = {path: n for n, path in enumerate(all_paths)}
    generations = [
        (generation, sorted(number_of[path] for path in referred))
        for generation, referred in sorted(marks.generations.items())
    ]
    raw = encode_sealed(_StoredMarks(all_paths, generations, marks.segments))
    store.put(paths.marks(floor), raw, Mode.OVERWRITE)
