"""The code that a function reaches: its own text, and what of the project it uses.

What counts as an asset's code, so that another result is expected when it changes:

- the function's text, its decorators included (`asset` itself is not);
- what its global names, its closure and its defaults lead to, and what that leads to
  in turn: functions and classes of the project by their text; constants (None, bool,
  int, float, str, bytes, dates and times, Decimal, paths, regular expressions,
  members of an Enum) and tuples, lists, dicts and sets of all these by their value. A
  dict's order counts, a set's does not, nor does the folder of the project where a
  text names it;
- `helpers.clean`, where `helpers` is a module of the project: that attribute alone.
  The module as a whole, and the modules of the project that it imports, where no
  attribute can be found, or where the import stands inside a function.

What counts by its name alone: everything outside the project, which is all that is
installed, the standard library and `servo`. Another asset counts by its key. Any other
object counts by its type, never by its state: the type's text if it is of the project,
or else its name. What is looked up while running (`getattr`, `globals()`,
`importlib`), files that are read, and the versions of libraries do not count.

Neither paths, line numbers and names of modules, nor the order in which things are
defined or hashed, change the result.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import json
import linecache
import re
import sys
import textwrap
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from servo.errors import Invalid
from servo.source import decorators_of, own_source, source_of

Described: TypeAlias = Any
"""What JSON holds."""

_DEEPEST: Final = 40  # of containers in containers; what is deeper counts by its type
_BY_REPR: Final = (bool, int, float, complex, bytes, range, timedelta, Decimal, timezone)
_SERVO: Final = __name__.partition(".")[0]
_OUTSIDE: Final = frozenset({_SERVO, *sys.stdlib_module_names})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_FREE: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def reached_source(function: Callable[..., Any]) -> str:
    """The function's text; with all that it reaches, if it reaches anything."""
    own = source_of(function)
    plain = inspect.unwrap(function)
    assert isinstance(plain, FunctionType)
    walk = _Walk(_root(plain.__globals__), str(plain.__globals__.get("__name__", "")))
    refs = walk.start(plain, own)
    if function is not plain:  # decorators that wrap it, from the outermost one
        refs["@"] = walk.describe(function)
    return json.dumps([own, refs, walk.rest()]) if refs else own


def own_part(source: str) -> str:
    """The function's text alone, of what `reached_source` gave; no function starts with "["."""
    return str(json.loads(source)[0]) if source.startswith("[") else source


def _root(scope: Mapping[str, Any]) -> Path | None:
    """The folder that the import path of this module starts from."""
    file = scope.get("__file__")
    if not file:
        return None
    place = Path(file)
    parts = str(scope.get("__name__", "")).split(".")
    below = place.parent if place.name == "__init__.py" else place.with_suffix("")
    if below.parts[-len(parts) :] != tuple(parts):  # run as a script, or loaded by hand
        return place.parent
    return below.parents[len(parts) - 1]


class _ModuleSource(NamedTuple):
    """A module of the project as a whole."""

    name: str
    file: Path


