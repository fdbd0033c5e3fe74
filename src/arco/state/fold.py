"""The fold: one function for each type of event in each stage, run by any engine.

A *stage* sees one key at a time. For each type of payload that it folds it has an `On`: the type,
its key, and a function that reads the rows of that key and one fact, and returns changes as data:
rows to put or delete, and derived facts for the stages after it. A derived fact keeps the position
of the event that caused it and is never written to the log.

    log -> stage 1 -> stage 2 -> ... -> rows

What makes two engines agree, row for row:

- A table belongs to one stage, and its shard key is the stage's key. Keys are
  therefore independent, and may be folded in any order, or apart.
- Within a key facts come in the order of (position, order of emission).
- A stage reads only its own tables, so it does not matter whether an engine runs
  all stages for one event, or one stage for all events.
- Time is the fact's `received_at`. There is no other.
- A put that changes nothing keeps the row's version; so a fact that is met twice
  changes nothing.
- A fold that raises is skipped for that fact, on every engine alike: a defect in one fold must not
  stop the log. It is counted and reported, and a rebuild with a fixed fold repairs the rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from arco.errors import Invalid
from arco.log.envelope import Origin, Payload, Recorded
from arco.state.table import Key, Row, Table, Versioned, bucket_of

log = logging.getLogger(__name__)
PORTION = 512
"""After this many facts of a stage, `is_tight` is checked."""
R = TypeVar("R", bound=Row)
P = TypeVar("P", bound=Payload)


class Fact(msgspec.Struct, frozen=True, gc=False):
    """An event of the log, or what an earlier stage derived from one."""

    position: int
    received_at: datetime
    id: str
    idempotency_key: str
    actor: str
    payload: Payload
    origin: Origin | None = None


class Put(msgspec.Struct, frozen=True, gc=False):
    table: Table[Any]
    row: Row


class Delete(msgspec.Struct, frozen=True, gc=False):
    table: Table[Any]
    key: Key


class Emit(msgspec.Struct, frozen=True, gc=False):
    payload: Payload


Change = Put | Delete | Emit


class RowSource(Protocol):
    """Committed rows, without the changes of a batch."""

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None: ...

    def scan(self, table: Table[Any], shard: Key) -> Iterable[tuple[Key, Versioned[Any]]]: ...


class NoRows:
    """The source of a fold that starts from an empty state."""

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        return None

    def scan(self, table: Table[Any], shard: Key) -> Iterable[tuple[Key, Versioned[Any]]]:
        return ()


class _Unreadable(BaseException):
    """Committed rows could not be read. Not an error of a fold; folds must not catch it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


_UNSEEN = object()
"""Marks a row that was not looked up yet."""


