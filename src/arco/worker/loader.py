"""Loading user code so that two versions of a project live side by side in one process.

A worker serves many deployments, and a rollback may run beside what it replaces. So
the modules of an artifact are never imported under their own names. They live below
a synthetic package,

    _servo_artifact_{the first 16 digits of the digest}

whose `__path__` is the extracted folder. Relative imports work by themselves. For
absolute ones `builtins.__import__` is wrapped, once: an import *by a module of an
artifact*, of a top-level name *which that artifact holds*, is served from the same
artifact; all others go the normal way. The caller is known by its globals, so this
also holds for imports inside functions, whenever they run, on any thread.
`importlib.import_module` is wrapped alike, for callers in an artifact and for
`importlib.resources` on their behalf.

What differs from a normal import, then: `__name__` has the prefix, so pickles of
the project's classes can be read in this process only; and `find_spec` or `runpy`
with a bare name do not see the project.

A folder without Python files is no module, and one without `__init__.py` gives way
to any module of its name that is installed, as namespace packages do.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

from arco.worker.failures import failed
from servo.contract.manifest import Code
from servo.contract.task import CodeRef
from servo.signature import read_signature

PREFIX: Final = "_servo_artifact_"

_FORWARDERS = frozenset({"importlib", "functools", "pkgutil"})
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SUFFIXES = tuple(importlib.machinery.all_suffixes())

_lock = threading.RLock()
_names: dict[str, frozenset[str]] = {}
"""By synthetic package: the top-level names that its artifact holds."""


class Loaded(NamedTuple):
    """A function of an artifact, with what a caller must know of its parameters."""

    function: Callable[..., Any]
    context: str
    """The parameter that takes the AssetContext, or empty."""
    required: frozenset[str]
    """The other parameters without a value of their own: the inputs."""
    silent: bool = False
    """Whether it is declared to return nothing: `-> None`."""


class Loader:
    """Loads `module:name` of extracted artifacts; each function is looked up once."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str, str], Loaded] = {}

    def load(self, code: CodeRef, folder: Path) -> Loaded:
        """The function; what its modules raise, or TaskFailed if there is no such name."""
        key = (code.artifact, code.module, code.name)
        found = self._cache.get(key)
        if found is None:
            module = load_module(code, folder)
            found = self._cache[key] = _loaded(_member(module, code))
        return found


def load_check(asset: CodeRef, check: Code, folder: Path) -> Callable[..., Any]:
    """A check's function, from the artifact that the asset is of."""
    code = CodeRef(artifact=asset.artifact, module=check.module, name=check.name, root=asset.root)
    found: Callable[..., Any] = _member(load_module(code, folder), code)
    return found


def load_module(code: CodeRef, folder: Path) -> ModuleType:
    package = _package(code, folder)
    top = code.module.partition(".")[0]
    if top not in _names[package]:
        raise failed(
            "configuration",
            "code.missing",
            f"the artifact {code.artifact[:16]} has no module {code.module!r}",
            "deploy the project again, and check what is packed",
        )
    return importlib.import_module(f"{package}.{code.module}")


def _member(module: ModuleType, code: CodeRef) -> Any:
    found: Any = module
    for part in code.name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise failed(
            "configuration",
            "code.missing",
            f"{code.module} has no function {code.name!r}",
            "deploy the project again",
        )
    return found


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


# -- the synthetic package ----------------------------------------------------------------


def package_name(artifact: str) -> str:
    """The synthetic package that an artifact's modules are in."""
    return PREFIX + artifact[:16]


def _package(code: CodeRef, folder: Path) -> str:
    """The artifact's package, made if need be. Its root may be a folder inside of it."""
    name = package_name(code.artifact)
    places = [str(folder / code.root), str(folder)] if code.root else [str(folder)]
    with _lock:
        _install()
        package = sys.modules.get(name)
        if package is None or not set(places) <= set(package.__path__):
            known: Iterable[str] = package.__path__ if package is not None else ()
            _make(name, list(dict.fromkeys([*places, *known])))
    return name


def _make(name: str, places: list[str]) -> None:
    package = sys.modules.get(name)
    if package is None:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        package = importlib.util.module_from_spec(spec)
    package.__path__ = places
    _names[name] = frozenset(held for place in places for held in _held(Path(place)))
    sys.modules[name] = package


def _held(place: Path) -> Iterable[str]:
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


# -- the two hooks ------------------------------------------------------------------------


def _owner(importer: object, name: str) -> str | None:
    """The synthetic package that serves `name` to the module `importer`, if one does."""
    if not isinstance(importer, str) or not importer.startswith(PREFIX):
        return None
    package = importer.partition(".")[0]
    return package if name.partition(".")[0] in _names.get(package, ()) else None


def _import_hook(original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    def __import__(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        scope = sys._getframe(1).f_globals if globals is None else globals
        package = _owner(scope.get("__name__"), name) if level == 0 else None
        if package is None:
            return original(name, globals, locals, fromlist, level)
        found = original(f"{package}.{name}", globals, locals, fromlist, 0)
        # `import a.b` binds `a`; only with a fromlist is the leaf what is asked for.
        return found if fromlist else sys.modules[f"{package}.{name.partition('.')[0]}"]

    return __import__


def _import_module_hook(original: Callable[[str, str | None], ModuleType]) -> Any:
    def import_module(name: str, package: str | None = None) -> ModuleType:
        if name.startswith((".", PREFIX)):
            return original(name, package)
        owner = _owner(_importer(sys._getframe(1)), name)
        return original(f"{owner}.{name}" if owner else name, package)

    return import_module


def _importer(frame: FrameType | None) -> object:
    """Who asks: the nearest module that does not merely pass the question on."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str) or name.partition(".")[0] not in _FORWARDERS:
            return name
        frame = frame.f_back
    return None


@functools.cache
def _install() -> None:
    builtins.__import__ = _import_hook(builtins.__import__)
    importlib.import_module = _import_module_hook(importlib.import_module)
