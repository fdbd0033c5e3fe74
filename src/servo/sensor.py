"""Sensors: functions that look at the world and say what should run.

    @sensor(interval="5m", selection=["sales.orders"])
    def new_files(ctx: SensorContext) -> SensorResult: ...

A sensor is called again and again with the cursor that it returned last.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from servo.asset import Declaration
from servo.contract.manifest import Code
from servo.duration import Duration
from servo.registry import register
from servo.source import code_of, expect, expect_each, misdeclared


@dataclass(frozen=True)
class SensorContext:
    cursor: str
    """What the last call returned; empty at first."""
    log: logging.Logger


@dataclass(frozen=True)
class RunRequest:
    key: str
    """One run for one key, however often it is asked for."""
    partitions: str = ""
    """A range as the command line takes it."""


@dataclass(frozen=True)
class SensorResult:
    cursor: str = ""
    runs: tuple[RunRequest, ...] = ()
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values to add to sets of dynamic partitions."""


SensorFunction: TypeAlias = Callable[[SensorContext], SensorResult]


class SensorDefinition:
    """A function as a sensor; calling it calls the function."""

    __wrapped__: SensorFunction
    __name__: str

    def __init__(
        self,
        function: SensorFunction,
        name: str,
        interval: Duration,
        selection: Sequence[str | Declaration],
    ) -> None:
        if not inspect.isfunction(function):
            misdeclared(f"@sensor over {function!r}, which is not a function")
        expect(name, str, "name")
        expect_each(selection, (str, Declaration), "selection")
        functools.update_wrapper(self, function)
        self.name: Final = name or function.__name__
        self.interval: Final = interval
        self.selection: Final = tuple(selection)
        self.code: Final[Code] = code_of(function)
        register(self)

    def __call__(self, ctx: SensorContext) -> SensorResult:
        return self.__wrapped__(ctx)


def sensor(
    *, selection: Sequence[str | Declaration], interval: Duration = "1m", name: str = ""
) -> Callable[[SensorFunction], SensorDefinition]:
    """Declare that a function decides when the selection runs; asked every `interval`."""

    def decorate(function: SensorFunction) -> SensorDefinition:
        return SensorDefinition(function, name, interval, selection)

    return decorate
