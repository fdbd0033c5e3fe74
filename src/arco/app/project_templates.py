"""New projects: folders that are copied from the examples, which the wheel carries.

A template is a folder of `examples` in a checkout, and of `arco/templates` where the wheel is
installed. Each has its own files; those that every project needs are written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from arco.config import FILE, LOCAL_STORE
from arco.errors import AlreadyExists, Invalid, NotFound
from servo.contract.keys import check_name
from servo.suggest import did_you_mean

TEMPLATES: Final = ("starter", "shop", "dbt", "empty")
GITIGNORE: Final = f"{LOCAL_STORE}/\n__pycache__/\nspark-warehouse/\n"
_HEAD: Final = """\
[project]
name = {name}

# Where the workspace keeps everything: a folder, or s3://bucket/path, gs://…, az://….
[workspace]
store = "{store}"
"""
_LEFT_OUT: Final = frozenset({"__pycache__", ".pytest_cache", LOCAL_STORE})


class NewProject(msgspec.Struct, frozen=True):
    name: str
    folder: Path
    template: str
    files: tuple[str, ...]


def create_project(folder: Path, template: str = TEMPLATES[0]) -> NewProject:
    """Write a project into a folder that does not exist, or has nothing in it.

    Its name is the folder's. Files that are there are never overwritten.
    """
    if template not in TEMPLATES:
        hint = did_you_mean(template, TEMPLATES) or f"one of {', '.join(TEMPLATES)}"
        raise Invalid(f"there is no template {template!r}", hint=hint)
    folder = Path(os.path.normpath(Path.cwd() / folder))
    try:
        name = check_name(folder.name, "name of a project")
    except Invalid as error:
        likely = "".join(c if c.isascii() and c.isalnum() else "_" for c in folder.name.lower())
        raise Invalid(error.message, hint=f"{error.hint}; for example: {likely}") from None
    _require_empty(folder)
    contents = dict(_files(template))
    contents[FILE] = _config(name, contents.get(FILE, b""))
    contents.setdefault(".gitignore", GITIGNORE.encode())
    try:
        for path, data in contents.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as opened:
                opened.write(data)
        create_local_store(folder)
    except FileExistsError as error:
        raise AlreadyExists(f"{error.filename} exists", hint="choose another folder") from None
    except OSError as error:
        raise Invalid(
            f"the project cannot be written to {folder}: {error.strerror}",
            hint="choose a folder that you may write to",
        ) from None
    return NewProject(name, folder, template, tuple(sorted(contents)))


def create_local_store(folder: Path) -> Path:
    """The folder for a workspace of the project's own, which git ignores."""
    store = folder / LOCAL_STORE
    store.mkdir(parents=True, exist_ok=True)
    ignore = store / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")
    return store


def _require_empty(folder: Path) -> None:
    if folder.is_dir() and all(path.name == ".git" for path in folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        what = "is not empty" if folder.is_dir() else "is a file"
        hint = "choose another name, or an empty folder; nothing is overwritten"
        raise AlreadyExists(f"{folder} {what}", hint=hint)


def _config(name: str, rest: bytes) -> bytes:
    # A JSON string is a TOML basic string.
    head = _HEAD.format(name=msgspec.json.encode(name).decode(), store=LOCAL_STORE)
    return head.encode() + (b"\n" + rest if rest else b"")


def _files(template: str) -> Iterator[tuple[str, bytes]]:
    root = _folder(template)
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not _LEFT_OUT & set(relative.parts):
            yield relative.as_posix(), path.read_bytes()


def _folder(template: str) -> Path:
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "templates" / template, package.parents[1] / "examples" / template):
        if folder.is_dir():
            return folder
    raise NotFound(
        f"the template {template!r} is missing from this installation", hint="install arco again"
    )
