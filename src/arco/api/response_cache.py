"""Responds to a request from memory, without a thread, the router or the store.

Four bounded caches are used: the route of a path and query, the caller of credentials, the caller's
permissions, and rendered responses by visible namespaces. Entries are valid only while their
snapshots are the newest and were checked recently. Otherwise the request is processed as usual,
which fills all four caches.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from litestar.types import HTTPScope, Scope

from arco.api.caller_cache import CallerCache, Snapshots
from arco.api.exchange import Exchange
from arco.api.rate_limits import RateLimits
from arco.api.rendered import RenderedAnswer, RenderedAnswers, RenderedKey, Target
from arco.api.routes import Route
from arco.api.served import ServedWorkspace
from arco.state.snapshot import Snapshot

KEPT_PLACES: Final = 20_000


class RequestPlace(NamedTuple):
    """What a path and a query ask for."""

    route: Route[Any]
    served: ServedWorkspace
    generation: int | None
    """None: the newest."""


class ResponseCache:
    """Used by the event loop alone."""

    def __init__(
        self,
        key_workspaces: tuple[ServedWorkspace, ...],
        callers: CallerCache,
        limits: RateLimits,
        max_bytes: int,
    ) -> None:
        self._key_workspaces = key_workspaces
        self._callers = callers
        self._limits = limits
        self._rendered = RenderedAnswers(max_bytes)
        self._places: dict[Target, RequestPlace] = {}

    def answer(self, scope: HTTPScope, exchange: Exchange) -> tuple[int, RenderedAnswer] | None:
        """The status and the answer of a read; None if it is not cached, or may be refused."""
        if scope["method"] != "GET":
            return None
        target = (scope["raw_path"], scope["query_string"])
        place = self._places.get(target)
        if place is None:
            return None
        credentials, if_none_match, is_plain = _headers(scope)
        snapshots = self.snapshots()
        if not is_plain or snapshots is None:
            return None
        entry = self._callers.get(credentials, snapshots)
        generation = place.generation
        if generation is None:
            newest = place.served.recent()
            if newest is None:
                return None
            generation = newest.generation
        if entry is None:
            return None
        route, served, _ = place
        visible = entry.where(served.tenant, served.name, route.permission)
        if visible.nothing:
            return None
        answer = self._rendered.get(RenderedKey(target, generation, visible.namespaces))
        if answer is None or not self._limits.take(entry.name).is_allowed:
            return None
        exchange.route, exchange.operation = route.path, route.operation
        exchange.who, exchange.workspace = entry.caller, served.path
        return (304 if if_none_match == answer.etag.encode() else 200), answer

    def snapshots(self) -> Snapshots | None:
        """Of all workspaces whose keys and roles count; None if one has to be looked for."""
        snapshots: list[Snapshot] = []
        for each in self._key_workspaces:
            snapshot = each.recent()
            if snapshot is None:
                return None
            snapshots.append(snapshot)
        return snapshots

    def rendered(self, key: RenderedKey) -> RenderedAnswer | None:
        return self._rendered.get(key)

    def keep(self, place: RequestPlace, key: RenderedKey, answer: RenderedAnswer) -> None:
        if key.target not in self._places and len(self._places) >= KEPT_PLACES:
            self._places.clear()
        self._places[key.target] = place
        self._rendered.put(key, answer)


def _headers(scope: Scope) -> tuple[bytes, bytes, bool]:
    """Credentials and If-None-Match; whether both are there at most once."""
    credentials = cookie = if_none_match = b""
    is_plain = True
    for name, value in scope["headers"]:
        if name == b"authorization":
            is_plain, credentials = is_plain and not credentials, value
        elif name == b"cookie":
            is_plain, cookie = is_plain and not cookie, value
        elif name == b"if-none-match":
            is_plain, if_none_match = is_plain and not if_none_match, value
    return (b"a" + credentials if credentials else b"c" + cookie), if_none_match, is_plain


def credentials_of(scope: Scope) -> bytes | None:
    """The credentials of a request; None if they are ambiguous."""
    credentials, _, is_plain = _headers(scope)
    return credentials if is_plain else None
