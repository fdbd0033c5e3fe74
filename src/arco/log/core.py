"""What everything that works on one workspace's log needs. Built once, in `arco.app`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arco.clock import Clock
from arco.log.envelope import EventTypes
from arco.log.head import Manifests
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock


@dataclass(frozen=True, kw_only=True)
class LogCore:
    store: Store
    """Already scoped to the workspace."""
    clock: Clock
    ids: Callable[[], str]
    store_clock: StoreClock
    types: EventTypes
    manifests: Manifests
