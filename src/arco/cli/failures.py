"""Shows errors: one line, a hint, and an exit code that follows from the kind."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TextIO

from arco.cli.exit_codes import BY_KIND, INTERNAL
from arco.errors import Error, Refused


class ShownError:
    """An error as it is shown."""

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str = "",
        code: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.kind = kind
        self.message = message
        self.hint = hint
        self.code = code
        self.details = details or {}

    @property
    def exit_code(self) -> int:
        return BY_KIND.get(self.kind, INTERNAL)

    def document(self) -> dict[str, dict[str, object]]:
        fields: dict[str, object] = {"kind": self.kind, "message": self.message, "hint": self.hint}
        if self.code:
            fields["code"] = self.code
        return {"error": fields | dict(self.details)}


def failure_of(error: BaseException) -> ShownError:
    match error:
        case Refused():
            return ShownError(error.kind, error.message, error.hint, error.code)
        case Error():
            return ShownError(error.kind, error.message, error.hint, details=error.details)
        case _:
            return ShownError(
                "internal",
                f"{type(error).__name__}: {error}",
                "this is a bug; run it again with --debug and report the output",
            )


def report(failure: ShownError, *, as_json: bool, color: bool, stream: TextIO | None = None) -> int:
    """Write a failure to stderr; its exit code."""
    out = stream or sys.stderr
    if as_json:
        print(json.dumps(failure.document(), ensure_ascii=False), file=out)
        return failure.exit_code
    first, *rest = visible(failure.message).rstrip().split("\n")
    print(_painted(f"error: {first}", "1;31", color), file=out)
    for line in rest:
        print(f"  {line}" if line else "", file=out)
    if failure.hint:
        print(_painted("hint:", "1;36", color), visible(failure.hint), file=out)
    return failure.exit_code


def _painted(text: str, code: str, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text


def visible(text: str) -> str:
    """`text` with escaped control characters, so that stored text cannot control a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
