"""Columns of rows whose type is an enumeration: files have the texts of its members."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeGuard

from arco.errors import Corrupt


def is_enum(hint: Any) -> TypeGuard[type[StrEnum]]:
    """Whether the type of a column is an enumeration."""
    return isinstance(hint, type) and issubclass(hint, StrEnum)


class EnumMembers(dict[str, StrEnum]):
    """The members of an enumeration by their text, as rows of files have it.

    Raises Corrupt for another text, unless the enumeration reads it (`_missing_`).
    """

    def __init__(self, column: str, members: type[StrEnum]) -> None:
        super().__init__((member.value, member) for member in members)
        self._column = column
        self._enum = members

    def __missing__(self, text: str) -> StrEnum:
        try:
            return self._enum(text)
        except ValueError:
            raise Corrupt(
                f"{self._column} is {text!r}, which this program does not know",
                hint="read the workspace with the program that wrote it, or a newer one",
            ) from None
