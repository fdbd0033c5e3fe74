"""What a route is: data, of which the server, the OpenAPI document and the tests are made.

A route has a permission; there is no default. A read is a function of a view, of what the caller
may see there, and of parameters: one that does not take a `Visible` does not type-check. The
function's name is the operation's id, its docstring the summary, its annotations the types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.views import View
from arco.api.writing import WriteAnswer, Writing
from arco.security.permissions import Permission
from arco.security.visibility import Visible

PAGE_SIZE = 20
MAX_PAGE_SIZE = 100


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the path and the query. Fields that are in the path have no default."""


class AtParameters(Parameters, frozen=True, kw_only=True):
    """Which generation a read is about; the newest if none is given."""

    generation: (
        Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="This generation.")] | None
    ) = None
    as_of: (
        Annotated[
            str,
            Meta(
                max_length=64,
                description="The generation at this time: 2026-01-31T12:00Z, or 15m, 2h, 3d ago.",
            ),
        ]
        | None
    ) = None
    as_of_run: (
        Annotated[
            str,
            Meta(max_length=64, description="The generation at which this run's end was visible."),
        ]
        | None
    ) = None


class PageParameters(AtParameters, frozen=True, kw_only=True):
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE, description="Rows of a page.")] = (
        PAGE_SIZE
    )
    page_token: Annotated[
        str, Meta(max_length=4096, description="`next_page_token` of the previous page.")
    ] = ""


class PageWindow(msgspec.Struct, frozen=True):
    """The part of a list that is asked for."""

    after: PageKey | None
    """The key of the last row before it."""
    limit: int
    """Maximum number of rows: one more than a page has, which tells whether there is a next."""


P = TypeVar("P", bound=AtParameters)
L = TypeVar("L", bound=PageParameters)
W = TypeVar("W", bound=Parameters)
R = TypeVar("R", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)

ReadHandler = Callable[[View, Visible, P], R]
Lister = Callable[[View, Visible, L, PageWindow], Iterator[tuple[PageKey, R]]]
Writer = Callable[[Writing, W, B], WriteAnswer[R]]

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request that needs none."""


@dataclass(frozen=True, kw_only=True)
class Route(Generic[R]):
    method: Method
    path: str
    """Below `/api/v1/workspaces/{tenant}/{workspace}`."""
    permission: Permission
    operation: str
    summary: str
    parameters: type[Parameters]
    response: type[Any]
    """Of a list, of one item."""
    kind: Literal["read", "list", "write"]
    call: Callable[..., Any]
    body: type[msgspec.Struct] | None = None
    status: int = 200
    is_live: bool = False
    """The answer depends on more than the generation: it has no ETag and is not kept."""
    max_body: Literal["normal", "deployment"] = "normal"
    takes_if_match: bool = False

    @property
    def tag(self) -> str:
        return self.path.split("/")[1] if self.path else "workspace"


def read(
    path: str, permission: Permission, reader: ReadHandler[P, R], *, live: bool = False
) -> Route[R]:
    hints = _hints(reader)
    return Route(
        method="GET",
        path=path,
        permission=permission,
        operation=reader.__name__,
        summary=_summary(reader),
        parameters=hints["parameters"],
        response=hints["return"],
        kind="read",
        call=reader,
        is_live=live,
    )


def listing(
    path: str, permission: Permission, lister: Lister[L, R], *, live: bool = False
) -> Route[R]:
    hints = _hints(lister)
    (pair,) = hints["return"].__args__
    return Route(
        method="GET",
        path=path,
        permission=permission,
        operation=lister.__name__,
        summary=_summary(lister),
        parameters=hints["parameters"],
        response=pair.__args__[1],
        kind="list",
        call=lister,
        is_live=live,
    )


def write(
    method: Method,
    path: str,
    permission: Permission,
    writer: Writer[W, B, R],
    *,
    status: int = 200,
    max_body: Literal["normal", "deployment"] = "normal",
    takes_if_match: bool = False,
) -> Route[R]:
    hints = _hints(writer)
    (response,) = hints["return"].__args__
    return Route(
        method=method,
        path=path,
        permission=permission,
        operation=writer.__name__,
        summary=_summary(writer),
        parameters=hints["parameters"],
        response=response,
        kind="write",
        call=writer,
        body=None if hints["body"] is NoBody else hints["body"],
        status=status,
        max_body=max_body,
        takes_if_match=takes_if_match,
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function, include_extras=True)


def _summary(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function)
    assert text, f"{function.__name__} has no docstring"
    return text
