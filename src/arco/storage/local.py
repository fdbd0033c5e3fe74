"""A store in a directory of a local file system.

A create goes: write a file that has no name yet (O_TMPFILE), fsync it, link it
into place, fsync the directory. link(2) fails where the name is taken, so of
several creators one wins; the bytes are complete and on the disk before the
name exists, so a reader sees all of them or nothing, and a crash leaves nothing
to clean up. Where O_TMPFILE is missing, the file has a name that begins with
`.tmp-`; so it has for an overwrite, because no call moves a nameless file over
an existing one. `list` never shows those names, and `sweep` removes what
crashes left of them.

A deletion is not fsynced: a power cut may undo it, if no put came after it.
Nothing above relies on more, and the compactor deletes a lot.
"""

# Path knows no dir_fd, and costs more than the calls that it makes.
# ruff: noqa: PTH102, PTH106, PTH108, PTH116

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from datetime import timedelta
from operator import itemgetter
from pathlib import Path

from arco.clock import from_unix
from arco.errors import AlreadyExists, Denied, Error, Invalid, NotFound, Unavailable
from arco.storage import keys
from arco.storage.port import Mode, Object, ObjectMeta
from arco.storage.signing import Signer

_READ = os.O_RDONLY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAMED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NAMELESS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | os.O_CLOEXEC
_NO_O_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
_REMEMBERED_DIRECTORIES = 100_000
_PUT_ATTEMPTS = 5


