"""One check of one subject, with what its kind asks of both."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

from arco.worker.checks import types
from arco.worker.checks.phrases import some
from arco.worker.checks.subject import CheckContext, Subject
from arco.worker.checks.subject_columns import CheckColumn, Columns
from servo.contract.manifest import Check
from servo.suggest import did_you_mean


class UnsuitableCheck(Exception):
    """A check that does not suit the data's columns."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CheckRequest:
    """One check of one subject."""

    def __init__(
        self, check: Check, subject: Subject, columns: Columns, context: CheckContext
    ) -> None:
        self.check = check
        self.subject = subject
        self.all = columns
        self.context = context

    @cached_property
    def columns(self) -> tuple[CheckColumn, ...]:
        return tuple(self._find(name) for name in self.check.columns)

    @property
    def column(self) -> CheckColumn:
        return self.columns[0]

    @cached_property
    def empty(self) -> bool:
        return self.subject.rows == 0

    def text(self, name: str) -> str | None:
        value = self.check.params.get(name)
        return None if value is None else str(value)

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        raise UnsuitableCheck(f"the check {self.check.name!r} {what}", hint)

    def expect(self, families: tuple[str, ...], what: str) -> None:
        for column in self.columns:
            if column.family not in families:
                self.refuse(f"needs {what}, and {column.name!r} is {types.text_of(column.type)}")

    def _find(self, name: str) -> CheckColumn:
        column = self.all.find(name)
        if column is None:
            self.refuse(
                f"names the column {name!r}, which does not exist", suggestion(name, self.all)
            )
        return column


def suggestion(name: str, columns: Columns) -> str:
    """A suggestion for a missing column."""
    return did_you_mean(name, columns.names) or f"there are {some(columns.names)}"
