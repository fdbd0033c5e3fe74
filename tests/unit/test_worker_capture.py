"""Logs: whole lines, of one attempt alone, bounded, and without secrets."""

from __future__ import annotations

import time
import tracemalloc
from datetime import timedelta
from pathlib import Path

from arco.clock import SystemClock
from arco.errors import NotFound, Unavailable
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode, Store
from arco.worker.capture import LogCapture
from arco.worker.log_parts import RunLogs
from arco.worker.secrets import Redactor
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.latency import LatencyStore

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

    def out(self, text: str | bytes, stream: str = "stdout", piece: int = 1 << 18) -> None:
        """As it comes through a pipe: in pieces."""
        data = text.encode() if isinstance(text, str) else text
        for start in range(0, len(data), piece):
            self.capture.write(stream, data[start : start + piece])

    @property
    def parts(self) -> list[str]:
        return [self.store.get(meta.path).data.decode() for meta in self.store.list("log.")]

    @property
    def text(self) -> str:
        if not self.parts:
            raise NotFound("nothing is logged")
        return "".join(self.parts)

    @property
    def lines(self) -> list[str]:
        return [line.removeprefix(f"{STAMP} ") for line in self.text.splitlines()]


def test_a_line_has_its_time_and_stream() -> None:
    log = Log()
    log.out("hello\n")
    log.out("oops\n", "stderr")
    log.capture.close("succeeded")
    assert log.text == (f"{STAMP} stdout  hello\n{STAMP} stderr  oops\n{STAMP} END     succeeded\n")


def test_silence_writes_nothing_unless_it_must() -> None:
    log = Log()
    log.capture.close("succeeded")
    assert log.parts == []
    loud = Log()
    loud.capture.close("failed: x", always=True)
    assert loud.lines == ["END     failed: x"]


def test_pieces_are_joined_and_an_unfinished_line_is_kept() -> None:
    log = Log()
    log.out("a")
    log.out("b\nc")
    log.capture.close("ok")
    assert log.lines == ["stdout  ab", "stdout  c", "END     ok"]


def test_progress_bars_become_lines_and_bytes_are_text() -> None:
    log = Log()
    log.out("\r10%\r20%\r\n", "stderr")
    log.out(b"raw \xff\n")
    log.capture.close("ok")
    assert log.lines == ["stderr  10%", "stderr  20%", "stdout  raw \\xff", "END     ok"]


def test_a_secret_printed_in_pieces_is_masked() -> None:
    log = Log("hunter2")
    log.out("my hunter2!\n", piece=1)
    log.out("x" * (64 << 10) + "hun")
    log.out("ter2 end\n")
    log.capture.close("knows hunter2")
    assert "hunter2" not in log.text and "hun" not in log.text.replace("***", "")
    assert log.lines[0] == "stdout  my ***!" and log.lines[-1] == "END     knows ***"


def test_a_long_log_is_cut_with_a_note_and_keeps_its_outcome() -> None:
    log = Log(limit=1000)
    for _ in range(1000):
        log.out("x" * 50 + "\n")
    log.capture.close("failed: y")
    assert len(log.text) < 1200
    assert log.lines[-2:] == ["WARNING the log is truncated at 1000 bytes", "END     failed: y"]


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
    assert b"soon" in store.get("log.000000.log").data
    capture.close("ok")


