"""Finding event ids that are in the log more than once, in bounded memory.

Ids are partitioned by their checksum, so that equal ids are in one part. A small part is in memory,
a larger one in a temporary file. The parts are searched one after the other.
"""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

import msgspec

PARTS = 128
PART_BYTES = 512 << 10
"""Of one part, in memory. All parts together stay below 64 MiB."""


class DuplicateEvent(NamedTuple):
    event_id: str
    positions: list[int]


@contextlib.contextmanager
def event_ids(*, parts: int = PARTS, part_bytes: int = PART_BYTES) -> Iterator[EventIds]:
    with contextlib.ExitStack() as files:
        yield EventIds(
            [files.enter_context(tempfile.SpooledTemporaryFile(part_bytes)) for _ in range(parts)]
        )


class EventIds:
    """Every id of a log, with its position."""

    def __init__(self, parts: Sequence[IO[bytes]]) -> None:
        self._parts = parts

    def add(self, ids: Iterable[str], positions: Iterable[int]) -> None:
        for event_id, position in zip(ids, positions, strict=True):
            part = zlib.crc32(event_id.encode()) % len(self._parts)
            self._parts[part].write(msgspec.json.encode((event_id, position)) + b"\n")

    def doubled(self) -> Iterator[DuplicateEvent]:
        for part in self._parts:
            part.seek(0)
            first: dict[str, int] = {}
            duplicates: dict[str, list[int]] = {}
            for line in part:
                event_id, position = msgspec.json.decode(line, type=tuple[str, int])
                if event_id in first:
                    duplicates.setdefault(event_id, [first[event_id]]).append(position)
                else:
                    first[event_id] = position
            for event_id, positions in duplicates.items():
                yield DuplicateEvent(event_id, sorted(positions))
