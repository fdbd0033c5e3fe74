"""Discovery in a process of its own: a module that exits, crashes or freezes ends only that one.

`discovery.py` starts it, and reads its messages: `Importing` before each module, and at the end
`Discovered` or `Impossible`. It runs user code, and has no access to a store.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from arco.worker.child_process import ChildAnswers
from servo.contract.manifest import Manifest, Notification
from servo.declare import declare_notification
from servo.discover import build_manifest, discover
from servo.errors import Error
from servo.project import Problem, ProjectRefused


class Instruction(Struct, frozen=True):
    """What to discover."""

    folder: str
    modules: tuple[str, ...] | None
    project: str
    reserved: frozenset[str]
    """Names of modules and packages that the other process has imported from elsewhere."""


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


def main(answers: ChildAnswers, text: str) -> None:
    """Write what the project is, and end this process."""
    instruction = msgspec.json.decode(text, type=Instruction)

    def send(message: DiscoveryMessage) -> None:
        answers.send(msgspec.json.encode(message))

    try:
        last = msgspec.json.encode(_discovered(instruction, send))
    except Error as error:
        last = msgspec.json.encode(Impossible(_readable(error.message), _readable(error.hint)))
    except UnicodeEncodeError as error:
        near = _readable(error.object[max(0, error.start - 40) : error.end + 40])
        last = msgspec.json.encode(
            Impossible(f"the project has text that is not Unicode: {near!r}", "correct the text")
        )
    answers.end(last)


def _discovered(instruction: Instruction, send: Callable[[DiscoveryMessage], None]) -> Discovered:
    root = Path(instruction.folder)

    def importing(module: str, file: Path) -> None:
        send(Importing(module, file.relative_to(root).as_posix()))

    project = discover(
        root, instruction.modules, before_import=importing, reserved=instruction.reserved
    )
    send(Importing("", ""))
    problems: tuple[Problem, ...] = ()
    manifest: Manifest | None = None
    try:
        manifest = build_manifest(project, name=instruction.project)
    except ProjectRefused as refused:
        problems = refused.problems
    return Discovered(
        problems=tuple(map(_encodable, problems)),
        manifest=manifest,
        notes=tuple(map(_encodable, project.notes)),
        notifications=tuple(
            [declare_notification(each, project)[0] for each in project.notifications]
        ),
        assets=len(project.assets),
        schedules=len(project.schedules),
        sensors=len(project.sensors),
    )


def _encodable(problem: Problem) -> Problem:
    """Messages may have names of files, which are not always Unicode."""
    return Problem(
        _readable(problem.file),
        problem.line,
        _readable(problem.message),
        _readable(problem.hint),
        _readable(problem.asset),
    )


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
