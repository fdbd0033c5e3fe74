"""Artifacts: a project's source as one zip (`worker.packing` makes it), named by what is in it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import logging
import os
import re
import shutil
import stat
import tempfile
import threading
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from arco.errors import Corrupt, Invalid
from arco.storage import paths
from arco.storage.port import Store

log = logging.getLogger(__name__)

MAX_BYTES: Final = 50 << 20
MAX_FILES: Final = 20_000
KEPT: Final = 8
"""Maximum of unused artifacts that are kept, as folders and as loaded modules."""

LOCKS: Final = ".locks"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class ArtifactCache:
    """Artifacts of one store, each fetched and extracted once into `{directory}/{digest}`.

    Any number of threads and processes may share the directory: a folder appears whole, by a
    rename, or not at all. Of those that nobody uses, the `keep` most recently used ones stay. A
    process holds a shared lock on `.locks/{digest}` while it uses the folder; removing a folder
    needs an exclusive lock.
    """

    def __init__(self, store: Store, directory: Path, *, keep: int = KEPT) -> None:
        self._store = store
        self._directory = directory
        self._keep = keep
        self._lock = threading.Lock()
        self.ready: OrderedDict[str, tuple[Path, int]] = OrderedDict()
        """By digest: the folder, and the descriptor of its lock; the last used one last."""
        self._users: Counter[str] = Counter()

    @contextlib.contextmanager
    def using(self, digest: str) -> Iterator[None]:
        """Within this context the artifact's folder is not removed."""
        with self._lock:
            self._users[digest] += 1
            if digest in self.ready:
                self.ready.move_to_end(digest)
        try:
            yield
        finally:
            with self._lock:
                self._users[digest] -= 1
                if not self._users[digest]:
                    del self._users[digest]
                self._let_go()

    def folder(self, digest: str) -> Path:
        """The artifact's folder. Raises NotFound, Corrupt, or Invalid for an unsafe zip."""
        folder = self.ready.get(digest)
        if folder is not None:
            return folder[0]
        if _DIGEST.fullmatch(digest) is None:
            raise Invalid(f"{digest[:80]!r} is not an artifact's digest")
        with self._lock:
            if digest in self.ready:
                return self.ready[digest][0]
            target, lock = self._directory / digest, _locked(self._lock_file(digest), shared=True)
            try:
                if not target.is_dir():
                    self._fetch(digest, target)
                    self._trim()
            except BaseException:
                _unlock(lock)
                raise
            self.ready[digest] = (target, lock)
            self._let_go()
            return target

    def _let_go(self) -> None:
        """Release the locks of folders that were not used for long."""
        idle = [digest for digest in self.ready if digest not in self._users]
        for digest in idle[: max(0, len(self.ready) - self._keep)]:
            _unlock(self.ready.pop(digest)[1])

    def _trim(self) -> None:
        """Remove the least recently used folders, until `keep` are left."""
        folders = [entry for entry in self._directory.iterdir() if _DIGEST.fullmatch(entry.name)]
        by_age = sorted(folders, key=lambda folder: _used_at(self._lock_file(folder.name)))
        for folder in by_age[: max(0, len(folders) - self._keep)]:
            if folder.name not in self.ready and folder.name not in self._users:
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        file = self._lock_file(folder.name)
        lock = _locked(file, shared=False)
        if lock < 0:
            return  # another process uses it, or that is unknown
        try:
            trash = Path(tempfile.mkdtemp(prefix=".gone-", dir=self._directory))
            folder.rename(trash / folder.name)
            file.unlink(missing_ok=True)
            shutil.rmtree(trash, ignore_errors=True)
        except OSError as error:
            log.warning("cannot remove %s: %s", folder, error)
        finally:
            _unlock(lock)

    def _lock_file(self, digest: str) -> Path:
        return self._directory / LOCKS / digest

    def _fetch(self, name: str, target: Path) -> None:
        data = self._store.get(paths.artifact(name)).data
        if digest(data) != name:
            raise Corrupt(
                f"the artifact {name} does not match its digest", hint="deploy the project again"
            )
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self._directory))
        try:
            extract(data, draft)
            _publish(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _locked(file: Path, *, shared: bool) -> int:
    """The descriptor of a lock on a file, which is made; -1 if it cannot be had.

    A shared lock waits. Where there can be none, as in a directory that is read only, a
    folder is used all the same: nobody there removes any.
    """
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return -1
        try:
            fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == file.stat().st_ino:  # it was not removed meanwhile
                os.utime(lock)
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            return -1
        os.close(lock)


def _unlock(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def _used_at(lock_file: Path) -> float:
    """When a process last began to use a folder; long ago, if its lock was never made."""
    try:
        return lock_file.stat().st_mtime
    except OSError:
        return 0.0


def _publish(draft: Path, target: Path) -> None:
    draft.chmod(0o755)
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was first, with the same bytes
            raise


def extract(data: bytes, folder: Path) -> None:
    """Put a zip's files below `folder`, and nowhere else. Invalid before anything is written."""
    with _readable(data) as archive:
        entries = _checked(archive.infolist())
        for name, info in entries:
            target = folder.joinpath(*name.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, archive.read(info))


def check_artifact(data: bytes) -> None:
    """Raise Invalid for what `extract` would refuse by its names and sizes. Unpacks nothing."""
    with _readable(data) as archive:
        _checked(archive.infolist())


@contextlib.contextmanager
def _readable(data: bytes) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not _clash(error):
            raise
        raise Invalid(f"the artifact is not a readable zip: {error}") from error


def _write(target: Path, data: bytes) -> None:
    with target.open("xb") as file:
        file.write(data)
        file.flush()
        # The folder survives a power failure, and its content is not verified again.
        os.fsync(file.fileno())


def _clash(error: OSError) -> bool:
    """Whether a path is both a file and a folder, by two entries."""
    return isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError)


def _checked(infos: list[zipfile.ZipInfo]) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    # Reading stops at the size that an entry declares, so their sum is a real bound.
    if sum(info.file_size for info in infos) > MAX_BYTES or len(infos) > MAX_FILES:
        raise Invalid(
            f"the artifact unpacks to more than {MAX_BYTES >> 20} MiB or {MAX_FILES} files"
        )
    entries = [(_safe(info), info) for info in infos if not info.orig_filename.endswith("/")]
    if len({name for name, _ in entries}) != len(entries):
        raise Invalid("the artifact has two files with the same name")
    return entries


def _safe(info: zipfile.ZipInfo) -> PurePosixPath:
    name = info.orig_filename
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise Invalid(f"the artifact's {name!r} is not a regular file")
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\x00-\x1f]", name):
        raise Invalid(f"the artifact's {name!r} points outside its folder")
    return PurePosixPath(name)
