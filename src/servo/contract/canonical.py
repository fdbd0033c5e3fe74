r"""Canonical JSON: one value, one sequence of bytes, in every language.

Whatever is hashed or signed goes through here. The bytes are JSON (RFC 8259)
in UTF-8, without a byte order mark, where every choice is taken:

* No blanks between tokens, no trailing commas.
* An object's keys are strings, each once, sorted by Unicode code point (which is
  the order of their UTF-8 bytes; it is *not* JavaScript's order of UTF-16 units).
* A string is escaped only where JSON demands it: `\"`, `\\`, and controls below
  U+0020 as `\b \t \n \f \r` or, failing those, `\u00xx` in lower-case hex. All
  else is itself, `/`, U+007F, U+2028 and emoji too. Lone surrogates have no
  UTF-8, and are refused. Nothing is normalised: NFC and NFD differ.
* A number is an integer within ±(2^63 - 1), in decimal, without `+`, leading
  zeros, fraction, exponent or `-0`. The range is what a signed 64-bit integer
  holds *and can negate*: beyond it readers round, wrap or refuse, each in its
  own way. (JavaScript must read them as BigInt.)
* Floats do not exist: the same number has many spellings, and NaN has no meaning.
  Scale to an integer, or carry decimal text.
* At most 64 levels of nesting, so that every reader can be a simple recursion.

Structs are encoded as msgspec does (renaming, tags, omitted defaults, UNSET),
and enum members as their values. Other types are refused, sets above all: their
order depends on the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec

from servo.errors import Invalid

MAX_INT: Final = (1 << 63) - 1
MAX_DEPTH: Final = 64

_encoder = msgspec.json.Encoder(order="sorted")
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """The canonical bytes of `value`; Invalid names the path of what has none."""
    if not _is_plain(value, 0):
        _check(value, "$", 0)
    return _encoder.encode(value)


def decode(data: bytes) -> Any:
    """The inverse of `encode`, as builtins. Bytes that `encode` would not write are Invalid."""
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"not canonical JSON: {error}") from error
    again = encode(value)
    if again != data:
        pairs = zip(again, data, strict=False)
        same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(again), len(data)))
        raise Invalid(
            f"JSON, but not in its canonical form: it differs at byte {same}",
            hint="sorted keys, each once; no blanks; no needless escapes; no -0",
        )
    return value


def fingerprint(value: object) -> str:
    """SHA-256 of the canonical bytes, in lower-case hex."""
    return hashlib.sha256(encode(value)).hexdigest()


def _is_plain(value: object, depth: int) -> bool:
    """Whether a value surely passes `_check`, which takes three times as long to name paths."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)  # type: ignore[attr-defined,arg-type]
    if value is None or kind is bool:
        return True
    if kind is int:
        return -MAX_INT <= value <= MAX_INT  # type: ignore[operator]
    if depth == MAX_DEPTH:
        return False
    members: Iterable[Any] = ()
    if kind is tuple or kind is list:
        members = value  # type: ignore[assignment]
    elif kind is dict:
        keys = list(value)  # type: ignore[call-overload]
        if not all(type(key) is str and (key.isascii() or _is_text(key)) for key in keys):
            return False
        members = value.values()  # type: ignore[attr-defined]
    elif isinstance(value, msgspec.Struct):
        members = [m for m in msgspec.structs.astuple(value) if m is not msgspec.UNSET]
    else:
        return False
    for member in members:  # most are text, or nothing: a call would take longer than the look
        if type(member) is str:
            if not (member.isascii() or _is_text(member)):
                return False
        elif member is not None and not _is_plain(member, depth + 1):
            return False
    return True


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(value: object, path: str, depth: int) -> None:
    """Refuse what has no canonical form; `depth` counts the containers around `value`."""
    if value is None or type(value) is bool:
        return
    if type(value) is str:
        _check_text(value, path)
    elif type(value) is int:
        if not -MAX_INT <= value <= MAX_INT:
            raise Invalid(f"{path}: the integer is beyond ±(2^63-1)", hint="write it as a string")
    elif isinstance(value, Enum) and type(value.value) in (str, int):
        _check(value.value, path, depth)
    elif depth == MAX_DEPTH:
        raise Invalid(
            f"nested deeper than {MAX_DEPTH} levels", hint="check that it does not contain itself"
        )
    elif type(value) is dict:
        for key, item in value.items():
            _check_key(key, path)
            _check(item, f"{path}.{key}", depth + 1)
    elif type(value) is list or type(value) is tuple:
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            member = getattr(value, field)
            if member is not msgspec.UNSET:
                _check(member, f"{path}.{field}", depth + 1)
    else:
        raise _refused(value, path)


def _check_key(key: object, path: str) -> None:
    # Exactly `str`: an enum's member and its value are two keys of a dict, and
    # would be one key of the object.
    if type(key) is not str:
        raise Invalid(
            f"{path}: the key {key!r} is a {type(key).__name__}", hint="keys must be plain strings"
        )
    _check_text(key, path)


def _check_text(text: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{path}: not valid Unicode: a lone surrogate at character {error.start}",
            hint="decode the original bytes with their real encoding",
        ) from error


def _refused(value: object, path: str) -> Invalid:
    if isinstance(value, float):
        return Invalid(
            f"{path}: {value!r} is a float, and floats have no canonical form",
            hint="scale it to an integer, or write it as a string",
        )
    return Invalid(
        f"{path}: a {type(value).__name__} has no canonical JSON",
        hint="use dict, list, tuple, str, int, bool, None or a Struct",
    )
