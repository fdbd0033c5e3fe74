"""Results of any size: recorded whole, packed, or cut with a note; never dropped."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from arco.execution.tables import MATERIALIZATIONS, SCHEMAS
from arco.lineage.tables import COLUMNS, EXECUTIONS
from arco.log.envelope import (
    MAX_EVENT_BYTES,
    EventTypes,
    Payload,
    encode_payload,
    make_event,
)
from arco.orchestration import input_lists, input_refs, packing
from arco.orchestration.events import RunCancelRequested, TaskFinished
from arco.orchestration.input_refs import recorded
from arco.orchestration.results import (
    EVENT_BYTES,
    TooLarge,
    bounded,
    finished,
    whole,
)
from arco.orchestration.states import TaskState
from arco.quality.tables import CHECK_RESULTS
from arco.storage import paths
from arco.worker import recordable as recording
from arco.worker.commit import committed
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    OutputCommit,
    TaskResult,
    Truncated,
)
from tests.kit.bench import Bench, problem, version
from tests.kit.depth import scaled
from tests.kit.lake import Lake

replace = msgspec.structs.replace

WIDE = 20_000
PARTITIONS_READ = 100_000
CHECKS = 600


def noise(chars: int) -> str:
    """Text that does not compress."""
    return base64.urlsafe_b64encode(random.randbytes(chars)).decode()[:chars]


def columns(count: int) -> tuple[ColumnInfo, ...]:
    return tuple(
        ColumnInfo(name=f"measure_{n:05d}", type="string", nulls=n, min=f"a{n}", max=f"z{n}")
        for n in range(count)
    )


def column_lineage(count: int) -> tuple[ColumnLineage, ...]:
    return tuple(
        ColumnLineage(
            column=f"measure_{n:05d}",
            sources=(ColumnSource("city.source", f"measure_{n:05d}"),),
        )
        for n in range(count)
    )


def versions_read(count: int) -> InputRef:
    return InputRef(
        asset="city.source",
        parameter="source",
        materializations=tuple(
            MaterializationRef(
                partition=f"hour={n:06d}",
                materialization_id=f"01J{noise(23).upper()}",
                path=f"data/city/source/{n:06d}/01J{noise(23).upper()}",
                rows=2,
                bytes=3,
            )
            for n in range(count)
        ),
    )


def failing_checks(count: int) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(
            name=f"check {n}",
            passed=False,
            status="failed",
            action="warn",
            message="does not fit",
            failing=5,
            sample=tuple(noise(1_000) for _ in range(5)),
        )
        for n in range(count)
    )


def make_result(**fields: Any) -> TaskResult:
    made = Materialization(
        materialization_id="01J00000000000000000000001",
        asset="city.derived",
        asset_id="01J00000000000000000000000",
        partition="",
        run_id="r1",
        task_id="t1",
        attempt_id="a1",
        path="data/city/derived/_/01J00000000000000000000001",
        **{n: fields.pop(n) for n in ("schema", "files", "metadata") if n in fields},
    )
    return TaskResult(
        run_id="r1",
        task_id="t1",
        attempt=1,
        attempt_id="a1",
        outcome="succeeded",
        worker_id="w1",
        materialization=made,
        **fields,
    )


class Recorded:
    """A result that a worker handed over, as the tables show it."""

    def __init__(self, **fields: Any) -> None:
        self.lake = Lake()
        self.lake.make("city.source")
        self.run_id = self.lake.begin("city.derived")
        made = self.lake.write(self.run_id, "city.derived")
        self.id = made.materialization_id
        task = self.lake.task(self.run_id, "city.derived")
        mine = make_result(**fields)
        assert mine.materialization is not None
        given = {n: getattr(mine.materialization, n) for n in ("schema", "files")}
        self.result = replace(
            mine,
            run_id=self.run_id,
            task_id=task.task_id,
            attempt_id=task.attempt_id,
            materialization=replace(made, **{n: v for n, v in given.items() if v}),
        )

    def report(self, payload: TaskFinished) -> None:
        reports = self.lake.w.runtime.reports()
        reports.submit([payload])
        reports.flush()
        self.lake.commit()

    @property
    def state(self) -> str:
        return self.lake.task(self.run_id, "city.derived").state

    def rows(self, table: Any) -> list[Any]:
        return list(self.lake.w.read.snapshot().all(table))


def test_wide_table_is_recorded_with_all_columns_statistics_and_lineage() -> None:
    wide = Recorded(
        schema=columns(WIDE),
        lineage=Lineage(read=(versions_read(1),), columns=column_lineage(WIDE), method="plan"),
    )
    event = finished(wide.result)
    assert len(msgspec.json.encode(wide.result)) > 2 * MAX_EVENT_BYTES
    assert event.parts["columns"] == event.parts["columns with lineage"] == WIDE
    wide.report(event)
    assert wide.state == TaskState.SUCCEEDED
    (schema,) = wide.rows(SCHEMAS)
    assert msgspec.json.decode(schema.columns, type=tuple[ColumnInfo, ...]) == columns(WIDE)
    assert len(wide.rows(COLUMNS)) == WIDE


def test_input_of_many_partitions_is_recorded_by_reference() -> None:
    whole_ref = versions_read(PARTITIONS_READ)
    many = Recorded()
    ref = input_lists.put_list(many.lake.w.store, many.run_id, whole_ref)
    read = recorded(input_lists.whole(many.lake.w.store, ref))
    many.report(finished(replace(many.result, lineage=Lineage(read=(read,)))))
    assert many.state == TaskState.SUCCEEDED
    (row,) = [r for r in many.rows(EXECUTIONS) if r.materialization_id == many.id]
    ids = [m.materialization_id for m in whole_ref.materializations]
    assert row.source_materializations == ids[: input_refs.SHOWN]
    assert (row.source_count, row.rows_read) == (PARTITIONS_READ, 2 * PARTITIONS_READ)
    assert row.source_fingerprint == input_refs.fingerprint(ids)
    assert ref.listed_in is not None and row.source_list == ref.listed_in.path


def test_many_failing_checks_are_recorded_though_samples_are_cut() -> None:
    failing = Recorded(checks=failing_checks(CHECKS))
    event = finished(failing.result)
    assert whole(event).truncated == (Truncated("samples of a check", 1, 5),)
    failing.report(event)
    assert failing.state == TaskState.SUCCEEDED
    recorded = failing.rows(CHECK_RESULTS)
    assert len(recorded) == CHECKS and all(len(row.sample) == 1 for row in recorded)


def test_many_files_are_counted_though_names_are_cut() -> None:
    many = Recorded(files=tuple(noise(60) for _ in range(30_000)))
    many.report(finished(many.result))
    (row,) = [r for r in many.rows(MATERIALIZATIONS) if r.materialization_id == many.id]
    assert (many.state, row.files) == (TaskState.SUCCEEDED, 30_000)


def test_result_that_reaches_the_reports_too_large_is_replaced_and_not_dropped() -> None:
    wide = Recorded(schema=columns(WIDE))
    wide.report(TaskFinished(result=wide.result))
    assert wide.state == TaskState.SUCCEEDED


def test_result_that_fits_no_event_is_reported_as_a_failure_that_says_so() -> None:
    wide = Recorded()
    huge = replace(
        wide.result, instead=replace(versions_read(1).materializations[0], path=noise(2 << 20))
    )
    wide.report(TaskFinished(result=huge))
    task = wide.lake.task(wide.run_id, "city.derived")
    assert (task.state, task.error_code) == (TaskState.FAILED, "output.too_large")
    assert "cannot be recorded" in task.error_message


# -- cutting ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        make_result,
        lambda: make_result(schema=columns(10)),
        lambda: make_result(schema=columns(WIDE), checks=failing_checks(3)),
        lambda: make_result(
            checks=failing_checks(CHECKS), lineage=Lineage(read=(versions_read(9_000),))
        ),
        lambda: make_result(
            schema=tuple(
                ColumnInfo(name=noise(100), type="string", min=noise(250), max=noise(250))
                for _ in range(scaled(3_000, 10_000))
            ),
            lineage=Lineage(
                columns=tuple(
                    ColumnLineage(column=noise(90), sources=(ColumnSource(noise(90), noise(90)),))
                    for _ in range(scaled(6_000, 20_000))
                ),
                influences=tuple(
                    ColumnSource(noise(90), noise(90)) for _ in range(scaled(3_000, 10_000))
                ),
                unmapped=tuple(noise(90) for _ in range(scaled(3_000, 10_000))),
            ),
            checks=failing_checks(50),
            files=tuple(noise(60) for _ in range(scaled(10_000, 30_000))),
            metadata={f"m{n}": noise(400) for n in range(256)},
        ),
    ],
)
def test_any_result_fits_one_event_and_bounding_it_twice_changes_nothing(
    make: Callable[[], TaskResult],
) -> None:
    result = make()
    cut = bounded(result)
    assert bounded(cut) == cut
    event = finished(result)
    assert len(encode_payload(event)) <= EVENT_BYTES
    assert whole(event) == cut
    assert bool(cut.truncated) == (cut != result)


def test_checks_that_decide_about_the_output_are_kept_when_others_are_cut() -> None:
    long = tuple(
        CheckResult(name=noise(300), passed=False, message=noise(900), action="warn")
        for _ in range(2_000)
    )
    last = CheckResult(name="the one", passed=False, action="block", message="why")
    cut = bounded(make_result(checks=(*long, last), gate="block"))
    assert cut.checks[0] == last and len(cut.checks) < len(long)


def test_packed_text_that_cannot_be_read_leaves_the_rest_of_the_result() -> None:
    event = finished(make_result(schema=columns(WIDE)))
    for packed in ("", "?", event.packed[:-100], "AAAA"):
        broken = whole(replace(event, packed=packed or "%"))
        assert broken.outcome == "succeeded"
        assert Truncated("columns", 0, WIDE) in broken.truncated


def test_packed_text_that_unfolds_without_end_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = finished(make_result(schema=columns(WIDE)))
    monkeypatch.setattr(packing, "UNPACKED_BYTES", 1_000)
    assert whole(event).truncated


# -- in the worker ------------------------------------------------------------------------

WIDE_ASSET = """
    import random
    @asset
    def f():
        names = [f"c{n}" for n in range(6000)]
        text = lambda: "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200))
        return pa.table({name: [text(), text()] for name in names})
