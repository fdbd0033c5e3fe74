"""Imports a project's modules from their source as it is now, and forgets them afterwards."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

_OURS: Final = __name__.partition(".")[0]


class _FreshLoader(SourceFileLoader):
    """Compiles the source as it is now."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _Finder(MetaPathFinder):
    def __init__(self, base: Path) -> None:
        self._base = base

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] in {_OURS, *sys.stdlib_module_names}:
            return None
        place = self._base.joinpath(*fullname.split("."))
        package, file = place / "__init__.py", place.with_suffix(".py")
        if package.is_file():
            loader = _FreshLoader(fullname, str(package))
            return spec_from_file_location(
                fullname, package, loader=loader, submodule_search_locations=[str(place)]
            )
        if file.is_file():
            return spec_from_file_location(fullname, file, loader=_FreshLoader(fullname, str(file)))
        return None


@contextmanager
def importing_from(base: Path) -> Iterator[None]:
    path, finder = list(sys.path), _Finder(base)
    before = _forget(base)
    sys.path.insert(0, str(base))
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        sys.meta_path.remove(finder)
        _forget(base)
        sys.modules.update(before)
        importlib.invalidate_caches()


def own_modules(base: Path) -> list[ModuleType]:
    """What is imported of this folder, in the order of names."""
    imported = sys.modules.copy()  # another thread may import something meanwhile
    return [imported[name] for name in sorted(imported) if is_under(imported[name], base)]


def _forget(base: Path) -> dict[str, ModuleType]:
    """Remove, and return, what has been imported from this folder."""
    linecache.clearcache()
    imported = sys.modules.copy()  # another thread may import something meanwhile
    modules = {name: module for name, module in imported.items() if is_under(module, base)}
    for name in modules:
        del sys.modules[name]
    return modules


def is_under(module: ModuleType, base: Path) -> bool:
    """Whether the module is of this folder's own files, and not of a library inside it."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", None) or [])
    is_ours = getattr(module, "__name__", "").partition(".")[0] == _OURS
    # Most of thousands are elsewhere, which a text says sooner than a path.
    near = [str(place) for place in places if str(place).startswith(str(base))]
    return not is_ours and any(is_own(Path(place), base) for place in near)


def is_own(place: Path, base: Path) -> bool:
    if not place.is_relative_to(base):
        return False
    return not any(
        part.startswith(".") or part == "site-packages" for part in place.relative_to(base).parts
    )
