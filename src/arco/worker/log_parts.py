"""Reads what attempts of a run printed and logged (`capture.py` writes it).

logs/{run}/{task}/{attempt}.{nonce}.{n}.log    part n, of one delivery of the attempt
logs/{run}/{task}/{attempt}.log                a whole log, as earlier versions wrote it
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from arco.errors import NotFound
from arco.storage import parallel, paths
from arco.storage.port import ObjectMeta, Store

_PART = re.compile(r"logs/([^/]+)/([^/]+)/(\d+)(?:\.([^./]+)\.(\d{6}))?\.log")


class AttemptText(NamedTuple):
    """What an attempt has logged since the last call."""

    task_id: str
    attempt: int
    text: str


class _LogPart(NamedTuple):
    task_id: str
    attempt: int
    nonce: str
    number: int
    meta: ObjectMeta


class RunLogs:
    """The logs of one run. Each call returns what is new, and fetches nothing twice."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._sizes: dict[str, int] = {}
        """Of what was returned, by path. Only whole logs grow."""

    def new(self, task_ids: Collection[str]) -> list[AttemptText]:
        """By task, in the order given, and attempt."""
        parts = [part for part in self._listed(task_ids) if self._is_new(part)]
        bodies = parallel.each(self._store, lambda part: self._read(part.meta), parts)
        texts: dict[tuple[str, int], list[bytes]] = {}
        for part, body in zip(parts, bodies, strict=True):
            if body is not None:
                texts.setdefault((part.task_id, part.attempt), []).append(body)
        return [
            AttemptText(task_id, attempt, b"".join(bodies).decode("utf-8", "replace"))
            for (task_id, attempt), bodies in texts.items()
        ]

    def _is_new(self, part: _LogPart) -> bool:
        if part.nonce:  # it never grows
            return part.meta.path not in self._sizes
        return part.meta.size > self._sizes.get(part.meta.path, 0)

    def part(self, task_id: str, attempt: int, start: int, length: int) -> tuple[bytes, bool]:
        """Bytes of an attempt's log from `start`, and whether there are more after them.

        Only objects that have some of these are read.
        """
        chunks: list[bytes] = []
        left, at = length, 0
        for part in self._listed([task_id]):
            if part.attempt != attempt:
                continue
            size, first = part.meta.size, max(start - at, 0)
            at += size
            if first >= size:
                continue
            if not left:
                return b"".join(chunks), True
            count = min(size - first, left)
            chunks.append(self._store.get_range(part.meta.path, first, count))
            left -= count
            if first + count < size:
                return b"".join(chunks), True
        return b"".join(chunks), False

    def _listed(self, task_ids: Collection[str]) -> list[_LogPart]:
        prefix = f"{paths.LOGS}{self._run_id}/"
        if len(task_ids) == 1:
            prefix += f"{next(iter(task_ids))}/"
        order = {task_id: place for place, task_id in enumerate(task_ids)}
        matches = [(_PART.fullmatch(meta.path), meta) for meta in self._store.list(prefix)]
        parts = [
            _LogPart(match[2], int(match[3]), match[4] or "", int(match[5] or 0), meta)
            for match, meta in matches
            if match is not None and match[2] in order
        ]
        return sorted(parts, key=lambda part: (order[part.task_id], *part[1:4]))

    def _read(self, meta: ObjectMeta) -> bytes | None:
        """What was not returned before; None if the object has been deleted meanwhile."""
        try:
            data = self._store.get(meta.path).data
        except NotFound:
            return None
        start, self._sizes[meta.path] = self._sizes.get(meta.path, 0), len(data)
        return data[start:]
