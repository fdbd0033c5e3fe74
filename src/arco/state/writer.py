"""The writers of the log in one process: appends, commits, publications."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arco.log.append import Ledger, Signal
from arco.log.commit import Committed, Committer
from arco.log.envelope import Origin
from arco.log.publish import Publisher
from arco.state.feed import CommitFeed


@dataclass(frozen=True, kw_only=True)
class LogWriter:
    signal: Signal
    """Wakes the committing thread of this process."""
    ledger: Ledger
    publisher: Publisher
    committer: Committer
    commits: CommitFeed

    def acting(self, actor: str, origin: Origin | None) -> LogWriter:
        """The same writer, for events of another actor."""
        return replace(self, ledger=self.ledger.acting(actor, origin))

    def drain(self) -> None:
        """Commit until the inbox is empty."""
        while isinstance(self.committer.commit(), Committed):
            pass
