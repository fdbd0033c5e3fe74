"""Discovery in a process of its own: a module that exits, crashes or freezes ends only that one.

`discovery.py` starts it, and reads its messages, one in a line: `Importing` before each module,
and at the end `Discovered` or `Impossible`. It runs user code, and has no access to a store.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from servo.contract.manifest import Manifest, Notification
from servo.declare import declare_notification
from servo.discover import build_manifest, discover
from servo.errors import Error
from servo.project import Problem, ProjectRefused

DESCRIPTOR_LOST: Final = 71
"""Exit status if a module has closed the pipe to the other process."""
_PR_SET_PDEATHSIG: Final = 1


class Instruction(Struct, frozen=True):
    """What to discover."""

    folder: str
    modules: tuple[str, ...] | None
    project: str
    parent: int
    """Its process: this one ends with it."""


class Importing(Struct, frozen=True, tag=True):
    module: str
    """Empty when all modules have been imported."""
    file: str
    """Relative to the project's folder."""


class Discovered(Struct, frozen=True, tag=True):
    """A project as data."""

    problems: tuple[Problem, ...] = ()
    manifest: Manifest | None = None
    """None if there are problems. Its artifact is empty."""
    notes: tuple[Problem, ...] = ()
    notifications: tuple[Notification, ...] = ()
    """The rules, also if there are problems."""
    assets: int = 0
    schedules: int = 0
    sensors: int = 0


class Impossible(Struct, frozen=True, tag=True):
    """The input is invalid: the message and the hint of an error."""

    message: str
    hint: str


DiscoveryMessage: TypeAlias = Importing | Discovered | Impossible

_messages = msgspec.json.Decoder(DiscoveryMessage)


def decode(line: bytes) -> DiscoveryMessage:
    message: DiscoveryMessage = _messages.decode(line)
    return message


def main(descriptor: int, instruction: str) -> None:
    """Write what the project is to the descriptor, and end this process."""
    todo = msgspec.json.decode(instruction, type=Instruction)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != todo.parent:
            os._exit(1)  # it ended before the line above
    sys.argv[:] = [""]
    own = os.getpid()

    def send(message: DiscoveryMessage) -> None:
        if os.getpid() == own:  # and not a fork that a module has left behind
            try:
                _write(descriptor, msgspec.json.encode(message) + b"\n")
            except OSError:
                os._exit(DESCRIPTOR_LOST)

    try:
        message: DiscoveryMessage = _discovered(todo, send)
    except Error as error:
        message = Impossible(error.message, error.hint)
    send(message)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # threads that a module has started end too


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _discovered(todo: Instruction, send: Callable[[DiscoveryMessage], None]) -> Discovered:
    root = Path(todo.folder)

    def importing(module: str, file: Path) -> None:
        send(Importing(module, file.relative_to(root).as_posix()))

    project = discover(root, todo.modules, before_import=importing)
    send(Importing("", ""))
    problems: tuple[Problem, ...] = ()
    manifest: Manifest | None = None
    try:
        manifest = build_manifest(project, name=todo.project)
    except ProjectRefused as refused:
        problems = refused.problems
    return Discovered(
        problems=problems,
        manifest=manifest,
        notes=tuple(project.notes),
        notifications=tuple(
            [declare_notification(each, project)[0] for each in project.notifications]
        ),
        assets=len(project.assets),
        schedules=len(project.schedules),
        sensors=len(project.sensors),
    )
