"""Cleanup after a commit: the hint is advanced, and consumed batches are deleted.

Both are best effort. A hint that stays behind costs the next reader some probes; a batch that
stays is named by `pending_cleanup`, and later commits skip it and delete it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from arco.errors import Error
from arco.log.head import Head, Manifests
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import Store

log = logging.getLogger(__name__)

DELETES = 8
"""Batches that are deleted at once beside the commits."""
PATIENCE_S = 5.0
"""How long a process that ends waits until the cleanup is done."""
BACKLOG = 64
"""Generations that may wait for their cleanup before a commit does it itself."""


class Cleanup:
    """Cleans up within the commit, or beside it on threads (`start`, `finish`)."""

    def __init__(self, store: Store, manifests: Manifests) -> None:
        self._store = store
        self._manifests = manifests
        self._thread: ThreadPoolExecutor | None = None
        self._deleting: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._pending: set[str] = set()
        """Objects that wait for their delete."""
        self._ending = False
        self._hinted = -1
        self._lock = threading.Lock()

    def start(self) -> None:
        """From now on clean up on threads.

        For a process that commits all the time: the cleanup does not count towards success.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="cleanup")
            self._deleting = ThreadPoolExecutor(DELETES, thread_name_prefix="delete")

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until everything is cleaned up, and go on without the threads.

        With a timeout: later commits clean up the rest.
        """
        thread, deleting = self._thread, self._deleting
        self._thread = None
        if thread is not None and deleting is not None:
            ends = time.monotonic() + timeout_s
            wait([thread.submit(lambda: None)], timeout_s)
            thread.shutdown(wait=False)
            while self._pending and time.monotonic() < ends:
                time.sleep(0.005)
            self._ending = True  # what is queued still returns at once
            deleting.shutdown(wait=False)
            self._deleting, self._ending = None, False

    def after(self, created: Head, *, hint: bool) -> None:
        """Clean up after a generation; `hint`: whether the hint may point at it."""
        thread = self._thread
        if thread is None or self._waiting >= BACKLOG:
            self._clean(created, hint=hint)
            return
        with self._lock:
            self._waiting += 1
        thread.submit(self._clean_on_thread, created, hint=hint)

    def _clean_on_thread(self, created: Head, *, hint: bool) -> None:
        with self._lock:
            self._waiting -= 1
            newest = self._waiting == 0
        try:
            self._clean(created, hint=hint and newest)
        except Exception:
            log.exception("the cleanup after generation %d failed", created.generation)

    def _clean(self, created: Head, *, hint: bool) -> None:
        if hint:
            try:
                self._write_hint(created)
            except Error as error:
                log.warning(
                    "the hint was not updated to generation %d: %s", created.generation, error
                )
        root = created.manifest
        if root.kind != "events":
            return  # remaining batches are passed on to the next commit of events
        batches = map(paths.inbox, root.consumed + root.pending_cleanup)
        deleting = self._deleting
        if deleting is None:
            delete_quietly(self._store, batches)
            return
        with self._lock:  # a later commit names batches that it still lists
            obsolete = [path for path in batches if path not in self._pending]
            self._pending.update(obsolete)
        # Not by the store's own threads: those belong to the commits. A future for each object
        # would cost more than deleting it from a local disk.
        for first in range(min(DELETES, len(obsolete))):
            deleting.submit(self._delete, obsolete[first::DELETES])

    def _delete(self, obsolete: Sequence[str]) -> None:
        try:
            for path in obsolete:
                if not self._ending:
                    delete_quietly(self._store, (path,))
                with self._lock:
                    self._pending.discard(path)
        finally:
            with self._lock:
                self._pending.difference_update(obsolete)

    def _write_hint(self, created: Head) -> None:
        """Write the hint; read it only the first time: an older hint does no harm."""
        if self._hinted < 0:
            self._manifests.write_hint(created)
        elif created.generation > self._hinted:
            self._manifests.put_hint(created)
        self._hinted = max(self._hinted, created.generation)


def delete_quietly(store: Store, obsolete: Iterable[str]) -> int:
    """Delete objects; a failure does not stop the others. Returns the number of failures."""

    def delete(path: str) -> int:
        try:
            store.delete(path)
            return 0
        except Error as error:
            log.warning("could not delete %s: %s", path, error)
            return 1

    return sum(each(store, delete, obsolete))
