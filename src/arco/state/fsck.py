"""fsck: checks that everything exists, is undamaged and consistent.

It checks every kept generation: the hash chain, positions, domain manifests and files. A deep check
reads all bytes once and compares checksums, and checks the head's tables and the log. It changes
nothing.

There is always a report: an object that cannot be read is a finding, and everything else is still
checked. If the newest generation cannot be read, the newest readable one is used. Only a store that
cannot be listed is an error. Nothing comes from the caches of this process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import Corrupt, Error, NotFound
from arco.log import segment
from arco.log.head import Head, Manifests, genesis
from arco.log.manifest import (
    ChangesRef,
    DomainManifest,
    FileRef,
    Floor,
    Hint,
    HistoryRef,
    Ref,
    SegmentRef,
    verified,
)
from arco.log.publish import left_to_delete
from arco.state import changes, parquet
from arco.state.duplicate_events import EventIds, event_ids
from arco.state.parquet import Files
from arco.state.pins import Pin, read_pin
from arco.state.replay import ReportProgress, segments, silent
from arco.state.snapshot import Snapshot
from arco.state.system import SEGMENTS, segment_ref
from arco.state.table import Key, Table
from arco.storage import paths
from arco.storage.parallel import cut_by_size, each, in_portions
from arco.storage.port import ObjectMeta, Store
from arco.storage.seal import read_checked

PORTION_FILES = 64
PORTION_BYTES = 64 << 20
"""Files are read through memory, several at once."""
DOUBLED_SHOWN = 20

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C", FileRef, ChangesRef)
F = TypeVar("F", FileRef, SegmentRef, ChangesRef)


FindingSeverity = Literal["error", "warning", "info"]


class FsckFinding(msgspec.Struct, frozen=True):
    severity: FindingSeverity
    """error: an object is missing, damaged or inconsistent. warning: needs attention."""
    code: str
    path: str
    message: str


class FsckReport(msgspec.Struct, frozen=True):
    generation: int
    position: int
    generations: int
    files: int
    bytes: int
    findings: list[FsckFinding]

    @property
    def clean(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


class Checker:
    """Checks a workspace once, and reports."""

    def __init__(
        self,
        manifests: Manifests,
        tables: Sequence[Table[Any]],
        *,
        deep: bool = True,
        progress: ReportProgress = silent,
    ) -> None:
        # Not the manifests of the caller, which are cached.
        self._manifests = Manifests(
            manifests.store, manifests.tenant, manifests.workspace, manifests.clock
        )
        self._store = manifests.store
        self._tables = tables
        self._deep = deep
        self._progress = progress
        self._findings: list[FsckFinding] = []
        self._segment_rows: dict[str, pa.Table] = {}

    def check(self) -> FsckReport:
        # The hint before the listing: it never points above a head that is listed later.
        hint = self._hint()
        heads = self._generations()
        head = heads[-1] if heads else genesis(self._manifests.tenant, self._manifests.workspace)
        self._check_hint(hint, heads)
        self._check_chain(heads)
        all_heads = [*self._pinned(heads), *heads]
        manifests, files = self._manifests_of(all_heads)
        files |= {f.path: f for h in all_heads for l0 in h.manifest.l0.values() for f in l0}
        changes = {ref.path: ref for h in all_heads for ref in h.manifest.changes}
        self._check_files(list(files.values()), self._tables_of(head))
        self._check_change_files(list(changes.values()))
        log = self._log(head, heads)
        self._check_segments(log)
        referred = {*manifests, *files, *changes, *(ref.path for ref in log)}
        self._check_other_objects(head, all_heads, referred)
        file_refs: list[FileRef | ChangesRef | SegmentRef] = [*files.values(), *log]
        file_refs += changes.values()
        return FsckReport(
            head.generation,
            head.manifest.position,
            len(all_heads),
            len(file_refs) + len(manifests) + len(all_heads),
            sum(ref.bytes for ref in file_refs),
            self._findings,
        )

    def _error(self, code: str, path: str, message: str) -> None:
        self._findings.append(FsckFinding("error", code, path, message))

    def _note(self, severity: FindingSeverity, code: str, path: str, message: str) -> None:
        self._findings.append(FsckFinding(severity, code, path, message))

    # Generations

    def _generations(self) -> list[Head]:
        """Every generation from the floor to the newest that can be read, in order."""
        listed = self._listed()
        floor = self._floor(listed)
        heads: list[Head] = []
        numbers = [number for number in listed if floor.keeps(number)]
        heads += filter(None, self._in_portions("generations", self._read, numbers))
        # GC may have raised the floor since: what it removed is not missing.
        newer = self._floor(listed, quiet=True)
        if newer.generation >= floor.generation:
            floor = newer
        self._check_gaps(floor, [number for number in numbers if number >= floor.generation])
        for number in sorted(set(floor.thinned_numbers()) - set(listed)):
            path = paths.root(number)
            self._error("missing_generation", path, f"generation {number} is missing")
        return [head for head in heads if floor.keeps(head.generation)]

    def _listed(self) -> list[int]:
        numbers = []
        for meta in self._store.list(paths.MANIFESTS):
            generation = paths.root_generation(meta.path)
            if generation is None:
                break  # digits sort before every other name in this folder
            numbers.append(generation)
        return numbers

    def _floor(self, listed: Sequence[int], quiet: bool = False) -> Floor:
        """Which generations must exist; those that do, if that is unknown."""
        highest = listed[-1] if listed else 1
        try:
            floor = self._manifests.floor()
        except Error as error:
            if not quiet:
                self._error("floor", paths.FLOORS, error.message)
            return Floor(_dense_from(listed))
        if 1 <= floor.generation <= highest:
            return floor
        if not quiet:
            message = (
                f"says that generation {floor.generation} is the lowest; the newest is {highest}"
            )
            self._error("floor", paths.FLOORS, message)
        return Floor(_dense_from(listed))

    def _check_gaps(self, floor: Floor, numbers: Sequence[int]) -> None:
        for before, after in itertools.pairwise([floor.generation - 1, *numbers]):
            if after - before == 1:
                continue
            first, last = before + 1, after - 1
            which = f"generation {first} is" if first == last else f"generations {first}-{last} are"
            self._error("missing_generation", paths.root(first), f"{which} missing")

    def _read(self, generation: int) -> Head | None:
        path = paths.root(generation)
        try:
            return self._manifests.read(generation)
        except NotFound:
            return None  # GC was faster, or it is a gap
        except Error as error:
            self._error("manifest", path, error.message)
            return None

    def _check_chain(self, heads: Sequence[Head]) -> None:
        for parent, child in itertools.pairwise(heads):
            if child.generation == parent.generation + 1:
                self._link(parent, child, paths.root(child.generation))

    def _link(self, parent: Head, child: Head, path: str) -> None:
        a, b = parent.manifest, child.manifest
        if b.parent_sha256 != parent.sha256:
            self._error("hash_chain", path, f"does not name generation {a.generation} as parent")
        if b.published_at < a.published_at or b.log_time < a.log_time:
            self._error("time", path, "its time is before its parent's")
        expected = a.position if b.segment is None else b.segment.last
        if b.position != expected or (b.segment and b.segment.first != a.position + 1):
            self._error("positions", path, f"positions do not follow {a.position}")

    def _hint(self) -> Hint | None:
        try:
            return self._manifests.hint()
        except Error as error:
            self._note("warning", "hint", paths.HINT, error.message)
            return None

    def _check_hint(self, hint: Hint | None, heads: Sequence[Head]) -> None:
        """The newest generation has no child that names its checksum: the hint does."""
        if hint is None:
            if heads:
                message = "there is no hint; the next commit writes it"
                self._note("warning", "hint", paths.HINT, message)
            return
        newest = heads[-1].generation if heads else 0
        if hint.generation > newest:
            self._error(
                "hint", paths.HINT, f"points at generation {hint.generation}, which is missing"
            )
        for head in heads:
            if head.generation == hint.generation and head.sha256 != hint.root_sha256:
                message = f"has other bytes than {paths.HINT} says: one of them was changed"
                self._error("hint", paths.root(head.generation), message)

    def _pinned(self, heads: Sequence[Head]) -> list[Head]:
        """The generations below the kept ones that active pins hold."""
        present = {head.generation for head in heads}
        pinned: dict[int, Head] = {}
        for path, pin in self._pins():
            if pin.generation in present or pin.generation in pinned:
                continue
            head = self._read(pin.generation) if pin.generation > 0 else None
            if head is None:
                message = f"generation {pin.generation}, which it pins, cannot be read"
                self._error("pin", path, message)
            else:
                pinned[pin.generation] = head
        return [pinned[generation] for generation in sorted(pinned)]

    def _pins(self) -> Iterator[tuple[str, Pin]]:
        now = self._manifests.clock.now()
        for meta in self._store.list(paths.PINS):
            try:
                pin = read_pin(self._store, meta.path)
            except NotFound:
                continue  # released since
            except Error as error:
                self._error("pin", meta.path, error.message)
                continue
            if paths.pin(pin.name) != meta.path:
                self._error("pin", meta.path, f"says that it is pin {pin.name}")
            if pin.expires_at is None or pin.expires_at > now:
                yield meta.path, pin

    # Files

    def _manifests_of(self, generations: Sequence[Head]) -> tuple[set[str], dict[str, FileRef]]:
        """Paths of the domain manifests and lists of generations, and the files in them."""
        domains = {ref.path: ref for h in generations for ref in h.manifest.domains.values()}
        lists: dict[str, HistoryRef] = {}
        files: dict[str, FileRef] = {}

        def read_domain(ref: Ref) -> DomainManifest | None:
            return self._reported(ref.path, lambda: self._manifests.domain(ref))

        def read_list(ref: HistoryRef) -> tuple[FileRef, ...]:
            return self._reported(ref.list.path, lambda: self._manifests.history(ref)) or ()

        for manifest in self._in_portions("domain manifests", read_domain, [*domains.values()]):
            for table in () if manifest is None else manifest.tables.values():
                files.update({file.path: file for file in table.base})
                if table.history is not None:
                    lists[table.history.list.path] = table.history
        for history in self._in_portions("history lists", read_list, [*lists.values()]):
            files.update({file.path: file for file in history})
        return {*domains, *lists}, files

    def _in_portions(self, what: str, read: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        progress = functools.partial(self._progress, what)
        return in_portions(self._store, read, items, progress, PORTION_FILES)

    def _reported(self, path: str, read: Callable[[], A]) -> A | None:
        try:
            return read()
        except Error as error:
            self._error("domain_manifest", path, error.message)
            return None

    def _tables_of(self, head: Head) -> dict[str, Table[Any]]:
        """The table of each file of the head, as far as its domain manifests can be read."""
        tables: dict[str, Table[Any]] = {}
        snapshot = Snapshot(self._manifests, Files(self._store), head)
        for table in self._tables:
            try:
                files = snapshot.manifest(table).files()
            except Error:
                continue  # reported with the domain manifests
            tables.update(dict.fromkeys((f.path for f in files if not f.table), table))
        return tables

    def _check_change_files(self, refs: Sequence[ChangesRef]) -> None:
        tables = {str(table): table for table in self._tables}

        def check(ref: ChangesRef) -> None:
            raw = self._check_object(ref)
            if raw is None:
                return
            batch = changes.parse(raw, ref.path)
            for name in ref.tables.keys() & tables.keys():
                rows = changes.rows_of(batch, tables[name], ref.of(name))
                if tables[name] is SEGMENTS:
                    self._segment_rows[ref.path] = rows
                self._check_changed_rows(tables[name], ref, batch, rows)

        for done, portion in _portions(refs):
            each(self._store, lambda ref: self._reporting(check, ref), portion)
            self._progress("change files", done, len(refs))

    def _check_changed_rows(
        self, table: Table[Any], ref: ChangesRef, batch: pa.RecordBatch, rows: pa.Table
    ) -> None:
        """Whether the file has the rows of a table in their order, and in their buckets."""
        lines = batch.filter(pc.equal(batch.column("table"), str(table)))
        if lines.column("_bucket").to_pylist() != rows.column("_bucket").to_pylist():
            self._error("buckets", ref.path, f"has rows of {table} in the wrong bucket")
        if lines.column("row_version").to_pylist() != rows.column("row_version").to_pylist():
            self._error("order", ref.path, f"has rows of {table} unsorted")

    def _check_files(self, files: Sequence[FileRef], tables: dict[str, Table[Any]]) -> None:
        def check(ref: FileRef) -> None:
            raw = self._check_object(ref)
            table = tables.get(ref.path)
            if raw is not None and table is not None:
                self._check_rows(table, ref, parquet.decode(raw, ref))

        for done, portion in _portions(files):
            each(self._store, lambda ref: self._reporting(check, ref), portion)
            self._progress("table files", done, len(files))

    def _reporting(self, check: Callable[[C], None], ref: C) -> None:
        try:
            check(ref)
        except Error as error:
            self._error("unreadable", ref.path, error.message)

    def _check_object(self, ref: FileRef | SegmentRef | ChangesRef) -> bytes | None:
        """The bytes, if a deep check has verified them; None otherwise."""
        try:
            if not self._deep:
                size = self._store.head(ref.path).size
                if size != ref.bytes:
                    self._error("size", ref.path, f"has {size} bytes, not {ref.bytes}")
                return None
            return read_checked(
                self._store, ref.path, lambda raw: verified(raw, ref.sha256, ref.path)
            )
        except NotFound:
            self._error("missing_file", ref.path, "is missing")
        except Corrupt:
            self._error("checksum", ref.path, "does not match its checksum")
        return None

    def _check_rows(self, table: Table[Any], ref: FileRef, rows: pa.Table) -> None:
        if table is SEGMENTS:
            self._segment_rows[ref.path] = rows
        keys = list(zip(*(rows.column(c).to_pylist() for c in table.key), strict=True))
        buckets = rows.column("_bucket").to_pylist()
        right = [table.bucket(key) for key in keys]
        order = list(zip(buckets, keys, strict=True))
        if buckets != right:
            self._error("buckets", ref.path, "has rows in the wrong bucket")
        if any(a >= b for a, b in itertools.pairwise(order)):
            self._error("order", ref.path, "is not sorted, or has a duplicate key")
        if len(keys) != ref.rows:
            self._error("rows", ref.path, f"has {len(keys)} rows, not {ref.rows}")

    # The log

    def _log(self, head: Head, heads: Sequence[Head]) -> list[SegmentRef]:
        """The segments of the log; those that kept generations added, if it cannot be read."""
        files = _ReadFiles(self._store, self._segment_rows)
        try:
            snapshot = Snapshot(self._manifests, files, head)
            return [segment_ref(row) for row in segments(snapshot)]
        except Error as error:
            self._error("log", paths.SEGMENTS, error.message)
        return [h.manifest.segment for h in heads if h.manifest.segment is not None]

    def _check_segments(self, log: Sequence[SegmentRef]) -> None:
        with event_ids() as ids:
            for done, portion in _portions(log):
                events = each(self._store, self._check_segment, portion)
                for ref, table in zip(portion, events, strict=True):
                    if table is not None:
                        self._check_positions(ref, table)
                        ids.add(*(table.column(c).to_pylist() for c in ("id", "position")))
                self._progress("segments", done, len(log))
            self._check_doubled(ids)

    def _check_segment(self, ref: SegmentRef) -> pa.Table | None:
        """The ids and positions of a segment, if a deep check can read it."""
        try:
            raw = self._check_object(ref)
            return None if raw is None else segment.parse(raw, ref).select(["position", "id"])
        except Error as error:
            self._error("segment", ref.path, error.message)
            return None

    def _check_positions(self, ref: SegmentRef, table: pa.Table) -> None:
        if table.column("position").to_pylist() != list(range(ref.first, ref.last + 1)):
            self._error("positions", ref.path, "its positions are not dense")

    def _check_doubled(self, ids: EventIds) -> None:
        count = 0
        for event in ids.doubled():
            count += 1
            if count <= DOUBLED_SHOWN:
                where = " and ".join(map(str, event.positions))
                message = f"event {event.event_id} is in the log twice, at positions {where}"
                self._error("doubled_event", paths.SEGMENTS, message)
        if count > DOUBLED_SHOWN:
            message = f"{count - DOUBLED_SHOWN} more events are in the log twice"
            self._error("doubled_event", paths.SEGMENTS, message)

    # Other objects

    def _check_other_objects(self, head: Head, heads: Sequence[Head], referred: set[str]) -> None:
        """Unconsumed, rejected, skipped, abandoned."""
        skipped: dict[str, int] = {}
        for generation in heads:
            for kind, count in generation.manifest.skipped.items():
                skipped[kind] = skipped.get(kind, 0) + count
        for kind, count in skipped.items():
            self._note("warning", "skipped", paths.SEGMENTS, f"{count} × {kind} was not folded")
        rejected = sum(m.path.endswith(".json") for m in self._store.list(paths.REJECTED))
        if rejected:
            self._note("warning", "rejected", paths.REJECTED, f"{rejected} objects were rejected")
        pending = set(left_to_delete(head))
        inbox = {paths.inbox_name(meta.path) for meta in self._store.list(paths.INBOX)}
        if inbox - pending:
            count = len(inbox - pending)
            self._note("info", "inbox", paths.INBOX, f"{count} batches wait for a commit")
        abandoned = [
            meta
            for prefix in (paths.STATE, paths.SEGMENTS)
            for meta in self._store.list(prefix)
            if meta.path not in referred
        ]
        if abandoned:
            self._abandoned(abandoned)

    def _abandoned(self, files: Sequence[ObjectMeta]) -> None:
        size = sum(meta.size for meta in files)
        broken = any(finding.severity == "error" for finding in self._findings)
        # What a damaged manifest referred to looks abandoned: keep it, it may still be needed.
        message = f"{len(files)} files ({size} bytes) are for GC"
        if broken:
            message = f"no manifest that can be read refers to {len(files)} files ({size} bytes)"
        self._note("info", "abandoned", paths.STATE, message)


class _ReadFiles(Files):
    """Table files, of which some were read and verified already."""

    def __init__(self, store: Store, tables: dict[str, pa.Table]) -> None:
        super().__init__(store)
        self._read = tables

    def batches(
        self, table: Table[Any], ref: FileRef, bucket: int | None = None, key: Key | None = None
    ) -> list[pa.RecordBatch]:
        rows = self._read.get(ref.path)
        return super().batches(table, ref, bucket, key) if rows is None else rows.to_batches()


def _portions(files: Sequence[F]) -> Iterator[tuple[int, list[F]]]:
    """Cut by number and by size, each with how many files are done after it."""
    done = 0
    for portion in cut_by_size(files, PORTION_FILES, PORTION_BYTES):
        done += len(portion)
        yield done, portion


def _dense_from(numbers: Sequence[int]) -> int:
    """The lowest number from which on none is missing."""
    lowest = numbers[-1] if numbers else 1
    present = set(numbers)
    while lowest - 1 in present:
        lowest -= 1
    return lowest
