"""What an attempt printed and logged, as one object: `logs/{run}/{task}/{attempt}.log`.

Several attempts run at once in threads of one process, so `sys.stdout` and
`sys.stderr` are replaced, once, by a stream that asks a context variable whose
output this is. Threads, and jobs of thread pools, that a task starts inherit its
context. What goes to the file descriptors themselves (C code, child processes) is
not seen here.

Each line has its time, its level or stream, and has passed the redactor; lines are
put together before that, so that a secret printed in two halves is still found.

    2026-01-01T00:00:00.000000Z INFO    read 12 rows
"""

from __future__ import annotations

import codecs
import contextlib
import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from datetime import datetime
from typing import Any, Final, TextIO

from arco.clock import Clock
from arco.errors import Error
from arco.storage.port import Mode, Store
from arco.worker import threads
from arco.worker.failures import bounded
from arco.worker.secrets import Redactor

LIMIT_BYTES: Final = 8 << 20
INTERVAL_S: Final = 5.0

_MAX_LINE_CHARS = 64 << 10
"""A longer line is kept as several."""
_PIECE_CHARS = 1 << 20
"""So much of what is printed at once is worked on at a time: it may be a gigabyte."""
_MASK_CHARS = 64 << 10
"""So many characters of lines wait to be masked together."""
_PUT_ATTEMPTS = 3

_current: ContextVar[LogCapture | None] = ContextVar("arco_log_capture", default=None)


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
        self._store = store
        self._path = path
        self._clock = clock
        self.redact = redact
        self._limit = limit_bytes
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._putting = threading.Lock()
        self._body = bytearray()
        self._unmasked: list[tuple[datetime, str, str]] = []
        self._unmasked_chars = 0
        self._partial: dict[tuple[str, int], str] = {}
        self._stored = 0
        self._due = 0.0
        self._full = False
        self.closed = False

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Output of this context, and of threads started in it, is this attempt's meanwhile."""
        install()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def logger(self, name: str) -> logging.Logger:
        """A logger of the attempt's own; it is in no registry, so it ends with the attempt."""
        logger = logging.Logger(name, logging.INFO)
        logger.addHandler(_CaptureHandler(self))
        return logger

    # -- writing --------------------------------------------------------------------------

    def write(self, stream: str, text: str) -> None:
        """Text as it is printed: in any pieces, of which whole lines are kept."""
        key = (stream, threading.get_ident())
        for start in range(0, len(text), _PIECE_CHARS):
            with self._lock:
                if self._full:
                    self._partial.pop(key, None)
                    return
                self._write_piece(key, text[start : start + _PIECE_CHARS])

    def _write_piece(self, key: tuple[str, int], text: str) -> None:
        whole = self._partial.pop(key, "") + text
        lines, newline, rest = whole.replace("\r\n", "\n").replace("\r", "\n").rpartition("\n")
        if newline:
            self._add_lines(key[0], lines)
        if len(rest) > _MAX_LINE_CHARS:
            head, rest = self._cut(rest)
            self._add_lines(key[0], head)
        if rest:
            self._partial[key] = rest

    def line(self, level: str, text: str) -> None:
        """A message, of one or more lines, as a logger or the executor has it."""
        # No more than this is kept; what is cut off may have been the rest of a secret.
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
        """An endless line in two, such that no secret is cut: the rest may begin one."""
        masked = self.redact(text)
        at = max(len(masked) - self.redact.longest, 0)
        return masked[:at], masked[at:]

    def _add(self, source: str, text: str) -> None:
        if self._full or not text.strip():
            return
        if not self._body and not self._unmasked:
            self._due = self._clock.monotonic() + self._interval_s
            _flusher.watch(self)
        self._unmasked.append((self._clock.now(), source, text))
        self._unmasked_chars += len(text)
        if self._unmasked_chars >= _MASK_CHARS:
            self._mask()

    def _mask(self) -> None:
        """Mask the lines that wait, at once: one long text takes less than many short ones."""
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
        if len(self._body) + len(line) > self._limit:
            line = f"{stamp}Z {'WARNING':<7} the log is cut at {self._limit} bytes\n".encode()
            self._full = True
        self._body += line

    # -- storing --------------------------------------------------------------------------

    def tick(self) -> bool:
        """Store what is new if it is time; false once the attempt is over."""
        if not self.closed and self._clock.monotonic() >= self._due:
            with contextlib.suppress(Error):  # the next time has all of it
                self._store_new()
            self._due = self._clock.monotonic() + self._interval_s
        return not self.closed

    def close(self, outcome: str, *, always: bool = False) -> None:
        """End with a line that tells the outcome; if silent until then, only if `always`.

        A log that cannot be stored is given up: it must not fail the attempt.
        """
        with self._lock:
            self.closed = True
            for (stream, _), text in self._partial.items():
                self._add(stream, text)
            self._partial.clear()
            self._mask()
            if not self._body and not always:
                return
            self._full = False
            self._limit += len(outcome) * 4 + 1024
            self._add_lines("END", self.redact(outcome))
            self._mask()
        for _ in range(_PUT_ATTEMPTS):
            with contextlib.suppress(Error):
                self._store_new()
                break
        self._body = bytearray()  # threads that outlive the task keep this object

    def _store_new(self) -> None:
        with self._putting:
            with self._lock:
                self._mask()
                body = bytes(self._body)
            if len(body) != self._stored:
                self._store.put(self._path, body, Mode.OVERWRITE)
                self._stored = len(body)


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
                threads.start_detached(self._loop, "arco-log-flusher")

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


