"""Definitions, noted in the module whose body made them.

Discovery finds a definition by the variable that it is assigned to. One in a list, in a class
or in a loop, or one that is assigned to nothing, is found because it registers itself: in the
globals of the module that is being imported when it is made. So it lives as long as its module,
and a worker that imports the module again finds it by its key.
"""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any, Final

from servo.source import caller

_REGISTERED: Final = "__servo_definitions__"
_BY_KEY: Final = "@"


def register(definition: object) -> None:
    """Note a definition in the module whose body is running, if there is one."""
    frame: FrameType | None = caller()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__") != "__main__":
        frame.f_globals.setdefault(_REGISTERED, []).append(definition)


def definitions_of(module: ModuleType) -> tuple[Any, ...]:
    """What the body of a module made, in that order."""
    return tuple(vars(module).get(_REGISTERED, ()))


def name_by_key(key: str) -> str:
    """What a manifest has as the name of a definition that no variable has."""
    return f"{_BY_KEY}{key}"


def by_name(module: ModuleType, name: str) -> Any:
    """The definition that `name_by_key` named; None if there is none, or `name` is a variable's."""
    if not name.startswith(_BY_KEY):
        return None
    key = name.removeprefix(_BY_KEY)
    return next((d for d in definitions_of(module) if getattr(d, "key", "") == key), None)
