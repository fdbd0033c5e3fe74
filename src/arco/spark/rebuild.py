"""Rebuild on Spark: the same fold, for a log of any size.

Each stage of the chain is one `groupBy(group).applyInArrow(fold)`. A group is a
hash range of the stage's keys: keys are independent, so any number of them may be
folded together, and Spark's cost for each group is paid a few hundred times
instead of once for each key. Within a group facts are put in the order of
(position, order of emission), which is the order that the embedded engine has.

Executors read segments and write table files through our own store, so no Hadoop
connector is needed, checksums are verified, and every store that we have works.

    segments -> facts -> stage 1 -> facts -> stage 2 -> ... -> rows -> files
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from arco.clock import SystemClock
from arco.epoch import EPOCH
from arco.errors import Invalid
from arco.log import segment
from arco.log.contents import TableFiles
from arco.log.envelope import EventTypes, Origin
from arco.log.manifest import FileRef
from arco.state.fold import Chain, Fact, FoldFailure, NoRows, Rows, Stage
from arco.state.fold import fold_stage as fold_facts
from arco.state.parquet import Files
from arco.state.rebuild import Rebuilt
from arco.state.replay import PositionRange, ReportProgress, read_segment, segments, voided
from arco.state.rewrite import ROWS_PER_FILE, write_file
from arco.state.snapshot import Snapshot
from arco.state.system import SegmentRow
from arco.state.table import Row, Table
from arco.storage.open import open_store, options_of
from servo.contract.ulid import system_ulids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_PER_GROUP = 20_000

FACT, ROW, FAILURE = 0, 1, 2
"""What a line of the schema below is."""

SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        ("stage", pa.int32()),
        ("grp", pa.int32()),
        ("position", pa.int64()),
        ("ord", pa.string()),
        ("received_us", pa.int64()),
        ("id", pa.string()),
        ("idem", pa.string()),
        ("actor", pa.string()),
        ("origin", pa.string()),
        ("name", pa.string()),
        ("level", pa.string()),
        ("bucket", pa.int32()),
        ("data", pa.binary()),
    ]
)
DDL = (
    "kind int, stage int, grp int, position long, ord string, received_us long, id string, "
    "idem string, actor string, origin string, name string, level string, bucket int, data binary"
)


class Line(NamedTuple):
    kind: int
    stage: int
    grp: int
    position: int
    ord: str
    received_us: int
    id: str
    idem: str
    actor: str
    origin: str
    name: str
    level: str
    bucket: int
    data: bytes


class FoldJob(NamedTuple):
    """What executors need; it is sent with every function."""

    chain: Callable[[], Chain]
    store_url: str
    store_options: Mapping[str, Any]
    groups: int
    log_time: datetime
    void: tuple[PositionRange, ...]

    def types(self) -> EventTypes:
        return _types(self.chain)

    def files(self) -> Files:
        return Files(open_store(self.store_url, **self.store_options))


class SparkRebuildEngine:
    """Folds the log on Spark. `chain` must be importable by executors."""

    def __init__(self, chain: Callable[[], Chain], session: SparkSession) -> None:
        self._chain = chain
        self._session = session

    def __call__(self, snapshot: Snapshot, progress: ReportProgress) -> Rebuilt:
        segment_rows = segments(snapshot)
        store = snapshot.files.store
        if store.url.startswith("memory:"):
            raise Invalid("Spark cannot reach a store in memory", hint="use the embedded engine")
        job = FoldJob(
            self._chain,
            store.url,
            options_of(store),
            max(2, min(4096, snapshot.position // EVENTS_PER_GROUP)),
            snapshot.head.manifest.log_time,
            tuple(voided(segment_rows)),
        )
        with self._shuffling(min(job.groups, 4 * self._session.sparkContext.defaultParallelism)):
            return self._run(job, segment_rows, progress)

    @contextlib.contextmanager
    def _shuffling(self, partitions: int) -> Iterator[None]:
        """As many shuffle partitions as there is work for; the default of 200 is for more."""
        name = "spark.sql.shuffle.partitions"
        before = str(self._session.conf.get(name))
        self._session.conf.set(name, str(partitions))
        try:
            yield
        finally:
            self._session.conf.set(name, before)

    def _run(
        self, job: FoldJob, segment_rows: Sequence[SegmentRow], progress: ReportProgress
    ) -> Rebuilt:
        from pyspark.sql import functions as F

        chain = job.chain()
        steps = len(chain.stages) + 2
        # Each is computed once, and its plan cut off: one that held the plans before it, each
        # of which held those before, would double with every stage.
        outputs = [_computed(self._log(job, segment_rows))]
        progress("folding on Spark", 1, steps)
        for i in range(len(chain.stages)):
            if sources := [output.lines for output in outputs if i in output.stages]:
                facts = _union(sources).where((F.col("kind") == FACT) & (F.col("stage") == i))
                folded = facts.groupBy("grp").applyInArrow(_bare(FoldGroup(job, i)), DDL)
                outputs.append(_computed(folded))
            progress("folding on Spark", i + 2, steps)
        everything = _union([output.lines for output in outputs])
        tables = self._write(job, chain, everything.where(F.col("kind") == ROW))
        lines = everything.where(F.col("kind") == FAILURE).collect()
        failures = [msgspec.msgpack.decode(bytes(r["data"]), type=FoldFailure) for r in lines]
        events = segment_rows[-1].last_position - _void_count(job.void) if segment_rows else 0
        progress("folding on Spark", steps, steps)
        return Rebuilt(tables, events, sorted(failures, key=lambda f: f.position))

    def _log(self, job: FoldJob, segment_rows: Sequence[SegmentRow]) -> DataFrame:
        """The facts that enter from the log, each with the stage and group it goes to."""
        rows = [(msgspec.json.encode(row).decode(),) for row in segment_rows]
        width = max(1, min(len(rows), 2 * self._session.sparkContext.defaultParallelism))
        paths = self._session.createDataFrame(rows, "segment string").repartition(width)
        return paths.mapInArrow(ReadSegments(job), DDL)

    def _write(self, job: FoldJob, chain: Chain, rows: DataFrame) -> dict[Table[Any], TableFiles]:
        from pyspark.sql import functions as F

        counted = rows.groupBy("name", "level", "bucket").count().collect()
        placed = _place([(c["name"], c["level"], c["bucket"], c["count"]) for c in counted])
        refs: dict[str, list[FileRef]] = {}
        if placed:
            placement = self._session.createDataFrame(
                [(*at, file) for at, file in placed.items()],
                "name string, level string, bucket int, file int",
            )
            located = rows.join(F.broadcast(placement), ["name", "level", "bucket"])
            written = located.groupBy("file").applyInArrow(
                _bare(WriteFile(job)), "name string, ref binary"
            )
            for line in written.collect():
                ref = msgspec.json.decode(line["ref"], type=FileRef)
                refs.setdefault(line["name"], []).append(ref)
        return {table: _manifest(table, refs.get(str(table), [])) for table in chain.tables}


class StageOutput(NamedTuple):
    lines: DataFrame
    stages: frozenset[int]
    """The stages that it has facts for: the others need not read it."""


def _computed(lines: DataFrame) -> StageOutput:
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    checkpoint = lines.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
    (stages,) = checkpoint.where(F.col("kind") == FACT).agg(F.collect_set("stage")).collect()[0]
    return StageOutput(checkpoint, frozenset(stages))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return functools.reduce(lambda a, b: a.unionByName(b), frames)


def _manifest(table: Table[Any], refs: list[FileRef]) -> TableFiles:
    base = sorted((r for r in refs if r.days is None), key=lambda r: r.buckets)
    history = sorted((r for r in refs if r.days is not None), key=lambda r: str(r.days))
    return table.no_files().with_files(base=tuple(base), history=tuple(history))


def _place(counts: Iterable[tuple[str, str, int, int]]) -> dict[tuple[str, str, int], int]:
    """Which buckets share a file: neighbours, up to the size of a file; a day is one file."""
    placed: dict[tuple[str, str, int], int] = {}
    file, size, before = -1, 0, ("", "")
    for name, level, bucket, count in sorted(counts):
        full = not level and size and size + count > ROWS_PER_FILE
        if (name, level) != before or full:
            file, size, before = file + 1, 0, (name, level)
        placed[name, level, bucket] = file
        size += count
    return placed


def _void_count(spans: Iterable[PositionRange]) -> int:
    """How many positions the spans cover; they may overlap."""
    count = reached = 0
    for low, high in sorted(spans):
        count += max(0, high - max(low - 1, reached))
        reached = max(reached, high)
    return count


@functools.cache
def _types(chain: Callable[[], Chain]) -> EventTypes:
    """Events of the log and derived facts alike: both travel between stages."""
    stages = chain()
    return EventTypes([*stages.events, *stages.derived])


def _bare(call: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """`call` without its type hints, which PySpark would try to evaluate, and cannot."""
    return lambda table: call(table)


class ReadSegments:
    """Segments to the facts that enter the chain from the log."""

    def __init__(self, job: FoldJob) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job = self._job
        chain, types, files = job.chain(), job.types(), job.files()
        for batch in batches:
            for text in batch.column(0).to_pylist():
                row = msgspec.json.decode(text, type=SegmentRow)
                table = read_segment(files.store, row, job.void)
                for part in _chunks(table, 20_000):
                    lines = [
                        _fact_line(chain.stages[i], i, fact, "", job.groups)
                        for recorded in segment.decode(part, types)
                        for i, fact in chain.entries(recorded)
                    ]
                    yield _batch(lines)


def _chunks(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


class FoldGroup:
    """Folds the facts of one group of keys from an empty state, to rows and derived facts."""

    def __init__(self, job: FoldJob, stage: int) -> None:
        self._job = job
        self._stage = stage

    def __call__(self, table: pa.Table) -> pa.Table:
        chain = self._job.chain()
        stage = chain.stages[self._stage]
        rows = Rows(NoRows())
        failures: list[FoldFailure] = []
        lines: list[Line] = []
        for order, fact in self._facts(table):
            derived = fold_facts(stage, rows, [fact], failures)
            for n, new in enumerate(derived):
                text = msgspec.json.encode([self._stage, order, n]).decode()
                for taker in chain.takers(new.payload, self._stage):
                    lines.append(
                        _fact_line(chain.stages[taker], taker, new, text, self._job.groups)
                    )
        lines += self._row_lines(rows)
        lines += [_failure_line(failure) for failure in failures]
        return pa.Table.from_batches([_batch(lines)], SCHEMA)

    def _facts(self, table: pa.Table) -> list[tuple[Any, Fact]]:
        decode = self._job.types().decode
        facts = []
        columns = [c for c in SCHEMA.names if c not in ("kind", "stage", "grp", "level", "bucket")]
        for position, order, received, id_, idem, actor, origin, name, data in zip(
            *(table.column(c).to_pylist() for c in columns), strict=True
        ):
            payload = decode(name, 1, data)
            assert payload is not None
            at = EPOCH + timedelta(microseconds=received)
            fact = Fact(position, at, id_, idem, actor, payload, _origin(origin))
            facts.append((msgspec.json.decode(order) if order else [], fact))
        facts.sort(key=lambda item: (item[1].position, item[0]))
        return facts

    def _row_lines(self, rows: Rows) -> Iterator[Line]:
        for table, changed in rows.changes.items():
            for key, (version, row) in changed.items():
                if row is not None:
                    yield _row_line(table, table.bucket(key), version, row, self._job.log_time)


class WriteFile:
    """Writes the rows of one file, and returns its reference."""

    def __init__(self, job: FoldJob) -> None:
        self._job = job

    def __call__(self, table: pa.Table) -> pa.Table:
        name, level = table.column("name")[0].as_py(), table.column("level")[0].as_py()
        target = next(t for t in self._job.chain().tables if str(t) == name)
        decode = msgspec.msgpack.Decoder(target.row).decode
        versions = table.column("position").to_pylist()
        rows = map(decode, table.column("data").to_pylist())
        by_key = {
            target.key_of(row): (version, row) for version, row in zip(versions, rows, strict=True)
        }
        ref = write_file(
            self._job.files(),
            target,
            target.to_arrow(by_key),
            "history" if level else "base",
            system_ulids()(),
            SystemClock().now(),
            (date.fromisoformat(level), date.fromisoformat(level)) if level else None,
        )
        return pa.table({"name": [name], "ref": [msgspec.json.encode(ref)]})


def _fact_line(stage: Stage, number: int, fact: Fact, order: str, groups: int) -> Line:
    key = stage.key(fact)
    return Line(
        FACT,
        number,
        zlib.crc32(key.encode()) // 256 % groups,
        fact.position,
        order,
        (fact.received_at - EPOCH) // timedelta(microseconds=1),
        fact.id,
        fact.idempotency_key,
        fact.actor,
        "" if fact.origin is None else msgspec.json.encode(fact.origin).decode(),
        fact.payload.TYPE,
        "",
        0,
        msgspec.json.encode(fact.payload),
    )


def _origin(text: str) -> Origin | None:
    return msgspec.json.decode(text, type=Origin) if text else None


def _row_line(table: Table[Any], bucket: int, version: int, row: Row, log_time: datetime) -> Line:
    level = ""
    if table.history is not None and table.history.has_left(row, log_time):
        level = getattr(row, table.history.column).date().isoformat()
    data = msgspec.msgpack.encode(row)
    return Line(ROW, -1, 0, version, "", 0, "", "", "", "", str(table), level, bucket, data)


def _failure_line(failure: FoldFailure) -> Line:
    data = msgspec.msgpack.encode(failure)
    return Line(FAILURE, -1, 0, failure.position, "", 0, "", "", "", "", "", "", 0, data)


def _batch(lines: Sequence[Line]) -> pa.RecordBatch:
    columns: Iterable[tuple[Any, ...]] = zip(*lines, strict=True) if lines else [()] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
