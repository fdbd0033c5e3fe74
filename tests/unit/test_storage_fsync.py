"""What was acknowledged is on the disk, whichever fsync failed before that."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.clock import SystemClock
from arco.errors import AlreadyExists, NotFound, Unavailable
from arco.storage import localfiles, paths
from arco.storage.local import LocalStore
from arco.storage.port import Mode
from arco.storage.unique_objects import put_own
from tests.kit.clocks import SimClock
from tests.kit.depth import DEEP
from tests.kit.workspace import make_workspace

Inode = tuple[int, int]
FOREVER = 10_000


class Disk:
    """Notes what was synced, and fails when it is told to.

    As Linux does it, a failure is told once; after it the same file is never synced
    again, whatever fsync says.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        self._failing = range(0)
        self._held: list[int] = []
        self.synced: set[Inode] = set()
        self.spoiled: set[Inode] = set()
        self.names: set[tuple[Inode, str, Inode]] = set()
        """(directory, name, file) that a sync of the directory has seen."""

    def fail(self, first: int, times: int) -> None:
        """Let calls fail, counted from here."""
        self._failing = range(self.calls + first, self.calls + first + times)

    def fsync(self, fd: int) -> None:
        with self._lock:  # a file and its directory are synced at the same time
            self._fsync(fd)

    def _fsync(self, fd: int) -> None:
        self.calls += 1
        self._held.append(os.dup(fd))  # so that no other file gets its inode number
        status = os.fstat(fd)
        inode = (status.st_dev, status.st_ino)
        directory = stat.S_ISDIR(status.st_mode)
        if self.calls - 1 in self._failing:
            if not directory:
                self.spoiled.add(inode)
            raise OSError(errno.EIO, "Input/output error")
        self.synced.add(inode)
        if directory:
            with os.scandir(fd) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    self.names.add((inode, entry.name, (found.st_dev, found.st_ino)))

    def close(self) -> None:
        for fd in self._held:
            os.close(fd)

    def undurable(self, root: Path) -> list[str]:
        """The files and directories that a power cut could take."""
        return [
            str(path.relative_to(root)) for path in sorted(root.rglob("*")) if not self._safe(path)
        ]

    def _safe(self, path: Path) -> bool:
        inode, parent = _inode(path), _inode(path.parent)
        written = path.is_dir() or (inode in self.synced and inode not in self.spoiled)
        return written and (parent, path.name, inode) in self.names


def _inode(path: Path) -> Inode:
    status = path.stat()
    return status.st_dev, status.st_ino


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(localfiles, "fsync", disk.fsync)
    yield disk
    disk.close()


def make_store(root: Path, kind: str) -> LocalStore:
    store = LocalStore(root)
    store.nameless = kind == "nameless"
    return store


def append(w: Workspace) -> None:
    w.ledger.append([AssetObserved(asset_id="A", row_count=1, size_bytes=1)])


def command(w: Workspace) -> None:
    w.commands.catalog.create_asset("sales.orders")


def command_of_another_process(w: Workspace) -> None:
    """Its directories are not known to be on the disk, and are synced anew."""
    make_workspace(LocalStore(_root(w)), 9, clock=w.clock).commands.catalog.create_asset(
        "sales.orders"
    )


def first_command(w: Workspace) -> None:
    w.commands.catalog.create_namespace("first")


def _root(w: Workspace) -> Path:
    return Path(w.store.url.removeprefix("file://"))


ACTS = [append, command, command_of_another_process, first_command]


def act_once(root: Path, kind: str, act: Callable[[Workspace], None], disk: Disk, *at: int) -> bool:
    """Whether an act was acknowledged, with some fsyncs failing during it."""
    w = make_workspace(make_store(root, kind), 1, clock=SimClock(SystemClock().now()))
    if act is not first_command:
        w.commands.catalog.create_namespace("sales")
    if at:
        disk.fail(*at)
    try:
        act(w)
    except Unavailable:
        return False
    finally:
        disk.fail(0, 0)
    return True


