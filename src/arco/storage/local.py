"""A store in a directory of a local file system.

A create goes: write a file that has no name yet (O_TMPFILE), fsync it, link it
into place, fsync the directory. link(2) fails where the name is taken, so of
several creators one wins; the bytes are complete and on the disk before the
name exists, so a reader sees all of them or nothing, and a crash leaves nothing
to clean up. Where O_TMPFILE is missing, the file has a name that begins with
`.tmp-`; so it has for an overwrite, because no call moves a nameless file over
an existing one. `list` never shows those names, and `sweep` removes what
crashes left of them.

A deletion is not fsynced: a power cut may undo it, if no put came after it. Callers do not rely on
more, and the compactor deletes a lot.

A failed fsync is a failure. Linux reports it once and then treats the pages as clean: another fsync
of the same file would succeed without effect, and reading shows memory, not the disk. So after a
failure

- a file that has no name yet goes, and the put raises Unavailable;
- a FRESH object, which nobody but its writer can have used, is withdrawn: its name is
  removed, and the writer's next attempt writes a new file;
- a CREATE or an OVERWRITE whose file is on the disk, but whose name may not be, stays:
  others may have built upon it. Its directory is in doubt: every read there, and every
  answer "exists already", syncs it first, or raises Unavailable. The names of a
  directory are journaled: if that failed for good, it fails again.

So an object that its writer can read after Unavailable is durable.

Symbolic links below the root are never followed. A link is no object and no directory: it is not
listed, not read, and nothing is written or deleted beyond it. Files are opened without following a
link at the end of the path, and the kernel then reports the path of the open file: if a directory
in it was a link, it differs. Deleting a link removes only the link.
"""

# Path knows no dir_fd, and costs more than the calls that it makes.

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from arco.clock import from_unix
from arco.errors import AlreadyExists, Invalid, Unavailable
from arco.storage import keys, localfiles
from arco.storage.paired_sync import PairedSync
from arco.storage.port import Mode, Object, ObjectMeta
from arco.storage.signing import Signer

_NO_O_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
_REMEMBERED_DIRECTORIES = 10_000
_PUT_ATTEMPTS = 5


class _OpenDirectories(NamedTuple):
    """Open directories, from one that certainly exists down to the one to write into."""

    above: str
    names: Sequence[str]
    """Those below `above`."""
    opened: Sequence[int]

    def __enter__(self) -> _OpenDirectories:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in self.opened:
            os.close(fd)


