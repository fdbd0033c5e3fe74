"""From a folder of modules to a manifest.

Modules are imported from their source alone: never from a cached bytecode, which
Python trusts by a file's second and size, and never from an earlier import. What
was imported is forgotten afterwards: `sys.path` and `sys.modules` are as they were,
and a second discovery in one process sees the code as it is then.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

from servo.asset import AssetDefinition, SqlAssetDefinition
from servo.contract.manifest import DEFAULT_PROJECT, Manifest
from servo.declare import declare, declare_schedule, declare_sensor
from servo.errors import Invalid, Misdeclared
from servo.project import Problem, Project
from servo.schedule import ScheduleDefinition
from servo.sensor import SensorDefinition
from servo.validate import validate

_SKIPPED: Final = frozenset({"tests", "test", "venv", "env", "node_modules", "__pycache__"})
_ASSETS: Final = (AssetDefinition, SqlAssetDefinition)
_DEFINITIONS: Final = (*_ASSETS, ScheduleDefinition, SensorDefinition)
_OURS: Final = __name__.partition(".")[0]
_lock = threading.Lock()  # one discovery at a time: it borrows the import system


def discover(root: Path, modules: Sequence[str] | None = None) -> Project:
    """The project in `root`: all that its modules define, and what kept them from it.

    Modules are those named, or every file under `root/src` if that exists, else
    under `root`; tests, hidden folders and virtual environments left out.
    """
    root = root.resolve()
    if not root.is_dir():
        raise Invalid(f"{root} is not a folder", hint="name the folder of the project")
    base = root / "src" if (root / "src").is_dir() else root
    names = sorted(set(modules)) if modules is not None else sorted(_modules(base))
    problems: list[Problem] = []
    with _lock, _importing_from(base):
        definitions = _collect(list(_load(names, root, base, problems)))
        _read_sources(definitions)
    return _project(root, base, definitions, problems)


def build_manifest(
    project: Project, artifact: str = "", *, name: str = DEFAULT_PROJECT
) -> Manifest:
    """The project as data; Invalid, with every problem, if it has any."""
    problems = validate(project)
    if problems:
        lines = "\n".join(str(problem) for problem in problems)
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise Invalid(f"the project has {count}:\n{lines}")
    assets = [declare(each, project).asset for each in project.assets]
    schedules = [declare_schedule(each, project) for each in project.schedules]
    sensors = [declare_sensor(each, project)[0] for each in project.sensors]
    return Manifest(
        artifact=artifact,
        assets=tuple(sorted(assets, key=lambda asset: asset.key)),
        schedules=tuple(sorted(schedules, key=lambda schedule: schedule.name)),
        sensors=tuple(sorted(sensors, key=lambda sensor: sensor.name)),
        root=project.imports,
        project=name,
    )


# -- which modules ------------------------------------------------------------------------


def _modules(base: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(base):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _skip_folder(here / name))
        for file in files:
            if _is_module(file):
                yield _module_name((here / file).relative_to(base))


def _skip_folder(folder: Path) -> bool:
    name = folder.name
    return not name.isidentifier() or name in _SKIPPED or (folder / "pyvenv.cfg").exists()


def _is_module(file: str) -> bool:
    stem, dot, extension = file.partition(".")
    if f"{dot}{extension}" != ".py" or not stem.isidentifier():
        return False
    is_test = stem.startswith("test_") or stem.endswith("_test")
    return not is_test and stem not in ("conftest", "setup", "__main__")


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


# -- importing them -----------------------------------------------------------------------


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
def _importing_from(base: Path) -> Iterator[None]:
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


def _forget(base: Path) -> dict[str, ModuleType]:
    """Remove, and return, what has been imported from this folder."""
    linecache.clearcache()
    imported = sys.modules.copy()  # another thread may import something meanwhile
    modules = {name: module for name, module in imported.items() if _is_under(module, base)}
    for name in modules:
        del sys.modules[name]
    return modules


def _is_under(module: ModuleType, base: Path) -> bool:
    """Whether the module is of this folder's own files, and not of a library inside it."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", None) or [])
    is_ours = getattr(module, "__name__", "").partition(".")[0] == _OURS
    return not is_ours and any(_is_own(Path(place), base) for place in places)