class _Walk:
    """Numbers what is reached in the order in which it is found, which is always the same."""

    def __init__(self, root: Path | None, module: str) -> None:
        self._root = root
        installed = root is not None and root.name.endswith("-packages")
        self._only = module.partition(".")[0] if installed else None
        self._numbers: dict[object, int] = {}
        self._waiting: list[Any] = []
        self._inside: set[int] = set()

    def start(self, function: FunctionType, text: str) -> dict[str, Described]:
        self._number(id(function), function)
        return self._function_refs(function, text)

    def rest(self) -> list[Described]:
        """A text and its references for each number from 1; it grows while it is read."""
        children, at = [], 1
        while at < len(self._waiting):
            children.append(self._node(self._waiting[at]))
            at += 1
        return children

    def _number(self, key: object, value: Any) -> list[Described]:
        if key not in self._numbers:
            self._numbers[key] = len(self._waiting)
            self._waiting.append(value)  # which keeps it, and so its id
        return ["code", self._numbers[key]]

    # -- values ---------------------------------------------------------------------------

    def describe(self, value: Any, depth: int = 0) -> Described:
        if depth > _DEEPEST or id(value) in self._inside:
            return ["object", _qualified(type(value))]
        plain = self._plain(value)
        if plain is not None:
            return plain
        match value:
            case Enum():
                held = self.describe(value.value, depth + 1)
                return ["member", self.describe(type(value), depth + 1), str(value.name), held]
            case ModuleType():
                return self._module(value)
            case type():
                own = self._class_file(value) is not None
                return self._number(id(value), value) if own else _name(value)
            case FunctionType():
                return self._function(value, depth)
            case MethodType():
                bound = self.describe(value.__self__, depth + 1)
                return ["method", self.describe(value.__func__, depth + 1), bound]
            case BuiltinFunctionType():
                return _name(value)
            case functools.partial():
                called = (value.func, value.args, value.keywords)
                return ["partial", *(self.describe(each, depth + 1) for each in called)]
            case staticmethod() | classmethod():
                return ["wraps", self.describe(value.__func__, depth + 1)]
            case property():
                parts = (value.fget, value.fset, value.fdel)
                return ["property", *(self.describe(each, depth + 1) for each in parts)]
        self._inside.add(id(value))  # a list may hold itself
        try:
            return self._container(value, depth) or self._object(value, depth)
        finally:
            self._inside.remove(id(value))

    def _plain(self, value: Any) -> Described | None:
        kind = type(value)
        name = kind.__name__
        if value is None or kind in _BY_REPR:
            return [name, repr(value)]
        if kind is str:
            return [name, self._without_root(value)]
        if kind in (datetime, time):
            zone = value.tzinfo
            key = getattr(zone, "key", None)
            return [name, value.isoformat(), value.fold, _qualified(type(zone)), str(key)]
        if isinstance(value, PurePath):
            return ["path", self._without_root(value.as_posix())]
        if kind is re.Pattern:
            return [name, repr(value.pattern), value.flags]
        return [name, value.isoformat()] if kind is date else None

    def _without_root(self, text: str) -> str:
        root = str(self._root or "/")
        return text if root == "/" else text.replace(root, "<project>")

    def _container(self, value: Any, depth: int) -> Described | None:
        kind = type(value)
        if kind in (list, tuple):
            return [kind.__name__, [self.describe(each, depth + 1) for each in value]]
        if kind in (set, frozenset):
            ordered = sorted(value, key=self._rank)
            return [kind.__name__, [self.describe(each, depth + 1) for each in ordered]]
        if kind is dict:
            items = [[self.describe(each, depth + 1) for each in item] for item in value.items()]
            return ["dict", items]
        return None

    def _rank(self, value: Any) -> str:
        """An order for a set's items that is the same in every process."""
        if isinstance(value, tuple | frozenset) and type(value) in (tuple, frozenset):
            ranks = [self._rank(each) for each in value]
            return json.dumps(ranks if type(value) is tuple else sorted(ranks))
        if isinstance(value, Enum):
            return json.dumps([_qualified(type(value)), str(value.name)])
        return json.dumps(self._plain(value) or [_qualified(type(value)), _qualified(value)])

    def _object(self, value: Any, depth: int) -> Described:
        kind = type(value)
        if kind.__module__ == f"{_SERVO}.asset" and hasattr(value, "key"):
            return ["asset", value.key]
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if callable(wrapped):  # as `functools.cache` makes
            return ["wraps", _qualified(kind), self.describe(wrapped, depth + 1)]
        return ["object", self.describe(kind, depth + 1)]

    def _function(self, function: FunctionType, depth: int) -> Described:
        if self._is_own(function.__code__.co_filename, function.__globals__.get("__name__")):
            return self._number(id(function), function)
        wrapped = vars(function).get("__wrapped__")
        if callable(wrapped):  # as `contextlib.contextmanager` makes
            return ["wraps", *_name(function), self.describe(wrapped, depth + 1)]
        return _name(function)

    def _module(self, module: ModuleType) -> Described:
        name, file = module.__name__, getattr(module, "__file__", None)
        if file is None or not self._is_own(file, name):
            return ["outside", name]
        return self._number(file, _ModuleSource(name, Path(file)))

    def _is_own(self, file: str, module: object) -> bool:
        """Whether a file is of the project, and not of a library inside its folder."""
        place = Path(file)
        if self._root is None or not place.is_relative_to(self._root):
            return False
        parts = place.relative_to(self._root).parts
        inside = any(part.startswith(".") or part.endswith("-packages") for part in parts)
        top = str(module).partition(".")[0]
        return not inside and top not in _OUTSIDE and self._only in (None, top)

    def _class_file(self, kind: type) -> str | None:
        file = _scope_of(kind).get("__file__")
        return file if file and self._is_own(file, kind.__module__) else None

    # -- code -----------------------------------------------------------------------------

    def _node(self, value: Any) -> Described:
        if isinstance(value, _ModuleSource):
            return self._source_node(value)
        return self._class_node(value) if isinstance(value, type) else self._function_node(value)

    def _function_node(self, function: FunctionType) -> Described:
        if function.__name__ == "<lambda>":
            text = _lambdas(function.__code__)
        else:
            try:
                text = own_source(function)
            except Invalid:  # made by a program: there is no text
                text = ""
        return [text or _qualified(function), self._function_refs(function, text)]

    def _function_refs(self, function: FunctionType, text: str) -> dict[str, Described]:
        free = function.__code__.co_freevars
        closure = dict(_cells(free, function.__closure__ or ()))
        scope = ChainMap(closure, function.__globals__)
        codes = [function.__code__, *decorators_of(text)]
        refs = self._refs(codes, scope, frozenset(free))
        if function.__defaults__:
            refs["="] = self.describe(function.__defaults__)
        if function.__kwdefaults__:
            refs["*="] = self.describe(function.__kwdefaults__)
        wrapped = vars(function).get("__wrapped__")
        if wrapped is not None:
            refs["@"] = self.describe(wrapped)
        return refs

    def _class_node(self, kind: type) -> Described:
        scope = _scope_of(kind)
        text = _text(str(scope["__file__"]))
        lines, code = _class(text, kind.__qualname__)
        bases = [self.describe(base) for base in kind.__bases__]
        if lines:
            return [lines, bases, self._refs([code], scope, frozenset())]
        held = {  # made by a call, such as `namedtuple`
            name: self._plain(value) or self._container(value, 0)
            for name, value in sorted(vars(kind).items())
            if not name.startswith("__")
        }
        return [kind.__qualname__, bases, held]

    def _source_node(self, source: _ModuleSource) -> Described:
        text = _text(str(source.file))
        code = _compiled(text)
        package = source.name
        if source.file.name != "__init__.py":
            package = package.rpartition(".")[0]
        return [text, self._imports(code, package)]

    def _refs(
        self, codes: list[CodeType], scope: Mapping[str, Any], free: frozenset[str]
    ) -> dict[str, Described]:
        chains = sorted({chain for code in codes for chain in _all_chains(code, free)})
        refs: dict[str, Described] = {}
        for chain in chains:
            first = chain[0]
            if first in scope and not (first.startswith("__") and first in _DUNDERS):
                refs.update([self._resolve(chain, scope[first])])
        package = str(scope.get("__package__") or "")
        for code in codes:
            refs.update(self._imports(code, package))
        return refs

    def _resolve(self, chain: tuple[str, ...], value: Any) -> tuple[str, Described]:
        """Through modules, to the first thing that is none."""
        name, *rest = chain
        for attribute in rest:
            if not isinstance(value, ModuleType) or not self._owns(value):
                break
            if attribute not in vars(value):
                break
            name, value = f"{name}.{attribute}", vars(value)[attribute]
        return name, self.describe(value)

    def _owns(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if file is None:  # a folder without an __init__.py is one by its places
            places = list(getattr(module, "__path__", ()))
            return any(self._is_own(place, module.__name__) for place in places)
        return self._is_own(file, module.__name__)

    def _imports(self, code: CodeType, package: str) -> dict[str, Described]:
        refs: dict[str, Described] = {}
        for name in _all_imported(code, package):
            file = self._file(name)
            if file is not None:
                number = self._number(str(file), _ModuleSource(name, file))
                refs[f"import {len(refs)}"] = number
        return refs

    def _file(self, module: str) -> Path | None:
        """Found by its name, without importing it."""
        if self._root is None or not module:
            return None
        place = self._root.joinpath(*module.split("."))
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file() and self._is_own(str(file), module):
                return file
        return None


_DUNDERS: Final = frozenset(
    {"__file__", "__name__", "__package__", "__path__", "__spec__", "__loader__", "__cached__"}
    | {"__builtins__", "__doc__", "__annotations__"}
)
"""Of every module; they say where it is."""


def _name(value: Any) -> Described:
    return ["outside", _qualified(value)]


def _qualified(value: Any) -> str:
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str):
        return _qualified(type(value))
    return f"{module}.{name}" if isinstance(module, str) else name


