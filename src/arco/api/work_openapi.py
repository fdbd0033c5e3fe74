"""The routes for workers, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arco.api.openapi_types import Json, SchemaOf
from arco.api.work import PERMISSION, WORK_ROUTES, WorkRoute
from arco.api.work_objects import Objects
from arco.storage.http import ListedObject, ObjectListing, Upload
from arco.transport.work_messages import NewVersions

WORK_TYPES: Final = (
    ObjectListing,
    ListedObject,
    Upload,
    NewVersions,
    *[route.answer for route in WORK_ROUTES],
    *[route.body for route in WORK_ROUTES if route.body is not None],
)
_OCTETS: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_DONE: Final[Json] = {"204": {"description": "The command was applied."}}
_READ: Final[Json] = {
    "200": {"description": "The object.", "content": _OCTETS},
    "206": {"description": "The range given by `Range`.", "content": _OCTETS},
    "307": {"description": "The object is at `Location`, which needs no token."},
}


def work_paths(
    schema_of: SchemaOf, workspace: list[Json], listing: list[Json], refused: Json
) -> Mapping[str, Json]:
    """Items by their paths. `workspace` and `listing` are parameters."""

    def answered(type_: Any) -> Json:
        content = {"application/json": {"schema": schema_of(type_)}}
        return {"200": {"description": "The answer.", "content": content}}

    def operation(
        name: str, text: str | None, parameters: list[Json], responses: Json, body: Json | None
    ) -> Json:
        summary, _, description = (text or "").partition("\n\n")
        described: Json = {
            "operationId": name,
            "summary": summary,
            "tags": ["work"],
            "x-permission": PERMISSION.value,
            "parameters": [*workspace, *parameters],
            "responses": {**responses, **refused},
        }
        if description:
            described["description"] = " ".join(description.split())
        if body is not None:
            described["requestBody"] = {"required": True, "content": body}
        return described

    def of_route(route: WorkRoute) -> Json:
        body = route.body
        content = None if body is None else {"application/json": {"schema": schema_of(body)}}
        return operation(
            route.operation, route.summary, [_named("worker")], answered(route.answer), content
        )

    def of_object(call: Any, responses: Json, body: Json | None = None) -> Json:
        return operation(call.__name__, call.__doc__, [_named("path")], responses, body)

    paths = {route.path: {route.method.lower(): of_route(route)} for route in WORK_ROUTES}
    lists = Objects.list_objects
    paths["/work/objects"] = {
        "get": operation(lists.__name__, lists.__doc__, listing, answered(ObjectListing), None)
    }
    paths["/work/objects/{path}"] = {
        "get": of_object(Objects.get_object, _READ),
        "put": of_object(Objects.put_object, _DONE, _OCTETS),
        "delete": of_object(Objects.delete_object, _DONE),
    }
    paths["/work/metadata/{path}"] = {
        "get": of_object(Objects.object_metadata, answered(ListedObject))
    }
    new = Objects.new_versions
    cursor = {
        "name": "cursor",
        "in": "query",
        "required": False,
        "description": "Empty at first; the response has the position to start from.",
        "schema": {"type": "string", "maxLength": 20, "pattern": "^[0-9]*$"},
    }
    paths["/work/versions"] = {
        "get": operation(new.__name__, new.__doc__, [cursor], answered(NewVersions), None)
    }
    paths["/work/uploads/{path}"] = {"post": of_object(Objects.begin_upload, answered(Upload))}
    return paths


def _named(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
