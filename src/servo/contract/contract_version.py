"""Versions of contracts: three numbers, of which the first says what breaks consumers."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from servo.errors import Invalid

_VERSION: Final = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")


class ContractVersion(NamedTuple):
    major: int
    minor: int = 0
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """`1`, `1.2`, `1.2.0`, `v1.2.0`. Raises Invalid."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise Invalid(
                f"{text!r} is not a valid contract version",
                hint='write version="1.0.0": three numbers',
            )
        return cls(*(int(number or 0) for number in match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def next_major(self) -> ContractVersion:
        return ContractVersion(self.major + 1)

    @property
    def next_minor(self) -> ContractVersion:
        return ContractVersion(self.major, self.minor + 1)
