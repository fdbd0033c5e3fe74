"""A bounded cache of rendered answers: by request, generation, and visible namespaces.

A generation never changes, so a cached answer stays correct.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

Target = tuple[bytes, bytes]
"""Path and query, as they were sent."""
HeaderPairs = tuple[tuple[bytes, bytes], ...]


class RenderedKey(NamedTuple):
    target: Target
    generation: int
    visible: frozenset[str] | None


class RenderedAnswer:
    """An answer, and the headers that it is sent with."""

    __slots__ = ("body", "etag", "generation", "headers", "headers_unchanged")

    def __init__(self, body: bytes, etag: str, generation: int) -> None:
        self.body = body
        self.etag = etag
        self.generation = generation
        self.headers_unchanged: HeaderPairs = (
            (b"arco-generation", b"%d" % generation),
            (b"etag", etag.encode()),
            (b"cache-control", b"private, no-cache"),
        )
        """Of a 304."""
        self.headers: HeaderPairs = (
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *self.headers_unchanged,
        )


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
    return len(answer.body) + sum(map(len, key.target)) + 1_024


def is_unchanged(etag: str, if_none_match: str) -> bool:
    return if_none_match == etag or etag in [each.strip() for each in if_none_match.split(",")]
