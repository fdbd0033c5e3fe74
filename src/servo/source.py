"""Where a definition stands, and its text.

A function's own text is here; `servo.reach` adds what of the project it uses, and says
what counts as an asset's code and what does not.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NoReturn, cast

from servo.contract.manifest import Code
from servo.errors import Invalid, Misdeclared
from servo.suggest import did_you_mean

_DECORATORS: Final = ("asset", "sensor", "file_sensor", "webhook_sensor", "asset_sensor")
_PACKAGE: Final = str(Path(__file__).parent) + "/"


def caller() -> FrameType:
    """The innermost frame that is not of this package: the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    assert frame is not None  # somebody called us
    return frame


def misdeclared(problem: str, *, hint: str = "") -> NoReturn:
    """Refuse a declaration, with its file and line."""
    frame = caller()
    raise Misdeclared(frame.f_code.co_filename, frame.f_lineno, problem, hint=hint)


def expect(value: object, types: type | tuple[type, ...], what: str, *, hint: str = "") -> None:
    """Refuse a value of another type; annotations alone do not keep it out."""
    expected = types if isinstance(types, tuple) else (types,)
    if not isinstance(value, expected):
        names = " or ".join(each.__name__ for each in expected)
        article = "an" if names[0] in "aeiouAEIOU" else "a"
        misdeclared(f"{what} is {value!r}, not {article} {names}", hint=hint)


def expect_one_of(value: object, choices: Sequence[str], what: str) -> None:
    """Refuse a text that is none of these, and name the nearest, or all of them."""
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        accepted = ", ".join(f'"{each}"' for each in choices)
        misdeclared(f"{what} is {value!r}; it is one of {accepted}", hint=hint)


def expect_each(values: object, types: type | tuple[type, ...], what: str) -> None:
    """The same for every item of a list or a tuple."""
    expect(values, (list, tuple), what)
    for item in cast(Sequence[object], values):
        expect(item, types, f"an item of {what}")


def code_of_caller(name: str) -> Code:
    frame = caller()
    module = str(frame.f_globals.get("__name__", ""))
    return Code(module=module, name=name, file=frame.f_code.co_filename, line=frame.f_lineno)


def code_of(function: Callable[..., Any]) -> Code:
    """Of a function; its line is that of its first decorator."""
    code = inspect.unwrap(function).__code__
    return Code(
        module=function.__module__,
        name=function.__name__,
        file=code.co_filename,
        line=code.co_firstlineno,
    )


def source_of(function: Callable[..., Any]) -> str:
    """The function's text, without indentation and without our own decorator.

    What the decorator says (owners, retries, checks) does not change what the
    function makes; other decorators may, and stay.
    """
    return own_source(inspect.unwrap(function))


def own_source(function: Callable[..., Any]) -> str:
    """The same for this function itself, not for the one that it wraps."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines:
        raise Invalid(
            f"the source of {function.__name__} cannot be read",
            hint="define it in a file, not in a console or with exec",
        )
    return _without_asset(textwrap.dedent("".join(inspect.getblock(lines))))


@functools.lru_cache(maxsize=4096)
def decorators_of(text: str) -> tuple[CodeType, ...]:
    """The decorators of a function's text, compiled: they are no part of its code."""
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return ()
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ()
    expressions = (ast.Expression(each) for each in node.decorator_list)
    return tuple(compile(each, "<decorator>", "eval", dont_inherit=True) for each in expressions)


@functools.lru_cache(maxsize=4096)
def _without_asset(text: str) -> str:
    try:
        node = ast.parse(text).body[0]
    except SyntaxError:  # part of an expression, or a text that reaches the left margin
        return text
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return text
    other_decorators = [each for each in node.decorator_list if not _is_asset(each)]
    decorators = [f"@{ast.get_source_segment(text, each)}" for each in other_decorators]
    return "\n".join([*decorators, *text.splitlines()[node.lineno - 1 : node.end_lineno]])


def _is_asset(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _DECORATORS
        case _:
            return False
