"""Logging in, in the OpenAPI document. There is no workspace in these paths, and no permission.

A server without `[auth]` in its settings answers 404 to those that need an issuer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from arco.api.openapi_types import Json, SchemaOf
from arco.api.session_bodies import LoginState, LoginToken, SessionBody, TokenRequest

LOGIN_TYPES: Final = (TokenRequest, LoginToken, LoginState, SessionBody)
_HTML: Final = {"text/html": {"schema": {"type": "string"}}}


def login_paths(schema_of: SchemaOf, refused: Callable[..., Json]) -> Mapping[str, Json]:
    """Items by their paths; `refused` makes the responses of statuses."""

    def answered(type_: Any) -> Json:
        content = {"application/json": {"schema": schema_of(type_)}}
        return {"200": {"description": "The answer.", "content": content}}

    bad = (400, 401, 404, 429, 500, 503, 504)
    begin = _operation(
        "begin_login",
        "Redirect to the issuer to log in; an encrypted cookie contains the return path.",
        _redirect("To the issuer."),
        [_text("next", "The path of this server to open after the login.", 2_000)],
    )
    back = _operation(
        "finish_login",
        "Handle the redirect from the issuer, and set the session cookie.",
        _redirect("To the page where the login began."),
        [
            _text("state", "Of the login that was begun.", 200),
            _text("code", "Of the issuer.", 4_000),
            _text("iss", "The issuer.", 2_000),
            _text("error", "Why the issuer did not log in.", 200),
        ],
    )
    session = _operation(
        "get_session",
        "Return the caller and its permissions; without a caller, the login URL.",
        answered(SessionBody),
    )
    end = _operation(
        "log_out", "End the session, on all servers.", answered(LoginState), is_open=False
    )
    ask = _operation(
        "ask_for_command_line",
        "Show a page that asks whether a program on the browser's machine may act for the user.",
        {"200": {"description": "The SQL query.", "content": _HTML}, **_redirect("To log in.")},
        [
            {
                "name": "port",
                "in": "query",
                "required": True,
                "description": "The port on 127.0.0.1 at which the program waits.",
                "schema": {"type": "integer", "minimum": 1024, "maximum": 65_535},
            },
            _challenge("state", "Returned together with the code."),
            _challenge("code_challenge", "SHA-256 of the verifier, base64url."),
        ],
    )
    allow = _operation(
        "allow_command_line",
        "Allow it, and return a code for the program.",
        _redirect("To the port of the program."),
    )
    allow["requestBody"] = {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "properties": {"grant": {"type": "string", "maxLength": 8_192}},
                    "required": ["grant"],
                }
            }
        },
    }
    token = _operation(
        "exchange_code",
        "Exchange a code, with the verifier of its challenge, for a session token, once.",
        answered(LoginToken),
    )
    token["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": schema_of(TokenRequest)}},
    }
    items: dict[str, Json] = {
        "/auth/login": {"get": begin},
        "/auth/callback": {"get": back},
        "/auth/session": {"get": session},
        "/auth/logout": {"post": end},
        "/auth/cli": {"get": ask, "post": allow},
        "/auth/token": {"post": token},
    }
    for item in items.values():
        for operation in item.values():
            operation["responses"] |= refused(
                *bad, *((403, 413) if operation is not session else ())
            )
    return items


def _operation(
    name: str,
    summary: str,
    responses: Json,
    parameters: list[Json] | None = None,
    *,
    is_open: bool = True,
) -> Json:
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "tags": ["login"],
        "parameters": parameters or [],
        "responses": responses,
    }
    if is_open:
        operation["security"] = []
    return operation


def _redirect(description: str) -> Json:
    location = {"description": description, "schema": {"type": "string"}}
    return {"303": {"description": description, "headers": {"Location": location}}}


def _text(name: str, description: str, length: int) -> Json:
    schema = {"type": "string", "maxLength": length}
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": schema,
    }


def _challenge(name: str, description: str) -> Json:
    schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"}
    return {
        "name": name,
        "in": "query",
        "required": True,
        "description": description,
        "schema": schema,
    }
