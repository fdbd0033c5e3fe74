"""Which batches were consumed before: the lookup that makes a batch count once.

A name is looked up in every file of `log.batches` whose range of names includes it. Names begin
with the time of their creation, and a file holds the names of some period, so for new batches these
are a few small files of the last minutes, which are cached as sets. A late batch costs reads of the
files of its own time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable

from arco.log.contents import TableFiles
from arco.log.manifest import FileRef
from arco.state.parquet import WHOLE_FILE_BYTES, Files
from arco.state.sorted_rows import find
from arco.state.system import BATCHES

CACHED_FILES = 4_096
"""More than the number of change files without merges: each commit searches all of them."""


class ConsumedBatches:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._names: OrderedDict[str, frozenset[str]] = OrderedDict()

    def among(self, batches: TableFiles, names: Iterable[str]) -> set[str]:
        """Those of `names` that the table has."""
        candidates = sorted(names)
        consumed: set[str] = set()
        if candidates:
            old = batches.history_with(candidates[0], candidates[-1])
            self._forget_all_but({ref.path for ref in (*batches.recent(), *old)})
            for ref in (*batches.recent(), *old):
                low, high = ref.shard
                if low <= candidates[-1] and candidates[0] <= high:
                    consumed |= self._in_file(ref, [n for n in candidates if low <= n <= high])
        return consumed

    def remember(self, path: str, names: Iterable[str]) -> None:
        """Cache the names in a file of the table."""
        self._names[path] = frozenset(names)
        while len(self._names) > CACHED_FILES:
            self._names.popitem(last=False)

    def _forget_all_but(self, paths: Collection[str]) -> None:
        """Remove merged files from the cache: their names are in other files."""
        for path in [path for path in self._names if path not in paths]:
            del self._names[path]

    def _in_file(self, ref: FileRef, names: list[str]) -> set[str]:
        if ref.table or ref.bytes <= WHOLE_FILE_BYTES:
            return set(names) & self._whole(ref)
        return {name for name in names if self._holds(ref, name)}

    def _whole(self, ref: FileRef) -> frozenset[str]:
        if ref.path in self._names:
            self._names.move_to_end(ref.path)
        else:
            self.remember(
                ref.path, self._files.table(BATCHES, ref).column(BATCHES.key[0]).to_pylist()
            )
        return self._names[ref.path]

    def _holds(self, ref: FileRef, name: str) -> bool:
        bucket = BATCHES.bucket((name,))
        return any(
            find(batch, bucket, BATCHES.key, (name,)) >= 0
            for batch in self._files.batches(BATCHES, ref, bucket, (name,))
        )
