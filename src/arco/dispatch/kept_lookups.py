"""Lookups that are kept from one generation to the next, until the files of their rows change.

Enqueued tasks need rows that hardly ever change, such as contracts. To see that the files which may
hold a row are the same as at the last lookup takes much less time than to read it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from arco.log.manifest import FileRef
from arco.state.snapshot import Snapshot
from arco.state.table import Table

T = TypeVar("T")

KEPT: Final = 1_000
"""Of the assets of active runs."""


class KeptLookups:
    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], tuple[tuple[FileRef, ...], Any]] = OrderedDict()

    def get(self, snapshot: Snapshot, table: Table[Any], shard: str, read: Callable[[], T]) -> T:
        """What `read` returns, which depends only on the rows of one shard key of a table."""
        files = snapshot.files_with(table, shard)
        entry = self._entries.get((str(table), shard))
        if entry is not None and entry[0] == files:
            value: T = entry[1]
            return value
        value = read()
        self._entries[str(table), shard] = files, value
        if len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        return value
