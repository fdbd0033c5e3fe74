"""What an attempt printed and logged, as parts: `logs/{run}/{task}/{attempt}.{nonce}.{n}.log`.

A part has the lines since the previous part, and is never rewritten: each line is stored once. The
first parts come every few seconds; later ones less often, so that a task which runs for a day does
not have thousands. `log_parts.py` reads them.

What is printed comes through pipes from the slot that runs the attempt: all that the process,
its C code and its child processes write to their standard output and error.

Each line has its time, its level or stream, and has passed the redactor; lines are
put together before that, so that a secret printed in two halves is still found.

    2026-01-01T00:00:00.000000Z INFO    read 12 rows
"""

from __future__ import annotations

import codecs
import contextlib
import threading
from datetime import datetime
from typing import Final

from arco.clock import Clock
from arco.errors import Error
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.worker.secrets import Redactor

LIMIT_BYTES: Final = 8 << 20
INTERVAL_S: Final = 5.0
LONGEST_INTERVAL_S: Final = 60.0
"""Maximum time between two parts."""

_INTERVAL_GROWTH = 1.1
_PART_BYTES = 1 << 20
"""With this many bytes, a part is stored before the interval has passed."""
_MAX_LINE_CHARS = 64 << 10
"""A longer line is kept as several."""
_MASK_CHARS = 64 << 10
"""Lines are masked together when they have this many characters."""
_PUT_ATTEMPTS = 3


