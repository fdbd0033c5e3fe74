"""A file for Arrow of which only some bytes are in memory."""

from __future__ import annotations

import io


class PartialFile(io.RawIOBase):
    """Reads from anywhere within `size` bytes. Subclasses have the bytes, or fetch them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def bytes_between(self, start: int, end: int) -> bytes:
        raise NotImplementedError

    def read(self, n: int = -1) -> bytes:
        start = self._at
        self._at = self._size if n < 0 else min(start + n, self._size)
        return self.bytes_between(start, self._at)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
