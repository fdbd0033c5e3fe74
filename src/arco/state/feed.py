"""Notifies parts of a process of its commits."""

from __future__ import annotations

from collections.abc import Callable

from arco.log.head import Head
from arco.state.changes import Changes

OnCommit = Callable[[Head, Changes], None]
"""Called with a commit and the rows that it changed, by the thread that committed."""


class CommitFeed:
    def __init__(self) -> None:
        self._followers: tuple[OnCommit, ...] = ()

    def follow(self, follower: OnCommit) -> Callable[[], None]:
        """Call `follower` with each commit from now on; the returned function ends that."""
        self._followers += (follower,)

        def unfollow() -> None:
            self._followers = tuple(one for one in self._followers if one is not follower)

        return unfollow

    def tell(self, head: Head, changes: Changes) -> None:
        for follower in self._followers:
            follower(head, changes)
