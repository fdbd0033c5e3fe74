"""What becomes of errors: one line, a hint, and an exit code that follows from the kind."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

from arco.errors import Error, Refused

EXIT_CODES: Mapping[str, int] = {
    "invalid": 2,
    "not_found": 3,
    "denied": 4,
    "conflict": 5,
    "unavailable": 6,
    "fenced": 7,
    "corrupt": 8,
}
DIFFERENT = 1
"""fsck found errors, a rebuild differs: the command worked, and the answer is no."""
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141


class Failure:
    """An error as it is shown."""

    def __init__(self, kind: str, message: str, hint: str = "", code: str = "") -> None:
        self.kind = kind
        self.message = message
        self.hint = hint
        self.code = code

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.kind, INTERNAL)

    def document(self) -> dict[str, dict[str, str]]:
        shown = {"kind": self.kind, "message": self.message, "hint": self.hint}
        if self.code:
            shown["code"] = self.code
        return {"error": shown}


def failure_of(error: BaseException) -> Failure:
    match error:
        case Refused():
            return Failure(error.kind, error.message, error.hint, error.code)
        case Error():
            return Failure(error.kind, error.message, error.hint)
        case _:
            return Failure(
                "internal",
                f"{type(error).__name__}: {error}",
                "this is a bug; run it again with --debug and report what that shows",
            )


def report(failure: Failure, *, as_json: bool, color: bool, stream: TextIO | None = None) -> int:
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


def show_traceback(error: BaseException) -> None:
    traceback.print_exception(error)


def _painted(text: str, code: str, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text


def visible(text: str) -> str:
    """`text` with control characters spelled out: what is stored cannot drive a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
