"""The OpenAPI 3.1 document, from the table of routes. Types come from msgspec's JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from arco.api.openapi_files import file_paths
from arco.api.openapi_login import LOGIN_TYPES, login_paths
from arco.api.openapi_types import Json
from arco.api.parameters import list_fields
from arco.api.problems import MEDIA_TYPE, STATUS, ProblemDetails
from arco.api.query import ARROW, QueryAnswer, QueryBody
from arco.api.routes import AtParameters, Route
from arco.api.rows import PERMISSION as ROWS_PERMISSION
from arco.api.rows import RowsBody
from arco.api.streams import StreamParameters
from arco.api.webhooks import EventAnswer, webhook_operation
from arco.api.work_objects import ObjectParameters
from arco.api.work_openapi import WORK_TYPES, work_paths
from arco.orchestration.states import RunTrigger
from arco.plain_json import document_name
from arco.security.permissions import Permission

VERSION: Final = "1.0.0"
PREFIX: Final = "/api/v1/workspaces/{tenant}/{workspace}"
_REF: Final = "#/components/schemas/{name}"
_OPEN_ENUMS: Final = frozenset({RunTrigger.__name__})
"""Newer programs add values to these: to a client they are strings."""


def document(routes: Sequence[Route[Any]]) -> Json:
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    for route in routes:
        item = paths.setdefault(f"{PREFIX}{route.path}", {})
        item[route.method.lower()] = _operation(route, schemas)
    paths[f"{PREFIX}/events"] = {"get": _stream_operation(schemas)}
    common = (_workspace_parameters(), _declared(AtParameters, "", schemas), _refused(*_COMMON))
    for path, item in file_paths(*common).items():
        paths[f"{PREFIX}{path}"] = item
    paths[f"{PREFIX}/query"] = {"post": _query_operation(schemas)}
    paths[f"{PREFIX}/rows"] = {"post": _rows_operation(schemas)}
    paths |= {f"{PREFIX}{path}": item for path, item in _work_paths(schemas).items()}
    paths[f"{PREFIX}/sensors/{{project}}/{{name}}/events"] = {
        "post": webhook_operation(
            schemas.of(EventAnswer),
            _workspace_parameters(),
            _refused(400, 404, 413, 429, 500, 503, 504),
        )
    }
    paths |= login_paths(schemas.of, _refused)
    for path, operation in _beside().items():
        paths[path] = {"get": operation}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Arco",
            "version": VERSION,
            "description": "Every read is at one generation of a workspace, which "
            "`Arco-Generation` names. See docs/guides/api.md.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": _problem_responses(),
        },
    }


class _Schemas:
    """JSON schemas of all types that routes name."""

    def __init__(self, routes: Sequence[Route[Any]]) -> None:
        types: list[Any] = [ProblemDetails, QueryBody, QueryAnswer, RowsBody, EventAnswer]
        types += [*WORK_TYPES, *LOGIN_TYPES]
        for special in (StreamParameters, AtParameters, ObjectParameters):
            types += [field.type for field in msgspec.structs.fields(special)]
        for route in routes:
            types.append(route.response)
            types += [field.type for field in msgspec.structs.fields(route.parameters)]
            types += [] if route.body is None else [route.body]
        unique = list({str(each): each for each in types if each is not None}.values())
        schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
        self._by_type = {str(each): _as_sent(s) for each, s in zip(unique, schemas, strict=True)}
        names = sorted(components.keys() - _OPEN_ENUMS)
        self.components = {name: _as_sent(components[name]) for name in names}

    def of(self, type: Any) -> Json:
        schema: Json = self._by_type[str(type)]
        return schema


def _as_sent(schema: Any) -> Any:
    """As answers have it (`arco.plain_json`): durations are seconds, names are those of
    documents, open enumerations are strings."""
    match schema:
        case {"type": "string", "format": "duration", **rest}:
            return {"type": "number", **rest}
        case {"$ref": str(ref)} if ref.rpartition("/")[2] in _OPEN_ENUMS:
            return {"type": "string"}
        case {"properties": properties, **rest}:
            named = {document_name(name): _as_sent(value) for name, value in properties.items()}
            required = {"required": list(map(document_name, schema.get("required", ())))}
            others = {name: value for name, value in rest.items() if name != "required"}
            return {**_as_sent(others), "properties": named, **required}
        case dict():
            return {name: _as_sent(value) for name, value in schema.items()}
        case list():
            return [_as_sent(value) for value in schema]
    return schema


def _operation(route: Route[Any], schemas: _Schemas) -> Json:
    summary, _, description = route.summary.partition("\n\n")
    operation: Json = {
        "operationId": route.operation,
        "summary": " ".join(summary.split()),
        "tags": [route.tag],
        "x-permission": route.permission.value,
        "parameters": [*_workspace_parameters(), *_parameters(route, schemas)],
        "responses": _responses(route, schemas),
    }
    if description:
        operation["description"] = " ".join(description.split())
    if route.body is not None:
        content = {"application/json": {"schema": schemas.of(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _workspace_parameters() -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }
        for name in ("tenant", "workspace")
    ]


def _declared(kind: type[msgspec.Struct], path: str, schemas: _Schemas) -> list[Json]:
    fields = msgspec.structs.fields(kind)
    return [_parameter(kind, path, field, schemas) for field in fields]


def _parameters(route: Route[Any], schemas: _Schemas) -> list[Json]:
    parameters = _declared(route.parameters, route.path, schemas)
    if route.kind == "write":
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Requests with the same key take effect once within a day.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 200},
            }
        )
    if route.takes_if_match:
        parameters.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": False,
                "description": "The ETag of the row; 412 if it has changed since.",
                "schema": {"type": "string", "maxLength": 200},
            }
        )
    return parameters


def _parameter(
    kind: type[msgspec.Struct], path: str, field: msgspec.structs.FieldInfo, schemas: _Schemas
) -> Json:
    in_path = f"{{{field.name}}}" in path
    schema = _without_null(schemas.of(field.type))
    if in_path:
        schema = {"minLength": 1, **schema}
    description = schema.pop("description", "")
    parameter: Json = {
        "name": field.name,
        "in": "path" if in_path else "query",
        "required": in_path or field.required,
        "schema": schema,
    }
    if description:
        parameter["description"] = description
    if field.name in list_fields(kind):
        parameter |= {"style": "form", "explode": True}
    if field.default not in (msgspec.NODEFAULT, None, msgspec.UNSET, "", False):
        schema["default"] = field.default
    return parameter


def _without_null(schema: Json) -> Json:
    """A parameter that may be left out is not null."""
    options = schema.get("anyOf")
    if options is None:
        return dict(schema)
    left = [option for option in options if option.get("type") != "null"]
    return dict(left[0]) if len(left) == 1 else {**schema, "anyOf": left}


# -- responses --------------------------------------------------------------------------------

_COMMON: Final = (400, 401, 403, 404, 413, 429, 500, 503, 504)


def _responses(route: Route[Any], schemas: _Schemas) -> Json:
    responses: Json = {
        str(route.status): {
            "description": "The answer.",
            "headers": _headers(route),
            "content": {"application/json": {"schema": _answer(route, schemas)}},
        }
    }
    statuses = {*_COMMON}
    if route.kind == "write":
        statuses |= {409, 412, 415}
    elif not route.is_live:
        responses["304"] = {"description": "The response named by If-None-Match is still valid."}
    for status in sorted(statuses):
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return responses


def _headers(route: Route[Any]) -> Json:
    headers: Json = {
        "Arco-Generation": {
            "description": "The generation of the response.",
            "schema": {"type": "string"},
        }
    }
    if route.kind != "write" and not route.is_live:
        headers["ETag"] = {"description": "Of the answer.", "schema": {"type": "string"}}
    if route.status in (201, 202):
        headers["Location"] = {
            "description": "The URL of its outcome.",
            "schema": {"type": "string"},
        }
    return headers


def _answer(route: Route[Any], schemas: _Schemas) -> Json:
    generation: Json = {"generation": {"type": "integer"}}
    if route.kind == "list":
        return {
            "type": "object",
            "properties": {
                **generation,
                "items": {"type": "array", "items": schemas.of(route.response)},
                "next_page_token": {
                    "type": "string",
                    "description": "Absent at the end of the list.",
                },
            },
            "required": ["generation", "items"],
        }
    return {
        "allOf": [
            schemas.of(route.response),
            {"type": "object", "properties": generation, "required": ["generation"]},
        ]
    }


def _problem_responses() -> Json:
    kinds: dict[int, list[str]] = {}
    for kind, status in STATUS.items():
        kinds.setdefault(status, []).append(kind)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        str(status): {"description": ", ".join(names), "content": content}
        for status, names in sorted(kinds.items())
    }


def _refused(*statuses: int) -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _stream_operation(schemas: _Schemas) -> Json:
    return {
        "operationId": "stream_events",
        "summary": "Stream events of the log as they are committed (server-sent events).",
        "description": "`id` is the position in the log: a client that reconnects sends it as "
        "`Last-Event-ID`, to any server.",
        "tags": ["events"],
        "x-permission": Permission.RUNS_READ.value,
        "parameters": [*_workspace_parameters(), *_declared(StreamParameters, "", schemas)],
        "responses": {
            "200": {
                "description": "Events, without end.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **_refused(*_COMMON),
        },
    }


def _query_operation(schemas: _Schemas) -> Json:
    return {
        "operationId": "query",
        "summary": "Run SQL over a snapshot. Reads only; bounded in time, memory and rows.",
        "tags": ["query"],
        "x-permission": Permission.QUERY_RUN.value,
        "parameters": [*_workspace_parameters(), *_declared(AtParameters, "", schemas)],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schemas.of(QueryBody)}},
        },
        "responses": {
            "200": {
                "description": "The rows: JSON, or an Arrow stream if `Accept` names it.",
                "content": {
                    "application/json": {"schema": schemas.of(QueryAnswer)},
                    ARROW: {"schema": {"type": "string", "format": "binary"}},
                },
            },
            **_refused(*_COMMON, 415),
        },
    }


def _rows_operation(schemas: _Schemas) -> Json:
    return {
        "operationId": "read_rows",
        "summary": "Read rows of a table at one generation, as the caller sees them.",
        "description": "For programs that read a workspace as `servo` does. Each table needs the "
        "permission of what it is about. The metadata of the Arrow schema have `arco`: JSON with "
        "`next`, from which the next page goes on, `rest_before` and `days`.",
        "tags": ["query"],
        "x-permission": ROWS_PERMISSION.value,
        "parameters": [*_workspace_parameters(), *_declared(AtParameters, "", schemas)],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schemas.of(RowsBody)}},
        },
        "responses": {
            "200": {
                "description": "The rows, with `row_version`, in the order of keys.",
                "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
            },
            **_refused(*_COMMON, 415),
        },
    }


def _work_paths(schemas: _Schemas) -> Mapping[str, Json]:
    listing = _declared(ObjectParameters, "", schemas)
    return work_paths(schemas.of, _workspace_parameters(), listing, _refused(*_COMMON, 409, 415))


def _beside() -> Mapping[str, Json]:
    """What is not below a workspace."""
    refused, busy = _refused(401, 429), _refused(503)
    return {
        "/healthz": _plain("healthz", "Return 200 if the process is running.", {}, is_open=True),
        "/readyz": _plain("readyz", "Return 200 if workspaces can be read.", busy, is_open=True),
        "/api/v1/me": _plain("me", "Return the caller and its grants.", refused),
        "/api/v1/workspaces": _plain(
            "list_workspaces", "List the workspaces that the caller sees.", refused
        ),
    }


def _plain(operation: str, summary: str, others: Json, *, is_open: bool = False) -> Json:
    described: Json = {
        "operationId": operation,
        "summary": summary,
        "tags": ["server"],
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            **others,
        },
    }
    if is_open:
        described["security"] = []
    return described
