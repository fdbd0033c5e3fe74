"""The interface of commits to the tables: fold events, and create the changed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from arco.log.core import LogCore
from arco.log.envelope import Recorded
from arco.log.head import Head
from arco.log.manifest import ChangesRef, FileRef, SegmentRef
from arco.storage.parallel import each
from arco.storage.unique_objects import put_own


class EncodedFile(NamedTuple):
    """An encoded file, to be put."""

    path: str
    raw: bytes
    ref: FileRef | ChangesRef | SegmentRef
    table: str = ""
    """The table that an L0 file belongs to."""


class AddedFiles(msgspec.Struct, frozen=True):
    """The files that a commit adds to the tables of its parent."""

    changes: tuple[ChangesRef, ...]
    l0: Mapping[str, FileRef]
    """By table."""

    @classmethod
    def of(cls, files: Iterable[EncodedFile]) -> AddedFiles:
        changes: list[ChangesRef] = []
        l0: dict[str, FileRef] = {}
        for file in files:
            match file.ref:
                case ChangesRef():
                    changes.append(file.ref)
                case FileRef():
                    l0[file.table] = file.ref
        return cls(tuple(changes), l0)

    def ref(self, table: str) -> FileRef:
        """The file with a table's changed rows."""
        own = self.l0.get(table)
        if own is not None:
            return own
        return next(ref.of(table) for ref in self.changes if table in ref.tables)


class Projection(Protocol):
    """The rows that a batch of events changes."""

    @property
    def files(self) -> Sequence[Callable[[], EncodedFile]]:
        """Functions that each create one file with changed rows; any thread may call them."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """The number of facts that a fold could not process, by kind."""


class Projector(Protocol):
    """Folds events over the state of a head. Implemented by `arco.state`."""

    def consumed(self, head: Head, names: Iterable[str]) -> set[str]:
        """Those of `names` that commits up to `head` have consumed."""

    def prepare(
        self,
        head: Head,
        events: Sequence[Recorded],
        segment: SegmentRef | None,
        batches: Sequence[str],
        now: datetime,
    ) -> Projection: ...

    def committed(self, head: Head, projection: Projection, added: AddedFiles) -> None:
        """`head` was created with what `projection` has written."""


def write_files(core: LogCore, files: Sequence[Callable[[], EncodedFile]]) -> AddedFiles:
    """Encode and put files; encoding and writing overlap."""

    def write(make: Callable[[], EncodedFile]) -> EncodedFile:
        file = make()
        put_own(core.store, file.path, file.raw, core.clock)
        return file._replace(raw=b"")

    return AddedFiles.of(each(core.store, write, files))
