"""One publication: which head it builds on, and what becomes of it."""

from __future__ import annotations

import pytest

from arco.app import Workspace
from arco.errors import Contended
from arco.log.head import Head
from arco.log.publish import Proposal, left_to_delete
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace


def same_again(head: Head) -> Proposal:
    """A generation that holds what its parent holds."""
    root = head.manifest
    return Proposal(
        kind="merge",
        changes=root.changes,
        l0=root.l0,
        position=root.position,
        log_time=root.log_time,
        pending=left_to_delete(head),
    )


class TwoWriters:
    def __init__(self) -> None:
        clock = SimClock()
        self.store = HookStore(MemoryStore(clock))
        self.one, self.other = (make_workspace(self.store, n, clock=clock) for n in (1, 2))


def publish_once(w: Workspace) -> Head:
    publication = w.writer.publisher.begin()
    head = publication.head()
    created = publication.try_create(head, same_again(head))
    assert created is not None
    publication.settle(created)
    return created


def test_number_that_is_taken_is_not_created_and_the_next_head_is_the_winners() -> None:
    at = TwoWriters()
    publication = at.one.writer.publisher.begin()
    head = publication.head()
    won = publish_once(at.other)
    assert publication.try_create(head, same_again(head)) is None
    assert publication.head() == won


def test_after_a_commit_of_its_own_the_head_is_assumed_and_not_read() -> None:
    at = TwoWriters()
    created = publish_once(at.one)
    at.store.calls.clear()
    publication = at.one.writer.publisher.begin()
    assert publication.head() == created
    assert at.store.calls == []
    assert publication.is_newest(created)


def test_assumed_head_is_not_the_newest_once_another_process_has_committed() -> None:
    at = TwoWriters()
    created = publish_once(at.one)
    publication = at.one.writer.publisher.begin()
    assert publication.head() == created
    won = publish_once(at.other)
    assert not publication.is_newest(created)
    assert publication.head() == won
    assert publication.is_newest(won)


def test_head_is_refused_after_too_many_lost_races() -> None:
    at = TwoWriters()
    at.one.writer.publisher.attempts = 2
    publication = at.one.writer.publisher.begin()
    for _ in range(2):
        head = publication.head()
        publish_once(at.other)
        assert publication.try_create(head, same_again(head)) is None
    with pytest.raises(Contended, match="2 times in a row"):
        publication.head()


def test_follower_hears_of_commits_until_it_unfollows() -> None:
    w = make_workspace()
    heard: list[int] = []
    unfollow = w.writer.commits.follow(lambda head, changes: heard.append(head.generation))
    w.commands.catalog.create_namespace("one")
    unfollow()
    w.commands.catalog.create_namespace("two")
    assert heard == [1]
