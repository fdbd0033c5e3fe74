"""Histories as files: what clients note while they work, and what a failure leaves behind.

A client notes a call before it makes it, and its output after it was told; a line each,
with the time of the machine's monotonic clock, which all processes share. A process that
is killed in between leaves a call without an output: the operation stays open.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from tests.linearizability.checker import Operation


def frozen(value: Any) -> Any:
    """JSON's lists as tuples, so that values can be compared with the model's."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    if isinstance(value, dict):
        return {name: frozen(item) for name, item in value.items()}
    return value


class Journal:
    """What one client noted, in this life and in those before."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def call(self, id: str, key: str, given: dict[str, Any]) -> None:
        self._write({"id": id, "call": time.monotonic_ns(), "key": key, "input": given})

    def end(self, id: str, output: Any) -> None:
        self._write({"id": id, "end": time.monotonic_ns(), "output": output})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()  # to the kernel: kill -9 takes nothing of it back


def read(*files: Path) -> list[Operation]:
    """The operations in some journals, in the order of their calls."""
    operations: dict[str, Operation] = {}
    for file in files:
        for line in map(json.loads, file.read_text().splitlines()):
            if "call" in line:
                given = frozen(line["input"])
                operations[line["id"]] = Operation(
                    line["id"], line["key"], line["call"], None, given
                )
            else:
                operation = operations[line["id"]]
                operations[line["id"]] = operation._replace(
                    end=line["end"], output=frozen(line["output"])
                )
    return sorted(operations.values(), key=lambda operation: operation.call)


def write(file: Path, history: Iterable[Operation]) -> None:
    """One file that `read` reads, for example for a failure."""
    with open(file, "w") as lines:
        for o in history:
            call = {"id": o.id, "call": o.call, "key": o.key, "input": o.input}
            lines.write(json.dumps(call) + "\n")
            if not o.open:
                lines.write(json.dumps({"id": o.id, "end": o.end, "output": o.output}) + "\n")