def _is_own(place: Path, base: Path) -> bool:
    if not place.is_relative_to(base):
        return False
    return not any(
        part.startswith(".") or part == "site-packages" for part in place.relative_to(base).parts
    )


def _load(
    names: Sequence[str], root: Path, base: Path, problems: list[Problem]
) -> Iterator[ModuleType]:
    for name in names:
        try:
            _check_free(name, base)
            yield importlib.import_module(name)
        except (Exception, SystemExit) as error:
            problems.append(_import_problem(name, error, root, base))


def _check_free(name: str, base: Path) -> None:
    """Refuse a module that Python would not find under its name."""
    top = name.partition(".")[0]
    taken = sys.modules.get(top)
    if top in sys.stdlib_module_names or (taken is not None and not _is_under(taken, base)):
        raise Invalid(f"the module {name!r} is hidden by another of that name", hint="rename it")


_HINTS = {
    "PySparkRuntimeError": "modules are imported before Spark starts: make columns inside of "
    "functions, and give a UDF at the top of a module its type as an object, such as LongType()",
}
"""For errors of libraries that are not imported here."""


def _import_problem(name: str, error: BaseException, root: Path, base: Path) -> Problem:
    file, line = _place(name, error, base)
    path = Path(file)
    if path.is_relative_to(root):
        path = path.relative_to(root)
    hint = getattr(error, "hint", "") or _HINTS.get(type(error).__name__, "")
    return Problem(path.as_posix(), line, _message(name, error), hint)


def _message(name: str, error: BaseException) -> str:
    match error:
        case Misdeclared():
            return error.problem
        case Invalid():
            return error.message
        case SyntaxError():
            return f"syntax error: {error.msg}"
        case SystemExit():
            return f"importing {name} exits the program"
        case _:
            return f"importing {name} fails: {type(error).__name__}: {error}"


def _place(name: str, error: BaseException, base: Path) -> tuple[str, int]:
    """The innermost line of the project's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if _is_own(Path(frame.filename), base):
            return frame.filename, frame.lineno or 1
    place = base.joinpath(*name.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return str(file), 1


# -- what they define ---------------------------------------------------------------------


class _Found(NamedTuple):
    """A definition, with the module and the variable to import it by."""

    value: Any
    module: str
    name: str

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        """Best is where it was defined, under its own name; then the first by name."""
        code = self.value.code
        return self.module != code.module, self.name != code.name, self.module, self.name


def _collect(modules: Sequence[ModuleType]) -> list[_Found]:
    """Each definition once, under its best name."""
    best: dict[int, _Found] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, _DEFINITIONS):
                definition = _Found(value, module.__name__, name)
                best[id(value)] = min(
                    definition, best.get(id(value), definition), key=lambda f: f.rank
                )
    return list(best.values())


def _read_sources(definitions: Sequence[_Found]) -> None:
    """Read the texts now, while the files are those that were imported."""
    for each in definitions:
        if isinstance(each.value, AssetDefinition):
            with suppress(Invalid):  # to be reported by `validate`
                _ = each.value.source


def _project(
    root: Path, base: Path, definitions: Sequence[_Found], problems: Sequence[Problem]
) -> Project:
    values = [each.value for each in sorted(definitions, key=lambda f: (f.module, f.name))]
    return Project(
        root,
        imports=base.relative_to(root).as_posix() if base != root else "",
        assets=sorted((v for v in values if isinstance(v, _ASSETS)), key=lambda v: v.key),
        schedules=[v for v in values if isinstance(v, ScheduleDefinition)],
        sensors=[v for v in values if isinstance(v, SensorDefinition)],
        problems=problems,
        places={id(each.value): (each.module, each.name) for each in definitions},
    )