def _cells(names: tuple[str, ...], cells: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(names, cells, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _scope_of(kind: type) -> Mapping[str, Any]:
    """The globals of a class's module, even where that has been forgotten since."""
    for value in vars(kind).values():
        if isinstance(value, FunctionType):
            scope = value.__globals__
            if scope.get("__name__") == kind.__module__ and scope.get("__file__"):
                return scope
    module = sys.modules.get(kind.__module__)
    return {} if module is None else vars(module)


# -- texts --------------------------------------------------------------------------------


def _text(file: str) -> str:
    return "".join(linecache.getlines(file))


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _compiled(code: str | ast.Module) -> CodeType:
    try:
        return compile(code, "<reached>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return compile("", "<reached>", "exec")


@functools.lru_cache(maxsize=4096)
def _class(text: str, qualname: str) -> tuple[tuple[str, ...], CodeType]:
    """Every definition under this name: there may be one in each branch of an `if`."""
    nodes = _classes(text, qualname)
    code = _compiled(ast.Module(body=[*nodes], type_ignores=[]))
    return tuple(_lines(text, node) for node in nodes), code


def _classes(text: str, qualname: str) -> list[ast.ClassDef]:
    nodes: list[ast.AST] = [_tree(text)]
    for part in qualname.split("."):
        if part != "<locals>":
            nodes = [node for parent in nodes for node in _scopes(parent) if node.name == part]
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def _lines(text: str, node: ast.ClassDef) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return textwrap.dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]))


