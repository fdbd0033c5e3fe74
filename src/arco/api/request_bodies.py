"""Bodies of requests: JSON, as the struct of their route."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from arco.api.problems import ApiError, invalid_body
from arco.api.routes import NoBody, Route

B = TypeVar("B", bound=msgspec.Struct)


def decoded_body(route: Route[Any], raw: bytes, content_type: str | None) -> msgspec.Struct:
    if route.body is None:
        if raw.strip() not in (b"", b"{}"):
            raise ApiError("invalid", "this operation takes no body", code="unexpected_body")
        return NoBody()
    return decoded(raw, content_type, route.body)


def decoded(raw: bytes, content_type: str | None, kind: type[B]) -> B:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if raw and media_type not in ("application/json", "application/merge-patch+json"):
        raise ApiError(
            "unsupported_media_type",
            "the body must be application/json",
            hint="send Content-Type: application/json",
        )
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.DecodeError as error:  # ValidationError is one, too
        raise invalid_body(error, "body") from None
    except (UnicodeDecodeError, RecursionError):
        raise ApiError("invalid", "the body is not JSON in UTF-8", code="invalid_json") from None
