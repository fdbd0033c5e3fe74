"""The root of the one error tree.

Error                a failure with a kind that says what to do about it
├── Invalid          the input is wrong; the same call will fail again
│   └── Misdeclared  a definition is wrong, in a file and a line
└── Cancelled        somebody asked this work to stop

`arco.errors` grows the rest of the tree from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar


class Error(Exception):
    """A failure that says what happened, and what to do about it.

    `kind` decides the HTTP status and the exit code; `hint` is a sentence that
    a person can act on.
    """

    kind: ClassVar[str] = "error"
    details: Mapping[str, object] = MappingProxyType({})
    """Parts of the message as data, for programs."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Invalid(Error, ValueError):
    """The input is wrong. Do not retry it unchanged."""

    kind = "invalid"


class Misdeclared(Invalid):
    """A definition is wrong where it stands; `problem` is the message without the place."""

    def __init__(self, file: str, line: int, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{file}:{line}: {problem}", hint=hint)
        self.file = file
        self.line = line
        self.problem = problem


class Cancelled(Error):
    """This task was cancelled. Do not catch it: it is not a failure."""

    kind = "cancelled"
