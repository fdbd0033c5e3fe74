"""The project in a folder, discovered by another process, which may exit, crash or freeze."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from arco.clock import Clock
from arco.errors import Invalid
from arco.tasks import private
from arco.worker import discovery_process
from arco.worker.discovery_process import DESCRIPTOR_LOST, Importing, Impossible, Instruction
from arco.worker.discovery_process import Discovered as Discovered
from arco.worker.failures import signal_name
from servo.discover import FILE
from servo.project import Problem

NOTICE_S: Final = 10.0
"""An import that takes this long is reported, and again after the same time."""
_POLL_S: Final = 0.2
_CLOSED_S: Final = 1.0
"""How long a process may take to end after it has closed the pipe."""
_CHUNK: Final = 1 << 20
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from arco.worker.discovery_process import main; main(int(sys.argv[1]), sys.argv[3])"
)
_HINT: Final = "a module must not do that when it is imported: move the code into a function"

OnSlow = Callable[[str, float], None]
"""Called with a module whose import takes long, and its seconds so far."""


def discovered(
    folder: Path,
    modules: Sequence[str] | None,
    project: str,
    *,
    clock: Clock,
    store_url: str = "",
    on_slow: OnSlow = lambda module, seconds: None,
) -> Discovered:
    """What `servo.discover` finds. Raises Invalid if the folder is not one.

    A module that ends the process is a problem of the project. Modules see neither keys nor the
    credentials of the store, as in a slot. What they print goes to stderr.
    """
    root = folder.resolve()
    instruction = Instruction(
        str(root), None if modules is None else tuple(modules), project, os.getpid()
    )
    environment, _ = private.of_slot(os.environ, store_url, ())
    reading, writing = os.pipe()
    try:
        arguments = [str(writing), json.dumps(sys.path), msgspec.json.encode(instruction).decode()]
        child = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=(writing,),
            env=environment,
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        return _Conversation(child, reading, clock, on_slow).result()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # and processes that modules have started
        child.wait()
        os.close(reading)


class _Conversation:
    def __init__(
        self, child: subprocess.Popen[bytes], reading: int, clock: Clock, on_slow: OnSlow
    ) -> None:
        self._child = child
        self._reading = reading
        self._clock = clock
        self._on_slow = on_slow
        self._importing = Importing("", "")
        self._since = self._reported = clock.monotonic()

    def result(self) -> Discovered:
        buffer = bytearray()
        while True:
            # The pipe may stay open after the process: modules may have forked.
            ended = self._child.poll() is not None
            if select.select([self._reading], [], [], 0 if ended else _POLL_S)[0]:
                chunk = os.read(self._reading, _CHUNK)
                start = len(buffer)
                buffer += chunk
                while (end := buffer.find(b"\n", start)) >= 0:
                    line, start = bytes(buffer[:end]), 0
                    del buffer[: end + 1]
                    result = self._receive(line)
                    if result is not None:
                        return result
                if chunk:
                    continue
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(_CLOSED_S)
                return Discovered(problems=(self._ended(),))
            if ended:
                return Discovered(problems=(self._ended(),))
            self._report_slow()

    def _receive(self, line: bytes) -> Discovered | None:
        match discovery_process.decode(line):
            case Importing() as importing:
                self._importing = importing
                self._since = self._reported = self._clock.monotonic()
                return None
            case Impossible(message, hint):
                raise Invalid(message, hint=hint)
            case Discovered() as result:
                return result

    def _report_slow(self) -> None:
        now = self._clock.monotonic()
        if self._importing.module and now - self._reported >= NOTICE_S:
            self._reported = now
            self._on_slow(self._importing.module, now - self._since)

    def _ended(self) -> Problem:
        code = self._child.returncode
        if code in (None, DESCRIPTOR_LOST):
            how = "closed a file descriptor that is not its own"
        else:
            how = f"ended with {signal_name(-code) if code < 0 else f'exit status {code}'}"
        module, file = self._importing.module, self._importing.file
        if module:
            return Problem(file, 1, f"importing {module}: the process {how}", _HINT)
        return Problem(FILE, 1, f"the process that imported the modules {how}", _HINT)
