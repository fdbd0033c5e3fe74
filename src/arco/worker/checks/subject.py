"""What checks look at, and what they are given to do so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from arco.clock import Clock, SystemClock
from arco.storage.footers import Footer, read_footers
from arco.storage.port import Store
from servo.check import CheckFunction
from servo.context import Reader
from servo.contract.manifest import Code, Gating
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import InputRef

TIMEOUT_S: Final = 1_800
"""For a check that has no time-out of its own."""
MEMORY_MIB: Final = 2_048
FETCHED_BYTES: Final = 256 << 20


class File(NamedTuple):
    footer: Footer
    dimensions: dict[str, Scalar]
    """Of its partition: columns that the file need not have."""


class Subject(NamedTuple):
    """The data that checks look at: an output, or one of the inputs."""

    ref: InputRef
    files: tuple[File, ...]

    @classmethod
    def of(cls, ref: InputRef, footers: Sequence[Footer]) -> Subject:
        """One version, whose footers are known already."""
        (version,) = ref.materializations
        dimensions = dict(PartitionKey.parse(version.partition).dimensions)
        return cls(ref, tuple(File(footer, dimensions) for footer in footers))

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


def _never(error: BaseException) -> bool:
    return False


class Around(NamedTuple):
    """What a task has, as far as checks need it."""

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
    """Told that a call to Spark may have been broken off: no more of them on its connection."""
    fatal: Callable[[BaseException], bool] = _never
    """Whether an error means that Spark itself is gone, which is no matter of a check."""
    load: Callable[[Code], CheckFunction] = _no_code
    reader: Reader | None = None
    """For Python checks: reads an AssetIn."""
    reason: Callable[[], BaseException | None] = _nothing
    """Why the task should stop, if it should."""
    pii: frozenset[str] = frozenset()
    """Columns that samples mask."""
    redact: Callable[[str], str] = str
    timeout_s: int = TIMEOUT_S
    memory_mib: int = MEMORY_MIB
    """What DuckDB may hold before it spills to disk."""
    threads: int = 0
    """Of DuckDB; 0 for one on each core."""
    fetched_bytes: int = FETCHED_BYTES
    """Up to so much is fetched from a distant store for DuckDB; Spark looks at more."""
