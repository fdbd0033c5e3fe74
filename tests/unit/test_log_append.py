from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, NamespaceCreated
from arco.errors import AlreadyExists, Corrupt, Invalid, Unappended, Unavailable
from arco.log.envelope import MAX_EVENT_BYTES
from arco.storage import paths
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.keeping import keeping
from tests.kit.model import read_log
from tests.kit.workspace import inbox_names, make_workspace

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)


class Setting:
    """A writer behind hooks, and a committer of another process on the same store."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.hooks = HookStore(self.memory)
        self.writer = make_workspace(self.hooks, 1, clock=self.clock)
        self.other = make_workspace(self.memory, 2, clock=self.clock)

    def logged(self) -> list[str]:
        return [entry.id for entry in read_log(self.other)]


@pytest.fixture
def at() -> Setting:
    return Setting()


def test_append_is_one_create_and_reads_nothing(at: Setting) -> None:
    receipt = at.writer.ledger.append([FACT, FACT])
    assert at.hooks.calls == [("put", paths.inbox(receipt.batch))]
    assert len(set(receipt.event_ids)) == 2


def test_appended_events_are_in_the_log_once(at: Setting) -> None:
    receipt = at.writer.ledger.append([FACT, FACT])
    at.other.committer.commit()
    at.other.committer.commit()
    assert at.logged() == list(receipt.event_ids)


def test_event_of_another_workspace_is_refused(at: Setting) -> None:
    event = at.writer.ledger.event(FACT)
    for field in ("tenant_id", "workspace_id"):
        foreign = msgspec.structs.replace(event, **{field: "other"})
        with pytest.raises(Invalid, match="belongs to"):
            at.writer.ledger.append([foreign])
    assert at.hooks.calls == []


def test_event_that_the_log_could_not_hold_is_refused(at: Setting) -> None:
    event = at.writer.ledger.event(FACT)
    changes: list[dict[str, Any]] = [
        {"id": ""},
        {"type": ""},
        {"version": 0},
        {"version": 2**31},
        {"time": datetime(1, 1, 1)},
    ]
    for change in changes:
        with pytest.raises(Invalid):
            at.writer.ledger.append([msgspec.structs.replace(event, **change)])
    assert at.hooks.calls == []


def test_oversized_event_is_refused_before_anything_is_written(at: Setting) -> None:
    large = NamespaceCreated(namespace="n", description="x" * MAX_EVENT_BYTES)
    with pytest.raises(Invalid, match="limit") as caught:
        at.writer.ledger.append([large])
    assert "refer to it" in caught.value.hint
    assert at.hooks.calls == []


def test_text_that_utf8_cannot_hold_is_refused(at: Setting) -> None:
    with pytest.raises(Invalid):
        at.writer.ledger.append([NamespaceCreated(namespace="n", description="\ud800")])


def test_lost_response_of_a_batch_that_is_there_makes_no_second_batch(at: Setting) -> None:
    at.hooks.lose("put", paths.INBOX)
    receipt = at.writer.ledger.append([FACT])
    assert inbox_names(at.memory) == [receipt.batch]
    at.other.committer.commit()
    assert at.logged() == list(receipt.event_ids)


def test_put_without_effect_is_put_again(at: Setting) -> None:
    at.hooks.fail("put", paths.INBOX)
    receipt = at.writer.ledger.append([FACT])
    assert at.hooks.count("put", paths.INBOX) == 2
    at.other.committer.commit()
    assert at.logged() == list(receipt.event_ids)


def test_lost_response_of_a_batch_that_was_consumed_since_is_taken_once(at: Setting) -> None:
    receipt = _append_with_lost_response(at, lambda: at.other.committer.commit())
    at.other.committer.commit()
    assert inbox_names(at.memory) == []
    assert at.logged() == list(receipt)


def test_batch_consumed_while_its_put_hung_for_minutes_is_taken_once(at: Setting) -> None:
    def commit_then_hang() -> None:
        at.other.committer.commit()
        at.clock.advance(timedelta(minutes=20))

    receipt = _append_with_lost_response(at, commit_then_hang)
    at.other.committer.commit()
    assert inbox_names(at.memory) == []
    assert at.logged() == list(receipt)


def test_batch_of_a_writer_that_slept_past_what_gc_keeps_is_taken_once(at: Setting) -> None:
    def consumed_and_collected() -> None:
        for _ in range(4):
            at.other.ledger.append([FACT])
            at.other.committer.commit()
            at.clock.suspend(timedelta(days=2))
        at.other.upkeep.gc(
            keeping(generations=timedelta(days=1), at_least=1),
            dry_run=False,
        )
        assert at.other.manifests.find(1) is None

    _append_with_lost_response(at, consumed_and_collected)
    at.other.committer.commit()
    assert inbox_names(at.memory) == []
    assert len(at.logged()) == len(set(at.logged())) == 5


def _append_with_lost_response(at: Setting, meanwhile: Callable[[], object]) -> tuple[str, ...]:
    def lost() -> None:
        meanwhile()
        raise Unavailable("injected")

    at.hooks.after("put", paths.INBOX, lost)
    return at.writer.ledger.append([FACT]).event_ids


def test_already_exists_for_ones_own_batch_is_success(at: Setting) -> None:
    def exists() -> None:
        raise AlreadyExists("injected: the first try of the client library did arrive")

    at.hooks.after("put", paths.INBOX, exists)
    receipt = at.writer.ledger.append([FACT])
    at.other.committer.commit()
    assert at.logged() == list(receipt.event_ids)


def test_existence_that_is_told_and_not_true_acknowledges_nothing(at: Setting) -> None:
    """S3 says so while another create of the same key is under way, which may yet fail."""

    def conflict() -> None:
        raise AlreadyExists("injected: a conflicting operation is in progress")

    at.hooks.fail("put", paths.INBOX)
    at.hooks.before("put", paths.INBOX, conflict)
    receipt = at.writer.ledger.append([FACT])
    assert inbox_names(at.memory) == [receipt.batch]
    at.other.committer.commit()
    assert at.logged() == list(receipt.event_ids)


def test_another_batch_under_the_same_name_is_corrupt(at: Setting) -> None:
    name = at.other.ledger.append([FACT]).batch
    with pytest.raises(Corrupt, match=name):
        at.writer.ledger.append([FACT], batch=name)


def test_append_that_is_tried_again_under_its_name_is_in_the_log_once(at: Setting) -> None:
    event = at.writer.ledger.event(FACT)

    def lost_and_down_since() -> None:
        at.hooks.fail("put", paths.INBOX, times=3)
        raise Unavailable("injected")

    at.hooks.after("put", paths.INBOX, lost_and_down_since)
    with pytest.raises(Unappended) as caught:
        at.writer.ledger.append([event])
    at.other.committer.commit()
    at.other.committer.commit()
    assert at.writer.ledger.append([event], batch=caught.value.batch).batch == caught.value.batch
    at.other.committer.commit()
    assert at.logged() == [event.id]


@pytest.mark.parametrize("key", ["\ud800", "k" * 1025, "ü" * 513])
def test_key_that_the_log_cannot_hold_is_refused(at: Setting, key: str) -> None:
    with pytest.raises(Invalid, match="idempotency_key"):
        at.writer.ledger.append([at.writer.ledger.event(FACT, idempotency_key=key)])
    with pytest.raises(Invalid, match="actor"):
        at.writer.ledger.append([at.writer.ledger.event(FACT, actor=key)])
    assert at.hooks.calls == []


def test_outage_says_that_the_outcome_is_unknown(at: Setting) -> None:
    at.hooks.fail("put", paths.INBOX, times=9)
    with pytest.raises(Unavailable, match="may or may not"):
        at.writer.ledger.append([FACT])


def test_clear_refusal_of_the_store_is_not_retried(at: Setting) -> None:
    def denied() -> None:
        raise Invalid("injected")

    at.hooks.before("put", paths.INBOX, denied)
    with pytest.raises(Invalid):
        at.writer.ledger.append([FACT])
    assert len(at.hooks.calls) == 1


def test_signal_hands_over_the_names_of_new_batches(at: Setting) -> None:
    w: Workspace = at.writer
    names = [w.ledger.append([FACT]).batch for _ in range(2)]
    assert w.writer.signal.wait(0) == names
    assert w.writer.signal.wait(0) == []
