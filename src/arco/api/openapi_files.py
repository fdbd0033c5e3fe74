"""Files and objects in the OpenAPI document: their answers are bytes and redirects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from arco.api.files import OBJECT, PARQUET
from arco.api.openapi_types import Json
from arco.api.reads.files import PERMISSION
from arco.api.reads.objects import PERMISSION as OBJECTS_PERMISSION

_BYTES: Final[Json] = {"schema": {"type": "string", "format": "binary"}}


def file_paths(workspace: Sequence[Json], at: Sequence[Json], refused: Json) -> dict[str, Json]:
    """By path: the parameters that all have, those of a generation, and what may be refused."""
    file = [*workspace, _path("`path` of a file in `GET /files`.", 300), *at]
    stored = [*workspace, _path("`path` of an object in `GET /objects`.", 500)]
    return {
        "/files/{path}": {"get": _file(file, refused), "head": _size(file, refused)},
        "/objects/{path}": {"get": _object(stored, refused)},
    }


def _path(description: str, length: int) -> Json:
    return {
        "name": "path",
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": length},
    }


def _file(parameters: list[Json], refused: Json) -> Json:
    location = {"description": "A signed URL, valid for 5 minutes.", "schema": {"type": "string"}}
    content = {PARQUET: _BYTES}
    return {
        "operationId": "get_file",
        "summary": "Read a file of a table: a redirect to a signed URL.",
        "description": "For a file of the kind `change` the response has the bytes.",
        "tags": ["files"],
        "x-permission": PERMISSION.value,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The bytes of a file that the server makes.",
                "content": content,
            },
            "206": {"description": "A part of them.", "content": content},
            "307": {"description": "Where the file is.", "headers": {"Location": location}},
            "416": {"description": "The range is outside of the file."},
            **refused,
        },
    }


def _size(parameters: list[Json], refused: Json) -> Json:
    return {
        "operationId": "get_file_size",
        "summary": "Return the size of a table file: `Content-Length`.",
        "tags": ["files"],
        "x-permission": PERMISSION.value,
        "parameters": parameters,
        "responses": {"206": {"description": "The size."}, **refused},
    }


def _object(parameters: list[Json], refused: Json) -> Json:
    content = {OBJECT: _BYTES}
    return {
        "operationId": "get_stored_object",
        "summary": "Read an object of the store that readers of the workspace need.",
        "description": "Objects other than generations also need `runs.read`. Files of tables "
        "need `metadata.read_all`; of other objects, callers with a role on some namespaces get "
        "the visible part. `Range` with both ends is supported.",
        "tags": ["objects"],
        "x-permission": OBJECTS_PERMISSION.value,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Its bytes.", "content": content},
            "206": {"description": "A part of them.", "content": content},
            **refused,
        },
    }
