"""The slot host: a process that forks slots, so that a slot starts in milliseconds.

It has imported what a task needs, and does nothing but fork, signal and reap. It runs no user
code, opens no store and starts no thread: an object store's client does not survive a fork.

A slot leads a session of its own. Processes that a slot leaves behind, also those that went into
another session, become children of this process (it is their *subreaper*); it ends them. When the
supervisor has ended, the slots end, and then the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import pyarrow as pa

from arco.worker import slot_messages as messages
from arco.worker.slot import serve
from arco.worker.stopping import ignore_late_signals

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PACKET: Final = 1 << 16
_ORPHAN_ROUNDS: Final = 20
"""Maximum of rounds: when an orphan has ended, its children become orphans."""


def main(descriptor: int) -> None:
    """Serve the supervisor at the other end of this socket until it has ended."""
    with socket.socket(fileno=descriptor) as supervisor:
        ForkServer(supervisor).serve()


class ForkServer:
    def __init__(self, supervisor: socket.socket) -> None:
        self._supervisor = supervisor
        self._slots: dict[int, int] = {}
        """Numbers of slots by their process ids."""
        self._woken, self._waking = os.pipe()
        for end in (self._woken, self._waking):
            os.set_blocking(end, False)

    def serve(self) -> None:
        pa.array([])  # it imports pandas, if installed, so that no slot has to
        gc.collect()
        gc.freeze()  # otherwise the first garbage collection in a slot would copy all pages
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking)
        signal.signal(
            signal.SIGTERM, signal.SIG_IGN
        )  # the supervisor drains, and closes the socket
        poll = select.poll()
        poll.register(self._supervisor, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, _PACKET)
                self._reap()
            if self._supervisor.fileno() in ready and not self._obey():
                break
        for pid in list(self._slots):
            _kill_slot(pid)
        self._reap()
        os._exit(0)

    def _obey(self) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._supervisor, _PACKET, 3)
        except ConnectionError:  # it ended before it had read all
            return False
        if not packet:
            return False
        match messages.to_host(packet):
            case messages.ForkSlot(number):
                self._fork(number, descriptors)
            case messages.SignalSlot(number, number_of_signal):
                self._signal(number, number_of_signal)
        return True

    def _fork(self, number: int, descriptors: list[int]) -> None:
        pid = os.fork()
        if not pid:
            try:
                self._leave()
                _become_slot(*descriptors)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(messages.BROKEN)
        for descriptor in descriptors:
            os.close(descriptor)
        self._slots[pid] = number
        self._tell(messages.Forked(number, pid))

    def _leave(self) -> None:
        """Close the host's own descriptors and restore its handlers in a slot."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._supervisor.close()
        os.close(self._woken)
        os.close(self._waking)

    def _signal(self, number: int, number_of_signal: int) -> None:
        for pid, slot in self._slots.items():
            if slot != number:
                continue
            if number_of_signal == signal.SIGKILL:
                _kill_slot(pid)
            else:
                os.kill(pid, number_of_signal)  # it exists: only this process reaps it

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    break
                number = self._slots.pop(pid, None)
                if number is None:
                    continue
                _kill_group(pid)
                self._end_orphans()
                cpu_s = usage.ru_utime + usage.ru_stime
                code = os.waitstatus_to_exitcode(status)
                self._tell(messages.Ended(number, code, round(cpu_s * 1000), usage.ru_maxrss))

    def _end_orphans(self) -> None:
        """End the orphans of slots that have ended."""
        for _ in range(_ORPHAN_ROUNDS):
            orphans = [pid for pid in _children() if pid not in self._slots]
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _tell(self, message: messages.FromHost) -> None:
        with contextlib.suppress(OSError):  # `serve` notices that a supervisor has ended
            self._supervisor.send(messages.encode(message))


def _become_slot(connection: int, stdout: int, stderr: int) -> None:
    host = os.getppid()
    os.setsid()
    ignore_late_signals()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:
        return
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
        os.close(source)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    if "numpy.random" in sys.modules:  # otherwise all slots would have the same random numbers
        sys.modules["numpy.random"].seed()
    serve(socket.socket(fileno=connection))


def _stream(descriptor: int) -> TextIO:
    """A line-buffered stream, so that its lines are not lost when the process is killed."""
    return open(descriptor, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _kill_slot(pid: int) -> None:
    """Kill a slot that was not reaped. It may not lead its process group yet."""
    os.kill(pid, signal.SIGKILL)
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _children() -> Iterator[int]:
    me = str(os.getpid())
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if (folder / "stat").read_text().rpartition(")")[2].split()[1] == me:
                yield int(folder.name)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere only a slot's process group is ended with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
