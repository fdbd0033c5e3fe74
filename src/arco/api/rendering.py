"""Answers to reads, from a view: of one thing, or a page of a list."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from arco.api.etags import etag_of
from arco.api.hidden_names import encode_without_hidden_names
from arco.api.page_tokens import Position, list_digest
from arco.api.problems import ApiError
from arco.api.rendered import RenderedAnswer
from arco.api.routes import AtParameters, PageParameters, PageWindow, Route
from arco.api.run_visibility import require_run
from arco.api.served import ServedWorkspace
from arco.api.views import View
from arco.plain_json import plain
from arco.security.caller import Caller
from arco.security.visibility import Visible


def page_token_of(parameters: AtParameters) -> str:
    return parameters.page_token if isinstance(parameters, PageParameters) else ""


def render(
    route: Route[Any],
    served: ServedWorkspace,
    parameters: AtParameters,
    visible: Visible,
    caller: Caller,
) -> RenderedAnswer:
    """Execute a read, for a caller who sees this."""
    if route.kind == "list":
        assert isinstance(parameters, PageParameters)
        view, document = _page(route, served, parameters, visible)
        version = None
    else:
        view = _view(served, parameters, visible, caller)
        result = route.call(view, visible, parameters)
        document = {"generation": view.generation, **plain(result)}
        version = getattr(result, "row_version", None)
    etag = etag_of(view.generation, version, visible)
    body = encode_without_hidden_names(view, visible, document)
    return RenderedAnswer(body, etag, view.generation)


def _view(
    served: ServedWorkspace,
    parameters: AtParameters,
    visible: Visible,
    caller: Caller | None = None,
) -> View:
    if parameters.as_of_run is not None and not visible.all:
        require_run(served.view(AtParameters()), visible, parameters.as_of_run)
    return served.view(parameters, caller)


def _page(
    route: Route[Any], served: ServedWorkspace, parameters: PageParameters, visible: Visible
) -> tuple[View, dict[str, Any]]:
    filters = msgspec.structs.replace(
        parameters, page_token="", page_size=1, generation=None, as_of=None, as_of_run=None
    )
    seen = "*" if visible.namespaces is None else ",".join(sorted(visible.namespaces))
    digest = list_digest(route.operation, filters, seen)
    at: AtParameters = parameters
    after = None
    if parameters.page_token:
        position = served.tokens.decode(parameters.page_token, digest)
        after = position.after
        if parameters.generation not in (None, position.generation):
            raise ApiError(
                "invalid", "the page token is of another generation", code="other_generation"
            )
        at = AtParameters(generation=position.generation)
    view = _view(served, at, visible)
    window = PageWindow(after, parameters.page_size + 1)
    rows = list(islice(route.call(view, visible, parameters, window), window.limit))
    page = rows[: parameters.page_size]
    document: dict[str, Any] = {
        "generation": view.generation,
        "items": [plain(item) for _, item in page],
    }
    if len(rows) > len(page):
        last = Position(view.generation, page[-1][0])
        document["next_page_token"] = served.tokens.encode(last, digest)
    return view, document
