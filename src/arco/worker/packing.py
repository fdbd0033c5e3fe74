"""Packs a project's folder into an artifact, and lists its content.

The same files give the same bytes on every machine: names are sorted, times,
modes and the creating system are fixed, and nothing is compressed, because what
deflate writes depends on the zlib of the machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from arco.errors import Invalid
from arco.worker.artifact import MAX_BYTES, MAX_FILES
from servo.ignore import IgnoredFiles

LARGE_BYTES: Final = 1 << 20
"""Larger files are usually not source."""
SECRETS: Final = (
    "credentials",
    "credentials.*",
    "secret.*",
    "secrets.*",
    "service*account*.json",
    "id_rsa*",
    "id_ed25519*",
    "*.env",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
)
"""Names of files that usually contain secrets. A module, such as `secrets.py`, is source."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_SKIPPED_SUFFIXES = frozenset({".pyc", ".pyo"})


class PackedFile(msgspec.Struct, frozen=True):
    path: str
    """From the project's folder."""
    bytes: int


def packed_files(artifact: bytes) -> tuple[PackedFile, ...]:
    """What an artifact holds, in the order of names."""
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        return tuple(PackedFile(info.filename, info.file_size) for info in archive.infolist())


def large_files(files: Sequence[PackedFile]) -> list[PackedFile]:
    """The largest first."""
    large = [file for file in files if file.bytes > LARGE_BYTES]
    return sorted(large, key=lambda file: (-file.bytes, file.path))


def likely_secrets(files: Sequence[PackedFile]) -> list[PackedFile]:
    return [file for file in files if _is_secret(PurePosixPath(file.path).name.lower())]


def _is_secret(name: str) -> bool:
    return not name.endswith(".py") and any(fnmatchcase(name, pattern) for pattern in SECRETS)


def pack(root: Path, files: Iterable[Path] | None = None, *, without: Iterable[Path] = ()) -> bytes:
    """A zip of `files` (all below `root` unless given), the same wherever it is made.

    Left out: what lies in the folders `without`, hidden files, `__pycache__`, `*.pyc`,
    virtual environments, and what `.servoignore` names. Invalid if what remains is more than
    50 MiB or lies outside of `root`.
    """
    base = root.resolve()
    skipped = frozenset(folder.resolve() for folder in without)
    ignored = IgnoredFiles(base)
    chosen = _walk(base, skipped, ignored) if files is None else files
    files_by_name = {
        name: path
        for name, path in (_named(base, f) for f in chosen)
        if _is_packed(base, name, ignored)
    }
    _check_size(files_by_name.values())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files_by_name):
            archive.writestr(_entry(name), files_by_name[name].read_bytes())
    return buffer.getvalue()


def file_stamps(root: Path, *, without: Iterable[Path] = ()) -> dict[str, tuple[int, int]]:
    """When each file that `pack` would take was changed, and its size. Reads no file."""
    base = root.resolve()
    skipped = frozenset(folder.resolve() for folder in without)
    ignored = IgnoredFiles(base)
    stamps: dict[str, tuple[int, int]] = {}
    for path in _walk(base, skipped, ignored):
        name = path.relative_to(base).as_posix()
        if _is_packed(base, name, ignored):
            with contextlib.suppress(OSError):  # deleted meanwhile, or a link to nowhere
                status = path.stat()
                stamps[name] = (status.st_mtime_ns, status.st_size)
    return stamps


def _walk(root: Path, skipped: frozenset[Path], ignored: IgnoredFiles) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        paths = {name: Path(folder, name) for name in folders}
        folders[:] = [
            name
            for name, path in paths.items()
            if _is_packed_folder(path) and path not in skipped and not ignored.folder(path)
        ]
        yield from (Path(folder, name) for name in names)


def _named(root: Path, file: Path) -> tuple[str, Path]:
    path = file if file.is_absolute() else root / file
    real = path.resolve()
    if not real.is_relative_to(root) or not real.is_file():
        raise Invalid(f"{file} is not a file below {root}", hint="pack only files of the project")
    # The name as written, so that a link inside of the project keeps its own.
    normal = Path(os.path.normpath(path))
    return (normal if normal.is_relative_to(root) else real).relative_to(root).as_posix(), real


def _is_packed(root: Path, name: str, ignored: IgnoredFiles) -> bool:
    path = PurePosixPath(name)
    if path.name.startswith(".") or path.suffix in _SKIPPED_SUFFIXES or ignored.file(root / path):
        return False
    folders = [root / folder for folder in list(path.parents)[:-1]]
    return all(_is_packed_folder(folder) and not ignored.folder(folder) for folder in folders)


def _is_packed_folder(folder: Path) -> bool:
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
            hint="keep data out of the project's folder, or name it in .servoignore",
        )


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = _UNIX
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info