def _scopes(parent: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, _SCOPES):
            yield child
        else:
            yield from _scopes(child)


def _lambdas(code: CodeType) -> str:
    """Those that begin in the line of this one: Python does not say which it is."""
    text = _text(code.co_filename)
    sources = [
        ast.get_source_segment(text, node) or ""
        for node in ast.walk(_tree(text))
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    return "\n".join(sources)


# -- what code names ----------------------------------------------------------------------


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    return (each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG")


@functools.lru_cache(maxsize=4096)
def _all_chains(code: CodeType, free: frozenset[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(_chains(code, free))


@functools.lru_cache(maxsize=4096)
def _all_imported(code: CodeType, package: str) -> tuple[str, ...]:
    return tuple(sorted(set(_imported(code, package))))


def _chains(code: CodeType, free: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Global and free names, each with the attributes that are taken of it at once."""
    chain: tuple[str, ...] = ()
    for each in _instructions(code):
        if chain and each.opname in _ATTRIBUTES:
            chain = (*chain, str(each.argval))
            continue
        if chain:
            yield chain
        name = each.argval
        starts = each.opname in _GLOBALS or (each.opname in _FREE and name in free)
        chain = (str(name),) if starts else ()
    if chain:
        yield chain
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _chains(constant, free)


def _imported(code: CodeType, package: str) -> Iterator[str]:
    """Modules that import statements may mean, by full name."""
    before: list[Any] = [0, None]
    for each in _instructions(code):
        if each.opname == "IMPORT_NAME":
            level, names = before
            module = _absolute(str(each.argval), int(level or 0), package)
            yield module
            yield from (f"{module}.{name}" for name in names or () if name != "*")
        before = [before[1], each.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imported(constant, package)


def _absolute(name: str, level: int, package: str) -> str:
    if not level:
        return name
    parts = package.split(".")
    above = parts[: len(parts) - level + 1]
    return ".".join([*above, name] if name else above)
