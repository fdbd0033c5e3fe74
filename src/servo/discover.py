"""From a folder of modules to a manifest.

Imported are the modules that are named, or else those whose text imports `servo`
(`servo.imports`): a script that does not is never run. A definition is found by the variable
that has it, or because it registered itself (`servo.registry`).

Modules are imported from their source alone: never from a cached bytecode, which
Python trusts by a file's second and size, and never from an earlier import. What
was imported is forgotten afterwards: `sys.path` and `sys.modules` are as they were,
and a second discovery in one process sees the code as it is then.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from servo.asset import AssetDefinition, SqlAssetDefinition
from servo.contract.manifest import DEFAULT_PROJECT, Manifest
from servo.data_contract import ContractDefinition
from servo.declare import declare, declare_notification, declare_schedule, declare_sensor
from servo.errors import Invalid, Misdeclared
from servo.fresh_imports import importing_from, is_own, is_under, own_modules
from servo.ignore import IgnoredFiles
from servo.imports import ModuleImports, imports_of
from servo.namespaces import NamespaceDefinition
from servo.notify import NotificationDefinition
from servo.project import Problem, Project, ProjectRefused
from servo.registry import definitions_of, name_by_key
from servo.schedule import ScheduleDefinition
from servo.sensor import SensorDefinition
from servo.suggest import did_you_mean
from servo.validate import contracts_of, namespaces_of, validate

FILE: Final = "arco.toml"
_SKIPPED: Final = frozenset({"tests", "test", "venv", "env", "node_modules", "__pycache__"})
_ASSETS: Final = (AssetDefinition, SqlAssetDefinition)
_DEFINITIONS: Final = (
    *_ASSETS,
    ScheduleDefinition,
    SensorDefinition,
    NotificationDefinition,
    NamespaceDefinition,
    ContractDefinition,
)
_lock = threading.Lock()  # one discovery at a time: it changes the import system


BeforeImport = Callable[[str, Path], None]
"""Called with the name and the file of a module."""


def discover(
    root: Path,
    modules: Sequence[str] | None = None,
    *,
    before_import: BeforeImport = lambda name, file: None,
    reserved: Set[str] = frozenset(),
) -> Project:
    """The project in `root`: all that its modules define, and the problems of importing them.

    `modules` are names of modules and packages, from `root/src` if that exists, else from
    `root`; a package stands for itself and the modules in it that import `servo`. Without
    names, all modules there that import `servo` are meant. Left out are tests, hidden folders,
    virtual environments and what `.servoignore` names. Modules that these import are part of
    the project too. None may have a name that is `reserved`.
    """
    root = root.resolve()
    if not root.is_dir():
        raise Invalid(f"{root} is not a folder", hint="name the folder of the project")
    base = root / "src" if (root / "src").is_dir() else root
    candidates = {name: file for file, name in _modules(base, IgnoredFiles(root))}
    imports = {name: _imports(name, file) for name, file in candidates.items()}
    problems: list[Problem] = []
    if modules is None:
        names = sorted(name for name, each in imports.items() if each.servo)
    else:
        names = sorted(_declared(modules, base, imports, problems))
    with _lock, importing_from(base):
        loaded = list(_load(names, root, base, problems, before_import, reserved))
        loaded += [module for module in own_modules(base) if module not in loaded]
        definitions = _collect(loaded)
        _read_sources(definitions)
    imported = {*names, *(module.__name__ for module in loaded)}
    notes = list(_left_out(candidates, imports, imported, root)) if modules is None else []
    return _project(root, base, definitions, problems, notes)


def build_manifest(
    project: Project, artifact: str = "", *, name: str = DEFAULT_PROJECT
) -> Manifest:
    """The project as data; Invalid, with every problem, if it has any."""
    refuse(validate(project))
    assets = [declare(each, project).asset for each in project.assets]
    schedules = [declare_schedule(each, project) for each in project.schedules]
    sensors = [declare_sensor(each, project)[0] for each in project.sensors]
    notifications = [declare_notification(each, project)[0] for each in project.notifications]
    return Manifest(
        artifact=artifact,
        assets=tuple(sorted(assets, key=lambda asset: asset.key)),
        schedules=tuple(sorted(schedules, key=lambda schedule: schedule.name)),
        sensors=tuple(sorted(sensors, key=lambda sensor: sensor.name)),
        notifications=tuple(sorted(notifications, key=lambda rule: rule.name)),
        root=project.imports,
        project=name,
        namespaces=namespaces_of(project),
        contracts=contracts_of(project),
    )


def refuse(problems: Sequence[Problem]) -> None:
    """Raise Invalid with all of these, if there are any."""
    if problems:
        raise ProjectRefused(problems)


# -- which modules ------------------------------------------------------------------------


def _modules(base: Path, ignored: IgnoredFiles) -> Iterator[tuple[Path, str]]:
    for folder, folders, files in os.walk(base):
        directory = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not _skip_folder(directory / name) and not ignored.folder(directory / name)
        )
        for file in files:
            if _is_module(file) and not ignored.file(directory / file):
                yield directory / file, _module_name((directory / file).relative_to(base))


def _imports(name: str, file: Path) -> ModuleImports:
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    try:
        return imports_of(file.read_bytes(), package)
    except OSError:
        return ModuleImports()


def _declared(
    names: Sequence[str], base: Path, imports: Mapping[str, ModuleImports], problems: list[Problem]
) -> Iterator[str]:
    """The modules that are named, and those of named packages that import `servo`."""
    for name in dict.fromkeys(names):
        inside = [each for each in imports if each.startswith(f"{name}.")]
        yield from (each for each in inside if imports[each].servo)
        place = base.joinpath(*name.split("."))
        if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
            yield name
        elif not inside:
            hint = did_you_mean(name, imports) or f"modules are named from {base}"
            problems.append(Problem(FILE, 1, f"modules: there is no module {name!r}", hint))


def _left_out(
    files: Mapping[str, Path], imports: Mapping[str, ModuleImports], imported: Set[str], root: Path
) -> Iterator[Problem]:
    """Modules that were not imported, although they may define something."""
    for name in sorted(imports.keys() - imported):
        via = sorted(imports[name].at_import & imported)
        if not via and not imports[name].servo_in_functions:
            continue
        reason = f"only imports {via[0]}" if via else "imports servo only inside functions"
        yield Problem(
            files[name].relative_to(root).as_posix(),
            1,
            f"{name} was not imported: it {reason}",
            "if it defines assets, import servo in it, or name it in [project] modules",
        )


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


def _load(
    names: Sequence[str],
    root: Path,
    base: Path,
    problems: list[Problem],
    before_import: BeforeImport,
    reserved: Set[str],
) -> Iterator[ModuleType]:
    for name in names:
        before_import(name, _file_of(name, base))
        try:
            _check_free(name, base, reserved)
            yield importlib.import_module(name)
        except (Exception, SystemExit) as error:
            problems.append(_import_problem(name, error, root, base))


def _check_free(name: str, base: Path, reserved: Set[str]) -> None:
    """Refuse a module that Python would not find under its name."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    is_elsewhere = top in reserved if loaded is None else not is_under(loaded, base)
    if top in sys.stdlib_module_names or is_elsewhere:
        raise Invalid(f"the module {name!r} is hidden by another of that name", hint="rename it")


