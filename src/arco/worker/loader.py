"""Loading user code. A slot is a process of one artifact: its folder is on `sys.path`.

A folder without Python files is no module. An installed module takes precedence over a folder of
its name without `__init__.py`, as for namespace packages.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from arco.worker.failures import failed
from servo.contract.manifest import Code
from servo.contract.task import CodeRef
from servo.registry import by_name
from servo.signature import read_signature

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SUFFIXES = tuple(importlib.machinery.all_suffixes())
_KEPT = frozenset({"arco", "servo"})
"""No project has modules of these names."""


class Loaded(NamedTuple):
    """A function of an artifact, and its parameters."""

    function: Callable[..., Any]
    context: str
    """The parameter that takes the AssetContext, or empty."""
    required: frozenset[str]
    """The other parameters without a value of their own: the inputs."""
    silent: bool = False
    """Whether it is declared to return nothing: `-> None`."""


class Loader:
    """Loads `module:name` of the artifact in `folder`; each function is looked up once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: frozenset[str] = frozenset()
        """The top-level modules that the artifact holds."""
        self._roots: set[str] = set()
        self.load = functools.cache(self._load)

    def _load(self, module: str, name: str, root: str) -> Loaded:
        """The function; what its modules raise, or TaskFailed if there is no such name."""
        return _loaded(self._member(module, name, root))

    def asset(self, code: CodeRef) -> Loaded:
        return self.load(code.module, code.name, code.root)

    def sensor(self, code: CodeRef) -> Callable[..., Any]:
        member: Callable[..., Any] = self._member(code.module, code.name, code.root)
        return member

    def check(self, asset: CodeRef, check: Code) -> Callable[..., Any]:
        """A check's function, from the artifact that the asset is of."""
        member: Callable[..., Any] = self._member(check.module, check.name, asset.root)
        return member

    def _member(self, module: str, name: str, root: str) -> Any:
        loaded = self._module(module, root)
        member: Any = by_name(loaded, name)
        if member is None:
            member = loaded
            for part in name.split("."):
                member = getattr(member, part, None)
        if not callable(member):
            raise failed(
                "configuration",
                "code.missing",
                f"{module} has no function {name!r}",
                "deploy the project again",
            )
        return member

    def _module(self, name: str, root: str) -> ModuleType:
        self._enter(root)
        if name.partition(".")[0] not in self.names:
            raise failed(
                "configuration",
                "code.missing",
                f"the artifact {self.folder.name[:16]} has no module {name!r}",
                "deploy the project again, and check what is packed",
            )
        return importlib.import_module(name)

    def _enter(self, root: str) -> None:
        """Put the folder, and the root inside of it where imports begin, on `sys.path`."""
        if root in self._roots:
            return
        self._roots.add(root)
        places = [self.folder / root, self.folder] if root else [self.folder]
        names = frozenset(name for place in places for name in _held(place)) - _KEPT
        for name in list(sys.modules):  # an imported module of the same name is not the project's
            if name.partition(".")[0] in names - self.names:
                del sys.modules[name]
        self.names |= names
        sys.path[:0] = [text for place in places if (text := str(place)) not in sys.path]
        importlib.invalidate_caches()


def _loaded(member: Any) -> Loaded:
    plain = inspect.unwrap(member)
    context = read_signature(plain).context
    required = {
        name
        for name, parameter in inspect.signature(plain).parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
    }
    returns = getattr(plain, "__annotations__", {}).get("return", "")
    silent = returns is None or returns == "None"
    return Loaded(member, context, frozenset(required - {context}), silent)


def _held(place: Path) -> Iterator[str]:
    if not place.is_dir():
        return
    for entry in place.iterdir():
        suffix = next((s for s in _SUFFIXES if entry.name.endswith(s)), None)
        name = entry.name.removesuffix(suffix) if suffix else entry.name
        if not name.isidentifier():
            continue
        if suffix or (entry.is_dir() and _is_package(entry)):
            yield name


def _is_package(folder: Path) -> bool:
    if any((folder / f"__init__{suffix}").exists() for suffix in _SUFFIXES):
        return True
    if not any(next(folder.rglob(f"*{suffix}"), None) for suffix in _SUFFIXES):
        return False
    return importlib.util.find_spec(folder.name) is None
