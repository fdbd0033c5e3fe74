"""Is a history of concurrent operations what one process could have done, one by one?

A history is linearizable if each operation can be given an instant between its call and
its end, such that a sequential model, applying them in the order of those instants,
gives the outputs that were seen. An operation without an end (its process was killed, or
nobody told it the outcome) has any instant after its call, or none.

The search is Wing and Gong's as Lowe improved it, and Porcupine uses it: walk through the
calls and ends in their order, and keep all configurations that can have been reached: a
state, and which of the pending operations made it. At an end, only those stay in which
that operation was applied, if need be after other pending ones. Equal configurations are
kept once. Histories are checked one key at a time: operations on different keys do not
influence each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

MAX_STEPS = 5_000_000


class Operation(NamedTuple):
    id: str
    key: str
    """What it is about; the checker looks at each key on its own."""
    call: int
    end: int | None
    """None: it may have happened at any time after its call, or not at all."""
    input: Any
    output: Any = None
    """What the caller was told; None if it is open."""

    @property
    def open(self) -> bool:
        return self.end is None


class Model(Protocol):
    """A sequential machine. States are hashable, and equal if nobody can tell them apart."""

    def start(self, key: str) -> Hashable:
        """The state of a key that nothing has happened to."""

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        """The state after an operation; None if it would have answered otherwise.

        An open operation has no answer to compare.
        """


class Undecided(Exception):
    """The search took too long."""


class Violation(NamedTuple):
    """A key whose operations no order explains."""

    key: str
    longest: list[str]
    """Ids of the longest order that the search could explain."""
    stuck: list[str]
    """Ids of operations that could have come next, and do not fit."""


def violations(history: Iterable[Operation], model: Model) -> list[Violation]:
    """The keys that are not linearizable. Raises Undecided."""
    by_key: dict[str, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    checked = (_Search(key, by_key[key], model).run() for key in sorted(by_key))
    return [violation for violation in checked if violation is not None]


class _Configuration(NamedTuple):
    """A state that may have been reached, and what has been applied to reach it."""

    state: Hashable
    applied: frozenset[str]
    """Of the operations that have an end, and have not come to it yet."""
    happened: frozenset[str]
    """Of the open operations."""
    order: tuple[Any, ...]
    """The last operation applied, after the order of those before: for the report."""


class _Search:
    def __init__(self, key: str, operations: Sequence[Operation], model: Model) -> None:
        assert len({operation.id for operation in operations}) == len(operations)
        self._key = key
        self._model = model
        self._operations = operations
        self._pending: dict[str, Operation] = {}
        self._steps = 0

    def run(self) -> Violation | None:
        nothing: frozenset[str] = frozenset()
        reached = [_Configuration(self._model.start(self._key), nothing, nothing, ())]
        for _, is_end, operation in _in_time(self._operations):
            if not is_end:
                self._pending[operation.id] = operation
                continue
            after = self._until_applied(operation, reached)
            if not after:
                return self._violation(reached)
            reached = after
            del self._pending[operation.id]
        return None

    def _until_applied(
        self, operation: Operation, reached: list[_Configuration]
    ) -> list[_Configuration]:
        """What can be reached when `operation` ends: all with it applied, before or now.

        Those with fewer open operations come first. One that has the same state as
        another and took more of them has nothing to add: open ones can come later.
        """
        after: list[_Configuration] = []
        tried = _Tried()
        queue = [(len(c.happened), n, c) for n, c in enumerate(reached)]
        heapq.heapify(queue)
        while queue:
            _, _, configuration = heapq.heappop(queue)
            if not tried.add(configuration):
                continue
            if operation.id in configuration.applied:
                left = configuration.applied - {operation.id}
                after.append(configuration._replace(applied=left))
                continue
            for following in self._following(configuration):
                self._steps += 1
                heapq.heappush(queue, (len(following.happened), self._steps, following))
        if self._steps > MAX_STEPS:
            raise Undecided(f"{self._key}: more than {MAX_STEPS} steps")
        return after

    def _following(self, at: _Configuration) -> Iterator[_Configuration]:
        for operation in self._pending.values():
            if operation.id in at.applied or operation.id in at.happened:
                continue
            state = self._model.step(at.state, operation)
            if state is None or (operation.open and state == at.state):
                continue  # an open one that changes nothing need not have happened
            order = (at.order, operation.id)
            if operation.open:
                happened = at.happened | {operation.id}
                yield at._replace(state=state, happened=happened, order=order)
            else:
                applied = at.applied | {operation.id}
                yield at._replace(state=state, applied=applied, order=order)

    def _violation(self, reached: list[_Configuration]) -> Violation:
        longest = max((_unrolled(c.order) for c in reached), key=len)
        applied = set(longest)
        stuck = [o.id for o in self._pending.values() if not o.open and o.id not in applied]
        return Violation(self._key, longest, stuck)


class _Tried:
    """Configurations that were looked at, without those that others make needless."""

    def __init__(self) -> None:
        self._happened: dict[tuple[Hashable, frozenset[str]], list[frozenset[str]]] = {}

    def add(self, configuration: _Configuration) -> bool:
        """Whether it is worth looking at."""
        key = (configuration.state, configuration.applied)
        fewer = self._happened.setdefault(key, [])
        if any(happened <= configuration.happened for happened in fewer):
            return False
        fewer.append(configuration.happened)
        return True


def _in_time(operations: Sequence[Operation]) -> list[tuple[int, bool, Operation]]:
    """Calls and ends in the order of time; of equal times, calls first."""
    events = [(operation.call, False, operation) for operation in operations]
    events += [(o.end, True, o) for o in operations if o.end is not None]
    return sorted(events, key=lambda event: event[:2])


def _unrolled(order: tuple[Any, ...]) -> list[str]:
    ids: list[str] = []
    while order:
        order, id = order
        ids.append(id)
    return ids[::-1]
