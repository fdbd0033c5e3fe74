"""The frames that a task has cached, to be removed from the cache after it.

Cached data belongs to all sessions, and a worker may always have tasks. So the frames' own `cache`,
`persist` and `unpersist` are wrapped, once, and recorded by session. `CACHE TABLE` has no frame:
what it caches is removed when no task runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

_NAME: Final = "_arco_cached"


def note(session: Any) -> None:
    """From here on, for the frames of this session."""
    _install()
    setattr(session, _NAME, {})


def forget(session: Any) -> None:
    for frame in list(getattr(session, _NAME).values()):
        frame.unpersist()


@functools.cache
def _install() -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    frame: Any = DataFrame
    frame.cache = _noted(frame.cache)
    frame.persist = _noted(frame.persist)
    frame.unpersist = _dropped(frame.unpersist)


def _noted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def noted(frame: Any, *args: Any, **kwargs: Any) -> Any:
        getattr(frame.sparkSession, _NAME, {})[id(frame)] = frame
        return method(frame, *args, **kwargs)

    return noted


def _dropped(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def dropped(frame: Any, *args: Any, **kwargs: Any) -> Any:
        getattr(frame.sparkSession, _NAME, {}).pop(id(frame), None)
        return method(frame, *args, **kwargs)

    return dropped
