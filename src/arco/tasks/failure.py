"""A classified failure of a task, with and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from arco.errors import Unavailable
from servo.contract.manifest import Category
from servo.contract.task import ErrorInfo

T = TypeVar("T")


class SparkUnavailable(Unavailable):
    """Spark could not be started, or reached."""

    def __init__(self, message: str, *, hint: str = "", permanent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent
        """Whether a retry cannot help until something is installed or changed."""


class Verdict(NamedTuple):
    """What an error of some kind means."""

    category: Category
    code: str
    hint: str = ""


class TaskFailed(Exception):
    """A classified failure."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


def failed(
    category: Category, code: str, message: str, hint: str = "", *, file: str = "", line: int = 0
) -> TaskFailed:
    return TaskFailed(
        ErrorInfo(category=category, code=code, message=message, hint=hint, file=file, line=line)
    )


class UserCodeRaised(Exception):
    """Wraps what user code raised, even an exit, up to where it is reported."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def as_user_code(function: Callable[[], T]) -> T:
    """Call it; what it raises becomes `UserCodeRaised`, except for a TaskFailed."""
    try:
        return function()
    except TaskFailed:
        raise
    except BaseException as error:
        raise UserCodeRaised(error) from None
