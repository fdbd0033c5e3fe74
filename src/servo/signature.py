"""A function's parameters as inputs.

Each parameter is an `AssetIn` or the `AssetContext`; nothing else can be passed by
a worker. Which asset an input is of is said by `ins=`, by its annotation or default, or
by the parameter's own name. Annotations written as text (or under `from __future__ import
annotations`) are evaluated in the function's module.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from servo.context import AssetContext, AssetIn
from servo.errors import Invalid, Misdeclared
from servo.source import source_of
from servo.suggest import did_you_mean

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Flaw(NamedTuple):
    """What is wrong with a definition, and what to do."""

    message: str
    hint: str = ""


class Signature(NamedTuple):
    inputs: tuple[AssetIn, ...]
    """In the order of the parameters, whose names they carry."""
    context: str
    """The parameter that takes the AssetContext, or empty."""
    flaws: tuple[Flaw, ...]


def read_signature(
    function: Callable[..., Any], ins: Mapping[str, AssetIn] | None = None
) -> Signature:
    ins = ins or {}
    inputs: list[AssetIn] = []
    contexts: list[str] = []
    flaws = list(_flaws_of_kind(function))
    parameters = inspect.signature(function).parameters
    for name in ins.keys() - parameters.keys():
        hint = did_you_mean(name, parameters) or f"add it to {function.__name__}, or remove it"
        flaws.append(Flaw(f"ins names {name!r}, which is not a parameter", hint))
    for parameter in parameters.values():
        match _read_parameter(parameter, function, ins.get(parameter.name)):
            case AssetIn() as declared:
                inputs.append(declared)
            case Flaw() as flaw:
                flaws.append(flaw)
            case name:
                contexts.append(name)
    if len(contexts) > 1:
        flaws.append(Flaw(f"{' and '.join(contexts)} both take the AssetContext", "keep one"))
    return Signature(tuple(inputs), contexts[0] if contexts else "", tuple(flaws))


def _flaws_of_kind(function: Callable[..., Any]) -> list[Flaw]:
    if function.__name__ == "<lambda>":
        return [Flaw("a lambda cannot be an asset", "define a function")]
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return [Flaw(f"{function.__name__} is async", "write a plain function: `def`")]
    return []


def _read_parameter(
    parameter: inspect.Parameter, function: Callable[..., Any], given: AssetIn | None
) -> AssetIn | Flaw | str:
    name = parameter.name
    if parameter.kind in _VARIADIC:
        stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        return Flaw(f"parameter {stars}{name}: an asset's inputs have names", _HINT)
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return Flaw(f"parameter {name!r} is positional-only", "inputs are passed by name")
    own = parameter.default if isinstance(parameter.default, AssetIn) else None
    unannotated = parameter.annotation is inspect.Parameter.empty
    if own is None and unannotated and given is None:
        return Flaw(f"parameter {name!r} has no annotation", _HINT)
    annotation = AssetIn if unannotated else _evaluated(parameter.annotation, name, function)
    if own is None and isinstance(annotation, AssetIn):
        own = annotation
    if own is not None and given is not None:
        return Flaw(f"parameter {name!r} names an asset, and so does ins", "keep one of them")
    if own is not None or annotation is AssetIn:
        declared = own or given or AssetIn(name)
        return AssetIn(
            declared.asset,
            parameter=name,
            mapping=declared.mapping,
            version=declared.version,
            as_of=declared.as_of,
        )
    if annotation is AssetContext:
        conflict = Flaw(f"parameter {name!r} is of type AssetContext, and ins names it", _REMOVE)
        return name if given is None else conflict
    return annotation if isinstance(annotation, Flaw) else _refused(name, annotation)


def _evaluated(annotation: Any, name: str, function: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(inspect.unwrap(function).__globals__))
    except Misdeclared as error:
        return Flaw(f"parameter {name!r}: {error.problem}", error.hint)
    except Exception as error:
        hint = 'write AssetIn["namespace.name"], or AssetIn["namespace.name", mapping]'
        if isinstance(error, NameError):
            hint = f"import it at the top of {function.__module__}, not under TYPE_CHECKING"
        return Flaw(
            f"parameter {name!r}: its annotation {annotation} cannot be evaluated: {error}", hint
        )


def _refused(name: str, annotation: Any) -> Flaw:
    type_name = getattr(annotation, "__name__", repr(annotation))
    return Flaw(
        f"parameter {name!r} is of type {type_name}, which is neither an input nor the context",
        _HINT,
    )


_REMOVE = "remove it from ins"
_HINT = (
    "an input is annotated with AssetIn, the context with AssetContext; settings go into config="
)


def takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with one argument."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    return True


def returns_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function is seen to have no result: by its annotation, or by its text."""
    if getattr(function, "__annotations__", {}).get("return", "") in (None, "None"):
        return True
    try:
        tree = ast.parse(source_of(function))
    except (Invalid, SyntaxError):  # its fingerprint has said so, or its text is not all of it
        return False
    kinds = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
    ends = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return not any(getattr(node, "value", True) is not None for node in ends)
