"""Errors as `application/problem+json` (RFC 9457).

The kind of an error decides the status. `code` is stable; `docs/reference/errors.md` has a section
for each, which `type` refers to. Hidden objects are answered as missing ones, so a hint of a "not
found", which may suggest names, is only for callers who see everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from arco.errors import Error, NotYet, Refused, Unauthenticated
from arco.plain_json import plain
from arco.security.visibility import NOTHING, Visible

TYPE_PREFIX: Final = "https://arco.example/docs/reference/errors#"
MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[Mapping[str, int]] = {
    "invalid": 400,
    "unauthenticated": 401,
    "denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "fenced": 409,
    "precondition_failed": 412,
    "too_large": 413,
    "unsupported_media_type": 415,
    "rate_limited": 429,
    "corrupt": 500,
    "internal": 500,
    "unavailable": 503,
    "timeout": 504,
}
"""By the kind of an error."""


class FieldViolation(msgspec.Struct, frozen=True):
    field: str
    description: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the request failed, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    kind: str
    code: str
    request_id: str
    hint: str = ""
    field_violations: tuple[FieldViolation, ...] = ()
    retry_after: int | None = None


class ApiError(Error):
    """A failure that only HTTP knows."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        fields: Sequence[FieldViolation] = (),
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.api_kind = kind
        self.code = code or kind
        self.fields = tuple(fields)
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})


def invalid_field(field: str, description: str, *, hint: str = "") -> ApiError:
    return ApiError(
        "invalid",
        f"{field}: {description}",
        hint=hint,
        code="invalid_field",
        fields=[FieldViolation(field, description)],
    )


_AT = re.compile(r" - at `\$\.?([^`]*)`$")


def invalid_body(error: msgspec.ValidationError | msgspec.DecodeError, where: str) -> ApiError:
    """The message of msgspec, and the field that it is about."""
    text = str(error)
    match = _AT.search(text)
    field = match[1] if match and match[1] else where
    description = _AT.sub("", text)
    return invalid_field(field, description)


_KEY = re.compile(r"(?<![\w.])([a-z][a-z0-9_]*)\.[a-z][a-z0-9_]*")


class ProblemReader(msgspec.Struct, frozen=True):
    """The recipient of a problem: its visible namespaces, and the text of its request."""

    visible: Visible = NOTHING
    sent: str = ""

    def text(self, text: str) -> str:
        """The text without names of hidden assets, except those in the request."""
        if self.visible.all:
            return text
        return _KEY.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        return match[0] if self.visible.sees(match[1]) or match[0] in self.sent else "(hidden)"


def problem_of(error: BaseException, *, request_id: str, reader: ProblemReader) -> ProblemDetails:
    kind, code = "internal", "internal"
    detail, hint = "the server failed", "report the request's id to who runs the server"
    fields: tuple[FieldViolation, ...] = ()
    retry_after: int | None = None
    match error:
        case ApiError():
            kind, code, fields = error.api_kind, error.code, error.fields
            detail, hint, retry_after = error.message, error.hint, error.retry_after_s
        case Unauthenticated():
            kind, code, detail, hint = (
                "unauthenticated",
                "unauthenticated",
                error.message,
                error.hint,
            )
        case Refused(code="version_mismatch"):
            kind, code, detail = "precondition_failed", error.code, error.message
            hint = "read the row again, and repeat its new ETag"
        case Refused():
            kind, code, detail, hint = error.kind, error.code, error.message, error.hint
        case NotYet():
            # It is not a failure of the server: the object may exist later.
            kind, code, detail, hint = "not_found", "not_yet", error.message, error.hint
            retry_after = max(1, round(error.retry_after_s))
        case Error():
            kind, code, detail, hint = error.kind, error.kind, error.message, error.hint
    if kind not in STATUS:
        kind = "internal"
    if not isinstance(error, ApiError):
        detail = reader.text(detail)
        # It may contain names of other objects.
        hint = hint if reader.visible.all or kind == "denied" else ""
    if kind in ("corrupt", "internal"):  # paths of the store are not shown
        detail, hint = "the server failed", "report the request's id to who runs the server"
    status = STATUS[kind]
    if kind == "unavailable" and retry_after is None:
        retry_after = 1
    return ProblemDetails(
        type=f"{TYPE_PREFIX}{kind}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        kind=kind,
        code=code,
        request_id=request_id,
        hint=hint,
        field_violations=fields,
        retry_after=retry_after,
    )


def encode(problem: ProblemDetails) -> bytes:
    return msgspec.json.encode(plain_problem(problem))


def plain_problem(problem: ProblemDetails) -> dict[str, object]:
    """Without fields that say nothing."""
    fields: dict[str, object] = plain(problem)
    return {name: value for name, value in fields.items() if value not in ("", [], None)}
