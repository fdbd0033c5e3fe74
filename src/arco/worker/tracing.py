"""What an attempt reads, and what its plan says: the material of its output's lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servo.contract.task import ColumnInfo, InputRef, Lineage, TaskRequest


class Tracing:
    """Of one attempt."""

    def __init__(self, request: TaskRequest) -> None:
        self._request = request
        self._read: dict[str, InputRef] = {}

    def read(self, ref: InputRef, data: Any) -> None:
        """An input was read, as a table or frame of some kind."""
        self._read[ref.parameter or ref.asset] = ref

    def plan(self, frame: Any) -> None:
        """The function returned a Spark DataFrame, which has not been written yet."""

    def lineage(self, columns: Sequence[ColumnInfo]) -> Lineage | None:
        if not self._read:
            return None
        return Lineage(read=tuple(self._read.values()))
