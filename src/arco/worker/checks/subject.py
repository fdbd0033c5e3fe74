"""The subject of checks, and the context that they are evaluated in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from arco.clock import Clock, SystemClock
from arco.columns.arrow import collated_columns, plain
from arco.storage.footers import Footer, read_footers
from arco.storage.port import Store
from arco.worker.stopping import Stopping
from servo.check import CheckFunction
from servo.context import Reader
from servo.contract.manifest import Code, Gating
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import InputRef


class File:
    def __init__(self, footer: Footer, dimensions: dict[str, Scalar]) -> None:
        self.footer = footer
        self.dimensions = dimensions
        """Of its partition: columns that the file need not have."""

    @cached_property
    def schema(self) -> pa.Schema:
        return plain(self.footer.metadata.schema.to_arrow_schema()).remove_metadata()

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    @cached_property
    def added(self) -> dict[str, Scalar]:
        """Dimensions that are no columns of the file; names do not differ by case alone."""
        column_names = {name.lower() for name in self.names}
        return {
            name: value
            for name, value in self.dimensions.items()
            if name.lower() not in column_names
        }

    @cached_property
    def collated(self) -> frozenset[str]:
        """Columns with texts that Spark compares by a collation."""
        return frozenset(collated_columns(self.footer.metadata))

    @cached_property
    def leaves(self) -> dict[str, list[int]]:
        """Where the footer has statistics: by the path of a column, in lower case."""
        leaves: dict[str, list[int]] = {}
        for at in range(self.footer.metadata.num_columns):
            leaves.setdefault(self.footer.metadata.schema.column(at).path.lower(), []).append(at)
        return leaves


class Subject(NamedTuple):
    """The data that checks are evaluated on: an output or an input."""

    ref: InputRef
    files: tuple[File, ...]

    @classmethod
    def read(cls, store: Store, ref: InputRef) -> Subject:
        """What `ref` names, with the footers of all its files."""
        return cls(
            ref,
            tuple(
                File(footer, dict(PartitionKey.parse(version.partition).dimensions))
                for version in ref.materializations
                for footer in read_footers(store, version.path)
            ),
        )

    @property
    def asset(self) -> str:
        return self.ref.asset

    @property
    def rows(self) -> int:
        return sum(file.footer.metadata.num_rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.footer.size for file in self.files)


def _nothing() -> None:
    return None


def _no_code(code: Code) -> CheckFunction:
    raise LookupError(code.name)


class CheckContext(NamedTuple):
    """What checks need of their task."""

    store: Store
    clock: Clock = SystemClock()
    gating: Gating = Gating()
    previous: int | None = None
    """Rows of the version before; none for inputs, and where there is none to compare with."""
    references: tuple[InputRef, ...] = ()
    """What the checks of that kind look values up in."""
    frame: Callable[[InputRef], Any] | None = None
    """The same data as a Spark DataFrame; none where there is no Spark. Asked only if needed."""
    cancel: Callable[[], None] = _nothing
    """Ends the task's Spark jobs that run now; called from another thread, maybe repeatedly."""
    broken_off: Callable[[], None] = _nothing
    """Called after a call to Spark may have been interrupted: its connection is not used again."""
    fatal: Callable[[BaseException], bool] = lambda error: False
    """Whether an error means that Spark has ended, which is not the fault of a check."""
    load: Callable[[Code], CheckFunction] = _no_code
    reader: Reader | None = None
    """For Python checks: reads an AssetIn."""
    reason: Callable[[], BaseException | None] = _nothing
    """Why the task should stop, if it should."""
    stopping: Stopping | None = None
    """Interrupts a Python function."""
    pii: frozenset[str] = frozenset()
    """Columns, or paths of fields, whose values are never shown."""
    redact: Callable[[str], str] = str
