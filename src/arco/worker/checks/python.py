"""Checks that are Python functions of the data.

One that takes too long is first told by its Spark jobs, which are cancelled. If that was not
enough it is interrupted, and a call to the JVM may be left without its answer read. The next
call would take that for its own; so the attempt ends there, and another one is made.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from arco.worker.checks.limits import TooSlow, limited
from arco.worker.checks.needs import Call, Finding
from arco.worker.checks.subject import Around, Subject
from arco.worker.failures import Interrupted, TaskFailed, TaskTimeout, failed, unmangled
from arco.worker.interrupt import SPARK_PATIENCE_S, Interruption
from servo.check import CheckFunction
from servo.context import AssetIn
from servo.contract.task import InputRef


def called(need: Call, subject: Subject, around: Around, seconds: int) -> Finding:
    """What the function says of the data. Whatever it raises is an error of the check.

    Raises TaskFailed (`checks.interrupted`) where the task cannot go on with its Spark.
    """
    work = _Work(around, seconds)
    found = _found(work, need, subject, around, seconds)
    if work.broken_off:
        raise failed(
            "infrastructure",
            "checks.interrupted",
            f"{subject.asset}: a check was interrupted in its use of Spark: {TooSlow(seconds)}",
            f"give {need.code.name} less to do, or more time: timeout=",
            file=need.code.file,
            line=need.code.line,
        )
    return found


def _found(work: _Work, need: Call, subject: Subject, around: Around, seconds: int) -> Finding:
    try:
        function = _guarded(lambda: around.load(need.code))
        with limited(around, seconds, work.stop):
            said = work.done(function, subject.ref)
    except _Raised as raised:
        return _error(raised.error, need, around, seconds)
    except TaskFailed as error:  # an input that cannot be read is no verdict on it
        if error.info.category not in ("configuration", "user_code"):
            raise
        return Finding("error", message=error.info.message, method="python")
    except TooSlow as error:
        return Finding("error", message=str(error), method="python")
    return _verdict(said)


class _Work:
    """The function's, and whether it leaves Spark as it found it."""

    def __init__(self, around: Around, seconds: int) -> None:
        self._around = around
        self._interruption = Interruption(_Asked(around), around.clock, seconds)
        if around.frame is not None:
            self._interruption.patience_s = SPARK_PATIENCE_S
        self._has_frame = False
        self.broken_off = False
        """Whether it was interrupted in what may have been a call to the JVM."""

    def done(self, function: CheckFunction, ref: InputRef) -> Any:
        given = self._given(ref)
        try:
            said = _guarded(lambda: self._interruption.call(lambda: function(given)))
        except _Raised as raised:
            self._look_back(raised.error)
            raise
        self._look_back(None)
        return said

    def stop(self) -> None:
        """From another thread, again and again."""
        self._interruption.poke()
        self._around.cancel()

    def _given(self, ref: InputRef) -> AssetIn:
        return AssetIn(
            ref.asset,
            parameter=ref.parameter,
            materializations=ref.materializations,
            paths=[version.path for version in ref.materializations],
            reader=None if self._around.reader is None else self._read,
        )

    def _read(self, data: AssetIn, shape: str, *columns: Sequence[str]) -> Any:
        assert self._around.reader is not None
        self._has_frame = self._has_frame or shape == "spark"
        with self._interruption.shielded():
            return self._around.reader(data, shape, *columns)

    def _look_back(self, error: BaseException | None) -> None:
        if self._interruption.sent and self._around.frame is not None:
            self.broken_off = self._has_frame or _called_jvm(error)
        if self.broken_off:
            self._around.broken_off()


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


class _Asked:
    """The task's own reasons to stop, as an interruption asks for them."""

    def __init__(self, around: Around) -> None:
        self._around = around

    def cancelled(self) -> bool:
        return isinstance(self._around.reason(), Interrupted)

    def timed_out(self) -> bool:
        return isinstance(self._around.reason(), TaskTimeout)

    def progress(self, percent: int, message: str) -> None:
        pass


class _Raised(Exception):
    """Carries whatever the function raised, even an exit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def _guarded(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except TaskFailed:
        raise
    except BaseException as error:
        raise _Raised(error) from None


def _error(error: BaseException, need: Call, around: Around, seconds: int) -> Finding:
    reason = around.reason()
    if reason is not None:
        raise reason
    if around.fatal(error):
        raise error
    if isinstance(error, TaskTimeout):
        return Finding("error", message=str(TooSlow(seconds)), method="python")
    place = _place(error, need)
    said = _text(error)
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return Finding("error", message=f"{message}{place}", method="python")


def _text(error: BaseException) -> str:
    try:
        return unmangled(str(error)).strip()
    except BaseException:  # whatever it is: this too is the user's code
        return "<an error whose text cannot be shown>"


def _place(error: BaseException, need: Call) -> str:
    """The last line in the file that declares the check."""
    file = need.code.file.rpartition("/")[2]
    lines = [
        line
        for frame, line in _frames(error)
        if file and frame.f_code.co_filename.rpartition("/")[2] == file
    ]
    return f" ({need.code.file}:{lines[-1]})" if lines else ""


def _verdict(said: object) -> Finding:
    match said:
        case bool():
            good, message = said, ""
        case (bool() as good, str() as message):
            pass
        case _:
            kind = type(said).__name__
            told = f"it returned a {kind}; return a bool, or a bool and a message"
            return Finding("error", message=told, method="python")
    if not good:
        message = message or "it returned False"
    return Finding("passed" if good else "failed", message=message, method="python")
