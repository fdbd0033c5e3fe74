"""Threads and contexts: who starts a thread for a task says whose output it is.

`contextvars` do not reach new threads by themselves (before Python 3.14), so
`Thread.start` and `ThreadPoolExecutor.submit` are wrapped, once: within a task they
hand its context on, and elsewhere they do what they always did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any

_original_start = threading.Thread.start
_original_submit = ThreadPoolExecutor.submit


def inherit_context(wanted: Callable[[], bool], copy: Callable[[], Context]) -> None:
    """From now on, what is started while `wanted()` runs in a copy of its starter's context."""
    if threading.Thread.start is not _original_start:
        return

    def start(self: threading.Thread) -> None:
        if wanted():
            context, run = copy(), self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        _original_start(self)

    def submit(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if wanted():
            return _original_submit(self, copy().run, fn, *args, **kwargs)
        return _original_submit(self, fn, *args, **kwargs)

    threading.Thread.start = start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign, assignment]


def start_detached(target: Callable[[], None], name: str) -> None:
    """A daemon of the worker's own, in an empty context: it belongs to no task."""
    _original_start(threading.Thread(target=Context().run, args=(target,), name=name, daemon=True))
