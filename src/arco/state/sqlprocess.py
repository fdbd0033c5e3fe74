"""The parent's side of the process that runs queries: start, query, watch, kill.

A call inside DuckDB cannot always be interrupted: a single function call on a large value, the
parser, the planner. And its memory limit does not include the memory of a result. So a query runs
in a child (`sqlchild`), which is killed when it has used up its time or its memory. It is a new
program, not a fork: a client of an object store does not survive one. It gets no environment, and
so no credentials.

A child that has answered is used again. Nothing heavy is imported here, so that a
command can start the child first, and do its own imports while that starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

import msgspec

from arco.clock import Clock, SystemClock
from arco.errors import Invalid, Unavailable
from arco.state import sqlframes

START_TIMEOUT_S = 60.0
POLL_S = 0.01
"""Interval of memory checks."""
MIB = 1 << 20
KEPT_VARIABLES = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from arco.state import sqlchild; sqlchild.main(int(sys.argv[1]))"
)


class SqlLimits(msgspec.Struct, frozen=True):
    timeout_s: float = 30.0
    """From the moment when the files of the tables have been fetched."""
    rows: int = 10_000
    memory_mib: int = 1024
    """Of the process, beyond what it needs before the query."""
    result_mib: int = 64
    """Of the rows that are returned."""


class SqlQuery(msgspec.Struct, frozen=True):
    sql: str
    setup: list[str]
    """Statements that make the tables, and lock the connection."""


class SqlProcess:
    """One child, which runs one query at a time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        reading, writing = os.pipe()
        self._answers = os.fdopen(reading, "rb", buffering=0)
        self._buffer = bytearray()
        self._ready = False
        self._base = 0
        """What it has in memory before the first query."""
        environment = {k: v for k in KEPT_VARIABLES if (v := os.environ.get(k)) is not None}
        try:
            self.child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(writing), json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._answers.close()
            raise Unavailable(f"the query process did not start: {error}") from error
        finally:
            os.close(writing)

    @property
    def alive(self) -> bool:
        return self.child.poll() is None

    def has_room(self, limits: SqlLimits) -> bool:
        """Whether it can run another query: an allocator may not return freed memory."""
        if not self.alive:
            return False
        return not self._ready or self._memory() <= self._base + limits.memory_mib * MIB // 2

    def run(self, query: SqlQuery, limits: SqlLimits) -> bytes:
        """The result as an Arrow IPC stream, with one row more than the limit if there is one.

        Raises Unavailable for time; Invalid for memory, for size, and for what DuckDB
        refuses. A failure that is none of DuckDB's own ends the process.
        """
        try:
            self.start()
            return self._ask(query, limits)
        except BaseException as error:
            if not isinstance(error, QueryRefused):
                self.close()
            raise

    def close(self) -> None:
        """Kill the child."""
        self.child.kill()
        self.child.wait()
        with contextlib.suppress(OSError):
            assert self.child.stdin is not None
            self.child.stdin.close()
        self._answers.close()

    def start(self) -> None:
        if self._ready:
            return
        deadline = self._clock.monotonic() + START_TIMEOUT_S
        while (frame := sqlframes.unpack(self._buffer)) is None:
            if not self._wait(deadline):
                raise Unavailable(
                    f"the query process did not start within {START_TIMEOUT_S:g} s",
                    hint="the machine is busy; try again",
                )
        assert frame[0] == sqlframes.READY
        self._base = self._memory()
        self._ready = True

    def _ask(self, query: SqlQuery, limits: SqlLimits) -> bytes:
        memory = limits.memory_mib * MIB
        allowed = self._base + memory
        deadline = self._clock.monotonic() + limits.timeout_s
        self._send(
            {
                "sql": query.sql,
                "setup": query.setup,
                "rows": limits.rows,
                "result_bytes": limits.result_mib * MIB,
                "memory_bytes": memory,
                "cpu_s": limits.timeout_s * (os.cpu_count() or 1),
            }
        )
        parts: list[bytes] = []
        size = 0
        while True:
            while (frame := sqlframes.unpack(self._buffer)) is None:
                if not self._wait(deadline):
                    raise _too_long(limits)
                if self._memory() > allowed:
                    raise _too_much_memory(limits)
            kind, payload = frame
            if kind == sqlframes.DONE:
                return b"".join(parts)
            if kind == sqlframes.FAILED:
                raise _refusal(json.loads(payload), limits)
            parts.append(payload)
            size += len(payload)
            if size > 2 * limits.result_mib * MIB:  # it should have stopped long before
                raise _too_large(limits)

    def _send(self, request: dict[str, Any]) -> None:
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(sqlframes.pack(sqlframes.REQUEST, json.dumps(request).encode()))
            self.child.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _wait(self, deadline: float) -> bool:
        """Read what there is, for a moment; False when the time is up."""
        left = deadline - self._clock.monotonic()
        if left <= 0:
            return False
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if poll.poll(min(left, POLL_S) * 1000):
            data = self._answers.read(MIB)
            if not data:
                raise self._ended()
            self._buffer += data
        return True

    def _memory(self) -> int:
        """What the child has in memory; 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.child.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def _ended(self) -> Exception:
        code = self.child.wait()
        if not self._ready:
            return Unavailable(
                f"the query process ended while starting (exit code {code})",
                hint="check that duckdb and pyarrow can be imported",
            )
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Invalid(
            f"the query ended the process that ran it ({name})",
            hint="it needed more memory than there is, or is nested too deeply: simplify it",
        )


class QueryRefused(Invalid):
    """DuckDB has refused a query; the process is still usable."""


class UnknownTable(QueryRefused):
    pass


def _refusal(answer: dict[str, str], limits: SqlLimits) -> Exception:
    match answer["kind"]:
        case "memory":
            return _too_much_memory(limits)
        case "result":
            return _too_large(limits)
        case "catalog":
            return UnknownTable(answer["message"])
        case _:
            return QueryRefused(answer["message"], hint=answer["hint"])


class QueryTooLong(Unavailable):
    """A query was ended by its timeout."""


def _too_long(limits: SqlLimits) -> QueryTooLong:
    return QueryTooLong(
        f"the query took longer than {limits.timeout_s:g} s",
        hint="query fewer rows, or raise the limit",
    )


def _too_much_memory(limits: SqlLimits) -> Invalid:
    return Invalid(
        f"the query needed more than {limits.memory_mib} MiB of memory",
        hint="query fewer columns, smaller values, or a smaller join",
    )


def _too_large(limits: SqlLimits) -> Invalid:
    return Invalid(
        f"the result is larger than {limits.result_mib} MiB", hint="select fewer rows or columns"
    )
