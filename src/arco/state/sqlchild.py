"""The process that runs queries: DuckDB behind two pipes, and nothing else.

It is given the text of a query, the statements that show the snapshot's files as
tables, and limits. It has no credentials: the files were fetched and verified by its
parent. It may be killed at any time, and keeps nothing from one query to the next.

The parent watches time and memory. In case the parent is killed, there are limits of
the system too: on memory, on processor time, and no file can be written.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import sys
import threading
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from arco.state import sqlframes

BATCH_ROWS = 2048
MIB = 1 << 20
SPARE_BYTES = 512 * MIB
"""Memory that is mapped and not used: stacks, arenas."""
OUT_OF_MEMORY = "Out of Memory Error"
"""How DuckDB's message begins when its error has come through Arrow as an OSError."""


class Refusal(NamedTuple):
    kind: str
    message: str
    hint: str = ""


def main(answers: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    pipe = _Pipe(answers)
    pipe.send(sqlframes.READY)
    while True:
        request = requests.get()
        refusal = _answer(request, pipe)
        if refusal is None:
            pipe.send(sqlframes.DONE)
        else:
            pipe.send(sqlframes.FAILED, json.dumps(refusal._asdict()).encode())


def _receive(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Read requests, also while a query runs: this process ends with its parent."""
    buffer = bytearray()
    while data := os.read(0, MIB):
        buffer += data
        while (frame := sqlframes.unpack(buffer)) is not None:
            requests.put(json.loads(frame[1]))
    os._exit(0)


class _Pipe:
    """The output for answers; a file for Arrow's stream writer."""

    closed = False

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        data = memoryview(sqlframes.pack(kind, payload))
        while data:
            data = data[os.write(self._fd, data) :]

    def write(self, data: Any) -> int:
        self.send(sqlframes.DATA, bytes(data))
        return len(data)

    def flush(self) -> None:
        pass


def _answer(request: dict[str, Any], pipe: _Pipe) -> Refusal | None:
    """Run a query and send its rows. Every error is an answer."""
    try:
        _limit(request["memory_bytes"], request["cpu_s"])
        with duckdb.connect(":memory:") as connection:
            refusal = _refuse_all_but_select(connection.extract_statements(request["sql"]))
            if refusal is None:
                for statement in request["setup"]:
                    connection.execute(statement)
                refusal = _send_rows(connection, request, pipe)
            return refusal
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError) as error:
        return Refusal("memory", str(error))
    except duckdb.CatalogException as error:
        return Refusal("catalog", str(error))
    except OSError as error:
        kind = "memory" if str(error).startswith(OUT_OF_MEMORY) else "sql"
        return Refusal(kind, str(error))
    except Exception as error:
        return Refusal("sql", str(error) or type(error).__name__)


def _refuse_all_but_select(statements: list[Any]) -> Refusal | None:
    if len(statements) != 1:
        return Refusal("sql", f"expected one statement, found {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        kind = statements[0].type.name
        return Refusal("sql", f"{kind} is not allowed", "a snapshot is read-only: use SELECT")
    return None


def _send_rows(connection: Any, request: dict[str, Any], pipe: _Pipe) -> Refusal | None:
    """One more row than requested, if there is one, so that the parent can see that."""
    rows_left, bytes_left = request["rows"] + 1, request["result_bytes"]
    reader = connection.sql(request["sql"]).to_arrow_reader(BATCH_ROWS)
    with pa.ipc.new_stream(pa.PythonFile(pipe, mode="w"), reader.schema) as writer:
        while rows_left > 0:
            try:
                batch = reader.read_next_batch().slice(0, rows_left)
            except StopIteration:
                break
            rows_left -= batch.num_rows
            bytes_left -= batch.nbytes
            if bytes_left < 0:
                return Refusal("result", "")
            writer.write_batch(batch)
    return None


def _limit(memory_bytes: int, cpu_s: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    _set_soft(resource.RLIMIT_CPU, cpu)
    mapped = _mapped_bytes()
    if mapped:
        _set_soft(resource.RLIMIT_DATA, mapped + 2 * memory_bytes + SPARE_BYTES)


def _set_soft(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, hard))


def _mapped_bytes() -> int:
    """The private memory that is mapped for writing; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
