"""The supervisor's side of slots: start, keep warm, reuse, end.

A slot is a process that belongs to one artifact. The slot host (`slot_host.py`), one for each
supervisor, forks them. Nothing heavy is imported here, so that a command can start the host
first, and do its own imports while that starts.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from arco.clock import Clock
from arco.tasks import private
from arco.worker import slot_messages as messages

log = logging.getLogger(__name__)

IDLE_S: Final = 60.0
"""A slot without a task for this long is ended."""
ENDED_S: Final = 5.0
"""How long the host may take to report how a slot ended."""

_CHUNK: Final = 1 << 18
_MAX_DRAINED: Final = 64 << 20
"""Maximum of bytes read at the end: a process that a slot left behind may print endlessly."""
_PACKET: Final = 1 << 16
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from arco.worker import slot_host; slot_host.main(int(sys.argv[1]))"
)


class HostProcess(Protocol):
    def wait(self) -> int: ...


def launch(descriptor: int) -> HostProcess:
    """Start a host that serves the other end of this socket."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, str(descriptor), json.dumps(sys.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env=private.of_host(os.environ),
        start_new_session=True,
    )


class SlotHost:
    """The process that forks slots. Started when needed, and again after it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._connection: socket.socket | None = None
        self._slots: dict[int, Slot] = {}

    def start(self) -> None:
        with self._lock:
            self._start()

    def _start(self) -> socket.socket:
        if self._connection is not None:
            return self._connection
        own_end, host_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with host_end:
            process = launch(host_end.fileno())
        private.protect()  # after the start: a process that is forked inherits it
        self._connection = own_end
        threading.Thread(
            target=self._listen, args=(own_end, process), name="slot-host", daemon=True
        ).start()
        return own_end

    def fork(self, setup: messages.Setup, artifact: str) -> Slot:
        """A new slot, which may not have started yet."""
        own_end, slot_end = socket.socketpair()
        out, out_of_slot = os.pipe()
        error, error_of_slot = os.pipe()
        descriptors = [slot_end.fileno(), out_of_slot, error_of_slot]
        with self._lock:
            slot = Slot(next(self._numbers), artifact, self, messages.Frames(own_end), (out, error))
            self._slots[slot.number] = slot
            try:
                packet = messages.encode(messages.ForkSlot(slot.number))
                socket.send_fds(self._start(), [packet], descriptors)
            except OSError as problem:
                self._slots.pop(slot.number)
                slot.end(None)
                log.error("a slot could not be started: %s", problem)
            finally:
                slot_end.close()
                os.close(out_of_slot)
                os.close(error_of_slot)
        slot.send(setup)
        return slot

    def signal(self, number: int, number_of_signal: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            if number in self._slots and self._connection is not None:
                self._connection.send(
                    messages.encode(messages.SignalSlot(number, number_of_signal))
                )

    def _listen(self, connection: socket.socket, process: HostProcess) -> None:
        with contextlib.suppress(OSError):
            while packet := connection.recv(_PACKET):
                match messages.from_host(packet):
                    case messages.Forked(number, pid):
                        self._slots[number].pid = pid
                    case messages.Ended(number) as ended:
                        self._slots.pop(number).end(ended)
        status = process.wait()
        with self._lock:
            log.error("the slot host ended (%s); its slots with it", status)
            self._connection = None
            lost, self._slots = self._slots, {}
            connection.close()
        for slot in lost.values():
            slot.end(None)


@functools.cache
def slot_host() -> SlotHost:
    """The one of this process."""
    return SlotHost()


class Slot:
    """One process. Used by one thread at a time."""

    def __init__(
        self,
        number: int,
        artifact: str,
        host: SlotHost,
        frames: messages.Frames,
        outputs: tuple[int, int],
    ) -> None:
        self.number = number
        self.artifact = artifact
        self.idle_since = 0.0
        self.reusable = False
        self.cpu_ms = 0
        """Of the tasks that it has finished."""
        self.pid = 0
        """Known when the host has forked it."""
        self._host = host
        self._frames = frames
        self._streams = dict(zip(outputs, ("stdout", "stderr"), strict=True))
        self._poll = select.poll()
        frames.connection.setblocking(True)
        self._poll.register(frames.connection, select.POLLIN)
        for output in outputs:
            os.set_blocking(output, False)
            self._poll.register(output, select.POLLIN)
        self._over = threading.Event()
        self.ended: messages.Ended | None = None

    # -- told by the host's thread --------------------------------------------------------

    def end(self, ended: messages.Ended | None) -> None:
        self.ended = ended
        self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Until its process has ended; False if it has not."""
        return self._over.wait(seconds)

    # -- talking --------------------------------------------------------------------------

    def send(self, message: messages.ToSlot) -> None:
        with contextlib.suppress(OSError):  # the thread that listens notices that it ended
            self._frames.send(message)

    def listen(
        self, timeout_s: float, on_output: Callable[[str, bytes], None]
    ) -> list[messages.FromSlot] | None:
        """Its messages within this time; None when it has closed the socket."""
        ready = [number for number, _ in self._poll.poll(timeout_s * 1000)]
        for number in ready:
            if number in self._streams:
                self._read(number, on_output)
        if self._frames.connection.fileno() not in ready:
            return []
        try:
            if not self._frames.fill():
                return None
        except OSError:
            return None
        received: list[messages.FromSlot] = []
        while (frame := self._frames.next()) is not None:
            received.append(messages.from_slot(frame))
        return received

    def _read(self, number: int, on_output: Callable[[str, bytes], None]) -> int:
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            on_output(self._streams[number], data)
        else:
            self._poll.unregister(number)
        return len(data)

    def drain(self, on_output: Callable[[str, bytes], None]) -> None:
        """All that is in the pipes now."""
        ready = {number for number, _ in self._poll.poll(0)}  # mostly nothing
        for number in ready & self._streams.keys():
            size = 0
            with contextlib.suppress(KeyError):  # it was closed before
                while size < _MAX_DRAINED and (read := self._read(number, on_output)):
                    size += read

    def signal(self, number_of_signal: int) -> None:
        self._host.signal(self.number, number_of_signal)

    def kill(self) -> None:
        """End all of its processes."""
        self.reusable = False
        self.signal(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._frames.connection.close()
        for number in self._streams:
            os.close(number)
        self._streams = {}

    def memory_bytes(self) -> int:
        """The memory of the slot and its child processes; 0 where it is unknown."""
        return sum(_resident(pid) for pid in _with_children(self.pid)) if self.pid else 0


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _with_children(pid: int) -> list[int]:
    pids, left = [], [pid]
    while left:
        pids.append(parent := left.pop())
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                left += [int(child) for child in children.read_text().split()]
    return pids


class SlotPool:
    """The slots of one worker, by artifact; at most as many as it has concurrent tasks."""

    def __init__(self, host: SlotHost, setup: messages.Setup, limit: int, clock: Clock) -> None:
        self._host = host
        self._setup = setup
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[Slot] = []
        """The last used one last."""
        self._busy = 0
        self._hidden: set[str] = set()

    def hide(self, variables: set[str]) -> None:
        """Remove these variables from the environment of later slots."""
        with self._lock:
            if variables <= self._hidden:
                return
            self._hidden |= variables
            private.add_secrets(variables)
            stale, self._idle = self._idle, []
        for slot in stale:
            slot.close()

    def take(self, artifact: str) -> Slot:
        """A slot of this artifact: one that is warm, or a new one."""
        evicted: list[Slot] = []
        with self._lock:
            self._busy += 1
            for slot in reversed(self._idle):
                if slot.artifact == artifact and not slot.is_over:
                    self._idle.remove(slot)
                    return slot
            while self._idle and self._busy + len(self._idle) > self._limit:
                evicted.append(self._idle.pop(0))
            # A store behind a server needs no credentials; only Spark has those for its data.
            place = str(self._setup.store_options.get("data_url") or self._setup.store_url)
            environment = private.of_slot(os.environ, place, self._hidden)
        for slot in evicted:
            slot.close()
        own, credentials = environment
        if place != self._setup.store_url:
            credentials = {}
        setup = messages.replace(self._setup, environment=own, credentials=credentials)
        return self._host.fork(setup, artifact)

    def give_back(self, slot: Slot) -> None:
        """Keep a reusable slot for the next task of its artifact, and end any other."""
        reusable = slot.reusable and not slot.is_over
        slot.idle_since = self._clock.monotonic()
        with self._lock:
            self._busy -= 1
            if reusable:
                self._idle.append(slot)
        if not reusable:
            slot.close()

    def end_idle(self) -> None:
        """End slots that had no task for long."""
        before = self._clock.monotonic() - IDLE_S
        with self._lock:
            old = [slot for slot in self._idle if slot.idle_since < before or slot.is_over]
            self._idle = [slot for slot in self._idle if slot not in old]
        for slot in old:
            slot.close()

    def close(self) -> None:
        with self._lock:
            slots, self._idle = self._idle, []
        for slot in slots:
            slot.close()
