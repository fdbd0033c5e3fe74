"""The messages between a supervisor, its slot host and its slots.

Supervisor and slot exchange frames: four bytes of length, then msgpack. Between supervisor and slot
host each message is one packet, because descriptors are sent with it.
"""

from __future__ import annotations

import socket
import threading
from typing import Final

import msgspec
from msgspec import Struct

from servo.contract.sensing import SensorAnswer
from servo.contract.task import TaskRequest, TaskResult

DESCRIPTORS_LOST: Final = 77
"""The exit status of a slot whose descriptors were closed: it cannot send messages any more."""

BROKEN: Final = 78
"""The exit status of a slot that failed in its own code."""

_HEADER: Final = 4
_CHUNK: Final = 1 << 16


# -- supervisor and slot ------------------------------------------------------------------


class Setup(Struct, frozen=True, tag=True):
    """The first message to a slot."""

    store_url: str
    store_options: dict[str, str | bool]
    """They may contain credentials, so they are sent through this socket only."""
    worker_id: str
    target_file_bytes: int
    spark: bytes
    """Its settings, as JSON; empty: this worker has no Spark."""
    environment: dict[str, str] = {}
    credentials: dict[str, str] = {}
    """Variables of the environment that exist only while the store is opened."""


class Task(Struct, frozen=True, tag=True):
    request: TaskRequest
    folder: str
    """Where the artifact lies."""
    secrets: dict[str, str] = {}
    access: str = ""
    """The task token, for a store behind a server; empty: the store was opened with credentials."""
    version: str = ""
    """The id of the version that the attempt writes; empty: one of its own choice."""


class SparkAddress(Struct, frozen=True, tag=True):
    """Where the worker's JVM listens, or why there is none."""

    port: int = 0
    token: str = ""
    pool: str = ""
    """The scheduler pool of the task's jobs."""
    unavailable: str = ""
    hint: str = ""
    permanent: bool = False


class SparkStatus(Struct, frozen=True, tag=True):
    """Whether the worker's JVM has ended, and how."""

    ended: bool
    exit_status: int | None = None
    reason: str = ""


ToSlot = Setup | Task | SparkAddress | SparkStatus


class SlotProgress(Struct, frozen=True, tag=True):
    percent: int
    text: str


class LogLine(Struct, frozen=True, tag=True):
    level: str
    text: str


class SparkRequested(Struct, frozen=True, tag=True):
    """Answered by a SparkAddress. Spark is started if needed; this is not the task's time."""


class SparkJoined(Struct, frozen=True, tag=True):
    """The tags by which the task's jobs are found."""

    tags: tuple[str, ...]


class SparkDoubted(Struct, frozen=True, tag=True):
    """A call to the JVM at this port failed. Answered by a SparkStatus."""

    port: int


class Done(Struct, frozen=True, tag=True):
    result: TaskResult
    reusable: bool
    """Whether the process is as it was before the task."""
    answer: SensorAnswer | None = None
    """Of a sensor that was evaluated."""


FromSlot = SlotProgress | LogLine | SparkRequested | SparkJoined | SparkDoubted | Done


# -- supervisor and slot host -------------------------------------------------------------


class ForkSlot(Struct, frozen=True, tag=True):
    """With three descriptors: the slot's socket, its standard output, its standard error."""

    number: int


class SignalSlot(Struct, frozen=True, tag=True):
    """SIGKILL goes to all processes of the slot, others to the slot itself."""

    number: int
    signal: int


ToHost = ForkSlot | SignalSlot


class Forked(Struct, frozen=True, tag=True):
    number: int
    pid: int


class Ended(Struct, frozen=True, tag=True):
    number: int
    status: int
    """As of `subprocess`: an exit status, or minus a signal."""
    cpu_ms: int
    peak_kib: int


FromHost = Forked | Ended

replace = msgspec.structs.replace
encode = msgspec.msgpack.Encoder().encode
to_host = msgspec.msgpack.Decoder(ToHost).decode
from_host = msgspec.msgpack.Decoder(FromHost).decode
to_slot = msgspec.msgpack.Decoder(ToSlot).decode
from_slot = msgspec.msgpack.Decoder(FromSlot).decode


class Frames:
    """A stream of frames. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = bytearray()
        self._sending = threading.Lock()

    def send(self, message: ToSlot | FromSlot) -> None:
        data = encode(message)
        with self._sending:
            self.connection.sendall(len(data).to_bytes(_HEADER, "big") + data)

    def receive(self) -> bytes | None:
        """The next frame, when it is there; None at the end of the stream."""
        while (frame := self.next()) is None:
            if not self.fill():
                return None
        return frame

    def fill(self) -> bool:
        """Take what has arrived; False at the end of the stream. Waits if the socket does."""
        chunk = self.connection.recv(_CHUNK)
        self._received += chunk
        return bool(chunk)

    def next(self) -> bytes | None:
        """The next frame, if all of it has arrived."""
        received = self._received
        if len(received) < _HEADER:
            return None
        end = _HEADER + int.from_bytes(received[:_HEADER], "big")
        if len(received) < end:
            return None
        frame = bytes(received[_HEADER:end])
        del received[:end]
        return frame
