"""A process that runs user code for a command, and answers with lines.

What user code does to it (exits, crashes, freezes, forks, closes descriptors) is the end of that
process alone. It ends with the one that started it, and with it what it has started, except what
has moved to another session. Its input is one text; what it prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final, NoReturn, Self

_DESCRIPTOR_LOST: Final = 71
"""Exit status if the pipe to the other process was closed."""
_PR_SET_PDEATHSIG: Final = 1
_POLL_S: Final = 0.2
_CLOSED_S: Final = 1.0
"""How long a process may take to end after it has closed the pipe."""
_CHUNK: Final = 1 << 20
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from {module} import {function}; from arco.worker.child_process import ChildAnswers; "
    "_, _, pipe, parent = sys.argv; sys.argv[1:] = []; "
    "{function}(ChildAnswers(int(pipe), int(parent)), sys.stdin.buffer.read().decode())"
)


class ChildEnded(Exception):
    """The process has ended, or closed its pipe, before its answer."""

    def __init__(self, code: int | None) -> None:
        """`code` is negative for a signal, and None if the process closed the pipe."""
        super().__init__(code)
        self.code = None if code == _DESCRIPTOR_LOST else code

    def __str__(self) -> str:
        if self.code is None:
            return "closed a file descriptor that is not its own"
        if self.code < 0:
            return f"ended with {signal_name(-self.code)}"
        return f"ended with exit status {self.code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ChildProcess:
    """Calls a function of a module with `ChildAnswers` and a text. A context: its end kills."""

    def __init__(self, module: str, function: str, text: str, env: Mapping[str, str]) -> None:
        self._reading, writing = os.pipe()
        self._buffer = bytearray()
        start = _START.format(module=module, function=function)
        arguments = [json.dumps(sys.path), str(writing), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                # -P: files of this folder are not taken for modules of Python.
                [sys.executable, "-P", "-c", start, *arguments],
                stdin=subprocess.PIPE,  # an argument has at most 128 KiB
                stdout=2,
                pass_fds=(writing,),
                env=dict(env),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(text.encode())  # if it has ended already, `receive` says how

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and what it has started
        self._process.wait()
        os.close(self._reading)

    def receive(self, timeout_s: float) -> bytes | None:
        """The next line; None if none came in this time. Raises ChildEnded."""
        deadline = time.monotonic() + timeout_s
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            # The pipe may stay open after the process: user code may have forked.
            has_ended = self._process.poll() is not None
            left = max(0.0, min(_POLL_S, deadline - time.monotonic()))
            if select.select([self._reading], [], [], 0 if has_ended else left)[0]:
                chunk = os.read(self._reading, _CHUNK)
                self._buffer += chunk
                if not chunk:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(_CLOSED_S)
                    raise ChildEnded(self._process.returncode)
            elif has_ended:
                raise ChildEnded(self._process.returncode)
            elif time.monotonic() >= deadline:
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


# -- in the process -----------------------------------------------------------------------


class ChildAnswers:
    """Where the process writes its lines."""

    def __init__(self, descriptor: int, parent: int) -> None:
        self._descriptor = descriptor
        self._pid = os.getpid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)  # it ended before the line above

    def send(self, line: bytes) -> None:
        if os.getpid() != self._pid:
            return  # a fork that user code has left behind
        left = memoryview(line + b"\n")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            os._exit(_DESCRIPTOR_LOST)

    def end(self, line: bytes) -> NoReturn:
        """Send the last line and end the process. Threads that user code has started end too."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()  # before the other process, which has its answer, kills this one
        self.send(line)
        os._exit(0)
