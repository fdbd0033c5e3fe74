"""Python processes that start in milliseconds: forks of one that has imported everything.

    process = shared().start("arco.cli", "runs", "list", env=env, cwd=folder, stdout=file)
    assert process.wait(60) == 0

`python -m arco.cli` takes a second of imports before it does anything. The server imports them
once and forks; the child gets its own arguments, environment, folder and descriptors, and runs
the module as `python -m` would. It is a process of its own in every other respect: it can be
killed, and its end is seen by its exit code. The server has one thread, and never opens a store:
nothing that a fork would break is there when it forks.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self, TextIO

from arco.tasks import private
from arco.worker import slot_host, slots

_PRELOADED = (
    *("arco.app", "arco.engine", "arco.cli.app", "arco.storage.open"),
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "duckdb"),
    *(
        "typer._adapters",
        "rich.console",
        "rich.live",
        "rich.table",
        "tests.kit.invariants",
        "tests.kit.keeping",
    ),
)
_ROOT = Path(__file__).parents[2]
_MESSAGE = 1 << 20


class Forked:
    """A process of the server. What `subprocess.Popen` has, as far as tests need it.

    `stdout` and `stderr` are pipes from it, if it was started by `start_piped`.
    """

    def __init__(self, server: ForkServer, pid: int, *pipes: TextIO) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = pipes or (io.StringIO(), io.StringIO())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def communicate(self, timeout: float = 600.0) -> tuple[str, str]:
        """What is left in the pipes until it ends."""
        with ThreadPoolExecutor(2) as readers:
            open_pipes = [each for each in (self.stdout, self.stderr) if not each.closed]
            texts = [(each, readers.submit(each.read)) for each in open_pipes]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # which ends the readers
                raise
            read = {pipe: text.result() for pipe, text in texts}
        for pipe in read:
            pipe.close()
        return read.get(self.stdout, ""), read.get(self.stderr, "")

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float = 600.0) -> int:
        if self.returncode is None:
            self.returncode = self._server.wait_for(self.pid, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """Start it once for a test session; `start` may be called from any thread."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.forkserver", str(theirs.fileno())],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}

    def start(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path,
        stdin: IO[Any] | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
    ) -> Forked:
        request = {"module": module, "arguments": arguments, "env": dict(env), "cwd": str(cwd)}
        with open(os.devnull, "r+b") as null, self._lock:
            streams = [(stream or null).fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
            while "started" not in (reply := self._receive(60.0)):
                pass
        return Forked(self, reply["started"])

    def start_piped(
        self, module: str, *arguments: str, env: Mapping[str, str], cwd: Path
    ) -> Forked:
        """With a pipe for each stream that it prints to."""
        ours, theirs = [], []
        with ExitStack() as stack:
            for _ in range(2):
                reading, writing = os.pipe()
                ours.append(os.fdopen(reading, encoding="utf-8"))
                theirs.append(stack.enter_context(os.fdopen(writing, "wb")))
            started = self.start(
                module, *arguments, env=env, cwd=cwd, stdout=theirs[0], stderr=theirs[1]
            )
        return Forked(self, started.pid, *ours)

    def run(
        self, module: str, *arguments: str, env: Mapping[str, str], cwd: Path, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Start one and wait until it ends."""
        with ExitStack() as stack:
            given, out, err = (
                stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
                for _ in range(3)
            )
            given.write(stdin)
            given.seek(0)
            process = self.start(
                module, *arguments, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err
            )
            try:
                code = process.wait(400)
            finally:
                process.kill()
            for each in (out, err):
                each.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def wait_for(self, pid: int, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while True:
            with self._lock:
                if pid in self._codes:
                    return self._codes.pop(pid)
                left = deadline - time.monotonic()
                # Others may want to start something meanwhile.
                if select.select([self._socket], [], [], max(0.0, min(left, 0.02)))[0]:
                    self._receive(60.0)
                elif left <= 0:
                    raise subprocess.TimeoutExpired(str(pid), timeout)

    def _receive(self, timeout: float) -> dict[str, int]:
        self._socket.settimeout(timeout)
        raw = self._socket.recv(_MESSAGE)
        if not raw:
            raise RuntimeError("the fork server has ended; its errors are on stderr")
        reply: dict[str, int] = json.loads(raw)
        if "ended" in reply:
            self._codes[reply["ended"]] = reply["code"]
        return reply

    def stop(self) -> None:
        self._socket.close()
        self._process.wait(60)


@functools.cache
def shared() -> ForkServer:
    """The server of this test process, started when it is first asked for."""
    server = ForkServer()
    atexit.register(server.stop)
    return server


# -- in the server ------------------------------------------------------------------------


def _serve(channel: socket.socket) -> None:
    """Fork for each request, and tell of each child that ended, until the client is gone."""
    import pyarrow

    import arco.cli
    from arco.cli.allocator import use_little_memory

    use_little_memory()
    commands = (f"arco.cli.{each.name}" for each in pkgutil.iter_modules(arco.cli.__path__))
    for name in (*_PRELOADED, *(each for each in commands if not each.endswith("__main__"))):
        importlib.import_module(name)
    arco.cli.app.tree()
    pyarrow.array([])  # it imports pandas
    gc.freeze()  # children need not look at what is here already
    atexit.register(gc.unfreeze)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(channel)
        if channel.fileno() in ready:
            raw, received, _, _ = socket.recv_fds(channel, _MESSAGE, 3)
            if not raw:
                return
            assert threading.active_count() == 1, "a fork would lose threads"
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (woken, wake):
                    os.close(each)
                channel.close()
                _become(json.loads(raw), received)
                return
            for each in received:
                os.close(each)
            channel.send(json.dumps({"started": pid}).encode())


def _tell_ends(channel: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        channel.send(json.dumps({"ended": pid, "code": code}).encode())


class _ForkedHost:
    def __init__(self, pid: int) -> None:
        self._pid = pid

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


_launch = slots.launch


def _fork_slot_host(descriptor: int) -> slots.HostProcess:
    """A slot host of a process that was forked here: what it imports is there already.

    A command starts it before it does anything else, when a fork loses nothing. One that comes
    later, because the first has ended, starts as usual.
    """
    if threading.active_count() > 1:
        return _launch(descriptor)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            with open(os.devnull, "r+b") as null:
                os.dup2(null.fileno(), 0)
                os.dup2(null.fileno(), 1)
            os.closerange(3, descriptor)
            os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
            own = private.of_host(os.environ)
            os.environ.clear()
            os.environ.update(own)
            slot_host.main(descriptor)
        finally:
            os._exit(1)
    return _ForkedHost(pid)


def _become(request: Mapping[str, Any], streams: Sequence[int] | array[int]) -> None:
    """Be what `python -m module arguments` would be."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        if stream > 2:
            os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["", *request["arguments"]]
    slots.launch = _fork_slot_host
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
