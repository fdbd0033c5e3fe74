"""Failures: from an exception in an attempt to an `ErrorInfo` that says what to do.

The tables below are read from the top; the first line that matches decides. All other errors are
those of user code. Every text passes the attempt's redactor. An exception whose `__str__` raises is
reported too.
"""

from __future__ import annotations

import errno
import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from arco.errors import Error
from arco.spark.error_info import SparkFailure, translate
from arco.tasks.failure import SparkUnavailable, Verdict
from arco.tasks.failure import TaskFailed as TaskFailed
from arco.tasks.failure import failed as failed
from servo import errors
from servo.contract.manifest import RETRIABLE, Category
from servo.contract.task import ErrorInfo, TaskRequest
from servo.errors import Cancelled

MAX_TRACEBACK_BYTES: Final = 16 << 10
MAX_MESSAGE_CHARS: Final = 4_000
MAX_FRAMES: Final = 100
MAX_LINE_CHARS: Final = 400
"""Of what Spark says in a traceback: plans are long."""

_AUTHORS: Final[tuple[Category, ...]] = ("user_code", "configuration", "input")
"""Categories of errors that the author of the asset can fix."""

_OURS = (f"{Path(__file__).parents[1]}/", f"{Path(errors.__file__).parent}/")

Redact = Callable[[str], str]


class TaskTimeout(BaseException):
    """Raised in the task's thread after the timeout. `except Exception` does not catch it."""

    def __init__(self, message: str = "the task took longer than its timeout") -> None:
        super().__init__(message)


class Interrupted(Cancelled):
    """Raised in the task's thread when it was cancelled."""

    def __init__(self, message: str = "the task was asked to stop") -> None:
        super().__init__(message)


# -- the tables ---------------------------------------------------------------------------

_MEMORY = Verdict("infrastructure", "os.memory", "give the worker more memory")
_CONNECTION = Verdict("transient", "os.connection", "the remote service may be unavailable")
_TOO_SLOW = Verdict("transient", "os.timeout", "the remote service took too long")
_ERRNO: dict[int, Verdict] = {
    errno.ENOSPC: Verdict("infrastructure", "os.no_space", "free disk space on the worker"),
    errno.EDQUOT: Verdict("infrastructure", "os.no_space", "raise the quota of the worker"),
    errno.EIO: Verdict("infrastructure", "os.io", "check the worker's disk"),
    errno.EROFS: Verdict("configuration", "os.read_only", "write to a temporary folder"),
    errno.EMFILE: Verdict("infrastructure", "os.files", "too many open files: close them"),
    errno.ENFILE: Verdict("infrastructure", "os.files", "too many open files on this machine"),
    errno.ENOMEM: _MEMORY,
    errno.EACCES: Verdict("configuration", "os.denied", "grant the worker access"),
    errno.EPERM: Verdict("configuration", "os.denied", "grant the worker access"),
} | dict.fromkeys(
    (
        *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EAGAIN),
        *(errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN),
    ),
    _CONNECTION,
)

_KINDS: dict[str, Verdict] = {
    "unavailable": Verdict(
        "transient", "store.unavailable", "the store may be unavailable for a moment"
    ),
    "conflict": Verdict("transient", "store.conflict", "another process wrote at the same time"),
    "corrupt": Verdict("infrastructure", "store.corrupt", "run `servo admin fsck`"),
    "denied": Verdict(
        "infrastructure", "store.denied", "renew the worker's credentials, or grant it access"
    ),
    "fenced": Verdict("cancelled", "cancelled.fenced", "another worker has taken over"),
    "not_found": Verdict("input", "input.missing", "run it first"),
    "invalid": Verdict("user_code", "user_code.Invalid"),
}

_NO_FILE = (
    "workers do not share this machine's disk: pack the file with the project, or read an asset"
)

_CLASSES: tuple[tuple[type[BaseException], Verdict], ...] = (
    (Cancelled, Verdict("cancelled", "cancelled.task")),
    (
        TaskTimeout,
        Verdict("timeout", "timeout.task", "raise timeout=, or reduce the work of one task"),
    ),
    (MemoryError, _MEMORY),
    (ConnectionError, _CONNECTION),
    (TimeoutError, _TOO_SLOW),
    (SystemExit, Verdict("user_code", "user_code.SystemExit", "raise an error instead of exiting")),
    (KeyboardInterrupt, Verdict("user_code", "user_code.KeyboardInterrupt", "raise an error")),
    (
        RecursionError,
        Verdict("user_code", "user_code.RecursionError", "a function recurses without end"),
    ),
    (AssertionError, Verdict("user_code", "user_code.AssertionError", "an assertion failed")),
    (SyntaxError, Verdict("user_code", "user_code.SyntaxError", "correct the source")),
    (FileNotFoundError, Verdict("user_code", "user_code.FileNotFoundError", _NO_FILE)),
    (KeyError, Verdict("user_code", "user_code.KeyError", "the key does not exist")),
)