# -- what the process's streams and loggers become ----------------------------------------


class _Stream(io.TextIOBase):
    """Text of an attempt goes to its capture, and all other text where it always went."""

    def __init__(self, inner: TextIO, name: str) -> None:
        self._inner = inner
        self._name = name

    def write(self, text: str) -> int:
        capture = _current.get()
        if capture is None:
            return self._inner.write(text)
        if capture.closed:  # a thread that outlived its task
            self._inner.write(capture.redact(text))
        else:
            capture.write(self._name, text)
        return len(text)

    def flush(self) -> None:
        if _current.get() is None:
            self._inner.flush()

    def isatty(self) -> bool:
        return _current.get() is None and self._inner.isatty()

    def fileno(self) -> int:
        return self._inner.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8" if _current.get() is not None else self._inner.encoding

    @property
    def buffer(self) -> Any:
        return self._inner.buffer if _current.get() is None else _Bytes(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Bytes(io.RawIOBase):
    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        for start in range(0, len(view), _PIECE_CHARS):
            piece = bytes(view[start : start + _PIECE_CHARS])
            self._stream.write(decoder.decode(piece, start + _PIECE_CHARS >= len(view)))
        return len(view)


class _CaptureHandler(logging.Handler):
    """Of one capture, or (given none) of whichever the context names."""

    def __init__(self, capture: LogCapture | None = None) -> None:
        super().__init__()
        self._capture = capture
        self.setFormatter(_FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        capture = self._capture or _current.get()
        if capture is None:
            return
        try:
            message, trace = _texts(record)
        except Exception:
            self.handleError(record)
            return
        capture.line(record.levelname, f"{message}\n{trace}" if trace else message)
        # Handlers after this one, such as the worker's console, see no secret either.
        record.msg, record.args = capture.redact(message), None
        record.exc_text = capture.redact(trace) or None

    def createLock(self) -> None:
        self.lock = None  # a capture has its own, and a handler's would be made for each task


def _texts(record: logging.LogRecord) -> tuple[str, str]:
    trace = _FORMAT.formatException(record.exc_info) if record.exc_info else record.exc_text
    return record.getMessage(), bounded(trace or "", 64 << 10)


_FORMAT = logging.Formatter()
_root_handler = _CaptureHandler()
_installing = threading.Lock()


def install() -> None:
    """Put the streams and the root logger's handler in their places; again if need be."""
    if type(sys.stdout) is _Stream and type(sys.stderr) is _Stream and _root_is_first():
        return
    with _installing:
        if type(sys.stdout) is not _Stream and sys.stdout is not None:
            sys.stdout = _Stream(sys.stdout, "stdout")
        if type(sys.stderr) is not _Stream and sys.stderr is not None:
            sys.stderr = _Stream(sys.stderr, "stderr")
        if not _root_is_first():
            logging.root.removeHandler(_root_handler)
            logging.root.handlers.insert(0, _root_handler)
        threads.inherit_context(lambda: _current.get() is not None, copy_context)


def _root_is_first() -> bool:
    handlers = logging.root.handlers
    return bool(handlers) and handlers[0] is _root_handler
