from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from arco.catalog.events import AssetObserved
from arco.clock import SystemClock
from arco.errors import Denied, Unappended, Unavailable
from arco.log.envelope import MAX_EVENT_BYTES, decode_batch
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.transport import reports as module
from arco.transport.reports import Reports
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.workspace import NAME, TENANT, make_workspace

LINGER_S = 0.05


def fact(name: str) -> AssetObserved:
    return AssetObserved(asset_id=name, row_count=1, size_bytes=2)


TOO_LARGE = "x" * (MAX_EVENT_BYTES + 1)


class Setting:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = HookStore(MemoryStore(self.clock))
        self.workspace = make_workspace(self.store, clock=self.clock)
        self.woken: list[str] = []
        self.reports = Reports(
            self.workspace.ledger,
            self.clock,
            wake=lambda: self.woken.append("woken"),
            linger_s=LINGER_S,
        )

    def fail(self, times: int = 1) -> None:
        """The next appends fail, with all their attempts."""
        self.store.fail("put", paths.INBOX, times=5 * times)

    def batches(self) -> list[list[str]]:
        """What was appended, batch by batch, in order."""
        found = []
        for meta in self.workspace.store.list(paths.INBOX):
            batch = decode_batch(
                self.workspace.store.get(meta.path).data, TENANT, NAME, paths.inbox_name(meta.path)
            )
            payloads = [self.workspace.core.types.decode(e.type, 1, e.data) for e in batch.events]
            found.append([p.asset_id for p in payloads if isinstance(p, AssetObserved)])
        return found


@pytest.fixture
def at() -> Setting:
    return Setting()


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


# When


def test_nothing_is_due_where_nothing_waits(at: Setting) -> None:
    assert at.reports.due_in_s is None
    assert at.reports.flush() == []
    assert at.store.calls == []


def test_what_is_not_urgent_lingers_counted_from_the_first(at: Setting) -> None:
    at.reports.submit([fact("a")], urgent=False)
    assert at.reports.due_in_s == pytest.approx(LINGER_S)
    at.clock.sleep(0.03)
    at.reports.submit([fact("b")], urgent=False)
    assert at.reports.due_in_s == pytest.approx(LINGER_S - 0.03)
    at.clock.sleep(1)
    assert at.reports.due_in_s == 0.0
    at.reports.flush()
    assert at.reports.due_in_s is None
    at.reports.submit([fact("c")], urgent=False)
    assert at.reports.due_in_s == pytest.approx(LINGER_S)


def test_what_is_urgent_is_due_at_once_and_wakes(at: Setting) -> None:
    at.reports.submit([fact("a")], urgent=False)
    assert at.woken == []
    at.reports.submit([fact("b")])
    assert at.woken == ["woken"]
    assert at.reports.due_in_s == 0.0
    at.reports.submit([fact("c")], urgent=False)
    assert at.reports.due_in_s == 0.0


# Batches


def test_all_that_waits_goes_in_one_batch_in_order(at: Setting) -> None:
    at.reports.submit([fact("a"), fact("b")], urgent=False)
    at.reports.submit([fact("c")])
    (batch,) = at.reports.flush()
    assert at.batches() == [["a", "b", "c"]]
    assert len(batch.events) == 3
    assert at.store.count("put", paths.inbox(batch.name)) == 1