# What is not importable here: named, so that nothing heavy is imported to be compared.
_NAMES: dict[str, Verdict] = {
    "ArrowInvalid": Verdict("user_code", "user_code.ArrowInvalid", "check the columns' types"),
    **dict.fromkeys(("ArrowMemoryError", "OutOfMemoryError"), _MEMORY),
    **dict.fromkeys(("ConnectionError", "ConnectError"), _CONNECTION),
    **dict.fromkeys(("Timeout", "ConnectTimeout", "ReadTimeout"), _TOO_SLOW),
}
_USER_HINT = "correct the code; the traceback shows where"
_SENSOR_HINT = "correct the code of {name}; the traceback shows where"


# -- from an exception to a report --------------------------------------------------------


def classify(
    error: BaseException,
    *,
    redact: Redact = str,
    folder: Path | None = None,
    spark: SparkFailure | None = None,
    request: TaskRequest | None = None,
) -> ErrorInfo:
    """What happened, and where in the artifact that lies in `folder`. Never raises.

    An error that the asset's author can fix, without a line of their code, gets the line of the
    asset's declaration. Texts are redacted before they are cut, so that no part of a secret is
    left.
    """
    info = _unrequested_termination(_classified(error, spark, folder))
    if request is not None and request.sensor is not None and info.hint == _USER_HINT:
        info = msgspec.structs.replace(info, hint=_SENSOR_HINT.format(name=request.asset))
    file, line = _place(error, folder)
    info = msgspec.structs.replace(info, file=info.file or file, line=info.line or line)
    if request is not None and not info.file and info.category in _AUTHORS:
        info = _declared(info, request, named=isinstance(error, TaskFailed))
    return msgspec.structs.replace(
        info,
        message=encodable(redact(info.message))[:MAX_MESSAGE_CHARS],
        hint=encodable(redact(info.hint))[:MAX_MESSAGE_CHARS],
        retriable=info.retriable or info.category in RETRIABLE,
        traceback=_trace(error, info, redact, folder),
    )


def _classified(error: BaseException, spark: SparkFailure | None, folder: Path | None) -> ErrorInfo:
    if isinstance(error, TaskFailed):
        return error.info
    failure = spark or translate(error)
    return _judged(error, folder) if failure is None else _of_spark(error, failure, folder)


def _unrequested_termination(info: ErrorInfo) -> ErrorInfo:
    """A Spark job that others cancelled. Our own cancellations raise other exceptions."""
    if info.code != "cancelled.spark":
        return info
    return msgspec.structs.replace(
        info,
        category="infrastructure",
        code="spark.job_cancelled",
        hint=info.hint or "the Spark job was cancelled, or its context was stopped; try again",
    )


def _declared(info: ErrorInfo, request: TaskRequest, *, named: bool) -> ErrorInfo:
    names_asset = not named or request.asset in info.message
    return msgspec.structs.replace(
        info,
        message=info.message if names_asset else f"{request.asset}: {info.message}",
        file=request.code.file,
        line=request.code.line,
    )


def _trace(error: BaseException, info: ErrorInfo, redact: Redact, folder: Path | None) -> str:
    """The traceback. For classified errors only the user's lines."""
    if info.traceback:
        text = _cut_lines(redact(info.traceback))
    elif isinstance(error, TaskFailed):
        lines = _user_lines(error, folder)
        text = redact(f"{lines}{info.message}\n") if lines else ""
    else:
        return traceback_text(error, redact=redact, folder=folder)
    return bounded(text, MAX_TRACEBACK_BYTES)


def _cut_lines(text: str) -> str:
    return "\n".join(
        line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…"
        for line in text.split("\n")
    )


def _of_spark(error: BaseException, failure: SparkFailure, folder: Path | None) -> ErrorInfo:
    """Spark's message, without Java's stack; the user's lines stay."""
    inside = _inside(failure.file, folder) if folder is not None else ""
    return ErrorInfo(
        category=failure.category,
        code=failure.code,
        message=failure.message,
        hint=failure.hint,
        exception=failure.exception,
        file=inside,
        line=failure.line if inside else 0,
        traceback=_user_lines(error, folder) + failure.details,
    )


def _user_lines(error: BaseException, folder: Path | None) -> str:
    if folder is None:
        return ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__, limit=-MAX_FRAMES)
        if _inside(frame.filename, folder)
    ]
    if not frames:
        return ""
    text = "".join(traceback.format_list(frames)).replace(f"{folder}/", "")
    return f"Traceback (most recent call last):\n{text}"


