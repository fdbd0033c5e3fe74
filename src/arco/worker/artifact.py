"""Artifacts: a project's source as one zip, named by what is in it.

The same files give the same bytes on every machine: names are sorted, times,
modes and the creating system are fixed, and nothing is compressed, because what
deflate writes depends on the zlib of the machine.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from arco.errors import Corrupt, Invalid
from arco.storage import paths
from arco.storage.port import Store

MAX_BYTES: Final = 50 << 20
MAX_FILES: Final = 20_000

_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_SKIPPED_SUFFIXES = frozenset({".pyc", ".pyo"})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pack(root: Path, files: Iterable[Path] | None = None, *, without: Iterable[Path] = ()) -> bytes:
    """A zip of `files` (all below `root` unless given), the same wherever it is made.

    Left out: what lies in the folders `without`, hidden files, `__pycache__`, `*.pyc`,
    virtual environments. Invalid if what remains is more than 50 MiB or lies outside of
    `root`.
    """
    base = root.resolve()
    skipped = frozenset(folder.resolve() for folder in without)
    chosen = _walk(base, skipped) if files is None else files
    found = {name: path for name, path in (_named(base, f) for f in chosen) if _kept(base, name)}
    _check_size(found.values())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(found):
            archive.writestr(_entry(name), found[name].read_bytes())
    return buffer.getvalue()


def _walk(root: Path, skipped: frozenset[Path]) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        paths = {name: Path(folder, name) for name in folders}
        folders[:] = [n for n, path in paths.items() if _kept_folder(path) and path not in skipped]
        yield from (Path(folder, name) for name in names)


def _named(root: Path, file: Path) -> tuple[str, Path]:
    path = file if file.is_absolute() else root / file
    real = path.resolve()
    if not real.is_relative_to(root) or not real.is_file():
        raise Invalid(f"{file} is no file below {root}", hint="pack what lies in the project")
    # The name as written, so that a link inside of the project keeps its own.
    normal = Path(os.path.normpath(path))
    return (normal if normal.is_relative_to(root) else real).relative_to(root).as_posix(), real


def _kept(root: Path, name: str) -> bool:
    path = PurePosixPath(name)
    if path.name.startswith(".") or path.suffix in _SKIPPED_SUFFIXES:
        return False
    return all(_kept_folder(root / folder) for folder in list(path.parents)[:-1])


def _kept_folder(folder: Path) -> bool:
    name = folder.name
    if name.startswith(".") or name in _SKIPPED_FOLDERS:
        return False
    return not (folder / "pyvenv.cfg").exists()


def _check_size(files: Iterable[Path]) -> None:
    sizes = [file.stat().st_size for file in files]
    if sum(sizes) > MAX_BYTES or len(sizes) > MAX_FILES:
        raise Invalid(
            f"the source is {sum(sizes) >> 20} MiB in {len(sizes)} files; "
            f"an artifact holds {MAX_BYTES >> 20} MiB in {MAX_FILES}",
            hint="keep data out of the project's folder",
        )


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = _UNIX
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


class ArtifactCache:
    """Artifacts of one store, each fetched and extracted once into `{directory}/{digest}`.

    Any number of threads and processes may share the directory: a folder appears
    whole, by a rename, or not at all.
    """

    def __init__(self, store: Store, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._lock = threading.Lock()
        self._ready: dict[str, Path] = {}

    def folder(self, digest: str) -> Path:
        """Where the artifact lies. NotFound, Corrupt, or Invalid if it is no safe zip."""
        found = self._ready.get(digest)
        if found is not None:
            return found
        if _DIGEST.fullmatch(digest) is None:
            raise Invalid(f"{digest[:80]!r} is not an artifact's digest")
        with self._lock:
            target = self._directory / digest
            if not target.is_dir():
                self._fetch(digest, target)
            self._ready[digest] = target
            return target

    def _fetch(self, name: str, target: Path) -> None:
        data = self._store.get(paths.artifact(name)).data
        if digest(data) != name:
            raise Corrupt(
                f"the artifact {name} is not what its name says", hint="deploy the project again"
            )
        self._directory.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self._directory))
        try:
            extract(data, draft)
            _publish(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _publish(draft: Path, target: Path) -> None:
    draft.chmod(0o755)
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was first, with the same bytes
            raise


def extract(data: bytes, folder: Path) -> None:
    """Put a zip's files below `folder`, and nowhere else. Invalid before anything is written."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _checked(archive.infolist())
            for name, info in entries:
                target = folder.joinpath(*name.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(target, archive.read(info))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not _clash(error):
            raise
        raise Invalid(f"the artifact is no readable zip: {error}") from error


def _write(target: Path, data: bytes) -> None:
    with target.open("xb") as file:
        file.write(data)
        file.flush()
        # The folder outlives a power cut, and nothing looks into it again.
        os.fsync(file.fileno())


def _clash(error: OSError) -> bool:
    """Whether two entries want one path to be both a file and a folder."""
    return isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError)


def _checked(infos: list[zipfile.ZipInfo]) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    # Reading stops at the size that an entry declares, so their sum is a real bound.
    if sum(info.file_size for info in infos) > MAX_BYTES or len(infos) > MAX_FILES:
        raise Invalid(
            f"the artifact unpacks to more than {MAX_BYTES >> 20} MiB or {MAX_FILES} files"
        )
    entries = [(_safe(info), info) for info in infos if not info.orig_filename.endswith("/")]
    if len({name for name, _ in entries}) != len(entries):
        raise Invalid("the artifact has two files of one name")
    return entries


def _safe(info: zipfile.ZipInfo) -> PurePosixPath:
    name = info.orig_filename
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise Invalid(f"the artifact's {name!r} is no plain file")
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\x00-\x1f]", name):
        raise Invalid(f"the artifact's {name!r} leads out of its folder")
    return PurePosixPath(name)
