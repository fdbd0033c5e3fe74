"""Names and ids of the things the platform knows.

A *key* is what people write and may rename; an *id* is given once and stays.
Ids are text on the wire, and distinct types to the type checker.
"""

from __future__ import annotations

import re
from typing import Final, NewType, Self

from msgspec import Struct

from servo.contract import ulid
from servo.errors import Invalid

# ULIDs, given once.
AssetId = NewType("AssetId", str)

# Derived in `identity`: the same thing has the same id wherever it is computed.
TaskId = NewType("TaskId", str)
EdgeId = NewType("EdgeId", str)
AttemptId = NewType("AttemptId", str)

MAX_NAME_LENGTH: Final = 128

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class AssetKey(Struct, frozen=True, order=True):
    """`namespace.name`. Sorts by namespace, then name; so does its text."""

    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")
        check_name(self.name, "asset name")

    @classmethod
    def parse(cls, text: str) -> Self:
        namespace, dot, name = text.partition(".")
        if not dot:
            raise Invalid(f"{text!r} is not an asset key", hint="write namespace.name")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def check_name(text: str, what: str) -> str:
    """The text itself, if it may name a namespace, an asset or a partition dimension."""
    if len(text) > MAX_NAME_LENGTH or _NAME.fullmatch(text) is None:
        quoted = text if len(text) <= MAX_NAME_LENGTH else text[:32] + "…"
        raise Invalid(
            f"{quoted!r} is not a valid {what}",
            hint=f"a-z first, then a-z, 0-9 and _; at most {MAX_NAME_LENGTH} characters",
        )
    return text


def asset_id(text: str) -> AssetId:
    return AssetId(ulid.validate(text, "asset id"))
