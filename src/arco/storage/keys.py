"""Which names an object may have. All backends use these rules.

A key is a relative path: segments joined by single slashes. The rules are those
of the strictest backend, a local file system: no segment is `.` or `..` or
longer than 255 bytes, there are no control characters and no backslashes, and
a whole key fits the 1,024 bytes that the clouds allow.

`check_scoped` also refuses encoded separators: they are harmless here, but a proxy or a browser may
decode them before or after this check.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from arco.errors import Invalid

TEMPORARY = ".tmp-"
"""Prefix of temporary files of writes; they are never objects."""

_MAX_SEGMENT_BYTES = 255
_MAX_KEY_BYTES = 1024

_SEGMENT = r"(?!\.{1,2}(?:/|\Z)|\.tmp-)[^/\\\x00-\x1f\x7f-\x9f]{1,255}"
_KEY = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_UNSAFE = re.compile(r"[\\\x00-\x1f\x7f-\x9f]")
_CUT_SHORT = re.compile(r"%[0-9A-Fa-f]?\Z")
_NOT_AN_ENCODED_BYTE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SEPARATOR = re.compile(rb"[/\\\x00]|\A\.+\Z")


def check_key(key: str) -> None:
    """Raise Invalid unless `key` can name an object."""
    if _KEY.fullmatch(key) is None or len(key) > _MAX_KEY_BYTES:
        raise _refusal(key)
    if not key.isascii():
        _check_bytes(key)


def check_prefix(prefix: str) -> None:
    """Raise Invalid unless some key can begin with `prefix`; it may end inside a segment."""
    *whole, last = prefix.split("/")
    if whole:
        check_key("/".join(whole))
    if last in (".", "..") or _UNSAFE.search(last):
        raise _refusal(prefix)
    if not last.isascii():
        _check_bytes(prefix)


def check_range(key: str, start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise Invalid(f"{key}: a range of {length} bytes from {start} is not possible")


def past_the_end(key: str, start: int, length: int, size: int) -> Invalid:
    return Invalid(
        f"{key}: bytes {start} to {start + length} were requested, but its size is {size}",
        hint="take the size from the same manifest as the path",
    )


def check_scoped(key: str) -> None:
    """Like `check_key`, and nothing in it may decode to a separator or to dots."""
    check_key(key)
    if "%" in key:
        _check_encoded(key, key)


def check_scoped_prefix(prefix: str) -> None:
    """Like `check_prefix`, and nothing whole in it may decode to a separator or to dots."""
    check_prefix(prefix)
    if "%" in prefix:
        _check_encoded(_CUT_SHORT.sub("", prefix), prefix, whole=False)


def _check_encoded(text: str, key: str, *, whole: bool = True) -> None:
    """Decode repeatedly until nothing changes: %252f is a slash after decoding twice."""
    if _NOT_AN_ENCODED_BYTE.search(text):
        raise Invalid(f"{key!r} has a '%' that encodes nothing", hint="write it as %25")
    for segment in text.split("/"):
        seen = b""
        decoded = segment.encode()
        while decoded != seen:
            seen, decoded = decoded, unquote_to_bytes(decoded)
            if b"%" in seen and _SEPARATOR.search(decoded):
                raise Invalid(
                    f"{key!r} hides a separator behind a '%'",
                    hint="hash such values instead of encoding them",
                )
        if whole and not _is_utf8(unquote_to_bytes(segment)):
            raise Invalid(f"{key!r} encodes bytes that are not UTF-8 text")


def _check_bytes(key: str) -> None:
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{key!r} is not text that UTF-8 can hold") from None
    if len(encoded) > _MAX_KEY_BYTES:
        raise _refusal(key)
    if any(len(segment) > _MAX_SEGMENT_BYTES for segment in encoded.split(b"/")):
        raise _refusal(key)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refusal(key: str) -> Invalid:
    return Invalid(
        f"{key[:200]!r} cannot name an object",
        hint="use a relative path of at most 1,024 bytes, its segments 1 to 255 bytes long, "
        "without '.', '..', '.tmp-', backslashes and control characters",
    )
