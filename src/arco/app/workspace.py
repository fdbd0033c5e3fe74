"""A workspace: its log, its state, and what reads, changes, maintains and runs it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Self

from arco.answers.questions import Answers
from arco.app.commands import Commands
from arco.app.domains import chain, event_types
from arco.app.reading import Reading
from arco.app.runtime import Runtime
from arco.app.upkeep import Upkeep
from arco.clock import Clock, MovedClock, SystemClock
from arco.errors import Invalid
from arco.log.append import Ledger, Signal
from arco.log.commit import Committer
from arco.log.head import AGE_GATE, Manifests
from arco.log.inbox import CommitLimits, Inbox
from arco.log.publish import Publisher
from arco.orchestration.reader import Library
from arco.security.caller import Caller
from arco.spark.settings import SparkSettings
from arco.state.core import Core
from arco.state.feed import CommitFeed
from arco.state.parquet import Files
from arco.state.projector import StateProjector
from arco.state.snapshot import At, Snapshot
from arco.state.system import all_tables
from arco.state.table import Table
from arco.state.warm import Warm
from arco.state.writer import LogWriter
from arco.storage.cloud import Option
from arco.storage.lease import Leases
from arco.storage.moved import MovedStore
from arco.storage.open import open_store
from arco.storage.port import Store
from arco.storage.scoped import ScopedStore
from arco.storage.store_clock import StoreClock
from arco.worker.pricing import Pricing
from servo.contract.ulid import system_ulids


class Workspace:
    """One tenant's workspace on one store.

    - `read`: snapshots and readers
    - `commands`: what changes it, by domain
    - `upkeep`: checks, collection, rebuilds, backups, merges
    - `runtime`: orchestrators, workers and their queues
    """

    snapshots: type[Snapshot] = Snapshot
    """How generations are read."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        name: str,
        *,
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
        rng: random.Random | None = None,
        age_gate: timedelta = AGE_GATE,
        limits: CommitLimits | None = None,
        source: str = "arco",
        actor: str = "",
        warm_budget_bytes: int = 192 << 20,
        cache_budget_bytes: int = 32 << 20,
        spark: SparkSettings | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        """`store` is already scoped.

        All sources of time, randomness and new ids are passed here.
        """
        self.store = store
        self.tenant = tenant
        self.name = name
        self.clock: Clock = clock or SystemClock()
        self.ids = ids or system_ulids()
        self.chain = chain()
        store_clock = StoreClock(store, self.clock)
        self.core = Core(
            store=store,
            clock=self.clock,
            ids=self.ids,
            store_clock=store_clock,
            types=event_types(),
            manifests=Manifests(store, tenant, name, self.clock, age_gate=age_gate),
            files=Files(store, budget_bytes=cache_budget_bytes),
            leases=Leases(store, self.clock, store_clock, source, self.ids),
            snapshots=self.snapshots,
        )
        self.manifests = self.core.manifests
        warm = Warm(self.core.files, budget_bytes=warm_budget_bytes)
        commits, signal, publisher = CommitFeed(), Signal(), Publisher(self.core, rng=rng)
        self.projector = StateProjector(self.core, self.chain, warm, commits.tell)
        inbox = Inbox(self.core, limits=limits)
        self.ledger = Ledger(self.core, source=source, actor=actor, signal=signal)
        self.committer = Committer(self.core, publisher, inbox, self.projector)
        self.writer = LogWriter(
            signal=signal,
            ledger=self.ledger,
            publisher=publisher,
            committer=self.committer,
            commits=commits,
        )
        self.library = self.open_library(store)
        self.read = Reading(self.core, self.tables)
        self.commands = Commands(self.core, self.writer, self.chain, self.library, actor)
        self.upkeep = Upkeep(
            self.core, self.writer, self.chain, self.library, self.commands.execution
        )
        self.runtime = Runtime(self.core, self.writer, self.library, spark=spark, pricing=pricing)

    @classmethod
    def open(
        cls,
        url: str,
        tenant: str,
        name: str,
        *,
        options: Mapping[str, Option] | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> Workspace:
        """The workspace at a store's URL (`file:///…`, `s3://…`, `gs://…`, `az://…`).

        `options` go to the store's client; by default it asks the environment. The store's
        clock moves with a `MovedClock`.
        """
        if url.startswith(("http://", "https://")):
            raise Invalid(
                f"{url} is a server, not a store",
                hint=f"set ARCO_API={url} and ARCO_TOKEN instead of a store",
            )
        store = open_store(url, **(options or {}))
        if isinstance(clock, MovedClock):
            store = MovedStore(store, clock)
        return cls(ScopedStore(store, tenant, name), tenant, name, clock=clock, **settings)

    def of_all_namespaces(self, what: str) -> Self:
        """Itself, for what has no namespace. Raises Denied for callers that see only some."""
        return self

    def open_library(self, store: Store) -> Library:
        """How plans and declared code are read."""
        return Library(store)

    def acting(self, caller: Caller, *, idempotency_key: str = "") -> Commands:
        """Commands in the name of a caller at this workspace. Cheap: make them for a request."""
        return Commands(
            self.core,
            self.writer.acting(caller.actor, caller.origin),
            self.chain,
            self.library,
            caller.actor,
            caller=caller.at(self.tenant, self.name),
            idempotency_key=idempotency_key,
        )

    def answers(self, at: At | None = None) -> Answers:
        """Health, causes and recommendations: now, or as of a generation and its time."""
        snapshot = self.read.snapshot(at)
        if at is None:
            return Answers(snapshot, self.library, self.clock.now(), self.store)
        return Answers(snapshot, self.library, snapshot.published_at)

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        return all_tables(self.chain)