class Rows:
    """The rows for a fold: committed rows, overlaid with the changes of the batch."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.changes: dict[Table[Any], dict[Key, Versioned[Any]]] = {}
        self._looked_up: defaultdict[Table[Any], dict[Key, Versioned[Any] | None]] = defaultdict(
            dict
        )
        """The current state of every row that was looked up: the source is read once for each."""
        self._shards: dict[Table[Any], dict[Key, set[Key]]] = {}
        self.now: datetime = datetime.min
        """received_at of the fact being folded."""

    def get(self, table: Table[R], *key: Any) -> R | None:
        versioned = self.versioned(table, key)
        return None if versioned is None else versioned[1]

    def version(self, table: Table[Any], *key: Any) -> int:
        """The version of a row, 0 if there is none."""
        versioned = self.versioned(table, key)
        return 0 if versioned is None or versioned[1] is None else versioned[0]

    def versioned(self, table: Table[R], key: Key) -> Versioned[R] | None:
        cached = self._looked_up[table]
        loaded: Any = cached.get(key, _UNSEEN)
        if loaded is _UNSEEN:
            try:
                loaded = cached[key] = self._source.get(table, key)
            except Exception as error:
                raise _Unreadable(error) from error
        if loaded is not None and table.history is not None:
            row = loaded[1]
            if row is not None and table.history.has_left(row, self.now):
                return None
        return loaded  # type: ignore[no-any-return]

    def scan(self, table: Table[R], *shard: Any) -> list[R]:
        """The rows of one shard key, in the order of their keys.

        Not for a table that spreads its shard keys: those are too large.
        """
        if table.spread > 1:
            raise Invalid(f"{table} spreads its shard keys: a fold looks at single rows of it")
        try:
            rows = dict(self._source.scan(table, shard))
        except Exception as error:
            raise _Unreadable(error) from error
        cached = self._looked_up[table]
        for key, versioned in rows.items():
            cached.setdefault(key, versioned)  # after a scan, single rows are often read too
        changed = self.changes.get(table, {})
        for key in self._changed_keys(table, shard):
            rows[key] = changed[key]
        alive = [rows[key][1] for key in sorted(rows)]
        history = table.history
        return [
            row
            for row in alive
            if row is not None and (history is None or not history.has_left(row, self.now))
        ]

    def _changed_keys(self, table: Table[Any], shard: Key) -> Collection[Key]:
        """The keys of a shard that the batch has changed."""
        if table.shard == len(table.key):
            return (shard,) if shard in self.changes.get(table, ()) else ()
        return self._shards.get(table, {}).get(shard, ())

    def apply(self, change: Put | Delete, position: int) -> None:
        table = change.table
        if isinstance(change, Put):
            row: Row | None = change.row
            key: Key = table.key_of(row)
        else:
            key, row = change.key, None
        cached = self._looked_up[table]
        before: Any = cached.get(key, _UNSEEN) if table.history is None else _UNSEEN
        if before is _UNSEEN:
            before = self.versioned(table, key)
        if (before[1] if before is not None else None) == row:
            return
        self.changes.setdefault(table, {})[key] = cached[key] = (position, row)
        if table.shard < len(table.key) and table.spread == 1:
            shards = self._shards.setdefault(table, {})
            shards.setdefault(key[: table.shard], set()).add(key)


class On(NamedTuple, Generic[P]):
    """A stage's handler for one type of payload."""

    payload: type[P]
    key: Callable[[Fact, P], str]
    """The shard key of the rows that it reads and changes."""
    fold: Callable[[Rows, Fact, P], Iterable[Change]]


def by(path: str) -> Callable[[Fact, Any], str]:
    """The key of a payload: the attribute at this path of it."""
    value = attrgetter(path)
    return lambda fact, payload: value(payload)


def always(key: str) -> Callable[[Fact, Any], str]:
    """One key for all payloads: they are folded one after the other."""
    return lambda fact, payload: key


class Stage:
    def __init__(self, name: str, tables: Iterable[Table[Any]], on: Iterable[On[Any]]) -> None:
        self.name = name
        self.tables = tuple(tables)
        self.on: dict[type[Payload], On[Any]] = {}
        """By the exact type of the payload: a subclass is another fact."""
        for handler in on:
            if self.on.setdefault(handler.payload, handler) is not handler:
                raise Invalid(f"the stage {name} has two folds of {handler.payload.TYPE}")

    def key(self, fact: Fact) -> str:
        return self.on[type(fact.payload)].key(fact, fact.payload)


class FoldFailure(NamedTuple):
    """A fact that a stage could not fold."""

    stage: str
    position: int
    type: str
    error: str


class Chain:
    """The stages in their order, and which facts go to which."""

    def __init__(self, stages: Sequence[Stage], events: Iterable[type[Payload]]) -> None:
        self.stages = tuple(stages)
        self.tables = tuple(table for stage in stages for table in stage.tables)
        names = [str(table) for table in self.tables]
        if len(set(names)) != len(names):
            raise Invalid(f"a table belongs to two stages: {sorted(names)}")
        self.events = tuple(events)
        handled = {payload for stage in stages for payload in stage.on}
        self.derived = tuple(sorted(handled - set(self.events), key=lambda p: p.TYPE))
        self._from_log = {p: self._first(p) for p in self.events}

    def _first(self, payload: type[Payload]) -> tuple[int, ...]:
        """The stages that take a payload from the log.

        Commands go to the first stage that handles them, which admits each once; the other stages
        get them from that one. Facts go to all.
        """
        takers = tuple(i for i, stage in enumerate(self.stages) if payload in stage.on)
        return takers[:1] if payload.COMMAND else takers

    def entries(self, recorded: Recorded) -> Sequence[tuple[int, Fact]]:
        """The facts that an event is to the stages that take it from the log, by their numbers."""
        queues = self.queues((recorded,))
        return [(i, fact) for i, queue in enumerate(queues) for fact in queue]

    def queues(self, events: Iterable[Recorded]) -> list[list[Fact]]:
        """The facts for each stage from the log, in order."""
        queues: list[list[Fact]] = [[] for _ in self.stages]
        takers = {p: [queues[i].append for i in stages] for p, stages in self._from_log.items()}
        for recorded in events:
            payload, event = recorded.payload, recorded.event
            if payload is None or not (takes := takers.get(type(payload))):
                continue
            id = event.id
            fact = Fact(
                recorded.position,
                recorded.received_at,
                id,
                event.idempotency_key or id,
                event.actor,
                payload,
                event.origin,
            )
            for take in takes:
                take(fact)
        return queues

    def takers(self, payload: Payload, after: int) -> list[int]:
        return [i for i in range(after + 1, len(self.stages)) if type(payload) in self.stages[i].on]


