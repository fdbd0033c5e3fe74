"""What writes to the log in one process: appends, commits, publications."""

from __future__ import annotations

from dataclasses import dataclass

from arco.log.append import Ledger, Signal
from arco.log.commit import Committed, Committer
from arco.log.publish import Publisher
from arco.state.feed import CommitFeed


@dataclass(frozen=True, kw_only=True)
class LogWriter:
    signal: Signal
    """Wakes what commits in this process."""
    ledger: Ledger
    publisher: Publisher
    committer: Committer
    commits: CommitFeed

    def drain(self) -> None:
        """Commit until the inbox is empty."""
        while isinstance(self.committer.commit(), Committed):
            pass
