"""Whether the files of current versions exist and are intact.

    quick files and their sizes, against what the version's row says
    footers  the same, and the number of rows that the footers tell
    whole    the same, and every page is read and compared with its checksum, if it has one

Versions are checked in parallel; large files are read one after the other, so that memory holds one
of them at a time. Nothing is changed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.errors import Corrupt, NotFound
from arco.execution.events import Version
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, PartitionRow
from arco.state.fsck import FsckFinding
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Snapshot
from arco.storage import parallel
from arco.storage.footers import parquet_files, read_footer
from arco.storage.port import ObjectMeta, Store
from arco.tasks.input_failures import damage, rerun_command

Depth = Literal["quick", "footers", "whole"]
PORTION: Final = 64
LARGE_BYTES: Final = 8 << 20
_LARGE: Final = threading.Lock()


class DataReport(msgspec.Struct, frozen=True):
    versions: int
    files: int
    bytes: int
    findings: list[FsckFinding]
    damaged: dict[str, list[Version]]
    """By asset id."""


class _Version(msgspec.Struct, frozen=True):
    """The findings about one version."""

    files: int
    bytes: int
    flaw: str


def check_data(
    store: Store, snapshot: Snapshot, depth: Depth, progress: ReportProgress = silent
) -> DataReport:
    """Check the current version of every partition."""
    rows = snapshot.all(PARTITIONS)
    files = size = 0
    findings: list[FsckFinding] = []
    damaged: dict[str, list[Version]] = {}
    for start in range(0, len(rows), PORTION):
        portion = rows[start : start + PORTION]
        looked = parallel.each(
            store, lambda row: _check_version(store, snapshot, row, depth), portion
        )
        for row, version in zip(portion, looked, strict=True):
            files, size = files + version.files, size + version.bytes
            if version.flaw:
                findings.append(_finding(row, version.flaw))
                damaged_version = Version(row.materialization_id, version.flaw)
                damaged.setdefault(row.asset_id, []).append(damaged_version)
        progress("data", start + len(portion), len(rows))
    return DataReport(len(rows), files, size, findings, damaged)


def _finding(row: PartitionRow, flaw: str) -> FsckFinding:
    asset = ".".join(row.path.split("/")[1:3])
    what = damage(asset, row.partition_key, row.materialization_id)
    command = rerun_command(asset, row.partition_key)
    return FsckFinding("error", "data", row.path, f"{what}: {flaw}; run it again with `{command}`")


def _check_version(store: Store, snapshot: Snapshot, row: PartitionRow, depth: Depth) -> _Version:
    files = parquet_files(store, row.path)
    flaws = itertools.chain(_sizes(snapshot, row, files), _contents(store, row, files, depth))
    return _Version(len(files), sum(file.size for file in files), next(flaws, ""))


def _sizes(snapshot: Snapshot, row: PartitionRow, files: list[ObjectMeta]) -> Iterator[str]:
    recorded = snapshot.get(MATERIALIZATIONS, row.asset_id, row.materialization_id)
    if recorded is not None and len(files) < recorded.files:
        yield f"{recorded.files - len(files)} of {recorded.files} files are missing"
    size = sum(file.size for file in files)
    if size != row.bytes:
        yield f"its files have {size:,} bytes and not {row.bytes:,}"


def _contents(
    store: Store, row: PartitionRow, files: list[ObjectMeta], depth: Depth
) -> Iterator[str]:
    if depth == "quick":
        return
    rows = 0
    for file in files:
        try:
            rows += read_footer(store, file).metadata.num_rows
            if depth == "whole":
                _read_whole(store, file)
        except NotFound:
            yield f"file {file.path} is missing"
        except Corrupt as error:
            yield error.message
    if rows != row.rows:
        yield f"its files have {rows:,} rows and not {row.rows:,}"


def _read_whole(store: Store, file: ObjectMeta) -> None:
    with _LARGE if file.size > LARGE_BYTES else contextlib.nullcontext():
        _verify_pages(store, file)


def _verify_pages(store: Store, file: ObjectMeta) -> None:
    data = pa.BufferReader(store.get(file.path).data)
    try:
        with pq.ParquetFile(data, page_checksum_verification=True) as parquet:
            for _ in parquet.iter_batches():
                pass
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{file.path} cannot be read: {error}") from None
