"""Large parts of events: deflated JSON as base64, in a text field of the same event.

Names, types and ids repeat, so that this takes a fifth to a tenth. Inflating is pure: folds
may do it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

UNPACKED_BYTES: Final = 256 << 20
"""Maximum length of the unpacked text."""


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def unpack(packed: str) -> bytes:
    """The unpacked text. Raises ValueError for invalid input."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(base64.b64decode(packed, validate=True), UNPACKED_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not a packed text: {error}") from None
    if not inflater.eof:
        raise ValueError("a packed text that is truncated or too long")
    return data
