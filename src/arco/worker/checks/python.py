"""Checks that are Python functions of the data.

After a timeout, first the Spark jobs of a function are cancelled. If it still runs, it is
interrupted, perhaps in a call to the JVM whose answer then stays unread on the connection. The next
call would read that answer as its own. So the attempt ends, and is retried.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

from arco.tasks.failure import UserCodeRaised, as_user_code
from arco.worker.checks.limits import CheckTimeout, limited
from arco.worker.checks.needs import Finding, PythonCall
from arco.worker.checks.phrases import with_article
from arco.worker.checks.subject import CheckContext, Subject
from arco.worker.failures import TaskFailed, TaskTimeout, failed
from arco.worker.inputs import asset_in
from arco.worker.stopping import Stopping
from servo.check import CheckFunction
from servo.context import AssetIn
from servo.contract.task import InputRef

SPARK_PATIENCE_S: Final = 2.0
"""How long code that uses Spark gets to notice that its jobs were cancelled."""
_LIBRARIES: Final = ("numpy", "pandas", "polars", "pyarrow")


def called(need: PythonCall, subject: Subject, context: CheckContext, seconds: int) -> Finding:
    """The function's finding about the data. An exception in it is an error of the check.

    Raises TaskFailed (`checks.interrupted`) where the task cannot go on with its Spark.
    """
    work = _Work(context, seconds)
    finding = _finding(work, need, subject, context, seconds)
    if work.broken_off:
        raise failed(
            "infrastructure",
            "checks.interrupted",
            f"{subject.asset}: a check that uses Spark was interrupted: {CheckTimeout(seconds)}",
            f"give {need.code.name} less to do, or more time: timeout=",
            file=need.code.file,
            line=need.code.line,
        )
    return finding


def _finding(
    work: _Work, need: PythonCall, subject: Subject, context: CheckContext, seconds: int
) -> Finding:
    try:
        function = as_user_code(lambda: context.load(need.code))
        with limited(context, seconds, work.stop):
            returned = work.done(function, subject.ref)
    except UserCodeRaised as raised:
        return _error(raised.error, need, context, seconds)
    except TaskFailed as error:  # an input that cannot be read is not an error of the check
        if error.info.category not in ("configuration", "user_code"):
            raise
        return Finding("error", message=error.info.message, method="python")
    except CheckTimeout as error:
        return Finding("error", message=str(error), method="python")
    return _verdict(returned)


class _Work:
    """The call of the function, and whether it may have broken its connection to Spark."""

    def __init__(self, context: CheckContext, seconds: int) -> None:
        self._context = context
        self._stopping = context.stopping or Stopping()
        self._late = TaskTimeout(str(CheckTimeout(seconds)))
        self._interrupt: Callable[[BaseException], None] = lambda error: None
        self._stop_at: float | None = None
        self._has_frame = False
        self.broken_off = False
        """Whether it was interrupted in what may have been a call to the JVM."""

    def done(self, function: CheckFunction, ref: InputRef) -> Any:
        given = asset_in(ref, None if self._context.reader is None else self._read)
        try:
            with self._stopping.listening(), self._stopping.limited() as self._interrupt:
                returned = as_user_code(lambda: self._stopping.call(lambda: function(given)))
        except UserCodeRaised as raised:
            self._check_interruption(raised.error)
            raise
        self._check_interruption(None)
        return returned

    def stop(self) -> None:
        """Called from another thread, repeatedly."""
        now = self._context.clock.monotonic()
        if self._stop_at is None:
            self._stop_at = now + (0.0 if self._context.frame is None else SPARK_PATIENCE_S)
        if now >= self._stop_at:
            self._interrupt(self._late)
        self._context.cancel()

    def _read(self, data: AssetIn, shape: str, *columns: Sequence[str]) -> Any:
        assert self._context.reader is not None
        self._has_frame = self._has_frame or shape == "spark"
        with self._stopping.shielded():
            return self._context.reader(data, shape, *columns)

    def _check_interruption(self, error: BaseException | None) -> None:
        if self._stopping.interrupted and self._context.frame is not None:
            self.broken_off = self._has_frame or _called_jvm(error)
        if self.broken_off:
            self._context.broken_off()


def _called_jvm(error: BaseException | None) -> bool:
    """Whether an error, or one before it, came out of a call to the JVM."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        names = (frame.f_globals.get("__name__") for frame, _ in _frames(error))
        if any(str(name).partition(".")[0] == "py4j" for name in names):
            return True
        error = error.__context__
    return False


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(error.__traceback__)


def _error(error: BaseException, need: PythonCall, context: CheckContext, seconds: int) -> Finding:
    reason = context.reason()
    if reason is not None:
        raise reason
    if context.fatal(error):
        raise error
    if isinstance(error, TaskTimeout):
        return Finding("error", message=str(CheckTimeout(seconds)), method="python")
    place = _place(error, need)
    text = _text(error)
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Finding("error", message=f"{message}{place}", method="python")


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except BaseException:  # whatever it is: this too is the user's code
        return "<an error whose text cannot be shown>"


def _place(error: BaseException, need: PythonCall) -> str:
    """The last line in the file that declares the check."""
    file = need.code.file.rpartition("/")[2]
    lines = [
        line
        for frame, line in _frames(error)
        if file and frame.f_code.co_filename.rpartition("/")[2] == file
    ]
    return f" ({need.code.file}:{lines[-1]})" if lines else ""


def _verdict(returned: object) -> Finding:
    parts = returned if isinstance(returned, tuple) else (returned,)
    match tuple(map(_plain, parts)) or (None,):
        case (bool() as good,):
            message = ""
        case (bool() as good, str() as message):
            pass
        case plain:
            what = "None" if plain[0] is None else with_article(type(returned).__name__)
            message = f"it returned {what}; return a bool, or a bool and a message"
            return Finding("error", message=message, method="python")
    if not good:
        message = message or "it returned False"
    return Finding("passed" if good else "failed", message=message, method="python")


def _plain(value: object) -> object:
    """Python's own value of a library's single value: `numpy.bool_`, `pyarrow.BooleanScalar`."""
    if type(value).__module__.partition(".")[0] not in _LIBRARIES:
        return value
    for name in ("as_py", "item"):
        convert = getattr(value, name, None)
        if callable(convert):
            with contextlib.suppress(ValueError, TypeError, LookupError):  # more than one value
                return convert()
    return value
