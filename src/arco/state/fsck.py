"""fsck: is everything there, whole, and consistent with everything else?

It checks every kept generation: the hash chain, positions, domain manifests and
files. A deep check reads all bytes once and compares checksums, and looks into the
head's tables and the log. It changes nothing.

Whatever is damaged, there is a report: what cannot be read is a finding, and all
that can be reached without it is still checked. If the newest generation cannot be
read, the newest one that can takes its place. Only a store that cannot be listed
ends in an error. Nothing comes from the caches of this process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from arco.errors import Corrupt, Error, NotFound
from arco.log import segment
from arco.log.head import Head, Manifests, genesis
from arco.log.manifest import FileRef, Hint, Ref, SegmentRef, verified
from arco.state import parquet
from arco.state.doubled import EventIds, event_ids
from arco.state.parquet import Files
from arco.state.pins import Pin, read_pin
from arco.state.replay import Progress, segments, silent
from arco.state.snapshot import Snapshot
from arco.state.system import SEGMENTS, segment_ref
from arco.state.table import Table, bucket_of, shard_text
from arco.storage import paths
from arco.storage.parallel import each
from arco.storage.port import ObjectMeta, Store
from arco.storage.seal import read_checked

PORTION_FILES = 64
PORTION_BYTES = 64 << 20
"""Files are read through memory, several at once."""
DOUBLED_SHOWN = 20

F = TypeVar("F", FileRef, SegmentRef)


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
    """Checks a workspace once, and reports."""

    def __init__(
        self,
        manifests: Manifests,
        tables: Sequence[Table[Any]],
        *,
        deep: bool = True,
        progress: Progress = silent,
    ) -> None:
        # Not the manifests of the caller: those remember what they read before.
        self._manifests = Manifests(
            manifests.store, manifests.tenant, manifests.workspace, manifests.clock
        )
        self._store = manifests.store
        self._tables = tables
        self._deep = deep
        self._progress = progress
        self._findings: list[Finding] = []
        self._segment_rows: dict[str, pa.Table] = {}

    def check(self) -> FsckReport:
        # The hint before the listing: it never points above a head that is listed later.
        hint = self._hint()
        kept = self._generations()
        head = kept[-1] if kept else genesis(self._manifests.tenant, self._manifests.workspace)
        self._check_hint(hint, kept)
        self._check_chain(kept)
        everything = [*self._pinned(kept), *kept]
        refs = {ref.path: ref for h in everything for ref in h.manifest.domains.values()}
        files = self._domains(refs.values())
        self._check_files(list(files.values()), self._tables_of(head))
        log = self._log(head, kept)
        self._check_segments(log)
        self._bystanders(head, everything, {*refs, *files, *(ref.path for ref in log)})
        return FsckReport(
            head.generation,
            head.manifest.position,
            len(everything),
            len(files) + len(log) + len(refs) + len(everything),
            sum(f.bytes for f in files.values()) + sum(ref.bytes for ref in log),
            self._findings,
        )

    def _error(self, code: str, path: str, message: str) -> None:
        self._findings.append(Finding("error", code, path, message))

    def _note(self, severity: str, code: str, path: str, message: str) -> None:
        self._findings.append(Finding(severity, code, path, message))

    # Generations

    def _generations(self) -> list[Head]:
        """Every generation from the floor to the newest that can be read, in order."""
        listed = self._listed()
        floor = self._floor(listed)
        kept: list[Head] = []
        numbers = [generation for generation in listed if generation >= floor]
        for done, generation in enumerate(numbers, 1):
            head = self._read(generation)
            if head is not None:
                kept.append(head)
            self._progress("generations", done, len(numbers))
        # GC may have raised the floor since: what it removed is not missing.
        floor = max(floor, self._floor(listed, quiet=True))
        self._check_gaps(floor, [generation for generation in numbers if generation >= floor])
        return [head for head in kept if head.generation >= floor]

    def _listed(self) -> list[int]:
        numbers = []
        for meta in self._store.list(paths.MANIFESTS):
            generation = paths.root_generation(meta.path)
            if generation is None:
                break  # digits sort before every other name in this folder
            numbers.append(generation)
        return numbers

    def _floor(self, listed: Sequence[int], quiet: bool = False) -> int:
        """The lowest generation that must be there; the lowest that is, if nobody can tell."""
        lowest, highest = (listed[0], listed[-1]) if listed else (1, 1)
        try:
            floor = self._manifests.floor()
        except Error as error:
            if not quiet:
                self._error("floor", paths.FLOORS, error.message)
            return lowest
        if 1 <= floor <= highest:
            return floor
        if not quiet:
            message = f"says that generation {floor} is the lowest; the newest is {highest}"
            self._error("floor", paths.FLOORS, message)
        return lowest

    def _check_gaps(self, floor: int, numbers: Sequence[int]) -> None:
        for before, after in itertools.pairwise([floor - 1, *numbers]):
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

    def _check_chain(self, kept: Sequence[Head]) -> None:
        for parent, child in itertools.pairwise(kept):
            if child.generation == parent.generation + 1:
                self._link(parent, child, paths.root(child.generation))

    def _link(self, parent: Head, child: Head, path: str) -> None:
        a, b = parent.manifest, child.manifest
        if b.parent_sha256 != parent.sha256:
            self._error("hash_chain", path, f"does not name generation {a.generation} as parent")
        if b.published_at < a.published_at or b.log_time < a.log_time:
            self._error("time", path, "time goes backwards")
        expected = a.position if b.segment is None else b.segment.last
        if b.position != expected or (b.segment and b.segment.first != a.position + 1):
            self._error("positions", path, f"positions do not follow {a.position}")

    def _hint(self) -> Hint | None:
        try:
            return self._manifests.hint()
        except Error as error:
            self._note("warning", "hint", paths.HINT, error.message)
            return None

    def _check_hint(self, hint: Hint | None, kept: Sequence[Head]) -> None:
        """The newest generation has no child that names its checksum: the hint does."""
        if hint is None:
            if kept:
                message = "there is no hint; the next commit writes it"
                self._note("warning", "hint", paths.HINT, message)
            return
        newest = kept[-1].generation if kept else 0
        if hint.generation > newest:
            self._error("hint", paths.HINT, f"points at generation {hint.generation}, not there")
        for head in kept:
            if head.generation == hint.generation and head.sha256 != hint.root_sha256:
                message = f"has other bytes than {paths.HINT} says: one of them was changed"
                self._error("hint", paths.root(head.generation), message)

    def _pinned(self, kept: Sequence[Head]) -> list[Head]:
        """The generations below the kept ones that active pins hold."""
        present = {head.generation for head in kept}
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

    def _domains(self, refs: Iterable[Ref]) -> dict[str, FileRef]:
        files: dict[str, FileRef] = {}
        todo = list(refs)
        for done, ref in enumerate(todo, 1):
            try:
                for table in self._manifests.domain(ref).tables.values():
                    files.update({file.path: file for file in table.files()})
            except Error as error:
                self._error("domain_manifest", ref.path, error.message)
            self._progress("domain manifests", done, len(todo))
        return files

    def _tables_of(self, head: Head) -> dict[str, Table[Any]]:
        """The table of each file of the head, as far as its domain manifests can be read."""
        tables: dict[str, Table[Any]] = {}
        for table in self._tables:
            snapshot = self._snapshot(head, table.domain)
            if snapshot is not None:
                tables.update(
                    dict.fromkeys((f.path for f in snapshot.manifest(table).files()), table)
                )
        return tables

    def _snapshot(self, head: Head, domain: str, files: Files | None = None) -> Snapshot | None:
        """The head with one domain alone; None if that one cannot be read."""
        ref = head.manifest.domains.get(domain)
        domains = {} if ref is None else {domain: ref}
        root = msgspec.structs.replace(head.manifest, domains=domains)
        try:
            return Snapshot(self._manifests, files or Files(self._store), Head(root, head.sha256))
        except Error:
            return None  # reported with the domain manifests

    def _check_files(self, files: Sequence[FileRef], tables: dict[str, Table[Any]]) -> None:
        def check(ref: FileRef) -> None:
            raw = self._check_object(ref)
            table = tables.get(ref.path)
            if raw is not None and table is not None:
                self._check_rows(table, ref, parquet.decode(raw, ref))

        for done, portion in _portions(files):
            each(self._store, lambda ref: self._reporting(check, ref), portion)
            self._progress("table files", done, len(files))

    def _reporting(self, check: Callable[[FileRef], None], ref: FileRef) -> None:
        try:
            check(ref)
        except Error as error:
            self._error("unreadable", ref.path, error.message)

    def _check_object(self, ref: FileRef | SegmentRef) -> bytes | None:
        """The bytes, if a deep check finds them right; None otherwise."""
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
            self._error("checksum", ref.path, "its bytes are not those that were written")
        return None

    def _check_rows(self, table: Table[Any], ref: FileRef, rows: pa.Table) -> None:
        if table is SEGMENTS:
            self._segment_rows[ref.path] = rows
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

    # The log

    def _log(self, head: Head, kept: Sequence[Head]) -> list[SegmentRef]:
        """The segments of the log; those that kept generations added, if it cannot be read."""
        files = _ReadFiles(self._store, self._segment_rows)
        snapshot = self._snapshot(head, SEGMENTS.domain, files)
        try:
            if snapshot is not None:
                return [segment_ref(row) for row in segments(snapshot)]
        except Error as error:
            self._error("log", paths.SEGMENTS, error.message)
        return [h.manifest.segment for h in kept if h.manifest.segment is not None]

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

    # What lies around

    def _bystanders(self, head: Head, kept: Sequence[Head], known: set[str]) -> None:
        """Unconsumed, rejected, skipped, abandoned."""
        skipped: dict[str, int] = {}
        for generation in kept:
            for kind, count in generation.manifest.skipped.items():
                skipped[kind] = skipped.get(kind, 0) + count
        for kind, count in skipped.items():
            self._note("warning", "skipped", paths.SEGMENTS, f"{count} × {kind} was not folded")
        rejected = sum(m.path.endswith(".json") for m in self._store.list(paths.REJECTED))
        if rejected:
            self._note("warning", "rejected", paths.REJECTED, f"{rejected} objects were rejected")
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

    def table(self, ref: FileRef) -> pa.Table:
        table = self._read.get(ref.path)
        return super().table(ref) if table is None else table


def _portions(files: Sequence[F]) -> Iterator[tuple[int, list[F]]]:
    """Cut by number and by size, each with how many files are done after it."""
    portion: list[F] = []
    size = 0
    for done, file in enumerate(files):
        if portion and (len(portion) == PORTION_FILES or size + file.bytes > PORTION_BYTES):
            yield done, portion
            portion, size = [], 0
        portion.append(file)
        size += file.bytes
    if portion:
        yield len(files), portion
