"""What a module imports, by its text: nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_MENTION: Final = re.compile(rb"^[ \t]*(?:from|import)[ \t]+servo\b", re.MULTILINE)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class ModuleImports(NamedTuple):
    """Full names, also of what is imported from a module: it may be a module too."""

    at_import: frozenset[str] = frozenset()
    """By what runs when the module itself is imported."""
    in_functions: frozenset[str] = frozenset()

    @property
    def servo(self) -> bool:
        return _has_servo(self.at_import)

    @property
    def servo_in_functions(self) -> bool:
        return _has_servo(self.in_functions)


def imports_of(source: bytes, package: str) -> ModuleImports:
    """The imports of a module in `package`.

    Left out is what does not run when it is imported: the body of `if __name__ == "__main__"`,
    and of `if TYPE_CHECKING`. A text that is no Python imports `servo` if a line of it says so.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return ModuleImports(frozenset({"servo"} if _MENTION.search(source) else ()))
    names: dict[bool, set[str]] = {False: set(), True: set()}
    for in_function, node in _imports(body, False):
        names[in_function].update(_names(node, package))
    return ModuleImports(frozenset(names[False]), frozenset(names[True]))


def _has_servo(names: Iterable[str]) -> bool:
    return any(name.partition(".")[0] == "servo" for name in names)


def _imports(
    nodes: Iterable[ast.AST], in_function: bool
) -> Iterator[tuple[bool, ast.Import | ast.ImportFrom]]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield in_function, node
        elif isinstance(node, ast.If) and _is_skipped(node.test):
            yield from _imports(node.orelse, in_function)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            inside = in_function or isinstance(node, _FUNCTIONS)
            yield from _imports(ast.iter_child_nodes(node), inside)


def _is_skipped(test: ast.expr) -> bool:
    """Whether a condition is false when a module is imported."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]):
            return True
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Name(id="__name__")]):
            return True
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
    return False


def _names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
        return
    module = node.module or ""
    if node.level:
        parents = package.split(".") if package else []
        above = parents[: len(parents) - node.level + 1]
        module = ".".join([*above, *([module] if module else [])])
    if module:
        yield module
    yield from (f"{module}.{each.name}" if module else each.name for each in node.names)
