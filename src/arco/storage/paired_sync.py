"""Syncing a file and its directory at the same time.

One after the other, they are two requests to the disk, and two commits of the file system's
journal where others write as well. At the same time they share one. So a thread beside the
caller syncs the directory, while the caller syncs the file; a thread that waits costs nothing.
"""

from __future__ import annotations

import os
import threading

from arco.storage import localfiles

_THREADS = 8


class _Companion:
    """A thread that syncs one descriptor at a time for its owner."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._requested, self._answered = threading.Lock(), threading.Lock()
        self._requested.acquire()
        self._answered.acquire()
        self._fd: int | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._serve, name="arco-sync", daemon=True).start()

    def begin(self, fd: int) -> None:
        self._fd = fd
        self._requested.release()

    def end(self) -> None:
        """Wait for the answer. Raises what fsync raised."""
        self._answered.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def leave(self) -> None:
        """Let the thread end after its current sync."""
        self._fd = None
        if self._requested.locked():  # otherwise it has not started yet
            self._requested.release()

    def _serve(self) -> None:
        while True:
            self._requested.acquire()
            if self._fd is None:
                return
            try:
                localfiles.fsync(self._fd)
            except OSError as error:
                self._error = error
            self._answered.release()


class PairedSync:
    """A pool of idle threads; more are started for concurrent puts."""

    def __init__(self) -> None:
        self._idle: list[_Companion] = []
        self._started = 0

    def sync(self, file: int, directory: int) -> None:
        """fsync of both. Raises OSError if one of them failed, after both have ended."""
        companion = self._companion()
        if companion is None:
            localfiles.fsync(file)
            localfiles.fsync(directory)
            return
        companion.begin(directory)
        try:
            try:
                localfiles.fsync(file)
            finally:
                companion.end()
        except OSError:
            self._idle.append(companion)
            raise
        except BaseException:  # raised by a signal: whether the thread is done is unknown
            self._started -= 1
            companion.leave()
            raise
        self._idle.append(companion)

    def _companion(self) -> _Companion | None:
        while True:
            try:
                companion = self._idle.pop()
            except IndexError:
                break
            if companion.process == os.getpid():
                return companion
            self._started -= 1  # its thread stayed in the process that this one was forked from
        if self._started >= _THREADS:
            return None
        try:
            companion = _Companion()
        except RuntimeError:  # no more threads can be started
            return None
        self._started += 1
        return companion