def test_a_store_that_refuses_the_log_does_not_fail_the_task() -> None:
    tried: list[str] = []

    class Down(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            tried.append(path)
            raise Unavailable("down")

    clock = SimClock()
    capture = LogCapture(Down(clock), "log", clock, Redactor())
    capture.line("INFO", "x")
    clock.advance(timedelta(seconds=10))
    capture.tick()
    capture.close("ok")
    assert tried


def test_one_endless_line_takes_little_memory_and_is_kept_as_several() -> None:
    log, chars = Log("hunter2", limit=1 << 20), 64 << 20
    piece = "y" * (1 << 18)
    tracemalloc.start()
    for _ in range(chars // len(piece)):
        log.out(piece)
    log.capture.close("succeeded")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < chars / 4
    assert "the log is truncated at" in log.text
    assert max(map(len, log.lines)) < 100_000


def test_a_secret_across_the_pieces_of_an_endless_line_is_masked() -> None:
    for before in range((1 << 20) - 12, (1 << 20) + 3):
        log = Log("tops3cret-value", limit=4 << 20)
        log.out("y" * before + "tops3cret-value" + "z" * 100_000)
        log.capture.close("succeeded")
        kept = "".join(line.removeprefix("stdout").strip() for line in log.lines)
        assert "***" in kept and "s3cret" not in kept


def test_characters_that_are_cut_between_two_pieces_are_whole() -> None:
    log = Log(limit=8 << 20)
    log.out("€" * 700_000, piece=1000)
    log.capture.close("succeeded")
    kept = "".join(line.removeprefix("stdout").strip() for line in log.lines[:-1])
    assert kept == "€" * 700_000


# -- parts ---------------------------------------------------------------------------------


class Chatty(Log):
    """Logs a line, and stores it, so many times."""

    def say(self, count: int) -> None:
        for number in range(count):
            self.capture.line("INFO", f"line {number} " + "x" * 200)
            self.clock.advance(timedelta(minutes=2))
            self.capture.tick()


def test_what_is_stored_is_what_was_logged_once() -> None:
    log = Chatty()
    store = log.store
    latency = LatencyStore(store, 0.0)
    log.capture.store = latency
    log.say(50)
    log.capture.close("ok")
    assert latency.size("put") == len(log.text.encode())
    assert len(log.parts) == 51
    assert log.text.count("line ") == 50


def test_parts_come_less_often_the_longer_a_task_logs() -> None:
    log = Log()
    for _ in range(3_600):
        log.capture.line("INFO", "a second")
        log.clock.advance(timedelta(seconds=1))
        log.capture.tick()
    assert len(log.parts) < 100
    log.capture.close("ok")
    assert log.text.count("a second") == 3_600


def test_part_whose_outcome_is_unknown_goes_again_as_it_was() -> None:
    log = Log()
    hooks = HookStore(log.store)
    log.capture.store = hooks
    hooks.lose("put", "log.")
    log.capture.line("INFO", "first")
    log.clock.advance(timedelta(minutes=2))
    log.capture.tick()
    log.capture.line("INFO", "second")
    log.capture.close("ok")
    assert [part.count("\n") for part in log.parts] == [1, 2]
    assert log.text.count("first") == log.text.count("second") == 1


def test_flusher_that_comes_after_the_end_changes_nothing() -> None:
    log = Log()
    log.capture.line("INFO", "kept")
    log.capture.close("ok")
    stored = log.parts
    log.capture.store_new()  # as a thread does that asked whether it had ended just before
    assert log.parts == stored and "kept" in log.text


# -- reading -------------------------------------------------------------------------------


def captured(store: Store, task: str, attempt: int, nonce: str) -> LogCapture:
    path = paths.attempt_log("r", task, attempt, nonce)
    return LogCapture(store, path, SimClock(), Redactor(), interval_s=0.0)


def test_logs_are_read_by_task_and_attempt_in_the_order_of_their_parts() -> None:
    store = MemoryStore(SystemClock())
    for task, attempt, nonce in (("b", 10, "n"), ("a", 2, "2"), ("a", 2, "1"), ("b", 9, "n")):
        log = captured(store, task, attempt, nonce)
        log.line("INFO", f"{task} {attempt} {nonce}")
        log.store_new()
        log.close("ok")
    store.put("logs/r/a/1.log", b"whole\n")
    texts = RunLogs(store, "r").new(["b", "a"])
    assert [(t.task_id, t.attempt) for t in texts] == [("b", 9), ("b", 10), ("a", 1), ("a", 2)]
    assert [line[36:] for line in texts[-1].text.splitlines()] == ["a 2 1", "ok", "a 2 2", "ok"]
    assert texts[2].text == "whole\n"


def test_following_fetches_only_what_is_new() -> None:
    store = LatencyStore(MemoryStore(SystemClock()), 0.0)
    log = captured(store, "a", 1, "n")
    logs = RunLogs(store, "r")
    assert logs.new(["a"]) == []
    for number in range(5):
        log.line("INFO", f"line {number}")
        log.store_new()
        (new,) = logs.new(["a"])
        assert new.text.endswith(f"line {number}\n") and new.text.count("\n") == 1
    assert logs.new(["a"]) == []
    assert store.size("get") == store.size("put")
    store.put("logs/r/a/1.log", b"one\n", Mode.OVERWRITE)
    assert logs.new(["a"])[0].text == "one\n"
    store.put("logs/r/a/1.log", b"one\ntwo\n", Mode.OVERWRITE)
    assert logs.new(["a"])[0].text == "two\n"
