"""A store that fails for a while, in a way that a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from arco.errors import Error
from arco.storage.port import Store
from tests.kit.faulty import StoreWrapper

T = TypeVar("T")
Fails = Callable[[str, str], bool]
READING = ("get", "get_range", "head", "list")


class DownStore(StoreWrapper):
    """While `error` is set, calls that `fails` names raise it, without effect."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.error: type[Error] | None = None
        self.fails: Fails = everything
        self.failures = 0

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        if self.error is not None and self.fails(op, path):
            self.failures += 1
            raise self.error(f"{op} {path}: injected")
        return act()


def everything(op: str, path: str) -> bool:
    return True


def writes(op: str, path: str) -> bool:
    return op not in READING


def reads(op: str, path: str) -> bool:
    return op in READING