_HINTS = {
    "PySparkRuntimeError": "modules are imported before Spark starts: make columns inside of "
    "functions, and give a UDF at the top of a module its type as an object, such as LongType()"
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
    """The innermost line of the project's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if is_own(Path(frame.filename), base):
            return frame.filename, frame.lineno or 1
    return str(_file_of(name, base)), 1


def _file_of(name: str, base: Path) -> Path:
    place = base.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


# -- what they define ---------------------------------------------------------------------


class _FoundDefinition(NamedTuple):
    """A definition, with the module and the variable to import it by."""

    value: Any
    module: str
    name: str

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        """Best is where it was defined, under its own name; then the first by name."""
        code = self.value.code
        return self.module != code.module, self.name != code.name, self.module, self.name


def _collect(modules: Sequence[ModuleType]) -> list[_FoundDefinition]:
    """Each definition once, under its best name."""
    best: dict[int, _FoundDefinition] = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, _DEFINITIONS):
                definition = _FoundDefinition(value, module.__name__, name)
                best[id(value)] = min(
                    definition, best.get(id(value), definition), key=lambda f: f.rank
                )
    for module in modules:
        for value in definitions_of(module):
            key = value.key if isinstance(value, _ASSETS) else value.name
            best.setdefault(id(value), _FoundDefinition(value, module.__name__, name_by_key(key)))
    return list(best.values())


def _read_sources(definitions: Sequence[_FoundDefinition]) -> None:
    """Read the texts now, while the files are those that were imported."""
    for each in definitions:
        if isinstance(each.value, AssetDefinition | SensorDefinition):
            with suppress(Invalid):  # to be reported by `validate`
                _ = each.value.source


def _project(
    root: Path,
    base: Path,
    definitions: Sequence[_FoundDefinition],
    problems: Sequence[Problem],
    notes: Sequence[Problem],
) -> Project:
    values = [each.value for each in sorted(definitions, key=lambda f: (f.module, f.name))]
    return Project(
        root,
        imports=base.relative_to(root).as_posix() if base != root else "",
        assets=sorted((v for v in values if isinstance(v, _ASSETS)), key=lambda v: v.key),
        schedules=[v for v in values if isinstance(v, ScheduleDefinition)],
        sensors=[v for v in values if isinstance(v, SensorDefinition)],
        notifications=[v for v in values if isinstance(v, NotificationDefinition)],
        namespaces=[v for v in values if isinstance(v, NamespaceDefinition)],
        contracts=[v for v in values if isinstance(v, ContractDefinition)],
        problems=problems,
        notes=notes,
        places={id(each.value): (each.module, each.name) for each in definitions},
    )
