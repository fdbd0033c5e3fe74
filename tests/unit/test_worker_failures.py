"""Failures: each kind of exception has its category, and no exception breaks the report."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from arco.errors import Conflict, Corrupt, Denied, Fenced, NotFound, Unavailable
from arco.spark.failed import SparkUnavailable
from arco.worker.failures import (
    MAX_TRACEBACK_BYTES,
    Interrupted,
    TaskTimeout,
    classify,
    failed,
)
from servo.errors import Cancelled, Error, Invalid


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
    (Denied("x"), "configuration", "store.denied", False),
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