class LocalStore:
    """Objects as files under `root`, which is made if it is not there."""

    parallelism = 8

    def __init__(self, root: str | Path, signer: Signer | None = None) -> None:
        self._root = os.path.realpath(root)
        self._signer = signer
        self._settled: set[str] = set()
        self._nameless = hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir()
        try:
            Path(self._root).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _mapped(error, self._root) from error

    @property
    def url(self) -> str:
        """Not percent-encoded: after `file://`, `{url}/{path}` is the name of the file."""
        return f"file://{self._root}"

    def get(self, path: str) -> Object:
        keys.check_key(path)
        try:
            fd = os.open(f"{self._root}/{path}", _READ)
            try:
                status = _file_status(fd, path)
                data = os.read(fd, status.st_size)
                while len(data) < status.st_size:
                    data += _some(fd, status.st_size - len(data), path)
            finally:
                os.close(fd)
        except OSError as error:
            raise _mapped(error, path) from error
        return Object(data, ObjectMeta(path, len(data), from_unix(status.st_mtime)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_key(path)
        keys.check_range(path, start, length)
        try:
            fd = os.open(f"{self._root}/{path}", _READ)
            try:
                size = _file_status(fd, path).st_size
                if start + length > size:
                    raise keys.past_the_end(path, start, length, size)
                os.lseek(fd, start, os.SEEK_SET)
                data = os.read(fd, length)
                while len(data) < length:
                    data += _some(fd, length - len(data), path)
            finally:
                os.close(fd)
        except OSError as error:
            raise _mapped(error, path) from error
        return data

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        keys.check_key(path)
        directory, _, name = f"{self._root}/{path}".rpartition("/")
        for _ in range(_PUT_ATTEMPTS):
            try:
                self._put(directory, name, data, mode)
            except FileNotFoundError:
                # A sweep removed the directory, which was empty, between two of our calls.
                self._settled.clear()
            except FileExistsError:
                raise AlreadyExists(f"{path} exists") from None
            except (NotADirectoryError, IsADirectoryError):
                self._settled.clear()
                raise Invalid(
                    f"{path}: on a file system no object can lie below another",
                    hint="a part of this path names an object, or the path names a directory",
                ) from None
            except OSError as error:
                raise _mapped(error, path) from error
            else:
                return
        raise Unavailable(f"{path}: its directory keeps disappearing")

    def head(self, path: str) -> ObjectMeta:
        keys.check_key(path)
        try:
            status = os.stat(f"{self._root}/{path}")
        except OSError as error:
            raise _mapped(error, path) from error
        if not stat.S_ISREG(status.st_mode):
            raise NotFound(f"{path} does not exist")
        return ObjectMeta(path, status.st_size, from_unix(status.st_mtime))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_prefix(prefix)
        if start_after is not None:
            keys.check_prefix(start_after)
        directory, slash, beginning = prefix.rpartition("/")
        return self._walk(directory + slash, beginning, start_after or "")

    def delete(self, path: str) -> None:
        keys.check_key(path)
        try:
            os.unlink(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            pass
        except OSError as error:
            raise _mapped(error, path) from error

    def copy(self, source: str, target: str) -> None:
        """A second name of the same file: objects are replaced, never changed."""
        keys.check_key(source)
        keys.check_key(target)
        directory, _, name = f"{self._root}/{target}".rpartition("/")
        try:
            self._settle(directory)
            at = os.open(directory, _DIRECTORY)
            try:
                temporary = f"{keys.TEMPORARY}{secrets.token_hex(12)}"
                os.link(f"{self._root}/{source}", temporary, dst_dir_fd=at, follow_symlinks=False)
                # Renaming one name of a file over another of the same file does nothing.
                os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=at)
                os.fsync(at)
            finally:
                os.close(at)
        except OSError as error:
            raise _mapped(error, source) from error

    def sign(self, path: str, expiry: timedelta) -> str:
        keys.check_key(path)
        if self._signer is None:
            raise Invalid("this store cannot sign URLs", hint="open it with a Signer")
        return self._signer.sign(path, expiry)

    def sweep(self, older_than: timedelta) -> int:
        """Remove temporary files that crashes left, and empty directories; how many files.

        `older_than` must be longer than any write takes. Ages are told by the
        file system's own clock, which may be another machine's.
        """
        swept = 0
        try:
            limit = self._file_system_time() - older_than.total_seconds()
            for directory, _, names in os.walk(self._root, topdown=False):
                for name in names:
                    if name.startswith(keys.TEMPORARY):
                        swept += _remove_if_old(f"{directory}/{name}", limit)
                with contextlib.suppress(OSError):  # it is not empty, or it is gone
                    if directory != self._root and os.stat(directory).st_mtime < limit:
                        os.rmdir(directory)
        except OSError as error:
            raise _mapped(error, self._root) from error
        return swept

    def _put(self, directory: str, name: str, data: bytes, mode: Mode) -> None:
        if directory not in self._settled:
            self._settle(directory)
        at = os.open(directory, _DIRECTORY)
        try:
            if mode is Mode.OVERWRITE:
                with _temporary(at, data) as temporary:
                    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
            else:
                self._create(at, name, data, fresh=mode is Mode.FRESH)
            os.fsync(at)
        finally:
            os.close(at)

    def _create(self, at: int, name: str, data: bytes, *, fresh: bool) -> None:
        """A file gets its name once it is on the disk, unless it is fresh: then the disk is
        asked for both at once, which takes half as long."""
        fd = self._open_nameless(at)
        if fd is None:
            with _temporary(at, data) as temporary:
                os.link(temporary, name, src_dir_fd=at, dst_dir_fd=at)
            return
        try:
            _write(fd, data, sync=not fresh)
            # Naming src_dir_fd is what makes Python call linkat with AT_SYMLINK_FOLLOW.
            os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=True)
            if fresh:
                os.fsync(fd)
        finally:
            os.close(fd)

    def _open_nameless(self, at: int) -> int | None:
        if not self._nameless:
            return None
        try:
            return os.open(".", _NAMELESS, 0o666, dir_fd=at)
        except OSError as error:
            if error.errno not in _NO_O_TMPFILE:
                raise
            self._nameless = False
            return None

    def _settle(self, directory: str) -> None:
        """Make a directory and those above it, and see each one's name onto the disk.

        Also where they exist: the process that made them may not have come to its fsync.
        """
        if len(self._settled) > _REMEMBERED_DIRECTORIES:
            self._settled.clear()
        unsettled = []
        while directory != self._root and directory not in self._settled:
            unsettled.append(directory)
            directory = directory.rpartition("/")[0]
        Path(self._root).mkdir(parents=True, exist_ok=True)
        # All are made before the first is seen onto the disk: that then takes them together.
        for child in reversed(unsettled):
            with contextlib.suppress(FileExistsError):
                os.mkdir(child)
        for child in reversed(unsettled):
            at = os.open(child.rpartition("/")[0], _DIRECTORY)
            try:
                os.fsync(at)
            finally:
                os.close(at)
            self._settled.add(child)

    def _walk(self, directory: str, beginning: str, after: str) -> Iterator[ObjectMeta]:
        """What lies below `directory` ('' or ending in a slash), in order, past `after`.

        Sorting 'name/' for a directory gives the order of whole paths: `a.b`, `a/b`, `a0`.
        """
        found: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                for entry in entries:
                    name = entry.name
                    if not name.startswith(beginning) or name.startswith(keys.TEMPORARY):
                        continue
                    path = directory + name
                    if entry.is_dir():
                        path += "/"
                        if path > after or after.startswith(path):
                            found.append((path, entry))
                    elif path > after and _is_text(name):
                        found.append((path, entry))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _mapped(error, directory) from error
        found.sort(key=itemgetter(0))
        for path, entry in found:
            if path.endswith("/"):
                yield from self._walk(path, "", after)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # deleted since the directory was read
                continue
            except OSError as error:
                raise _mapped(error, path) from error
            yield ObjectMeta(path, status.st_size, from_unix(status.st_mtime))

    def _file_system_time(self) -> float:
        at = os.open(self._root, _DIRECTORY)
        try:
            with _temporary(at, b"") as temporary:
                return os.stat(temporary, dir_fd=at).st_mtime
        finally:
            os.close(at)


@contextlib.contextmanager
def _temporary(at: int, data: bytes) -> Iterator[str]:
    """The name of a file in the directory `at` that holds `data`, synced."""
    name = f"{keys.TEMPORARY}{secrets.token_hex(12)}"
    fd = os.open(name, _NAMED, 0o666, dir_fd=at)
    try:
        try:
            _write(fd, data)
        finally:
            os.close(fd)
        yield name
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has been renamed
            os.unlink(name, dir_fd=at)


def _write(fd: int, data: bytes, *, sync: bool = True) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
    if sync:
        os.fsync(fd)


def _some(fd: int, length: int, path: str) -> bytes:
    data = os.read(fd, length)
    if not data:
        raise Unavailable(f"{path} was cut short while it was read")
    return data


def _file_status(fd: int, path: str) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise NotFound(f"{path} does not exist")
    return status


def _remove_if_old(file: str, limit: float) -> int:
    try:
        if os.stat(file).st_mtime >= limit:
            return 0
        os.unlink(file)
    except FileNotFoundError:  # its writer came first
        return 0
    return 1


def _is_text(name: str) -> bool:
    """Names that are not UTF-8 come from elsewhere; no key can name them."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mapped(error: OSError, path: str) -> Error:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR:
            return NotFound(f"{path} does not exist")
        case errno.EACCES | errno.EPERM:
            return Denied(f"{path}: {reason}", hint="check who owns the store's directory")
    return Unavailable(f"{path}: {reason}", hint="check the disk of the store's directory")