"""


def test_worker_cuts_before_the_commit_and_keeps_all_beside_the_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path).deploy(WIDE_ASSET)
    result = bench.run()
    made = version(result)
    assert len(made.schema) == 6_000
    assert [t.part for t in result.truncated] == ["columns with bounds"]
    assert made.details is not None
    body = bench.store.get(made.details.path).data
    assert hashlib.sha256(body).hexdigest() == made.details.sha256
    assert made.details.path == paths.output_details(made.path, made.details.sha256)
    kept = msgspec.json.decode(body, type=OutputCommit).materialization
    assert all(column.min is not None for column in kept.schema)
    assert made.details.path in bench.log()
    marker = committed(bench.store, bench.request())
    assert marker is not None and marker.materialization == made
    adopted = bench.run(attempt=2)
    assert (adopted.adopted, adopted.materialization) == (True, made)
    assert adopted.truncated == result.truncated
    assert whole(finished(result)) == result


def test_result_that_cannot_be_cut_enough_fails_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(result: TaskResult) -> TaskResult:
        raise TooLarge("its result has 9 bytes; the limit is 8")

    monkeypatch.setattr(recording, "bounded", never)
    bench = Bench(tmp_path).deploy("@asset\ndef f(): return pa.table({'x': [1]})")
    assert problem(bench.run_here()) == ("failed", "user_code", "output.too_large")
    assert bench.objects("commits/") == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ('{f"k{n}": "v" for n in range(600)}', "600 values; the limit is 256"),
        ('{"k" * 300: "v"}', "a name of 300 characters; the limit is 256 characters"),
        ('{f"k{n}": "v" * 4000 for n in range(100)}', "bytes; the limit is 131,072 bytes"),
    ],
)
def test_metadata_beyond_its_limits_is_refused_before_anything_is_written(
    tmp_path: Path, values: str, said: str
) -> None:
    bench = Bench(tmp_path).deploy(
        f"@asset\ndef f(ctx: AssetContext): return ctx.output(pa.table({{'x': [1]}}), **{values})"
    )
    result = bench.run()
    assert problem(result) == ("failed", "user_code", "output.metadata")
    assert result.error is not None and said in result.error.message and result.error.hint
    assert bench.objects("data/") == bench.objects("commits/") == []


# -- beside programs of the version before -----------------------------------------------


class EarlierFinished(Payload, frozen=True, kw_only=True):
    """`TaskFinished` as it was before results were packed."""

    TYPE: ClassVar[str] = TaskFinished.TYPE
    result: TaskResult


class EarlierCancel(Payload, frozen=True, kw_only=True):
    """`RunCancelRequested` as it was before tasks ended in steps."""

    TYPE: ClassVar[str] = RunCancelRequested.TYPE
    run_id: str
    force: bool = False
    reason: str = ""


EARLIER = EventTypes([EarlierFinished, EarlierCancel])
NEWER = EventTypes([TaskFinished, RunCancelRequested])


def read_by(types: EventTypes, payload: Payload) -> Payload | None:
    event = make_event(
        payload, id="E", time=datetime(2026, 1, 1), source="t", tenant="t", workspace="w"
    )
    return types.decode(event.type, event.version, event.data)


def test_small_result_is_read_by_the_version_before() -> None:
    small = finished(make_result())
    assert read_by(EARLIER, small) == EarlierFinished(result=small.result)
    assert read_by(NEWER, small) == small


def test_packed_result_is_left_to_programs_that_can_unpack_it() -> None:
    large = finished(make_result(schema=columns(WIDE)))
    assert large.packed
    assert read_by(EARLIER, large) is None
    assert read_by(NEWER, large) == large


def test_cancellation_in_steps_is_left_to_programs_that_know_steps() -> None:
    plain = RunCancelRequested(run_id="run1", reason="enough")
    assert read_by(EARLIER, plain) == EarlierCancel(run_id="run1", reason="enough")
    assert read_by(NEWER, plain) == plain
    assert read_by(EARLIER, replace(plain, in_steps=True)) is None