class LogCapture:
    """The log of one attempt. Any thread may write; nothing is stored while it is silent."""

    def __init__(
        self,
        store: Store,
        path: str,
        clock: Clock,
        redact: Redactor,
        *,
        limit_bytes: int = LIMIT_BYTES,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`path` is the prefix of the parts' paths; no other log has it."""
        self.store = store
        self.path = path
        self._clock = clock
        self.redact = redact
        self._limit = limit_bytes
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._putting = threading.Lock()
        self._unstored = bytearray()
        self._part: bytes | None = None
        """The part that is being stored. Its bytes do not change until it is."""
        self._parts = 0
        """How many are stored."""
        self._length = 0
        """Of the whole log, stored or not."""
        self._unmasked: list[tuple[datetime, str, str]] = []
        self._unmasked_chars = 0
        self._partial: dict[str, str] = {}
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._due = 0.0
        self._full = False
        self.closed = False

    # -- writing --------------------------------------------------------------------------

    def write(self, stream: str, data: bytes) -> None:
        """Bytes as they are printed: in any pieces, of which whole lines are kept."""
        with self._lock:
            if self._full:
                self._partial.pop(stream, None)
                return
            decoder = self._decoders.get(stream)
            if decoder is None:
                decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
                self._decoders[stream] = decoder
            self._write_piece(stream, decoder.decode(data))

    def _write_piece(self, stream: str, text: str) -> None:
        whole = self._partial.pop(stream, "") + text
        lines, newline, partial = whole.replace("\r\n", "\n").replace("\r", "\n").rpartition("\n")
        if newline:
            self._add_lines(stream, lines)
        if len(partial) > _MAX_LINE_CHARS:
            head, partial = self._cut(partial)
            self._add_lines(stream, head)
        if partial:
            self._partial[stream] = partial

    def line(self, level: str, text: str) -> None:
        """A message, of one or more lines, as a logger or the executor has it."""
        # A longer message is cut. The part that is cut off may be the end of a secret.
        masked = self.redact(text[: self._limit + self.redact.longest])[: self._limit]
        with self._lock:
            self._add_lines(level, masked)

    def _add_lines(self, source: str, text: str) -> None:
        for line in text.split("\n"):
            if len(line) <= _MAX_LINE_CHARS:
                self._add(source, line)
                continue
            masked = self.redact(line)  # before it is cut, so that no half of a secret is left
            for start in range(0, len(masked), _MAX_LINE_CHARS):
                self._add(source, masked[start : start + _MAX_LINE_CHARS])

    def _cut(self, text: str) -> tuple[str, str]:
        """Split an endless line so that no secret is split: the remaining text may begin one."""
        masked = self.redact(text)
        at = max(len(masked) - self.redact.longest, 0)
        return masked[:at], masked[at:]

    def _add(self, source: str, text: str) -> None:
        if self._full or not text.strip():
            return
        if not self._length and not self._unmasked:
            self._due = self._clock.monotonic() + self._interval_s
            _flusher.watch(self)
        self._unmasked.append((self._clock.now(), source, text))
        self._unmasked_chars += len(text)
        if self._unmasked_chars >= _MASK_CHARS:
            self._mask()

    def _mask(self) -> None:
        """Mask all waiting lines together: one long text takes less time than many short ones."""
        lines, self._unmasked, self._unmasked_chars = self._unmasked, [], 0
        joined = "\n".join(text for _, _, text in lines)
        clean = self.redact(joined) is joined
        for time, source, text in lines:
            if self._full:
                return
            masked = text if clean else self.redact(text)
            self._keep(time, source, masked)

    def _keep(self, time: datetime, source: str, masked: str) -> None:
        stamp = time.isoformat(timespec="microseconds")
        line = f"{stamp}Z {source:<7} {masked}\n".encode("utf-8", "backslashreplace")
        if self._length + len(line) > self._limit:
            line = f"{stamp}Z {'WARNING':<7} the log is truncated at {self._limit} bytes\n".encode()
            self._full = True
        self._unstored += line
        self._length += len(line)

    # -- storing --------------------------------------------------------------------------

    def tick(self) -> bool:
        """Store new lines if the interval has passed; False after the end of the attempt."""
        now = self._clock.monotonic()
        if not self.closed and (now >= self._due or len(self._unstored) >= _PART_BYTES):
            with contextlib.suppress(Error):  # tried again, before anything newer
                self.store_new()
            self._due = self._clock.monotonic() + self._pause_s()
        return not self.closed

    def _pause_s(self) -> float:
        longest_s = max(self._interval_s, LONGEST_INTERVAL_S)
        return min(longest_s, self._interval_s * _INTERVAL_GROWTH ** min(self._parts, 100))

    @property
    def is_stored(self) -> bool:
        return self._parts > 0

    def discard(self) -> None:
        """End without storing what is not stored yet."""
        with self._lock:
            self.closed = self._full = True
            self._unmasked, self._unstored = [], bytearray()

    def close(self, outcome: str, *, always: bool = False) -> None:
        """End with a line about the outcome. A log without lines is stored only if `always`.

        A log that cannot be stored is dropped: it must not fail the attempt.
        """
        with self._lock:
            self.closed = True
            for stream, text in self._partial.items():
                self._add(stream, text)
            self._partial.clear()
            self._mask()
            if not self._length and not always:
                return
            self._full = False
            self._limit += len(outcome) * 4 + 1024
            self._add_lines("END", self.redact(outcome))
            self._mask()
        for _ in range(_PUT_ATTEMPTS):
            with contextlib.suppress(Error):
                self.store_new()
                break
        with self._putting, self._lock:  # threads that outlive the task keep this object
            self._part, self._unstored = None, bytearray()

    def store_new(self) -> None:
        """Store new lines. After a put whose outcome is unknown, the same part is stored again."""
        with self._putting:
            while self._next_part():
                assert self._part is not None
                # OVERWRITE: if the object exists, it is this part.
                self.store.put(paths.log_part(self.path, self._parts), self._part, Mode.OVERWRITE)
                self._part = None
                self._parts += 1

    def _next_part(self) -> bool:
        with self._lock:
            self._mask()
            if self._part is None and self._unstored:
                self._part, self._unstored = bytes(self._unstored), bytearray()
        return self._part is not None


class _Flusher:
    """Stores growing logs at intervals, on a thread that lives while there are any."""

    def __init__(self, poll_s: float = 0.5) -> None:
        self._lock = threading.Lock()
        self._open: list[LogCapture] = []
        self._poll_s = poll_s
        self._running = False

    def watch(self, capture: LogCapture) -> None:
        if capture.closed:
            return
        with self._lock:
            self._open.append(capture)
            if not self._running:
                self._running = True
                threading.Thread(target=self._loop, name="log-flusher", daemon=True).start()

    def _loop(self) -> None:
        idle = threading.Event()
        while True:
            idle.wait(self._poll_s)
            with self._lock:
                captures = list(self._open)
            ended = {id(capture) for capture in captures if not capture.tick()}
            with self._lock:
                self._open = [capture for capture in self._open if id(capture) not in ended]
                if not self._open:
                    self._running = False
                    return


_flusher = _Flusher()
