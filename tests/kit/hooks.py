"""A store on which a test makes things happen at one exact call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from arco.errors import Unavailable
from arco.storage.port import Store
from tests.kit.faulty import StoreWrapper

T = TypeVar("T")
Action = Callable[[], object]


class _Rule(NamedTuple):
    op: str
    prefix: str
    after: bool
    action: Action

    def concerns(self, op: str, path: str, after: bool) -> bool:
        return self.op == op and path.startswith(self.prefix) and self.after == after


class HookStore(StoreWrapper):
    """Each rule acts once, at the first call that it concerns, and may raise."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._rules: list[_Rule] = []

    def before(self, op: str, prefix: str, action: Action, times: int = 1) -> None:
        self._rules += [_Rule(op, prefix, False, action)] * times

    def after(self, op: str, prefix: str, action: Action, times: int = 1) -> None:
        self._rules += [_Rule(op, prefix, True, action)] * times

    def fail(self, op: str, prefix: str, times: int = 1) -> None:
        """The call has no effect, and nobody knows."""
        self.before(op, prefix, unavailable, times)

    def lose(self, op: str, prefix: str, times: int = 1) -> None:
        """The call takes effect, and its response is lost."""
        self.after(op, prefix, unavailable, times)

    def clear(self) -> None:
        """Forget the rules that have not acted."""
        self._rules.clear()

    def count(self, op: str, prefix: str) -> int:
        return sum(1 for o, path in self.calls if o == op and path.startswith(prefix))

    def _call(self, op: str, path: str, act: Callable[[], T]) -> T:
        self.calls.append((op, path))
        self._run(op, path, after=False)
        result = act()
        self._run(op, path, after=True)
        return result

    def _run(self, op: str, path: str, *, after: bool) -> None:
        for i, rule in enumerate(self._rules):
            if rule.concerns(op, path, after):
                del self._rules[i]
                rule.action()
                return


def unavailable() -> None:
    raise Unavailable("injected")
