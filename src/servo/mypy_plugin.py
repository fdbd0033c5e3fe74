"""Teaches mypy what `AssetIn["namespace.name"]` means: an AssetIn.

    [tool.mypy]
    plugins = ["servo.mypy_plugin"]

Python's typing knows text in an annotation only as the name of a type. So, when a
file has been parsed and before names are looked up, the texts inside `AssetIn[...]`
become plain literals; when the type is analysed, they are checked as keys. Mappings
after the comma are expressions, which mypy does not see here: `servo.validate` does.
(With mypy's `--num-workers` files are parsed elsewhere: use the default-value form.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mypy.nodes import ClassDef, Decorator, FuncDef, IfStmt, MypyFile, Statement
from mypy.options import Options
from mypy.plugin import AnalyzeTypeContext, Plugin, ReportConfigContext
from mypy.types import CallableType, RawExpressionType, Type, UnboundType

from servo.contract.keys import AssetKey
from servo.errors import Invalid

_ASSET_IN: Final = "servo.context.AssetIn"


class ServoPlugin(Plugin):
    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._touched: set[str] = set()

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Called when a file has just been parsed, which is what we are here for."""
        for function in _functions(file.defs):
            for signature in (function.type, function.unanalyzed_type):
                if isinstance(signature, CallableType) and _keep_texts(signature.arg_types):
                    self._touched.add(file.fullname)
        return []

    def report_config_data(self, ctx: ReportConfigContext) -> str | None:
        """Keep the files that we touch out of mypy's cache.

        A file from the cache that must be looked at again, since another changed, is
        parsed without telling us. What is written never equals what is asked for.
        """
        return "touched" if not ctx.is_check and ctx.id in self._touched else None

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return _analyze if fullname == _ASSET_IN else None


def plugin(version: str) -> type[Plugin]:
    """What mypy calls."""
    return ServoPlugin


def _functions(statements: Iterable[Statement]) -> Iterator[FuncDef]:
    for each in statements:
        statement = each.func if isinstance(each, Decorator) else each
        if isinstance(statement, FuncDef):
            yield statement
            yield from _functions(statement.body.body)
        elif isinstance(statement, ClassDef):
            yield from _functions(statement.defs.body)
        elif isinstance(statement, IfStmt):
            for block in statement.body:
                yield from _functions(block.body)


def _keep_texts(types: Iterable[Type]) -> bool:
    """Whether there was one."""
    has_args = False
    for each in types:
        if isinstance(each, UnboundType) and each.name.rpartition(".")[2] == "AssetIn":
            each.args = tuple(_as_literal(argument) for argument in each.args)
            has_args = has_args or bool(each.args)
    return has_args


def _as_literal(argument: Type) -> Type:
    if not isinstance(argument, UnboundType) or argument.original_str_expr is None:
        return argument
    text = argument.original_str_expr
    return RawExpressionType(text, "builtins.str", line=argument.line, column=argument.column)


def _analyze(context: AnalyzeTypeContext) -> Type:
    if context.type.args:
        problem = _problem(context.type.args)
        if problem:
            context.api.fail(problem, context.context)
    return context.api.named_type(_ASSET_IN, [])


def _problem(arguments: tuple[Type, ...]) -> str:
    key = arguments[0]
    if not isinstance(key, RawExpressionType) or not isinstance(key.literal_value, str):
        return 'AssetIn[...] takes an asset\'s key as text, such as "sales.orders"'
    if len(arguments) > 2:
        return "AssetIn[...] takes a key and at most one mapping"
    try:
        AssetKey.parse(key.literal_value if "." in key.literal_value else f"n.{key.literal_value}")
    except Invalid as error:
        return str(error)
    return ""
