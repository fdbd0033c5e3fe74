"""The modules of `src`, and what each imports: read once, by tests of one xdist group."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


@cache
def modules() -> dict[str, Path]:
    """By name, e.g. `arco.log.commit`."""
    return {
        ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted(SRC.rglob("*.py"))
    }


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text("utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(module)))


@cache
def imports(module: str) -> frozenset[str]:
    """The modules that it imports, anywhere in its text; of names, the modules that have them."""
    return frozenset(
        name
        for node in nodes(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported(node)
    )


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.name
        elif node.module:
            full = f"{node.module}.{alias.name}"
            yield full if full in modules() else node.module


def imported_by_name(module: str) -> Iterator[str]:
    """What calls of `import_module` import: a name, its fixed begin and `*`, or `*`."""
    for node in nodes(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
            yield module_text(module, node.args[0])


BY_NAME = ("import_module", "__import__")


def module_text(module: str, name: ast.expr) -> str:
    match name:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return f"{text}*"
        case ast.Name(id=constant):
            for node in tree(module).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == constant:
                    return module_text(module, node.value)
    return "*"


def within(module: str, *packages: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)
