"""fsck: is everything there, whole, and consistent with everything else?

It checks every kept generation: the hash chain, positions, domain manifests and
files. A deep check reads all bytes and compares checksums, and looks into the
head's tables and the log. It changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from arco.errors import Corrupt, Error, NotFound
from arco.log import segment
from arco.log.head import Head, Manifests
from arco.log.manifest import FileRef, Ref, sha256
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.replay import Progress, segments, silent
from arco.state.snapshot import Snapshot
from arco.state.system import SegmentRow, segment_ref
from arco.state.table import Table, bucket_of, shard_text
from arco.storage import paths
from arco.storage.parallel import each


class Finding(msgspec.Struct, frozen=True):
    severity: str
    """error: something is wrong. warning: somebody should look. info: for the record."""
    code: str
    path: str
    message: str


class FsckReport(msgspec.Struct, frozen=True):
    generation: int
    position: int
    generations: int
    files: int
    bytes: int
    findings: list[Finding]

    @property
    def clean(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


class Checker:
    def __init__(
        self, manifests: Manifests, files: Files, pins: Pins, tables: Sequence[Table[Any]]
    ) -> None:
        self._manifests = manifests
        self._store = manifests.store
        self._files = files
        self._pins = pins
        self._tables = tables
        self._findings: list[Finding] = []

    def check(self, *, deep: bool = True, progress: Progress = silent) -> FsckReport:
        self._findings = []
        try:
            head = self._manifests.head()
            kept = self._chain(head, progress)
        except Corrupt as error:
            self._error("manifest", paths.MANIFESTS, error.message)
            return FsckReport(0, 0, 0, 0, 0, self._findings)
        self._hint(head)
        refs = {ref.path: ref for h in kept for ref in h.manifest.domains.values()}
        files = self._domains(refs.values(), progress)
        self._check_files(list(files.values()), deep, progress)
        rows = self._log(head)
        self._check_segments(rows, deep, progress)
        if deep:
            self._check_tables(head, progress)
        self._bystanders(head, kept, {*refs, *files, *(row.path for row in rows)})
        total = sum(f.bytes for f in files.values()) + sum(row.bytes for row in rows)
        return FsckReport(
            head.generation,
            head.manifest.position,
            len(kept),
            len(files) + len(rows) + len(refs) + len(kept),
            total,
            self._findings,
        )

    def _error(self, code: str, path: str, message: str) -> None:
        self._findings.append(Finding("error", code, path, message))

    def _note(self, severity: str, code: str, path: str, message: str) -> None:
        self._findings.append(Finding(severity, code, path, message))

    def _chain(self, head: Head, progress: Progress) -> list[Head]:
        """Every generation from the floor to the head, each the parent of the next."""
        kept: list[Head] = []
        floor = min(self._manifests.floor(), head.generation)
        for generation in range(floor, head.generation + 1):
            if generation == 0:
                continue
            path = paths.root(generation)
            try:
                found = self._manifests.read(generation)
            except NotFound:
                self._error("missing_generation", path, f"generation {generation} is missing")
                continue
            except Corrupt as error:
                self._error("manifest", path, error.message)
                continue
            if kept and kept[-1].generation == generation - 1:
                self._link(kept[-1], found, path)
            kept.append(found)
            progress("generations", generation - floor + 1, head.generation - floor + 1)
        for pin in self._pins.active():
            if pin.generation < floor and (pinned := self._manifests.find(pin.generation)):
                kept.append(pinned)
        return kept

    def _link(self, parent: Head, child: Head, path: str) -> None:
        a, b = parent.manifest, child.manifest
        if b.parent_sha256 != parent.sha256:
            self._error("hash_chain", path, f"does not name generation {a.generation} as parent")
        if b.published_at < a.published_at or b.log_time < a.log_time:
            self._error("time", path, "time goes backwards")
        expected = a.position if b.segment is None else b.segment.last
        if b.position != expected or (b.segment and b.segment.first != a.position + 1):
            self._error("positions", path, f"positions do not follow {a.position}")

    def _hint(self, head: Head) -> None:
        hint = self._manifests.hint()
        if head.generation and hint is None:
            self._note("warning", "hint", paths.HINT, "there is no hint; the next commit writes it")
        elif hint is not None and hint.generation > head.generation:
            self._error("hint", paths.HINT, f"points at generation {hint.generation}, not there")

    def _domains(self, refs: Iterable[Ref], progress: Progress) -> dict[str, FileRef]:
        files: dict[str, FileRef] = {}
        todo = list(refs)
        for done, ref in enumerate(todo, 1):
            try:
                for table in self._manifests.domain(ref).tables.values():
                    files.update({file.path: file for file in table.files()})
            except Corrupt as error:
                self._error("domain_manifest", ref.path, error.message)
            progress("domain manifests", done, len(todo))
        return files

    def _check_files(self, files: Sequence[FileRef], deep: bool, progress: Progress) -> None:
        for start in range(0, len(files), 64):
            part = files[start : start + 64]
            each(self._store, lambda f: self._check_object(f.path, f.bytes, f.sha256, deep), part)
            progress("table files", min(start + 64, len(files)), len(files))

    def _check_object(self, path: str, size: int, checksum: str, deep: bool) -> bool:
        try:
            if not deep:
                found = self._store.head(path).size
                if found != size:
                    self._error("size", path, f"has {found} bytes, not {size}")
                return found == size
            raw = self._store.get(path).data
            if sha256(raw) != checksum:
                self._error("checksum", path, "its bytes are not those that were written")
                return False
            return True
        except NotFound:
            self._error("missing_file", path, "is missing")
        except Error as error:
            self._error("unreadable", path, error.message)
        return False

    def _log(self, head: Head) -> list[SegmentRow]:
        try:
            return segments(Snapshot(self._manifests, self._files, head))
        except Corrupt as error:
            self._error("log", paths.SEGMENTS, error.message)
            return []

    def _check_segments(self, rows: Sequence[SegmentRow], deep: bool, progress: Progress) -> None:
        def check(row: SegmentRow) -> None:
            if self._check_object(row.path, row.bytes, row.sha256, deep) and deep:
                self._check_positions(row)

        for start in range(0, len(rows), 64):
            each(self._store, check, rows[start : start + 64])
            progress("segments", min(start + 64, len(rows)), len(rows))

    def _check_positions(self, row: SegmentRow) -> None:
        try:
            table = segment.read_table(self._store, segment_ref(row))
        except Error as error:
            self._error("segment", row.path, error.message)
            return
        expected = list(range(row.first_position, row.last_position + 1))
        if table.column("position").to_pylist() != expected:
            self._error("positions", row.path, "its positions are not dense")

    def _check_tables(self, head: Head, progress: Progress) -> None:
        snapshot = Snapshot(self._manifests, self._files, head)
        for done, table in enumerate(self._tables, 1):
            for ref in snapshot.manifest(table).files():
                try:
                    self._check_rows(table, ref, self._files.table(ref))
                except Corrupt:
                    continue  # reported with the files
            progress("tables", done, len(self._tables))

    def _check_rows(self, table: Table[Any], ref: FileRef, rows: pa.Table) -> None:
        keys = list(zip(*(rows.column(c).to_pylist() for c in table.key), strict=True))
        buckets = rows.column("_bucket").to_pylist()
        right = [bucket_of(shard_text(key[: table.shard])) for key in keys]
        order = list(zip(buckets, keys, strict=True))
        if buckets != right:
            self._error("buckets", ref.path, "has rows in the wrong bucket")
        if any(a >= b for a, b in itertools.pairwise(order)):
            self._error("order", ref.path, "is not sorted, or has a key twice")
        if len(keys) != ref.rows:
            self._error("rows", ref.path, f"has {len(keys)} rows, not {ref.rows}")

    def _bystanders(self, head: Head, kept: Sequence[Head], known: set[str]) -> None:
        """What lies around: unconsumed, rejected, skipped, abandoned."""
        skipped: dict[str, int] = {}
        for generation in kept:
            for kind, count in generation.manifest.skipped.items():
                skipped[kind] = skipped.get(kind, 0) + count
        for kind, count in skipped.items():
            self._note("warning", "skipped", paths.SEGMENTS, f"{count} × {kind} was not folded")
        rejected = sum(1 for _ in self._store.list(paths.REJECTED))
        if rejected:
            self._note("warning", "rejected", paths.REJECTED, f"{rejected} batches were rejected")
        pending = set(head.manifest.pending_cleanup)
        inbox = {paths.inbox_name(meta.path) for meta in self._store.list(paths.INBOX)}
        if inbox - pending:
            count = len(inbox - pending)
            self._note("info", "inbox", paths.INBOX, f"{count} batches wait for a commit")
        abandoned = [
            meta
            for prefix in (paths.STATE, paths.SEGMENTS)
            for meta in self._store.list(prefix)
            if meta.path not in known
        ]
        if abandoned:
            size = sum(meta.size for meta in abandoned)
            message = f"{len(abandoned)} files ({size} bytes) are for GC"
            self._note("info", "abandoned", paths.STATE, message)
