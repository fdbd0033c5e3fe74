"""When keys were last used, without a write for every request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from arco.log.append import Ledger
from arco.security.events import ApiKeysUsed, KeyUse
from arco.security.tables import ApiKeyRow

PRECISION: Final = timedelta(hours=1)
"""A use is recorded if the one that is recorded is older than this."""


class KeyUsage:
    """Collects uses; `flush` appends those that are worth it, as one fact for all keys."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._now = now
        self._lock = threading.Lock()
        self._recorded: dict[str, datetime] = {}
        self._uses: dict[str, datetime] = {}

    def note(self, row: ApiKeyRow) -> None:
        """Remember that a key was used. Does no I/O."""
        now = self._now()
        with self._lock:
            recorded = self._recorded.get(row.key_id, row.last_used_at)
            if recorded is None or now - recorded >= PRECISION:
                self._uses[row.key_id] = self._recorded[row.key_id] = now

    def flush(self) -> int:
        """Append what is new; how many keys it is about."""
        with self._lock:
            uses, self._uses = self._uses, {}
        if uses:
            fact = ApiKeysUsed(uses=tuple(KeyUse(*use) for use in sorted(uses.items())))
            self._ledger.append([fact])
        return len(uses)
