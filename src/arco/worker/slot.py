"""A slot: a process of one artifact, which runs one task at a time in its main thread.

    receive ─► attempt (`attempt.py`) ─► flush the streams ─► send the result

After a task the process compares its state. If the task has left something behind (threads, child
processes, another working directory, other signal handlers, …), the slot reports that it is not
reusable, and ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes an enum of each answer
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from arco.clock import SystemClock
from arco.spark.joined import JoinedHost, JvmAddress, JvmStatus
from arco.spark.settings import SparkSettings
from arco.storage.http import HttpStore
from arco.storage.open import open_store
from arco.storage.port import Store
from arco.tasks import private
from arco.tasks.failure import SparkUnavailable
from arco.worker import slot_messages as messages
from arco.worker.attempt import Assignment, Attempt, Shared
from arco.worker.failures import bounded
from arco.worker.loader import Loader
from arco.worker.secrets import SecretValues
from arco.worker.sensing import SensorAttempt
from arco.worker.stopping import Stopping
from servo.contract.ulid import system_ulids

_MAX_TRACE_BYTES = 64 << 10
_MAX_KEPT_PAGES = (512 << 20) // os.sysconf("SC_PAGE_SIZE")
"""A process that has grown by more is not reused: allocators return little memory."""


def serve(connection: socket.socket) -> None:
    """Run tasks until the supervisor closes the socket."""
    frames = messages.Frames(connection)
    setup = _received(frames)
    if isinstance(setup, messages.Setup):
        slot = _Slot(setup, frames)
        while isinstance(task := _received(frames), messages.Task):
            slot.run(task)
    os._exit(0)


def _received(frames: messages.Frames) -> messages.ToSlot | None:
    frame = frames.receive()
    return None if frame is None else messages.to_slot(frame)


class _Slot:
    def __init__(self, setup: messages.Setup, frames: messages.Frames) -> None:
        os.environ.clear()
        os.environ.update(setup.environment)
        with private.exposed(setup.credentials):
            store = open_store(setup.store_url, **setup.store_options)
        self._setup = setup
        self._frames = frames
        self._socket = _identity(frames.connection.fileno())
        self._loader: Loader | None = None
        self._before = _process_state()
        """The state of the process when the task's own code began."""
        clock = SystemClock()
        spark = None
        if setup.spark:
            settings = msgspec.json.decode(setup.spark, type=SparkSettings)
            spark = JoinedHost(settings, _SparkLink(self._ask, frames))
        self._shared = Shared(
            store=store,
            clock=clock,
            ids=system_ulids(),
            worker_id=setup.worker_id,
            target_file_bytes=setup.target_file_bytes,
            process=self,
            spark=spark,
            open_store=self._open_store,
        )
        logging.root.addHandler(_SlotHandler(frames))
        self._pages = _resident_pages()

    def run(self, task: messages.Task) -> None:
        loader = self._loader or Loader(Path(task.folder))
        self._loader = loader
        stopping = Stopping(task.request.timeout_s)
        with stopping.listening():
            self._before = _process_state()
            secrets = SecretValues(task.secrets)
            assignment = Assignment(self._shared_of(task), task.request, stopping, loader, secrets)
            answer = None
            if task.request.sensor is None:
                result = Attempt(assignment).run()
            else:
                result, answer = SensorAttempt(assignment).run()
            _flush()
            reusable = not stopping.stopping() and self._is_clean()
        self.called()
        self._frames.send(messages.Done(result, reusable, answer))
        if not reusable:
            os._exit(0)

    def _shared_of(self, task: messages.Task) -> Shared:
        """The state that a task shares; with a task token, its store is limited to that."""
        shared = self._shared
        if not isinstance(shared.store, HttpStore):
            return shared
        shared.store.use_token(task.access)
        return shared._replace(ids=lambda: task.version)

    def _is_clean(self) -> bool:
        now, before = _process_state(), self._before
        if now.threads - before.threads or now[1:] != before[1:]:
            return False
        if _resident_pages() > self._pages + _MAX_KEPT_PAGES:
            return False
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    # -- the attempt's process ------------------------------------------------------------

    def loaded(self) -> None:
        self._before = _process_state()

    @contextlib.contextmanager
    def own_changes(self) -> Iterator[None]:
        earlier = _process_state()
        try:
            yield
        finally:
            self._before = self._before.changed(earlier, _process_state())

    def called(self) -> None:
        """Without its socket a slot can report nothing but an exit status."""
        if _identity(self._frames.connection.fileno()) != self._socket:
            os._exit(messages.DESCRIPTORS_LOST)

    def progress(self, percent: int, text: str) -> None:
        self._frames.send(messages.SlotProgress(percent, text))

    def logger(self, name: str) -> logging.Logger:
        """A logger of the attempt's own; it is in no registry, so it ends with the attempt."""
        logger = logging.Logger(name, logging.INFO)
        logger.addHandler(_SlotHandler(self._frames))
        return logger

    def _open_store(self, url: str) -> Store:
        """Another store; with the workspace's options and credentials if it is of the same kind."""
        own = self._setup.store_url
        same = url.partition("://")[0] == own.partition("://")[0]
        with private.exposed(self._setup.credentials if same else {}):
            return open_store(url, **(self._setup.store_options if same else {}))

    # -- the supervisor -------------------------------------------------------------------

    def _ask(self, question: messages.FromSlot) -> messages.ToSlot:
        self._frames.send(question)
        answer = _received(self._frames)
        if answer is None:
            os._exit(0)  # the supervisor has ended
        return answer


