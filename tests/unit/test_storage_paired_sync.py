"""A file and its directory are synced at the same time, and both are waited for."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.storage import localfiles
from arco.storage.local import LocalStore
from arco.storage.paired_sync import PairedSync
from arco.storage.port import Mode


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A file and its directory, open."""
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield file, directory
    os.close(file)
    os.close(directory)


def test_both_are_synced_at_the_same_time(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    synced: set[int] = set()

    def fsync(fd: int) -> None:
        both.wait(60)
        synced.add(fd)

    monkeypatch.setattr(localfiles, "fsync", fsync)
    pairs = PairedSync()
    pairs.sync(*pair)
    pairs.sync(*pair)
    assert synced == set(pair)


@pytest.mark.parametrize("failing", [0, 1])
def test_failure_of_either_is_raised_and_the_next_pair_is_synced(
    pair: tuple[int, int], failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        if fd == pair[failing]:
            raise OSError(errno.EIO, "Input/output error")

    pairs = PairedSync()
    monkeypatch.setattr(localfiles, "fsync", fsync)
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            pairs.sync(*pair)
    monkeypatch.undo()
    pairs.sync(*pair)


def test_pair_after_an_interrupted_one_waits_for_its_own_syncs(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, directory = pair
    slow, failing = threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        if fd == file and not slow.is_set():
            raise KeyboardInterrupt
        if fd == directory and not slow.is_set():
            slow.wait(60)
        if fd == directory and failing.is_set():
            raise OSError(errno.EIO, "Input/output error")

    pairs = PairedSync()
    monkeypatch.setattr(localfiles, "fsync", fsync)
    threading.Timer(0.05, slow.set).start()
    with pytest.raises(KeyboardInterrupt):
        pairs.sync(file, directory)
    slow.set()
    failing.set()
    with pytest.raises(OSError, match="Input/output error"):
        pairs.sync(file, directory)


def test_store_works_in_a_process_that_was_forked_after_its_first_put(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"1", Mode.FRESH)
    child = os.fork()
    if child == 0:
        try:
            store.put("b", b"2", Mode.FRESH)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.put("c", b"3", Mode.FRESH)
    assert [meta.path for meta in store.list("")] == ["a", "b", "c"]


def test_many_threads_put_at_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    def put(first: int) -> None:
        for number in range(first, first + 20):
            store.put(f"objects/{number:03}", b"x", Mode.FRESH)

    threads = [threading.Thread(target=put, args=(20 * n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.list("objects/"))) == 240
