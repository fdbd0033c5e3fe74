"""Logs: whole lines, of one attempt alone, bounded, and without secrets."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import tracemalloc
from datetime import timedelta
from pathlib import Path

import pytest

from arco.clock import SystemClock
from arco.errors import NotFound, Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.worker.capture import LogCapture
from arco.worker.secrets import Redactor
from tests.kit.clocks import SimClock

STAMP = "2026-01-01T00:00:00.000000Z"


class Log:
    """A capture with the store it writes to."""

    def __init__(self, *secrets: str, **settings: float) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(self.clock)
        limit, interval = int(settings.get("limit", 1 << 20)), settings.get("interval", 5.0)
        self.capture = LogCapture(
            self.store, "log", self.clock, Redactor(secrets), limit_bytes=limit, interval_s=interval
        )

    @property
    def text(self) -> str:
        return self.store.get("log").data.decode()

    @property
    def lines(self) -> list[str]:
        return [line.removeprefix(f"{STAMP} ") for line in self.text.splitlines()]


def test_a_line_has_its_time_and_stream() -> None:
    log = Log()
    with log.capture.active():
        print("hello")
        print("oops", file=sys.stderr)
    log.capture.close("succeeded")
    assert log.text == (f"{STAMP} stdout  hello\n{STAMP} stderr  oops\n{STAMP} END     succeeded\n")


def test_silence_writes_nothing_unless_it_must() -> None:
    log = Log()
    log.capture.close("succeeded")
    with pytest.raises(NotFound):
        log.store.get("log")
    loud = Log()
    loud.capture.close("failed: x", always=True)
    assert loud.lines == ["END     failed: x"]


def test_pieces_are_joined_and_an_unfinished_line_is_kept() -> None:
    log = Log()
    with log.capture.active():
        print("a", end="")
        print("b\nc", end="")
    log.capture.close("ok")
    assert log.lines == ["stdout  ab", "stdout  c", "END     ok"]


def test_progress_bars_become_lines_and_bytes_are_text() -> None:
    log = Log()
    with log.capture.active():
        sys.stderr.write("\r10%\r20%\r\n")
        sys.stdout.buffer.write(b"raw \xff\n")
    log.capture.close("ok")
    assert log.lines == ["stderr  10%", "stderr  20%", "stdout  raw \\xff", "END     ok"]


def test_what_is_printed_outside_goes_where_it_always_went(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Log()
    with log.capture.active():
        print("inside")
    print("outside")
    assert capsys.readouterr().out == "outside\n"


def test_loggers_are_captured_with_level_and_traceback() -> None:
    log = Log("hunter2")
    with log.capture.active():
        log.capture.logger("sales.x").info("n=%d", 3)
        try:
            raise ValueError("hunter2")
        except ValueError:
            logging.getLogger("some.library").exception("failed with hunter2")
    log.capture.close("ok")
    assert log.lines[0] == "INFO    n=3"
    assert log.lines[1] == "ERROR   failed with ***"
    assert log.lines[-2] == "ERROR   ValueError: ***"


def test_handlers_after_ours_see_no_secret() -> None:
    class Keeper(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.texts.append(self.format(record))

    keeper, log = Keeper(), Log("hunter2")
    logging.root.addHandler(keeper)
    try:
        with log.capture.active():
            try:
                raise ValueError("hunter2")
            except ValueError:
                logging.getLogger("lib").exception("token %s", "hunter2")
    finally:
        logging.root.removeHandler(keeper)
    assert "token ***" in keeper.texts[0] and "hunter2" not in keeper.texts[0]


def test_a_bad_format_does_not_break_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log()
    with log.capture.active():
        log.capture.logger("x").info("%d", "not a number")
    log.capture.close("ok", always=True)
    assert log.lines[-1] == "END     ok"


def test_a_secret_printed_in_pieces_is_masked() -> None:
    log = Log("hunter2")
    with log.capture.active():
        for letter in "my hunter2!":
            sys.stdout.write(letter)
        print()
        sys.stdout.write("x" * (64 << 10) + "hun")
        sys.stdout.write("ter2 end\n")
    log.capture.close("knows hunter2")
    assert "hunter2" not in log.text and "hun" not in log.text.replace("***", "")
    assert log.lines[0] == "stdout  my ***!" and log.lines[-1] == "END     knows ***"


def test_a_long_log_is_cut_with_a_note_and_keeps_its_outcome() -> None:
    log = Log(limit=1000)
    with log.capture.active():
        for _ in range(1000):
            print("x" * 50)
    log.capture.close("failed: y")
    assert len(log.text) < 1200
    assert log.lines[-2:] == ["WARNING the log is cut at 1000 bytes", "END     failed: y"]


def test_a_growing_log_is_stored_at_intervals() -> None:
    log = Log()
    log.capture.line("INFO", "one")
    log.capture.tick()
    assert list(log.store.list("")) == []
    log.clock.advance(timedelta(seconds=5))
    assert log.capture.tick()
    assert "one" in log.text
    log.capture.line("INFO", "two")
    log.capture.close("ok")
    assert [line[20:] for line in log.text.splitlines()][-1].endswith("ok")
    assert not log.capture.tick()


def test_the_interval_needs_no_help(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    capture = LogCapture(store, "log", SystemClock(), Redactor(), interval_s=0.01)
    capture.line("INFO", "soon")
    deadline = time.monotonic() + 5
    while not list(store.list("")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert b"soon" in store.get("log").data
    capture.close("ok")


def test_a_store_that_refuses_the_log_does_not_fail_the_task() -> None:
    class Down(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            raise Unavailable("down")

    clock = SimClock()
    capture = LogCapture(Down(clock), "log", clock, Redactor())
    capture.line("INFO", "x")
    clock.advance(timedelta(seconds=10))
    capture.tick()
    capture.close("ok")


def test_a_thread_that_outlives_its_task_still_shows_no_secret(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, go = Log("hunter2"), threading.Event()

    def late() -> None:
        go.wait()
        print("late hunter2")

    with log.capture.active():
        thread = threading.Thread(target=late)
        thread.start()
    log.capture.close("ok")
    go.set()
    thread.join()
    assert capsys.readouterr().out == "late ***\n"
    with contextlib.suppress(NotFound):
        assert "late" not in log.text


def test_one_endless_line_takes_little_memory_and_is_kept_as_several() -> None:
    log, chars = Log("hunter2", limit=1 << 20), 64 << 20
    text = "y" * chars
    tracemalloc.start()
    log.capture.write("stdout", text)
    log.capture.close("succeeded")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < chars / 2
    assert "the log is cut at" in log.text
    assert max(map(len, log.lines)) < 100_000


def test_a_secret_across_the_pieces_of_an_endless_line_is_masked() -> None:
    for before in range((1 << 20) - 12, (1 << 20) + 3):
        log = Log("tops3cret-value", limit=4 << 20)
        log.capture.write("stdout", "y" * before + "tops3cret-value" + "z" * 100_000)
        log.capture.close("succeeded")
        kept = "".join(line.removeprefix("stdout").strip() for line in log.lines)
        assert "***" in kept and "s3cret" not in kept


def test_bytes_that_are_printed_at_once_are_decoded_whole() -> None:
    log = Log(limit=8 << 20)
    with log.capture.active():
        assert sys.stdout.buffer.write(("€" * 700_000).encode()) == 2_100_000
    log.capture.close("succeeded")
    kept = "".join(line.removeprefix("stdout").strip() for line in log.lines[:-1])
    assert kept == "€" * 700_000
