"""`SparkSession.active()` and `getOrCreate()` in a task's code give the task's own session.
`stop()`, of a session or of the context, does not end Spark for the other tasks.

PySpark keeps one active session for the whole process. Tasks that share a process must
not meet in it: each has views and settings of its own. So all of these are wrapped, once:
within a task they keep to its session, and elsewhere they do what they always did.
The task is found through a context variable, which threads that a task starts inherit
(`worker/threads.py`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

_log = logging.getLogger(__name__)
_session: ContextVar[Callable[[], Any] | None] = ContextVar("spark_session", default=None)
_lock = threading.Lock()
_installed = False


@contextlib.contextmanager
def session_of(task: Callable[[], Any] | None) -> Iterator[None]:
    """While this lasts, `task()` is what this thread's code gets; None: the process's own."""
    token = _session.set(task)
    try:
        yield
    finally:
        _session.reset(token)


def install() -> None:
    """Wrap PySpark's ways to the session. Once; later calls do nothing."""
    global _installed
    with _lock:
        if not _installed:
            _wrap()
            _installed = True


def _wrap() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    find = SparkSession.getActiveSession
    demand = SparkSession.active
    create = SparkSession.Builder.getOrCreate

    def get_active(cls: type[SparkSession]) -> Any:
        task = _session.get()
        return find() if task is None else task()

    def active(cls: type[SparkSession]) -> Any:
        task = _session.get()
        return demand() if task is None else task()

    def get_or_create(builder: Any) -> Any:
        task = _session.get()
        return create(builder) if task is None else _configured(task(), builder._options)

    session_type: Any = SparkSession
    session_type.getActiveSession = classmethod(get_active)
    session_type.active = classmethod(active)
    session_type.Builder.getOrCreate = get_or_create
    context_type: Any = SparkContext
    session_type.stop = _guarded(session_type.stop)
    context_type.stop = _guarded(context_type.stop)


def _guarded(stop: Callable[[Any], None]) -> Callable[[Any], None]:
    def guarded(spark: Any) -> None:
        stop(spark) if _session.get() is None else _stop_nothing()

    return guarded


def _configured(session: Any, options: dict[str, Any]) -> Any:
    """With what of the options can still be set: the process was started by somebody else."""
    for name, value in options.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def keep_alive(session: Any) -> Any:
    """The session, whose `stop` does not end Spark for all other tasks."""
    session.stop = _stop_nothing
    return session


def _stop_nothing() -> None:
    _log.warning("stop() does nothing in a task: Spark is that of other tasks as well")
