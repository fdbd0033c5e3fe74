"""What file and asset sensors see, what counts as an effect, and what a function's result means."""

from __future__ import annotations

import contextlib
import logging
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.automation.sensor_events import answer_of
from arco.clock import SystemClock
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.tasks.failure import TaskFailed
from arco.transport.work_messages import NewVersions
from arco.worker import sensor_files
from arco.worker.attempt import Assignment, Shared
from arco.worker.capture import LogCapture
from arco.worker.evaluations import evaluated, has_effect
from arco.worker.loader import Loader
from arco.worker.secrets import NO_REDACTION, SecretValues
from arco.worker.sensing import Evaluation, SensorAttempt, open_folder, open_workspace
from arco.worker.sensor_files import new_files
from arco.worker.sensor_versions import looked_at
from arco.worker.stopping import Stopping
from servo.contract.sensing import SensorAnswer, SensorCall, SensorRun
from servo.contract.task import CodeRef, TaskRequest
from servo.sensor import RunRequest, SensorContext, SensorFile, SensorResult
from tests.kit.clocks import SimClock
from tests.kit.flows import CITY, Crowd, deploy, trigger
from tests.kit.workspace import make_workspace

CALL = SensorCall(sensor_id="p/s", name="s", kind="polling", number=3, cursor="1")
REQUEST = TaskRequest(
    tenant_id="t",
    workspace_id="w",
    run_id="sensors",
    task_id="s",
    plan_id="",
    attempt=1,
    attempt_id="",
    asset="",
    asset_id="",
    code=CodeRef(artifact="", module="", name=""),
    sensor=CALL,
)


class Folder:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)

    def put(self, *paths: str, data: bytes = b"x") -> None:
        for path in paths:
            self.store.put(path, data, Mode.OVERWRITE)
        self.clock.sleep(1)

    def look(self, cursor: str, *, pattern: str = "", existing: bool = False) -> Any:
        new = new_files(self.store, cursor, pattern=pattern, existing=existing)
        return [file.path for file in new.files], new.cursor, new.more


# -- files --------------------------------------------------------------------------------


def test_what_was_there_at_first_does_not_count_unless_it_is_asked_for() -> None:
    folder = Folder()
    folder.put("a", "b")
    assert folder.look("")[0] == []
    assert folder.look("", existing=True)[0] == ["a", "b"]


def test_new_and_changed_objects_are_seen_once_the_oldest_first() -> None:
    folder = Folder()
    folder.put("a")
    _, cursor, _ = folder.look("")
    folder.put("z")
    folder.put("b")
    paths, cursor, _ = folder.look(cursor)
    assert paths == ["z", "b"]
    assert folder.look(cursor) == ([], cursor, False)
    folder.put("a", data=b"another")
    paths, cursor, _ = folder.look(cursor)
    assert paths == ["a"]
    assert folder.look(cursor)[0] == []


def test_an_object_that_appears_late_with_an_old_time_is_seen() -> None:
    folder = Folder()
    folder.put("new")
    _, cursor, _ = folder.look("")
    folder.clock.advance(timedelta(days=-30))
    folder.put("late")
    assert folder.look(cursor)[0] == ["late"]


def test_a_deletion_is_no_news_and_a_return_is() -> None:
    folder = Folder()
    folder.put("a", "b")
    _, cursor, _ = folder.look("")
    folder.store.delete("a")
    assert folder.look(cursor) == ([], cursor, False)
    folder.put("c")
    _, cursor, _ = folder.look(cursor)
    folder.put("a")
    assert folder.look(cursor)[0] == ["a"]


def test_a_pattern_leaves_others_out() -> None:
    folder = Folder()
    _, cursor, _ = folder.look("", pattern="*.csv")
    folder.put("a.csv", "b.txt", "deep/c.csv")
    assert folder.look(cursor, pattern="*.csv")[0] == ["a.csv", "deep/c.csv"]


def test_very_many_objects_are_seen_in_parts_and_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sensor_files, "AT_A_TIME", 10)
    monkeypatch.setattr(sensor_files, "KEPT", 20)
    folder = Folder()
    names = [f"{n:03}" for n in range(205)]
    for name in names:
        folder.put(name)
    cursor, seen, more = "", [], True
    while more:
        paths, cursor, more = folder.look(cursor, existing=True)
        assert len(cursor) < 1_000
        seen += paths
    assert seen == names
    folder.put("999")
    assert folder.look(cursor, existing=True)[0] == ["999"]