class LocalStore:
    """Objects as files under `root`, which is created if it is missing."""

    parallelism = 8

    def __init__(self, root: str | Path, signer: Signer | None = None) -> None:
        self._root = os.path.realpath(root)
        self._signer = signer
        self._pairs = PairedSync()
        self._settled: set[str] = set()
        self._doubtful: dict[str, object] = {}
        """Directories with a name that may not be on the disk, each with a marker of the failure: a
        sync that began before that failure does not count."""
        self._lost: dict[str, os.stat_result] = {}
        """Files that are not on the disk, and whose names could not be removed."""
        self.nameless = hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir()
        try:
            Path(self._root).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise localfiles.mapped(error, self._root) from error

    @property
    def url(self) -> str:
        """Not percent-encoded: after `file://`, `{url}/{path}` is the name of the file."""
        return f"file://{self._root}"

    def get(self, path: str) -> Object:
        with self._opened(path, localfiles.READ) as fd:
            status = localfiles.status_of(fd, path)
            data = localfiles.read(fd, status.st_size, path)
        return Object(data, ObjectMeta(path, len(data), from_unix(status.st_mtime)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_range(path, start, length)
        with self._opened(path, localfiles.READ) as fd:
            size = localfiles.status_of(fd, path).st_size
            if start + length > size:
                raise keys.past_the_end(path, start, length, size)
            os.lseek(fd, start, os.SEEK_SET)
            return localfiles.read(fd, length, path)

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
                self._confirm(path)
                raise AlreadyExists(f"{path} exists") from None
            except (NotADirectoryError, IsADirectoryError):
                self._settled.clear()
                raise Invalid(
                    f"{path}: a file system cannot store an object below another object",
                    hint="a part of this path names an object or is a symbolic link, "
                    "or the path names a directory",
                ) from None
            except OSError as error:
                raise localfiles.mapped(error, path) from error
            else:
                return
        raise Unavailable(f"{path}: its directory keeps disappearing")

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        keys.check_key(path)
        directory, _, name = f"{self._root}/{path}".rpartition("/")
        try:
            with self._enter(directory) as directories:
                at = directories.opened[-1]
                with localfiles.temporary(at, parts) as temporary:
                    self._settle(directories)
                    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
                localfiles.fsync(at)
        except OSError as error:
            raise localfiles.mapped(error, path) from error

    def head(self, path: str) -> ObjectMeta:
        with self._opened(path, localfiles.LOOK) as fd:
            status = localfiles.status_of(fd, path)
        return ObjectMeta(path, status.st_size, from_unix(status.st_mtime))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        keys.check_prefix(prefix)
        if start_after is not None:
            keys.check_prefix(start_after)
        directory, slash, beginning = prefix.rpartition("/")
        return self._listed(directory + slash, beginning, start_after or "")

    def delete(self, path: str) -> None:
        keys.check_key(path)
        directory, _, name = f"{self._root}/{path}".rpartition("/")
        try:
            at = localfiles.open_here(directory, localfiles.DIRECTORY)
            try:
                os.unlink(name, dir_fd=at)
                self._lost.pop(f"{directory}/{name}", None)
            finally:
                os.close(at)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            pass
        except OSError as error:
            raise localfiles.mapped(error, path) from error

    def copy(self, source: str, target: str) -> None:
        """A second name of the same file: objects are replaced, never changed."""
        keys.check_key(target)
        directory, _, name = f"{self._root}/{target}".rpartition("/")
        with self._opened(source, localfiles.READ) as fd:
            localfiles.status_of(fd, source)
            with self._enter(directory) as directories:
                at = directories.opened[-1]
                self._settle(directories)
                with localfiles.second_name(at, fd) as temporary:
                    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
                localfiles.fsync(at)

    def sign(self, path: str, expiry: timedelta) -> str:
        keys.check_key(path)
        if self._signer is None:
            raise Invalid("this store cannot sign URLs", hint="open it with a Signer")
        return self._signer.sign(path, expiry)

    def sweep(self, older_than: timedelta, prefix: str = "") -> int:
        """Remove temporary files of crashes, and empty directories; returns the number of files.

        `older_than` must be longer than any write takes. Ages are by the file system's clock, which
        may be that of another machine. `prefix` is empty, or a directory with a trailing slash:
        only that is swept.
        """
        keys.check_prefix(prefix)
        swept = 0
        try:
            top = localfiles.open_here(f"{self._root}/{prefix}".rstrip("/"), localfiles.DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            raise localfiles.mapped(error, prefix) from error
        try:
            limit = localfiles.time_of(top) - older_than.total_seconds()
            for _, folders, names, at in os.fwalk(".", topdown=False, dir_fd=top):
                for name in names:
                    if name.startswith(keys.TEMPORARY):
                        swept += localfiles.remove_if_old(at, name, limit)
                for folder in folders:
                    localfiles.remove_if_empty_and_old(at, folder, limit)
        except OSError as error:
            raise localfiles.mapped(error, prefix or self._root) from error
        finally:
            os.close(top)
        return swept

    def _put(self, directory: str, name: str, data: bytes, mode: Mode) -> None:
        with self._enter(directory) as directories:
            if self._is_lost(f"{directory}/{name}"):
                os.unlink(name, dir_fd=directories.opened[-1])
            if mode is Mode.FRESH:
                self._put_fresh(directories, directory, name, data)
            else:
                self._put_named(directories, directory, name, data, mode)

    def _put_named(
        self, directories: _OpenDirectories, directory: str, name: str, data: bytes, mode: Mode
    ) -> None:
        """The file is on the disk before it has its name."""
        at = directories.opened[-1]
        try:
            if mode is Mode.OVERWRITE:
                with localfiles.temporary(at, (data,)) as temporary:
                    self._settle(directories)
                    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
            else:
                self._create(directories, name, data)
            localfiles.fsync(at)
        except FileExistsError:
            raise
        except OSError:  # whether the name is durable is unknown: the next reader syncs it
            self._doubtful[directory] = object()
            raise

    def _put_fresh(
        self, directories: _OpenDirectories, directory: str, name: str, data: bytes
    ) -> None:
        """Sync the file and its name concurrently, which takes half as long."""
        at = directories.opened[-1]
        fd = self._create(directories, name, data, fresh=True)
        try:
            if fd is None:
                localfiles.fsync(at)
            else:
                self._pairs.sync(fd, at)
            self._settle(directories)
        except OSError:
            self._withdraw(at, directory, name)
            raise
        finally:
            if fd is not None:
                os.close(fd)

    def _create(
        self, directories: _OpenDirectories, name: str, data: bytes, *, fresh: bool = False
    ) -> int | None:
        """Write a file and link it to its name. A fresh one is returned open, to be synced."""
        at = directories.opened[-1]
        fd = self._open_nameless(at)
        if fd is None:
            with localfiles.temporary(at, (data,)) as temporary:
                self._settle(directories)
                os.link(temporary, name, src_dir_fd=at, dst_dir_fd=at)
            return None
        try:
            localfiles.write(fd, data, sync=not fresh)
            if not fresh:
                self._settle(directories)
            # Naming src_dir_fd is what makes Python call linkat with AT_SYMLINK_FOLLOW.
            os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=True)
        except BaseException:
            os.close(fd)
            raise
        if fresh:
            return fd
        os.close(fd)
        return None

    def _withdraw(self, at: int, directory: str, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            try:
                os.unlink(name, dir_fd=at)
            except OSError:
                self._lost[f"{directory}/{name}"] = status

    def _is_lost(self, place: str) -> bool:
        """Whether the file is one that could neither be written nor removed."""
        status = self._lost.get(place)
        if status is None:
            return False
        try:
            if os.path.samestat(status, os.lstat(place)):
                return True
        except FileNotFoundError:
            pass
        self._lost.pop(place, None)  # it was removed
        return False

    @contextlib.contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """The descriptor of an object. Errors of the system are translated."""
        keys.check_key(path)
        try:
            if self._doubtful or self._lost:
                self._confirm(path)
            fd = localfiles.open_here(f"{self._root}/{path}", flags)
            try:
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise localfiles.mapped(error, path) from error

    def _confirm(self, path: str) -> None:
        """Raise Unavailable unless the name of an object, if it is there, is on the disk."""
        place = f"{self._root}/{path}"
        if self._is_lost(place):
            raise Unavailable(
                f"{path} was not written to the disk, and could not be removed",
                hint="check the disk of the store's directory",
            )
        self._sync_doubtful(place.rpartition("/")[0])

    def _sync_doubtful(self, directory: str) -> None:
        mark = self._doubtful.get(directory)
        if mark is None:
            return
        try:
            at = localfiles.open_here(directory, localfiles.DIRECTORY)
            try:
                localfiles.fsync(at)
            finally:
                os.close(at)
        except (FileNotFoundError, NotADirectoryError):
            pass  # the directory was removed, with its content
        except OSError as error:
            raise localfiles.mapped(error, directory) from error
        if self._doubtful.get(directory) is mark:
            self._doubtful.pop(directory, None)

    def _open_nameless(self, at: int) -> int | None:
        if not self.nameless:
            return None
        try:
            return os.open(".", localfiles.NAMELESS, 0o666, dir_fd=at)
        except OSError as error:
            if error.errno not in _NO_O_TMPFILE:
                raise
            self.nameless = False
            return None

    def _enter(self, directory: str) -> _OpenDirectories:
        """Open a directory; create it if it is missing."""
        above, names = self._unsettled(directory)
        opened = [localfiles.open_here(above, localfiles.DIRECTORY)]
        directories = _OpenDirectories(above, names, opened)
        try:
            for name in names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=opened[-1])
                opened.append(os.open(name, localfiles.DIRECTORY, dir_fd=opened[-1]))
        except BaseException:
            directories.__exit__()
            raise
        return directories

    def _settle(self, directories: _OpenDirectories) -> None:
        """Sync the name of each directory to the disk.

        Also of existing ones: the process that created them may not have synced them yet. After the
        fsync of a file in them, which includes earlier changes, this costs little.
        """
        if not directories.names:
            return
        if len(self._settled) > _REMEMBERED_DIRECTORIES:
            self._settled.clear()
        place = directories.above
        for name, parent in zip(directories.names, directories.opened, strict=False):
            place = f"{place}/{name}"
            localfiles.fsync(parent)
            self._settled.add(place)

    def _unsettled(self, directory: str) -> tuple[str, Sequence[str]]:
        """The nearest directory that certainly exists, and the names below it."""
        if directory in self._settled:
            return directory, ()
        settled = directory
        while settled not in self._settled:
            if settled == self._root:
                Path(self._root).mkdir(parents=True, exist_ok=True)
                break
            settled = settled.rpartition("/")[0]
        below = directory[len(settled) + 1 :]
        return settled, below.split("/") if below else ()

    def _listed(self, directory: str, beginning: str, after: str) -> Iterator[ObjectMeta]:
        place = f"{self._root}/{directory}".rstrip("/")
        try:
            os.close(localfiles.open_here(place, localfiles.DIRECTORY))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise localfiles.mapped(error, directory) from error
        for doubtful in list(self._doubtful):
            if f"{doubtful}/".startswith(f"{place}/"):
                self._sync_doubtful(doubtful)
        yield from self._walk(directory, beginning, after)

    def _walk(self, directory: str, beginning: str, after: str) -> Iterator[ObjectMeta]:
        """The objects below `directory` ('' or ending in a slash), in order, after `after`.

        Sorting 'name/' for a directory gives the order of whole paths: `a.b`, `a/b`, `a0`.
        """
        paths: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                for entry in entries:
                    name = entry.name
                    if not name.startswith(beginning) or name.startswith(keys.TEMPORARY):
                        continue
                    path = directory + name
                    if entry.is_dir(follow_symlinks=False):
                        path += "/"
                        if path > after or after.startswith(path):
                            paths.append((path, entry))
                    elif (
                        path > after
                        and entry.is_file(follow_symlinks=False)
                        and localfiles.is_text(name)
                    ):
                        paths.append((path, entry))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise localfiles.mapped(error, directory) from error
        paths.sort(key=itemgetter(0))
        for path, entry in paths:
            if path.endswith("/"):
                yield from self._walk(path, "", after)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # deleted since the directory was read
                continue
            except OSError as error:
                raise localfiles.mapped(error, path) from error
            yield ObjectMeta(path, status.st_size, from_unix(status.st_mtime))