class Folded(NamedTuple):
    changes: Mapping[Table[Any], Mapping[Key, Versioned[Any]]]
    failures: Sequence[FoldFailure]


def fold_stage(
    stage: Stage, rows: Rows, facts: Iterable[Fact], failures: list[FoldFailure]
) -> list[Fact]:
    """Fold facts, which are in order, into `rows`; returns the derived facts."""
    try:
        return _fold_stage(stage, rows, facts, failures)
    except _Unreadable as unreadable:
        raise unreadable.error from None


def _fold_stage(
    stage: Stage, rows: Rows, facts: Iterable[Fact], failures: list[FoldFailure]
) -> list[Fact]:
    derived: list[Fact] = []
    folds = stage.on
    for fact in facts:
        rows.now = fact.received_at
        payload = fact.payload
        try:
            changes = folds[type(payload)].fold(rows, fact, payload)
            if not isinstance(changes, list):
                changes = list(changes)
            for change in changes:
                if isinstance(change, Put):
                    change.table.check(change.row)
                elif isinstance(change, Delete):
                    _check_delete(change)
        except Exception as error:
            log.exception("%s could not fold position %d", stage.name, fact.position)
            kind = fact.payload.TYPE
            failures.append(FoldFailure(stage.name, fact.position, kind, repr(error)))
            continue
        for change in changes:
            if isinstance(change, Emit):
                derived.append(msgspec.structs.replace(fact, payload=change.payload))
            else:
                rows.apply(change, fact.position)
    return derived


def _check_delete(change: Delete) -> None:
    """Refuse rows that could not be written: they would fail this commit and every later one."""
    if change.table.history is not None:
        raise Invalid(f"{change.table} has history: its rows move to history and are not deleted")


def _fold_by_bucket(
    stage: Stage, rows: Rows, facts: Sequence[Fact], failures: list[FoldFailure]
) -> list[Fact]:
    """`fold_stage` with the facts of one bucket after those of another.

    So a source that cannot keep all buckets reads each of them once. Keys are independent, and
    facts of a key stay in order. What is derived is in the order of the facts.
    """
    own: list[FoldFailure] = []
    derived: list[list[Fact]] = [[] for _ in facts]
    numbers = [bucket_of(stage.key(fact)) for fact in facts]
    for at in sorted(range(len(facts)), key=numbers.__getitem__):
        derived[at] = fold_stage(stage, rows, facts[at : at + 1], own)
    failures += sorted(own, key=_position)
    return [fact for of_fact in derived for fact in of_fact]


def _fold_queue(
    stage: Stage,
    rows: Rows,
    facts: Sequence[Fact],
    failures: list[FoldFailure],
    is_tight: Callable[[], bool],
) -> list[Fact]:
    derived: list[Fact] = []
    for start in range(0, len(facts), PORTION):
        if is_tight():
            return derived + _fold_by_bucket(stage, rows, facts[start:], failures)
        derived += fold_stage(stage, rows, facts[start : start + PORTION], failures)
    return derived


_position = attrgetter("position")


def fold(
    chain: Chain,
    source: RowSource,
    events: Iterable[Recorded],
    *,
    is_tight: Callable[[], bool] = lambda: False,
) -> Folded:
    """Fold a batch of events on the embedded engine.

    `is_tight` tells whether the source drops buckets that it has read.
    """
    queues = chain.queues(events)
    rows = Rows(source)
    failures: list[FoldFailure] = []
    for i, stage in enumerate(chain.stages):
        # Facts from the log and from several stages meet here; each source is in
        # order, and the sort is stable, so earlier stages come first.
        queues[i].sort(key=_position)
        for fact in _fold_queue(stage, rows, queues[i], failures, is_tight):
            for taker in chain.takers(fact.payload, i):
                queues[taker].append(fact)
    return Folded(rows.changes, failures)
