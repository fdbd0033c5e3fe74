"""Answers that were rendered: by generation, path, and what the caller may see. Bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple


class RenderedKey(NamedTuple):
    tenant: str
    workspace: str
    generation: int
    target: str
    """Path and query."""
    visible: frozenset[str] | None


class RenderedAnswer(NamedTuple):
    body: bytes
    etag: str


class RenderedAnswers:
    """Used by the event loop alone."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._answers: OrderedDict[RenderedKey, RenderedAnswer] = OrderedDict()

    def get(self, key: RenderedKey) -> RenderedAnswer | None:
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: RenderedKey, answer: RenderedAnswer) -> None:
        size = _size(key, answer)
        if size > self._max_bytes // 8:
            return
        if (before := self._answers.pop(key, None)) is not None:
            self._bytes -= _size(key, before)
        self._answers[key] = answer
        self._bytes += size
        while self._bytes > self._max_bytes:
            old = self._answers.popitem(last=False)
            self._bytes -= _size(*old)


def _size(key: RenderedKey, answer: RenderedAnswer) -> int:
    return len(answer.body) + len(key.target) + 512