@pytest.mark.parametrize("times", [1, 2, 3, FOREVER] if DEEP else [1, FOREVER])
@pytest.mark.parametrize("kind", ["nameless", "named"])
@pytest.mark.parametrize("act", ACTS)
def test_what_is_acknowledged_was_synced_whichever_fsync_failed(
    tmp_path: Path, disk: Disk, act: Callable[[Workspace], None], kind: str, times: int
) -> None:
    before = disk.calls
    assert act_once(tmp_path / "whole", kind, act, disk)
    steps = disk.calls - before
    assert steps > 1 and disk.undurable(tmp_path / "whole") == []
    acknowledged = 0
    for step in range(steps):
        root = tmp_path / str(step)
        if act_once(root, kind, act, disk, step, times):
            acknowledged += 1
            # The hint is written after the commit, and may stay behind.
            lost = [path for path in disk.undurable(root) if not path.endswith(paths.HINT)]
            assert lost == [], f"fsync {step} of {steps} failed"
    if times < FOREVER:
        assert acknowledged  # failures that pass are survived


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_fresh_object_that_was_not_synced_is_withdrawn(
    tmp_path: Path, disk: Disk, kind: str
) -> None:
    store = make_store(tmp_path, kind)
    store.put("a/first", b"1")
    for step in range(2):
        disk.fail(step, 1)
        with pytest.raises(Unavailable):
            store.put("a/x", b"x", Mode.FRESH)
        with pytest.raises(NotFound):
            store.get("a/x")
    put_own(store, "a/x", b"x")
    assert disk.undurable(tmp_path) == []


def test_fresh_object_that_cannot_be_withdrawn_cannot_be_read(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system went read-only: what is in memory never reaches the disk."""
    store = make_store(tmp_path, "nameless")
    store.put("a/first", b"1")

    def read_only(*args: object, **named: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", read_only)
        disk.fail(0, 1)
        with pytest.raises(Unavailable):
            store.put("a/x", b"x", Mode.FRESH)
        assert (tmp_path / "a/x").read_bytes() == b"x"
        for read in (store.get, store.head, lambda path: store.get_range(path, 0, 1)):
            with pytest.raises(Unavailable):
                read("a/x")
        with pytest.raises(Unavailable):
            put_own(store, "a/x", b"x")
    put_own(store, "a/x", b"x")
    assert store.get("a/x").data == b"x" and disk.undurable(tmp_path) == []


@pytest.mark.parametrize("mode", [Mode.CREATE, Mode.OVERWRITE])
def test_object_whose_name_was_not_synced_is_read_only_after_a_sync(
    tmp_path: Path, disk: Disk, mode: Mode
) -> None:
    """It stays: others may have seen it, and built upon it."""
    store = make_store(tmp_path, "nameless")
    store.put("a/first", b"1")
    disk.fail(1, 4)
    with pytest.raises(Unavailable):
        store.put("a/x", b"x", mode)
    assert make_store(tmp_path, "nameless").get("a/x").data == b"x"
    with pytest.raises(Unavailable):
        store.get("a/x")
    with pytest.raises(Unavailable):
        store.head("a/x")
    with pytest.raises(Unavailable):
        list(store.list("a/"))
    assert disk.undurable(tmp_path) == ["a/x"]
    assert store.get("a/x").data == b"x"
    assert disk.undurable(tmp_path) == []


def test_exists_already_means_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    store = make_store(tmp_path, "nameless")
    store.put("a/first", b"1")
    disk.fail(1, 1)
    with pytest.raises(Unavailable):
        store.put("a/x", b"x")
    disk.fail(1, 1)  # the file of the second attempt is synced, its directory is not
    with pytest.raises(Unavailable):
        store.put("a/x", b"x")
    with pytest.raises(AlreadyExists):
        store.put("a/x", b"x")
    assert disk.undurable(tmp_path) == []
