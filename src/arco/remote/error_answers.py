"""Answers that are problems, as errors of `arco.errors`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from arco import errors

MAX_TEXT: Final = 200


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Of `application/problem+json`, what a client needs."""

    kind: str = ""
    code: str = ""
    detail: str = ""
    hint: str = ""
    request_id: str = ""
    retry_after: float | None = None


def error_of(status: int, body: bytes) -> errors.Error:
    """The error of a server's answer; for other answers, e.g. of a proxy, by the status."""
    try:
        problem = msgspec.json.decode(body, type=ErrorAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = " ".join(body[:MAX_TEXT].decode("utf-8", "replace").split())
        problem = ErrorAnswer(detail=f"the API answered {status}: {text or 'nothing'}")
    message = problem.detail or f"the API answered {status}"
    kind = problem.kind or _kind(status)
    match kind:
        case "not_found" if problem.code == "not_yet":
            return errors.NotYet(
                message, retry_after_s=problem.retry_after or 1.0, hint=problem.hint
            )
        case "conflict" | "precondition_failed" if problem.code not in ("", "conflict"):
            return errors.Refused(problem.code, message, hint=problem.hint)
        case "corrupt" | "internal":
            hint = f"tell who runs the server: request {problem.request_id}"
            return errors.Unavailable(message, hint=hint if problem.request_id else problem.hint)
    error: errors.Error = _KINDS.get(kind, errors.Unavailable)(message, hint=problem.hint)
    return error


_KINDS: Final[dict[str, Any]] = {
    "invalid": errors.Invalid,
    "method_not_allowed": errors.Invalid,
    "too_large": errors.Invalid,
    "unsupported_media_type": errors.Invalid,
    "unauthenticated": errors.Unauthenticated,
    "denied": errors.Denied,
    "not_found": errors.NotFound,
    "conflict": errors.Conflict,
    "precondition_failed": errors.Conflict,
    "fenced": errors.Fenced,
    "rate_limited": errors.Unavailable,
    "unavailable": errors.Unavailable,
    "timeout": errors.Unavailable,
}


def _kind(status: int) -> str:
    by_status = {401: "unauthenticated", 403: "denied", 404: "not_found", 409: "conflict"}
    return by_status.get(status, "invalid" if 400 <= status < 500 else "unavailable")
