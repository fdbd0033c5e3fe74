"""The messages between the process that runs queries and its parent.

A frame is one letter, the length of what follows, and that. The parent sends a REQUEST (JSON); the
child answers with DATA (parts of an Arrow IPC stream) and then DONE, or with FAILED (JSON) at any
time. It sends READY once, when it has started.

Both sides import this module, and the child starts for each command: it has few imports.
"""

from __future__ import annotations

import struct

READY = b"R"
REQUEST = b"Q"
DATA = b"D"
DONE = b"E"
FAILED = b"F"

HEADER = struct.Struct(">cQ")


def pack(kind: bytes, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def unpack(buffer: bytearray) -> tuple[bytes, bytes] | None:
    """The first frame, which is taken from the buffer; None while it is not whole."""
    if len(buffer) < HEADER.size:
        return None
    kind, length = HEADER.unpack_from(buffer)
    end = HEADER.size + length
    if len(buffer) < end:
        return None
    payload = bytes(memoryview(buffer)[HEADER.size : end])
    del buffer[:end]
    return kind, payload
