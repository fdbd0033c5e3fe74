"""What comes into the inbox, from anybody, never stops what else is there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved, NamespaceCreated
from arco.errors import Unavailable
from arco.log.commit import Committed, NothingToCommit
from arco.log.envelope import Batch, encode_batch
from arco.log.inbox import CommitLimits, Rejection, read_rejection
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import ObjectMeta
from arco.storage.seal import seal
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.model import read_log
from tests.kit.workspace import inbox_names, make_workspace

FACT = AssetObserved(asset_id="A", row_count=1, size_bytes=2)


@pytest.fixture
def w() -> Workspace:
    return make_workspace()


def logged(w: Workspace) -> list[str]:
    return [entry.id for entry in read_log(w)]


def stranger(w: Workspace, name: str, **changes: object) -> None:
    """A batch with one event, written by another program."""
    event = w.ledger.event(FACT)
    data = json.loads(encode_batch(Batch(batch=name, events=[event])))
    del data["sha256"]
    data["events"][0].update(changes)
    w.store.put(paths.inbox(name), seal(json.dumps(data).encode()))


def rejections(w: Workspace) -> list[Rejection]:
    listed = [m.path for m in w.store.list(paths.REJECTED) if m.path.endswith(".json")]
    return [read_rejection(w.store, path) for path in listed]


def committed(w: Workspace) -> Committed:
    outcome = w.committer.commit()
    assert isinstance(outcome, Committed)
    return outcome


def test_unknown_type_is_kept_in_the_log_and_counted(w: Workspace) -> None:
    stranger(w, "b1", type="orders.shipped")
    stranger(w, "b2", type="orders.shipped")
    known = w.ledger.append([FACT])
    root = committed(w).head.manifest
    assert root.skipped == {"orders.shipped@1": 2}
    assert root.position == 3
    assert set(known.event_ids) < set(logged(w))
    assert not root.rejected


def test_newer_version_is_kept_in_the_log_and_counted(w: Workspace) -> None:
    stranger(w, "b1", version=2)
    root = committed(w).head.manifest
    assert root.skipped == {"catalog.asset_observed@2": 1}
    assert [entry.version for entry in read_log(w)] == [2]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no json",
        b'{"batch": "x", "events": [{"id": "\xff"}]}',
        b'{"batch": "x", "events": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
    ids=["empty", "text", "bytes", "deep"],
)
def test_malformed_batch_is_set_aside_and_blocks_nobody(w: Workspace, raw: bytes) -> None:
    before = w.ledger.append([FACT])
    w.store.put(paths.inbox("0-bad"), raw)
    after = w.ledger.append([FACT])
    root = committed(w).head.manifest
    assert root.rejected == ("0-bad",)
    assert logged(w) == [*before.event_ids, *after.event_ids]
    (rejection,) = rejections(w)
    assert (rejection.name, rejection.bytes) == ("0-bad", len(raw))
    assert rejection.reason
    assert w.store.get(paths.rejected_object(rejection.key)).data == raw
    assert inbox_names(w.store) == []
    assert isinstance(w.committer.commit(), NothingToCommit)


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant_id": "other"},
        {"version": 2**31},
        {"version": 10**30},
        {"data": {"asset_id": 7}},
        {"data": {"asset_id": "A", "row_count": "many", "size_bytes": 1}},
        {"time": "yesterday"},
        {"time": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_event_that_cannot_be_taken_rejects_its_batch_alone(
    w: Workspace, changes: dict[str, object]
) -> None:
    stranger(w, "0-bad", **changes)
    good = w.ledger.append([FACT])
    assert committed(w).head.manifest.rejected == ("0-bad",)
    assert logged(w) == list(good.event_ids)


def test_numbers_that_no_column_can_hold_stop_nothing(w: Workspace) -> None:
    w.commands.catalog.create_namespace("sales")
    asset = w.commands.catalog.create_asset("sales.orders").event_id
    huge = w.ledger.append([AssetObserved(asset_id=asset, row_count=2**63, size_bytes=1)])
    made = w.ledger.append([NamespaceCreated(namespace="ops")])
    root = committed(w).head.manifest
    assert logged(w)[-2:] == [*huge.event_ids, *made.event_ids]
    assert w.read.catalog().namespace("ops").assets == 0
    assert w.read.catalog().asset_by_id(asset).stats is None
    assert list(root.skipped.values()) == [1]


def test_only_malformed_batches_still_make_a_commit_that_clears_them_away(w: Workspace) -> None:
    w.store.put(paths.inbox("bad"), b"?")
    outcome = committed(w)
    assert (outcome.events, outcome.head.manifest.position) == (0, 0)
    assert outcome.head.manifest.consumed == ("bad",)
    assert inbox_names(w.store) == []


def test_rejected_batch_that_was_set_aside_before_a_crash_does_not_collide() -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    hooks = HookStore(memory)
    memory.put(paths.inbox("bad"), b"?")
    hooks.fail("put", paths.root(1), times=5)
    with pytest.raises(Exception, match="may or may not"):
        make_workspace(hooks, 1, clock=clock).committer.commit()
    other = make_workspace(memory, 2, clock=clock)
    (before,) = rejections(other)
    assert committed(other).head.manifest.rejected == ("bad",)
    assert rejections(other) == [before]


def test_batch_that_cannot_be_read_just_now_waits_and_the_others_do_not() -> None:
    clock = SimClock()
    hooks = HookStore(MemoryStore(clock))
    w = make_workspace(hooks, clock=clock)
    receipts = [w.ledger.append([FACT]) for _ in range(3)]
    hooks.fail("get", paths.inbox(receipts[1].batch))
    assert committed(w).head.manifest.consumed == (receipts[0].batch, receipts[2].batch)
    assert w.committer.commit_batch(receipts[1].batch, 0).generation == 2
    assert logged(w) == [receipts[n].event_ids[0] for n in (0, 2, 1)]


def test_inbox_that_cannot_be_read_at_all_is_an_outage_not_an_empty_inbox() -> None:
    clock = SimClock()
    hooks = HookStore(MemoryStore(clock))
    w = make_workspace(hooks, clock=clock)
    receipts = [w.ledger.append([FACT]) for _ in range(2)]
    for fails in ("commit", "commit_batch"):
        hooks.fail("get", paths.INBOX, times=2)
        with pytest.raises(Unavailable):
            if fails == "commit":
                w.committer.commit()
            else:
                w.committer.commit_batch(receipts[0].batch, 0)
    assert len(committed(w).head.manifest.consumed) == 2


def test_same_notification_twice_is_folded_once(w: Workspace) -> None:
    receipt = w.ledger.append([FACT])
    w.committer.commit([receipt.batch, receipt.batch])
    assert logged(w) == list(receipt.event_ids)


def test_notification_of_what_is_not_there_does_no_harm(w: Workspace) -> None:
    receipt = w.ledger.append([FACT])
    w.committer.commit(["nowhere", receipt.batch])
    assert logged(w) == list(receipt.event_ids)
    assert isinstance(w.committer.commit([receipt.batch]), NothingToCommit)


def test_named_batch_goes_first_when_one_commit_cannot_take_all() -> None:
    w = make_workspace(limits=CommitLimits(batches=2))
    receipts = [w.ledger.append([FACT]) for _ in range(5)]
    outcome = w.committer.commit([receipts[4].batch])
    assert isinstance(outcome, Committed)
    assert set(outcome.head.manifest.consumed) == {receipts[4].batch, receipts[0].batch}
    assert len(inbox_names(w.store)) == 3


def test_batch_larger_than_the_limit_is_taken_alone() -> None:
    w = make_workspace(limits=CommitLimits(bytes=10))
    receipts = [w.ledger.append([FACT]) for _ in range(3)]
    for n in range(1, 4):
        assert committed(w).head.generation == n
    assert logged(w) == [receipt.event_ids[0] for receipt in receipts]


class Littered(HookStore):
    """A bucket in which somebody left objects that our own rules cannot name."""

    litter = ("ledger/inbox/", "ledger/inbox//x.json", "ledger/inbox/a\\b.json")

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        found = list(super().list(prefix, start_after))
        if prefix == paths.INBOX:
            now = SimClock().now()
            found += [ObjectMeta(path, 0, now) for path in self.litter]
        return iter(sorted(found))


def test_objects_that_cannot_even_be_named_block_nobody() -> None:
    clock = SimClock()
    w = make_workspace(Littered(MemoryStore(clock)), clock=clock)
    receipt = w.ledger.append([FACT])
    committed(w)
    assert logged(w) == list(receipt.event_ids)
    assert isinstance(w.committer.commit(), NothingToCommit)


def test_object_without_the_ending_of_a_batch_is_left_alone(w: Workspace) -> None:
    w.store.put("ledger/inbox/readme", b"do not delete")
    receipt = w.ledger.append([FACT])
    root = committed(w).head.manifest
    assert root.consumed == (receipt.batch,)
    assert w.store.get("ledger/inbox/readme").data == b"do not delete"
    assert isinstance(w.committer.commit(), NothingToCommit)