def _judged(error: BaseException, folder: Path | None) -> ErrorInfo:
    verdict = _verdict(error, folder)
    message = _text(error)
    hint = verdict.hint or (_USER_HINT if verdict.category == "user_code" else "")
    if isinstance(error, Error):
        message, hint = _attribute(error, "message", message), _attribute(error, "hint", "") or hint
    name = type(error).__name__
    return ErrorInfo(
        category=verdict.category,
        code=verdict.code,
        message=message or name,
        hint=hint,
        exception=name,
    )


def _verdict(error: BaseException, folder: Path | None) -> Verdict:
    if isinstance(error, ImportError):
        return _import_verdict(error, folder)
    if isinstance(error, SparkUnavailable):
        lasting = error.permanent
        return Verdict("configuration" if lasting else "infrastructure", "spark.unavailable")
    if isinstance(error, Error) and type(error).__module__ == "arco.errors":
        return _KINDS.get(error.kind, Verdict("user_code", f"user_code.{type(error).__name__}"))
    if isinstance(error, OSError) and error.errno in _ERRNO:
        return _ERRNO[error.errno]
    for kind, verdict in _CLASSES:
        if isinstance(error, kind):
            return verdict
    for base in type(error).__mro__:
        if base.__name__ in _NAMES:
            return _NAMES[base.__name__]
    return Verdict("user_code", f"user_code.{type(error).__name__}")


def _import_verdict(error: ImportError, folder: Path | None) -> Verdict:
    """A missing module of the artifact is an error of user code; others must be installed."""
    missing = error.name or ""
    if not isinstance(error, ModuleNotFoundError) or not missing or _is_held(missing, folder):
        return Verdict("user_code", "user_code.ImportError", "check the import and what is packed")
    package = missing.partition(".")[0]
    return Verdict(
        "configuration", "import.missing", f"install the package {package!r} for the workers"
    )


def _is_held(module: str, folder: Path | None) -> bool:
    """Whether a module is missing in a package that the artifact holds."""
    package = sys.modules.get(module.partition(".")[0])
    places = getattr(package, "__path__", ())
    return folder is not None and any(Path(place).is_relative_to(folder) for place in places)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # whatever it is: this too is the user's code
        return f"<{type(error).__name__}, whose text cannot be shown>"


def _attribute(error: BaseException, name: str, default: str) -> str:
    value = getattr(error, name, default)
    return value if isinstance(value, str) else default


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: names of files may have halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# -- tracebacks ---------------------------------------------------------------------------


def _place(error: BaseException, folder: Path | None) -> tuple[str, int]:
    """The last frame in the artifact; for a syntax error, the line that cannot be read."""
    if folder is None:
        return "", 0
    if isinstance(error, SyntaxError) and error.filename:
        inside = _inside(error.filename, folder)
        if inside:
            return inside, error.lineno or 0
    place = ("", 0)
    for frame, line in traceback.walk_tb(error.__traceback__):
        inside = _inside(frame.f_code.co_filename, folder)
        place = (inside, line) if inside else place
    return place


def _inside(file: str, folder: Path) -> str:
    prefix = f"{folder}/"
    return file.removeprefix(prefix) if file.startswith(prefix) else ""


def traceback_text(
    error: BaseException, *, redact: Redact = str, folder: Path | None = None
) -> str:
    """The traceback without our own frames, with the artifact's files by their own names."""
    try:
        whole = traceback.TracebackException(
            type(error), error, error.__traceback__, limit=-MAX_FRAMES
        )
        _trim(whole)
        text = "".join(whole.format())
    except BaseException:  # whatever it is: this too is the user's code
        text = f"<{type(error).__name__}, whose traceback cannot be shown>\n"
    if folder is not None:
        text = text.replace(f"{folder}/", "")
    return bounded(redact(text), MAX_TRACEBACK_BYTES)


def _trim(trace: traceback.TracebackException) -> None:
    """Leave out our own frames and those of the import system.

    A stack without other frames stays: the error may be ours.
    """
    user_frames = [frame for frame in trace.stack if not _is_ours(frame.filename)]
    if user_frames:
        trace.stack = traceback.StackSummary.from_list(user_frames)
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        if other is not None:
            _trim(other)


def _is_ours(file: str) -> bool:
    return file.startswith((*_OURS, "<frozen importlib")) or file == _IMPORTLIB


_IMPORTLIB = importlib.__file__ or ""


def bounded(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8: the beginning, a note, and twice as much of the end."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode()
    note = b"\n  ... shortened ...\n"
    head, tail = limit // 3, limit - limit // 3 - len(note)
    return (data[:head] + note + data[-tail:]).decode("utf-8", "ignore")
