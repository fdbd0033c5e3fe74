"""Events of requests besides their commands: uses of keys, and refusals. Bounded."""

from __future__ import annotations

import logging

from arco.api.exchange import Exchange
from arco.app import Workspace
from arco.errors import Denied, Error, Unauthenticated
from arco.security.denials import DenialLog
from arco.security.events import AccessDenied
from arco.security.key_usage import KeyUsage
from arco.security.tables import ApiKeyRow

log = logging.getLogger("arco.api")


class SecurityLog:
    """Of one workspace. Noting does no I/O; `flush` appends, from time to time."""

    def __init__(self, workspace: Workspace) -> None:
        self._denials = DenialLog(workspace.ledger, workspace.clock.now)
        self._uses = KeyUsage(workspace.ledger, workspace.clock.now)

    def used(self, row: ApiKeyRow) -> None:
        self._uses.note(row)

    def denied(self, exchange: Exchange, error: Exception) -> None:
        """Of a caller who is known, and sees the workspace."""
        if exchange.who is None or not isinstance(error, Denied):
            return
        if not isinstance(error, Unauthenticated):
            fact = AccessDenied(
                operation=exchange.operation, permission=exchange.permission, code="denied"
            )
            self._denials.note(exchange.who, fact)

    def flush(self, *, everything: bool = False) -> None:
        try:
            self._uses.flush()
            self._denials.flush(everything=everything)
        except Error as error:  # what could not be appended is in the server's own log
            log.warning("uses of keys and refusals were not recorded: %s", error)
