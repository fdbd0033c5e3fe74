"""Checks that are Python functions of the data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from arco.worker.checks.limits import TooSlow, limited
from arco.worker.checks.needs import Call, Finding
from arco.worker.checks.subject import Around, Subject
from arco.worker.failures import Interrupted, TaskFailed, TaskTimeout, unmangled
from arco.worker.interrupt import Interruption
from servo.context import AssetIn, Reader
from servo.contract.task import InputRef


def called(need: Call, subject: Subject, around: Around, seconds: int) -> Finding:
    """What the function says of the data. Whatever it raises is an error of the check."""
    interruption = Interruption(_Asked(around), around.clock, seconds)
    given = _given(subject.ref, around, interruption)
    try:
        function = _guarded(lambda: around.load(need.code))
        with limited(around, seconds, lambda: _stop(interruption, around)):
            said = _guarded(lambda: interruption.call(lambda: function(given)))
    except _Raised as raised:
        return _error(raised.error, need, around, seconds)
    except TaskFailed as error:  # an input that cannot be read is no verdict on it
        if error.info.category not in ("configuration", "user_code"):
            raise
        return Finding("error", message=error.info.message, method="python")
    except TooSlow as error:
        return Finding("error", message=str(error), method="python")
    return _verdict(said)


def _given(ref: InputRef, around: Around, interruption: Interruption) -> AssetIn:
    reader = around.reader
    return AssetIn(
        ref.asset,
        parameter=ref.parameter,
        materializations=ref.materializations,
        paths=[version.path for version in ref.materializations],
        reader=None if reader is None else _shielded(reader, interruption),
    )


def _shielded(reader: Reader, interruption: Interruption) -> Reader:
    def read(data: AssetIn, shape: str) -> Any:
        with interruption.shielded():
            return reader(data, shape)

    return read


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


def _stop(interruption: Interruption, around: Around) -> None:
    interruption.poke()
    around.cancel()


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
        for frame, line in traceback.walk_tb(error.__traceback__)
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