def test_a_cursor_stays_small_however_many_objects_there_are() -> None:
    folder = Folder()
    for n in range(12_000):
        folder.store.put(f"{n}", b"")
    _, cursor, _ = folder.look("")
    assert len(cursor) < 120_000
    folder.clock.sleep(1)
    folder.put("new")
    assert folder.look(cursor)[0] == ["new"]


def test_the_run_of_one_file_is_named_by_it() -> None:
    file = SensorFile("a.csv", 1, datetime(2026, 1, 1, 2, 3))
    assert sensor_files.request_key((file,)) == "a.csv@2026-01-01T02:03:00"
    both = sensor_files.request_key((file, file._replace(path="b.csv")))
    assert both.startswith("2 files ")
    assert both != sensor_files.request_key((file, file._replace(path="c.csv")))
    assert len(sensor_files.request_key((file._replace(path="x" * 300),))) < 50


def test_a_folder_or_workspace_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="there is no folder"):
        open_folder(f"{tmp_path}/none", LocalStore)
    with pytest.raises(TaskFailed, match="there is no workspace other"):
        open_workspace(f"file://{tmp_path}/acme/other", LocalStore)
    assert list(tmp_path.iterdir()) == []


# -- versions -----------------------------------------------------------------------------


def test_versions_of_an_asset_are_new_from_the_first_look_on() -> None:
    clock = SimClock()
    store = MemoryStore(clock)
    w = make_workspace(store, 1, clock=clock)
    deploy(w, CITY)

    def look(cursor: str, asset: str = "city.alone") -> Any:
        found = make_workspace(store, 2, clock=clock)
        return looked_at(found.store, found.tenant, found.name, clock, asset, cursor)

    def run(*selection: str) -> None:
        crowd = Crowd(store, clock, trigger(w, *selection))
        crowd.orchestrator()
        crowd.worker()
        crowd.finish()

    run("city.alone")
    first = look("")
    assert (first.versions, first.more) == ([], False)
    assert look(first.cursor).cursor is None  # nothing is new, and nothing is to be recorded
    run("city.top")
    assert look(first.cursor) == NewVersions()
    run("city.alone")
    found = look(first.cursor)
    assert [(v.asset, v.partition, v.version) for v in found.versions] == [("city.alone", "", 2)]
    assert look(found.cursor).versions == []
    with pytest.raises(TaskFailed, match=r"there is no asset city\.none in the workspace"):
        look("", "city.none")
    with pytest.raises(TaskFailed, match="after the end of the log"):
        look("1000000")


# -- functions ----------------------------------------------------------------------------


def evaluation(call: SensorCall, function: Any, store: Any = None) -> Evaluation:
    return Evaluation(
        call,
        function,
        lambda: store,
        logger=logging.getLogger("test"),
        secrets={"token": "t"},
        clock=SystemClock(),
        tenant="acme",
        own_workspace="prod",
    )


def test_a_function_gets_the_cursor_the_message_and_its_secrets() -> None:
    call = SensorCall(
        sensor_id="p/s",
        name="s",
        kind="webhook",
        number=0,
        cursor="c",
        message_id="m",
        payload='{"n": 1}',
    )

    def function(ctx: SensorContext) -> SensorResult:
        assert (ctx.cursor, ctx.message_id, ctx.json()["n"]) == ("c", "m", 1)
        assert ctx.secret("token") == "t"
        return SensorResult(cursor="d", runs=[RunRequest("k", ["date=2026", "x=1"])])

    assert evaluation(call, function).answer() == SensorAnswer(
        cursor="d", runs=(SensorRun("k", ("date=2026", "x=1")),)
    )