def test_batches_are_kept_small(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_EVENTS", 2)
    at.reports.submit([fact(name) for name in "abcde"])
    assert len(at.reports.flush()) == 3
    assert at.batches() == [["a", "b"], ["c", "d"], ["e"]]


def test_batches_are_split_by_their_bytes(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 2_000)
    large = "y" * 3_000
    at.reports.submit([fact(name) for name in ("a", "b", large, "c")])
    at.reports.flush()
    assert at.batches() == [["a", "b"], [large], ["c"]]


def test_submitting_nothing_is_done_at_once(at: Setting) -> None:
    called: list[str] = []
    at.reports.submit([], done=lambda: called.append("done"))
    assert called == ["done"]
    assert at.reports.due_in_s is None


# Callbacks


def test_callback_comes_after_the_events_are_durable(at: Setting) -> None:
    seen: list[list[list[str]]] = []
    at.reports.submit([fact("a"), fact("b")], done=lambda: seen.append(at.batches()))
    assert seen == []
    at.reports.flush()
    assert seen == [[["a", "b"]]]


def test_callback_of_events_in_two_batches_comes_after_the_second(
    at: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_EVENTS", 2)
    called: list[str] = []
    at.reports.submit([fact(name) for name in "abc"], done=lambda: called.append("done"))
    at.store.after("put", paths.INBOX, at.fail)
    with pytest.raises(Unavailable):
        at.reports.flush()
    assert (at.batches(), called) == ([["a", "b"]], [])
    at.reports.flush()
    assert (at.batches(), called) == ([["a", "b"], ["c"]], ["done"])


def test_callback_that_fails_takes_no_other_with_it(
    at: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []
    at.reports.submit([fact("a")], done=raising(ValueError("broken")))
    at.reports.submit([fact("b")], done=lambda: called.append("b"))
    assert len(at.reports.flush()) == 1
    assert called == ["b"]
    assert "broken" in caplog.text
    assert at.reports.due_in_s is None


def test_callback_may_submit_and_flush(at: Setting) -> None:
    def more() -> None:
        at.reports.submit([fact("b")])
        at.reports.flush()

    at.reports.submit([fact("a")], done=more)
    at.reports.flush()
    assert at.batches() == [["a"], ["b"]]


# Failures


@pytest.mark.parametrize("error", [Unavailable("injected"), Denied("injected"), KeyError("bug")])
def test_whatever_fails_keeps_events_and_their_order(at: Setting, error: Exception) -> None:
    called: list[str] = []
    at.reports.submit([fact("a")], urgent=False, done=lambda: called.append("a"))
    at.reports.submit([fact("b")], urgent=False)
    at.store.before("put", paths.INBOX, raising(error), times=5)
    with pytest.raises(type(error)):
        at.reports.flush()
    assert (at.reports.due_in_s, called) == (0.0, [])
    at.reports.submit([fact("c")], urgent=False)
    at.store.clear()
    at.reports.flush()
    # A batch that may have arrived goes again as it was.
    assert at.batches() == [["a", "b"], ["c"]]
    assert called == ["a"]


def test_fact_that_is_no_result_and_too_large_is_dropped_and_the_others_are_not(
    at: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []
    for name in ("a", "b", TOO_LARGE, "c", "d"):
        at.reports.submit([fact(name)], done=partial(called.append, name[:1]))
    names = [batch.name for batch in at.reports.flush()]
    found = at.batches()
    assert [name for batch in found for name in batch] == ["a", "b", "c", "d"]
    assert len(names) == len(found)
    assert "" not in names
    assert called == ["a", "b", "x", "c", "d"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "is dropped" in record.message
    assert len(record.message) < 500


def test_batch_whose_outcome_is_unknown_keeps_its_name_whatever_fails_then(at: Setting) -> None:
    at.reports.submit([fact("a")], urgent=False)

    def lost_and_denied_since() -> None:
        at.store.before("put", paths.INBOX, raising(Denied("injected")), times=6)
        raise Unavailable("injected")

    at.store.after("put", paths.INBOX, lost_and_denied_since)
    with pytest.raises(Unappended):
        at.reports.flush()
    with pytest.raises(Denied):
        at.reports.flush()
    at.store.clear()
    at.reports.submit([fact("b")], urgent=False)
    at.reports.flush()
    assert at.batches() == [["a"], ["b"]]


def test_event_larger_than_a_batch_blocks_nobody(at: Setting) -> None:
    at.reports.submit([fact("z" * (module.BATCH_BYTES + 1)), fact("a")])
    at.reports.flush()
    assert at.batches() == [["a"]]
    assert at.reports.due_in_s is None


def test_halves_that_were_appended_are_not_appended_again(at: Setting) -> None:
    called: list[str] = []
    at.reports.submit([fact("a")], done=lambda: called.append("a"))
    at.reports.submit([fact("b"), fact(TOO_LARGE), fact("c")])
    at.store.after("put", paths.INBOX, at.fail)
    with pytest.raises(Unavailable):
        at.reports.flush()
    assert called == ["a"]
    at.reports.flush()
    assert sorted(name for batch in at.batches() for name in batch) == ["a", "b", "c"]


# Threads


def test_reports_of_many_threads_are_all_appended_each_in_order() -> None:
    clock = SystemClock()
    workspace = make_workspace(MemoryStore(clock), clock=clock)
    reports = Reports(workspace.ledger, clock, linger_s=0.002)
    stop = threading.Event()
    done: list[str] = []

    def slot(n: int) -> None:
        for i in range(50):
            name = f"{n}-{i:03d}"
            reports.submit([fact(name)], urgent=i % 5 == 0, done=partial(done.append, name))
            if i % 20 == 0:
                reports.flush()

    flushing = threading.Thread(target=reports.run, args=(stop,))
    flushing.start()
    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(slot, n) for n in range(4)]:
            each.result()
    stop.set()
    flushing.join(30)
    assert not flushing.is_alive()
    assert len(done) == 200
    found: list[str] = []
    for meta in workspace.store.list(paths.INBOX):
        batch = decode_batch(
            workspace.store.get(meta.path).data, TENANT, NAME, paths.inbox_name(meta.path)
        )
        payloads = [workspace.core.types.decode(e.type, 1, e.data) for e in batch.events]
        found += [p.asset_id for p in payloads if isinstance(p, AssetObserved)]
    assert sorted(found) == sorted(f"{n}-{i:03d}" for n in range(4) for i in range(50))
    for n in range(4):
        own = [name for name in found if name.startswith(f"{n}-")]
        assert own == sorted(own)


@pytest.mark.parametrize("error", [Unavailable("injected"), Denied("injected"), KeyError("bug")])
def test_who_runs_goes_on_after_failures_and_ends_with_nothing_left(
    at: Setting, error: Exception
) -> None:
    at.store.before("put", paths.INBOX, raising(error), times=7)
    at.reports.submit([fact("a")], urgent=False)
    stop = threading.Event()
    stop.set()
    at.reports.run(stop)
    assert at.batches() == [["a"]]


def test_reports_end_although_the_store_stays_down_and_say_what_is_left(
    at: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    at.store.before("put", paths.INBOX, raising(Denied("injected")), times=10_000)
    done: list[str] = []
    at.reports.submit([fact("a")], done=lambda: done.append("a"))
    stop = threading.Event()
    stop.set()
    at.reports.run(stop)
    assert (at.reports.waiting, done) == (1, [])
    assert "1 reports were not appended" in caplog.records[-1].getMessage()
