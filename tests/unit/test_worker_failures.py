"""Failures: each kind of exception has its category, and no exception breaks the report."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from arco.errors import Conflict, Corrupt, Denied, Fenced, NotFound, Unavailable
from arco.spark.error_info import SparkFailure
from arco.tasks.failure import SparkUnavailable
from arco.worker.failures import (
    MAX_TRACEBACK_BYTES,
    Interrupted,
    TaskTimeout,
    classify,
    failed,
)
from servo.contract.sensing import SensorCall
from servo.contract.task import CodeRef
from servo.errors import Cancelled, Error, Invalid
from tests.unit.test_transport_task_envelope import make_request


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Quota(Error):
    pass


CASES: list[tuple[BaseException, str, str, bool]] = [
    (MemoryError(), "infrastructure", "os.memory", True),
    (OSError(errno.ENOSPC, "full"), "infrastructure", "os.no_space", True),
    (OSError(errno.ECONNREFUSED, "refused"), "transient", "os.connection", True),
    (ConnectionResetError(), "transient", "os.connection", True),
    (TimeoutError(), "transient", "os.timeout", True),
    (PermissionError(errno.EACCES, "no"), "configuration", "os.denied", False),
    (FileNotFoundError(errno.ENOENT, "x"), "user_code", "user_code.FileNotFoundError", False),
    (OSError("odd"), "user_code", "user_code.OSError", False),
    (Unavailable("x"), "transient", "store.unavailable", True),
    (Conflict("x"), "transient", "store.conflict", True),
    (NotFound("x"), "input", "input.missing", False),
    (Corrupt("x"), "infrastructure", "store.corrupt", True),
    (Denied("x"), "infrastructure", "store.denied", True),
    (Fenced("x"), "cancelled", "cancelled.fenced", False),
    (ModuleNotFoundError("x", name="x"), "configuration", "import.missing", False),
    (ImportError("x"), "user_code", "user_code.ImportError", False),
    (AssertionError(), "user_code", "user_code.AssertionError", False),
    (ValueError("bad"), "user_code", "user_code.ValueError", False),
    (KeyError("k"), "user_code", "user_code.KeyError", False),
    (SystemExit(3), "user_code", "user_code.SystemExit", False),
    (KeyboardInterrupt(), "user_code", "user_code.KeyboardInterrupt", False),
    (Invalid("bad"), "user_code", "user_code.Invalid", False),
    (Quota("over"), "user_code", "user_code.Quota", False),
    (Cancelled("stop"), "cancelled", "cancelled.task", False),
    (Interrupted(), "cancelled", "cancelled.task", False),
    (TaskTimeout(), "timeout", "timeout.task", True),
    (Unspeakable(), "user_code", "user_code.Unspeakable", False),
    (ExceptionGroup("g", [ValueError("a")]), "user_code", "user_code.ExceptionGroup", False),
]


@pytest.mark.parametrize(
    ("error", "category", "code", "retriable"),
    CASES,
    ids=[type(case[0]).__name__ for case in CASES],
)
def test_an_exception_has_its_category(
    error: BaseException, category: str, code: str, retriable: bool
) -> None:
    info = classify(error)
    assert (info.category, info.code, info.retriable) == (category, code, retriable)
    assert info.exception == type(error).__name__
    assert info.message and (info.hint or category == "cancelled")


def test_a_hint_of_the_user_is_kept() -> None:
    info = classify(Quota("too much", hint="ask Ada"))
    assert (info.message, info.hint) == ("too much", "ask Ada")


def test_what_was_understood_before_stays_as_it_is() -> None:
    info = classify(failed("input", "input.missing", "gone", "make it"))
    assert (info.category, info.code, info.hint) == ("input", "input.missing", "make it")


def test_texts_are_redacted() -> None:
    def mask(text: str) -> str:
        return text.replace("hunter2", "***")

    try:
        raise Quota("hunter2 is wrong", hint="not hunter2")
    except Quota as error:
        info = classify(error, redact=mask)
    assert "hunter2" not in f"{info}" and "*** is wrong" in info.traceback


def test_the_place_is_the_last_line_of_the_users_code(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("import json\ndef f():\n    json.loads('{')\n")
    scope: dict[str, object] = {}
    exec(compile(source.read_text(), str(source), "exec"), scope)
    try:
        scope["f"]()  # type: ignore[operator]
    except ValueError as error:
        info = classify(error, folder=tmp_path)
    assert (info.file, info.line) == ("mine.py", 3)
    assert str(tmp_path) not in info.traceback and 'File "mine.py", line 3' in info.traceback


def test_an_endless_traceback_is_bounded_and_keeps_its_end() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 50_000 + "END")
        deep(n - 1)

    try:
        deep(300)
    except ValueError as error:
        info = classify(error)
    assert len(info.traceback.encode()) <= MAX_TRACEBACK_BYTES
    assert info.traceback.endswith("END\n") and info.traceback.startswith("Traceback")


def test_causes_and_groups_are_shown() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ExceptionGroup("many", [ValueError("second")]) from error
    except ExceptionGroup as error:
        text = classify(error).traceback
    assert "first" in text and "many" in text and "second" in text


def test_libraries_have_connection_errors_of_their_own() -> None:
    theirs = type("ConnectionError", (OSError,), {})
    assert classify(type("ProxyError", (theirs,), {})("x")).category == "transient"


def test_a_message_that_utf8_cannot_hold_is_escaped() -> None:
    info = classify(FileNotFoundError("caf\udce9.csv"))
    assert info.message == "caf\\udce9.csv"
    assert msgspec.json.encode(info)


def test_a_spark_that_does_not_start_is_infrastructure() -> None:
    info = classify(SparkUnavailable("Spark needs Java", hint="install it"))
    assert (info.category, info.code, info.retriable) == (
        "infrastructure",
        "spark.unavailable",
        True,
    )
    assert (info.message, info.hint) == ("Spark needs Java", "install it")


def test_a_spark_that_is_not_installed_is_not_retried() -> None:
    info = classify(SparkUnavailable("Spark needs Java", hint="install it", permanent=True))
    assert (info.category, info.code, info.retriable) == (
        "configuration",
        "spark.unavailable",
        False,
    )


def mask(text: str) -> str:
    return text.replace("hunter2", "***")


def in_file(source: Path, text: str) -> BaseException:
    """What is raised by the function `f` of this source."""
    source.write_text(text)
    scope: dict[str, object] = {"failed": failed}
    exec(compile(text, str(source), "exec"), scope)
    try:
        scope["f"]()  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError


def test_what_spark_says_has_no_secrets_and_is_bounded(tmp_path: Path) -> None:
    error = in_file(tmp_path / "mine.py", "def f():\n    raise ValueError('hunter2')\n")
    long = "x" * 395 + "hunter2"  # a cut must not leave half of it
    spark = SparkFailure(
        category="user_code",
        code="spark.x",
        message="hunter2",
        hint="hunter2",
        details="\n".join(["url: hunter2 \udce9", long, *(["y" * 300] * 100)]),
    )
    info = classify(error, redact=mask, folder=tmp_path, spark=spark)
    text = msgspec.json.encode(info).decode()
    assert "hunt" not in text and "url: *** " in text and 'File \\"mine.py\\", line 2' in text
    assert len(info.traceback.encode()) <= MAX_TRACEBACK_BYTES


def test_what_was_understood_shows_the_users_lines_or_none(tmp_path: Path) -> None:
    source = "def f():\n    raise failed('input', 'input.missing', 'hunter2 is gone')\n"
    error = in_file(tmp_path / "mine.py", source)
    info = classify(error, folder=tmp_path, redact=mask)
    assert (info.file, info.line) == ("mine.py", 2)
    assert "failures.py" not in info.traceback and "failed.py" not in info.traceback
    assert info.traceback.startswith("Traceback") and info.traceback.endswith("*** is gone\n")
    try:
        raise failed("user_code", "output.type", "what is this?")
    except Exception as error:
        assert classify(error, folder=tmp_path).traceback == ""


def test_bad_output_is_placed_at_the_declaration_and_names_the_asset() -> None:
    request = make_request(code=CodeRef(artifact="a", module="m", name="f", file="m.py", line=7))
    info = classify(failed("user_code", "output.columns", "two columns"), request=request)
    assert (info.file, info.line) == ("m.py", 7)
    assert info.message == f"{request.asset}: two columns"
    named = failed("configuration", "checks.invalid", f"{request.asset} has no column 'y'")
    assert classify(named, request=request).message == named.info.message
    raised = classify(ValueError("bad"), request=request)
    assert (raised.file, raised.line, raised.message) == ("m.py", 7, "bad")
    placed = failed("user_code", "x", "there", file="q.sql", line=2)
    info = classify(placed, request=request)
    assert (info.file, info.line, info.message) == ("q.sql", 2, "there")
    assert classify(MemoryError("x"), request=request).file == ""


def test_a_job_that_nobody_asked_to_end_is_tried_again() -> None:
    spark = SparkFailure(category="cancelled", code="cancelled.spark", message="Job 1 cancelled")
    info = classify(RuntimeError("x"), spark=spark)
    assert (info.category, info.code) == ("infrastructure", "spark.job_cancelled")
    assert info.retriable and info.hint


def test_the_hint_for_what_a_sensor_raises_names_the_sensor() -> None:
    call = SensorCall(sensor_id="p/s", name="s", kind="polling", number=0)
    request = msgspec.structs.replace(make_request(), asset="sensor p/s", sensor=call)
    hint = classify(ValueError("no"), request=request).hint
    assert hint == "correct the code of sensor p/s; the traceback shows where"