def test_a_function_of_files_says_what_runs_and_the_sensor_keeps_the_cursor() -> None:
    folder = Folder()
    _, cursor, _ = folder.look("")
    folder.put("a.csv", "b.csv")
    call = SensorCall(sensor_id="p/s", name="s", kind="files", number=0, cursor=cursor, url="/x")

    def each(ctx: SensorContext) -> SensorResult:
        return SensorResult(runs=[RunRequest(f.path, config={"path": f.url}) for f in ctx.files])

    answer = evaluation(call, each, folder.store).answer()
    assert [run.key for run in answer.runs] == ["a.csv", "b.csv"]
    assert answer.cursor not in (None, cursor)
    with pytest.raises(TaskFailed, match="keeps its own"):
        evaluation(call, lambda ctx: SensorResult(cursor="x"), folder.store).answer()
    strange = SensorCall(sensor_id="p/s", name="s", kind="files", number=0, cursor="7")
    with pytest.raises(TaskFailed, match="is not one of a sensor of this kind"):
        evaluation(strange, each, folder.store).answer()


class BareProcess:
    """Stands for the slot's process."""

    def logger(self, name: str) -> logging.Logger:
        return logging.getLogger(name)

    def progress(self, percent: int, text: str) -> None: ...

    def own_changes(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def loaded(self) -> None: ...

    def called(self) -> None: ...


def test_a_result_that_holds_a_secret_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaky_sensor.py").write_text(
        "from servo import *\n"
        "@sensor(selection=['a.b'], secrets={'token': 'env:T'})\n"
        "def leak(ctx):\n"
        "    return SensorResult(cursor=ctx.secret('token'), runs=[RunRequest('k')])\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    clock = SimClock()
    shared = Shared(MemoryStore(clock), clock, lambda: "id", "w1", 1, BareProcess())
    code = CodeRef(artifact="", module="leaky_sensor", name="leak")
    request = msgspec.structs.replace(REQUEST, code=code)
    secrets = SecretValues({"token": "s3cr3t-value"})
    attempt = SensorAttempt(Assignment(shared, request, Stopping(), Loader(tmp_path), secrets))
    result, answer = attempt.run()
    assert (answer, result.outcome) == (None, "failed")
    assert result.error is not None and "holds a secret" in result.error.message
    assert "s3cr3t" not in repr(result)


@pytest.mark.parametrize(
    ("call", "answer", "effect"),
    [
        ({}, SensorAnswer(), False),
        ({}, SensorAnswer(cursor="1"), False),
        ({}, SensorAnswer(cursor="2"), True),
        ({}, SensorAnswer(runs=(SensorRun("a"),)), True),
        ({}, SensorAnswer(keys={"k": ("a",)}), True),
        ({}, SensorAnswer(skip_reason="x"), True),
        ({"skip_reason": "x"}, SensorAnswer(skip_reason="x"), False),
        ({"is_told": True}, SensorAnswer(), True),
    ],
)
def test_only_what_has_an_effect_is_recorded(
    call: dict[str, Any], answer: SensorAnswer, effect: bool
) -> None:
    fields: dict[str, Any] = {"sensor_id": "p/s", "name": "s", "kind": "polling", "number": 3}
    assert has_effect(SensorCall(**(fields | {"cursor": "1"} | call)), answer) is effect


def test_the_log_of_an_evaluation_is_kept_if_something_came_of_it() -> None:
    clock = SimClock()
    store = MemoryStore(clock)

    def report(path: str, answer: SensorAnswer) -> Any:
        log = LogCapture(store, path, clock, NO_REDACTION, interval_s=1e9)
        log.line("INFO", "looked")
        return evaluated(REQUEST, log, answer, None, "w1", 5)

    assert report("logs/quiet", SensorAnswer()) is None
    assert list(store.list("")) == []
    event = report("logs/loud", SensorAnswer(runs=(SensorRun("a"),)))
    assert (event.log, event.number) == ("logs/loud", 3)
    assert answer_of(event).runs == (SensorRun("a"),)
    assert [meta.path for meta in store.list("")] == ["logs/loud.000000.log"]


def test_a_result_that_does_not_fit_into_the_log_fails_with_what_to_do() -> None:
    rng = random.Random(1)
    runs = tuple(
        SensorRun(f"{rng.getrandbits(512):x}", config={"x": f"{rng.getrandbits(2000):x}"})
        for _ in range(10_000)
    )
    clock = SimClock()
    log = LogCapture(MemoryStore(clock), "logs/x", clock, NO_REDACTION, interval_s=1e9)
    event = evaluated(REQUEST, log, SensorAnswer(cursor="2", runs=runs), None, "w1", 5)
    assert event is not None and event.error is not None
    assert "too large" in event.error.message and "more=True" in event.error.hint
    assert event.answer is None and event.packed == ""
