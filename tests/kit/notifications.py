"""Notifications in a simulated store: a courier that notes what it is given, and who asks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from arco.catalog.fold import STAGES as CATALOG
from arco.execution.fold import OUTPUTS
from arco.log.envelope import Payload
from arco.notifications.delivery import DeliveryOutcome
from arco.notifications.fold import AFTER_CATALOG, BEFORE_CATALOG
from arco.notifications.message import message_of
from arco.notifications.tables import (
    NOTIFICATIONS,
    NotificationItem,
    NotificationRow,
    NotificationState,
    decode_items,
)
from arco.state.fold import Chain, Fact, FoldFailure, NoRows, Rows, fold_stage
from arco.storage.memory import MemoryStore
from arco.storage.port import Store
from servo.contract.task import ErrorInfo, TaskRequest
from tests.kit.clocks import SimClock
from tests.kit.flows import Crowd, OrchestratorProcess, WorkerProcess, deploy, trigger
from tests.kit.workspace import make_workspace

BROKEN = ErrorInfo(category="user_code", code="user_code.ValueError", message="value 4711 is bad")


def project(*rules: str, assets: str = "") -> str:
    """A project with two assets, one of them with partitions, and rules."""
    lines = [
        "from servo import asset, notify, static, Retry",
        "@asset(namespace='shop', owners=['ana@example.org', 'the team'], tags={'tier': 'gold'})",
        "def orders() -> None: ...",
        "@asset(namespace='shop', owners=['bob@example.org'],",
        "       partitions=static('n', [str(n) for n in range(30)]))",
        "def parts() -> None: ...",
        assets,
        *(f"notify({rule})" for rule in rules),
    ]
    return "\n".join(lines)


class Delivered(NamedTuple):
    id: str
    receiver: str
    sequence: int
    attempt: int
    events: tuple[tuple[str, str, int], ...]
    """Event, asset or subject, and count of each item."""
    title: str


class Postbox:
    """Takes notifications at once; `fails` says why one is not taken."""

    has_channels = True

    def __init__(self) -> None:
        self.delivered: list[Delivered] = []
        self.refused: list[Delivered] = []
        self.fails: Callable[[NotificationRow], str] = lambda row: ""
        self.receivers: set[str] | None = None
        self.silent: list[str] | None = None
        """Where set: what was taken, and never answered."""

    def serves(self, receiver: str) -> bool:
        return self.receivers is None or receiver in self.receivers

    def submit(self, row: NotificationRow, done: Callable[[DeliveryOutcome], None]) -> None:
        letter = Delivered(
            row.notification_id,
            row.receiver,
            row.sequence,
            row.attempts,
            tuple((i.event, named(i), i.count) for i in decode_items(row.items)),
            message_of(row, "w").title,
        )
        if self.silent is not None:
            self.silent.append(row.notification_id)
            return
        reason = self.fails(row)
        (self.refused if reason else self.delivered).append(letter)
        done(DeliveryOutcome(not reason, reason or "200 OK"))

    def close(self) -> None:
        pass

    def to(self, receiver: str) -> list[Delivered]:
        """What arrived there, each once, in the order of the first arrivals."""
        first: dict[str, Delivered] = {}
        for letter in self.delivered:
            if letter.receiver == receiver:
                first.setdefault(letter.id, letter)
        return list(first.values())


def named(item: NotificationItem) -> str:
    return item.asset or item.subject


class Watch(Crowd):
    """Orchestrators that share a postbox, and a worker whose tasks fail when told to."""

    def __init__(self, text: str, *, start: SimClock | None = None) -> None:
        clock = start or SimClock()
        store = MemoryStore(clock)
        self.w = make_workspace(store, 1, clock=clock)
        deploy(self.w, text)
        super().__init__(store, clock, "")
        self.postbox = Postbox()
        self.failing: Callable[[TaskRequest], bool] = lambda request: False

    def orchestrator(self, store: Store | None = None, **settings: Any) -> OrchestratorProcess:
        return super().orchestrator(store, **{"courier": self.postbox, **settings})

    def worker(self, store: Store | None = None, **settings: Any) -> WorkerProcess:
        def script(request: TaskRequest) -> ErrorInfo | None:
            return BROKEN if self.failing(request) else None

        return super().worker(store, **{"script": script, **settings})

    def run(self, *selection: str, failing: bool | str = False, **settings: Any) -> None:
        """A run to its end, of which all tasks fail, or none, or those of an asset."""
        self.failing = lambda request: failing is True or request.asset == failing
        self.run_id = trigger(self.fresh(), *selection, **settings)
        self.finish()

    def settle(self) -> None:
        """Until nothing waits in the outbox."""
        self.until(lambda: not self.waiting())

    def give_up(self) -> None:
        """Until nothing waits in the outbox, however long: time goes on to the next attempt."""
        for _ in range(200):
            rows = self.waiting()
            if not rows:
                return
            due = min(row.claimed_until or row.due_at for row in rows)
            self.clock.sleep(max(0.0, (due - self.clock.now()).total_seconds()))
            self.step()
        raise AssertionError(f"still waiting: {self.waiting()}")

    def waiting(self) -> list[NotificationRow]:
        return [row for row in self.rows() if row.state in ("PENDING", "SENDING")]

    def rows(self) -> list[NotificationRow]:
        return self.fresh().read.snapshot().all(NOTIFICATIONS)

    def states(self) -> list[NotificationState]:
        return [row.state for row in sorted(self.rows(), key=lambda row: row.sequence)]

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


# -- facts without tasks ------------------------------------------------------------------

STAGES = (OUTPUTS, *BEFORE_CATALOG, *CATALOG, *AFTER_CATALOG)
NOW = datetime(2026, 1, 5, 8)


def folded(payloads: Sequence[Payload]) -> Rows:
    """The rows after all of these."""
    chain = Chain(STAGES, ())
    queues: list[list[Fact]] = [[] for _ in STAGES]
    for n, payload in enumerate(payloads):
        fact = Fact(n + 1, NOW + timedelta(microseconds=n), f"E{n}", "", "", payload)
        for taker in chain.takers(payload, -1):
            queues[taker].append(fact)
    rows, failures = Rows(NoRows()), list[FoldFailure]()
    for i, stage in enumerate(STAGES):
        queues[i].sort(key=lambda fact: fact.position)
        for fact in fold_stage(stage, rows, queues[i], failures):
            for taker in chain.takers(fact.payload, i):
                queues[taker].append(fact)
    assert failures == []
    return rows
