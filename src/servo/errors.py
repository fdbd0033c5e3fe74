"""The root of the one error tree.

Error                a failure with a kind that says what to do about it
└── Invalid          the input is wrong; the same call will fail again

`arco.errors` grows the rest of the tree from here.
"""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """A failure that says what happened, and what to do about it.

    `kind` decides the HTTP status and the exit code; `hint` is a sentence that
    a person can act on.
    """

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Invalid(Error, ValueError):
    """The input is wrong. Trying again without changing it cannot help."""

    kind = "invalid"