@dataclass(frozen=True)
class _SparkLink:
    """The connection to the supervisor, which owns the JVM."""

    ask: Callable[[messages.FromSlot], messages.ToSlot]
    frames: messages.Frames

    def address(self) -> JvmAddress:
        answer = self.ask(messages.SparkRequested())
        assert isinstance(answer, messages.SparkAddress)
        if answer.unavailable:
            raise SparkUnavailable(answer.unavailable, hint=answer.hint, permanent=answer.permanent)
        return JvmAddress(answer.port, answer.token, answer.pool)

    def status(self, port: int) -> JvmStatus:
        answer = self.ask(messages.SparkDoubted(port))
        if not isinstance(answer, messages.SparkStatus):
            return JvmStatus(True, None, "")
        return JvmStatus(answer.ended, answer.exit_status, answer.reason)

    def joined(self, tags: tuple[str, ...]) -> None:
        self.frames.send(messages.SparkJoined(tags))


# -- the state of the process -------------------------------------------------------------


class _ProcessState(NamedTuple):
    threads: frozenset[int]
    folder: str
    environment: dict[bytes, bytes]
    handlers: dict[int, Any]
    streams: tuple[Any, ...]
    umask: int

    def changed(self, earlier: _ProcessState, now: _ProcessState) -> _ProcessState:
        """This state, with the differences between two others."""
        return self._replace(
            threads=self.threads | now.threads - earlier.threads,
            environment=self.environment
            | dict(now.environment.items() - earlier.environment.items()),
            handlers=self.handlers | dict(now.handlers.items() - earlier.handlers.items()),
        )


_OURS = ("store_", "spark-", "arco-")
"""Prefixes of the names of our own threads."""
_SIGNALS = [int(n) for n in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})]


def _process_state() -> _ProcessState:
    """Called several times for each task: it takes microseconds."""
    os.umask(mask := os.umask(0o077))
    return _ProcessState(
        frozenset([t.ident or 0 for t in threading.enumerate() if not t.name.startswith(_OURS)]),
        _folder(),
        os.environ._data.copy(),  # type: ignore[attr-defined]  # encoded: the mapping decodes
        dict(zip(_SIGNALS, map(_signal.getsignal, _SIGNALS), strict=True)),
        (sys.stdin, sys.stdout, sys.stderr, _identity(0), _identity(1), _identity(2)),
        mask,
    )


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed
        return ""


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _resident_pages() -> int:
    try:
        with open("/proc/self/statm", "rb", buffering=0) as status:
            return int(status.read().split()[1])
    except OSError:  # no Linux
        return 0


def _flush() -> None:
    """Flush the streams of Python and C: all output is in the pipes before the result."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _flush_c(None)


_flush_c: Callable[[None], int] = ctypes.CDLL(None).fflush


# -- loggers ------------------------------------------------------------------------------


class _SlotHandler(logging.Handler):
    def __init__(self, frames: messages.Frames) -> None:
        super().__init__()
        self._frames = frames

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message, trace = record.getMessage(), record.exc_text
            if record.exc_info:
                trace = _FORMAT.formatException(record.exc_info)
        except Exception:
            self.handleError(record)
            return
        text = f"{message}\n{bounded(trace, _MAX_TRACE_BYTES)}" if trace else message
        self._frames.send(messages.LogLine(record.levelname, text))

    def createLock(self) -> None:
        self.lock = None  # the frames have their own


_FORMAT = logging.Formatter()
