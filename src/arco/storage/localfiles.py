"""File system calls of the local store, on open files and directories."""

# Path knows no dir_fd, and costs more than the calls that it makes.
# ruff: noqa: PTH115

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator

from arco.errors import Denied, Error, NotFound, Unavailable
from arco.storage import keys

_HERE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
READ = os.O_RDONLY | _HERE
LOOK = getattr(os, "O_PATH", os.O_RDONLY) | _HERE
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _HERE
NAMELESS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | os.O_CLOEXEC
_NAMED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_OPENINGS = 5

fsync = os.fsync


def open_here(place: str, flags: int) -> int:
    """Open a file or a directory, given without links. NotADirectoryError if links lead there.

    A file that is replaced while it is opened has another name in the same directory on
    some file systems (`.nfs…`): then it is opened again.
    """
    for _ in range(_OPENINGS):
        fd = os.open(place, flags)
        try:
            actual = place_of(fd, place)
        except BaseException:
            os.close(fd)
            raise
        if actual == place:
            return fd
        os.close(fd)
        if actual.rpartition("/")[0] != place.rpartition("/")[0]:
            break
    raise NotADirectoryError(errno.ENOTDIR, "the path contains a symbolic link", place)


def place_of(fd: int, place: str) -> str:
    """The path of an open file, without links; `place` is the path that it was opened by."""
    try:
        actual = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no /proc here
        return os.path.realpath(place)
    # The kernel marks a file as deleted; unless that text is part of its name.
    if actual == f"{place} (deleted)" and not _lies_at(fd, actual):
        return place
    return actual


def _lies_at(fd: int, place: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(place))
    except OSError:
        return False


def time_of(at: int) -> float:
    """The file system's clock, by a file that is made in the directory `at`."""
    with temporary(at, ()) as name:
        return os.stat(name, dir_fd=at).st_mtime


@contextlib.contextmanager
def temporary(at: int, parts: Iterable[bytes]) -> Iterator[str]:
    """The name of a file in the directory `at` that holds `parts`, synced."""
    name = f"{keys.TEMPORARY}{secrets.token_hex(12)}"
    fd = os.open(name, _NAMED, 0o666, dir_fd=at)
    try:
        try:
            for part in parts:
                write(fd, part, sync=False)
            fsync(fd)
        finally:
            os.close(fd)
        yield name
    finally:
        with contextlib.suppress(OSError):  # it has been renamed; or a sweep will remove it
            os.unlink(name, dir_fd=at)


@contextlib.contextmanager
def second_name(at: int, fd: int) -> Iterator[str]:
    """A temporary name in the directory `at` for an open file; for its bytes, where a file
    of another owner or file system cannot be given one."""
    name = f"{keys.TEMPORARY}{secrets.token_hex(12)}"
    try:
        try:
            os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=True)
        except OSError:
            _copy_bytes(fd, at, name)
        yield name
    finally:
        # It was renamed, unless the target was the same file: then nothing happened.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)


def _copy_bytes(fd: int, at: int, name: str) -> None:
    copy = os.open(name, _NAMED, 0o666, dir_fd=at)
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        while part := os.read(fd, 1 << 20):
            write(copy, part, sync=False)
        fsync(copy)
    finally:
        os.close(copy)


def write(fd: int, data: bytes, *, sync: bool = True) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
    if sync:
        fsync(fd)


def read(fd: int, length: int, path: str) -> bytes:
    data = os.read(fd, length)
    while len(data) < length:
        more = os.read(fd, length - len(data))
        if not more:
            raise Unavailable(f"{path} was truncated while it was read")
        data += more
    return data


def status_of(fd: int, path: str) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise NotFound(f"{path} does not exist")
    return status


def remove_if_old(at: int, name: str, limit: float) -> int:
    try:
        if os.stat(name, dir_fd=at, follow_symlinks=False).st_mtime >= limit:
            return 0
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:  # its writer came first
        return 0
    return 1


def remove_if_empty_and_old(at: int, name: str, limit: float) -> None:
    with contextlib.suppress(OSError):  # it is not empty, it is a link, or it is gone
        if os.stat(name, dir_fd=at, follow_symlinks=False).st_mtime < limit:
            os.rmdir(name, dir_fd=at)


def is_text(name: str) -> bool:
    """Names that are not UTF-8 come from elsewhere; no key can name them."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def mapped(error: OSError, path: str) -> Error:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR | errno.ELOOP:
            return NotFound(f"{path} does not exist")
        case errno.EACCES | errno.EPERM:
            return Denied(f"{path}: {reason}", hint="check who owns the store's directory")
    return Unavailable(f"{path}: {reason}", hint="check the disk of the store's directory")
