"""All limits with their values and their use, as people and programs are shown them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from arco.orchestration.limit_tables import (
    DEFAULTS,
    EVERY_TENANT,
    LIMITS,
    LIMITS_OF,
    OF_RUNS,
    OF_TASKS,
    WORKSPACE,
    LimitName,
    LimitRow,
    value_text,
)
from arco.orchestration.limit_usage import TaskUse
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.states import TaskState


class LimitEntry(Struct, frozen=True):
    scope: str
    name: LimitName
    value: int | None
    """None: not set, and no default."""
    is_default: bool
    use: int | None
    """None where nothing is counted."""
    reason: str = ""
    changed_at: datetime | None = None
    changed_by: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        return "no limit" if self.value is None else value_text(self.name, self.value)


def named_pools(reader: OrchestrationReader, library: Library) -> dict[str, int]:
    """The pools that deployed assets name, and how many assets each has."""
    pools: dict[str, int] = {}
    for row in reader.current_deployments():
        for asset in library.outline(row.manifest).assets:
            if pool := asset.resources.pool:
                pools[pool] = pools.get(pool, 0) + 1
    return pools


def limit_entries(
    reader: OrchestrationReader, pools: Mapping[str, int], now: datetime
) -> list[LimitEntry]:
    """Limits of the workspace whether or not they are set, others that are set, and `pools`:
    those that deployed assets name, with the number of these assets."""
    rows = {(row.scope, row.name): row for row in reader.snapshot.all(LIMITS)}
    keys = {(WORKSPACE, name) for name in LIMITS_OF[WORKSPACE]}
    keys |= {key for key, row in rows.items() if row.value is not None}
    keys |= {(f"pool:{pool}", LimitName.CONCURRENT_TASKS) for pool in pools}
    usage = _Usage(reader, now)
    return [_entry(*key, rows.get(key), usage, pools) for key in sorted(keys, key=_place)]


def _place(key: tuple[str, LimitName]) -> tuple[int, str, int]:
    kinds, names = list(LIMITS_OF), list(LimitName)
    return kinds.index(key[0].partition(":")[0]), key[0], names.index(key[1])


def _entry(
    scope: str, name: LimitName, row: LimitRow | None, usage: _Usage, pools: Mapping[str, int]
) -> LimitEntry:
    use, note = usage.of(scope, name), _pool_note(scope, pools)
    if row is None or row.value is None:
        default = DEFAULTS.get(name) if scope == WORKSPACE else None
        note = note or ("default" if default is not None else "")
        return LimitEntry(scope, name, default, default is not None, use, note=note)
    note = "; ".join(text for text in (note, row.reason) if text)
    return LimitEntry(
        scope, name, row.value, False, use, row.reason, row.changed_at, row.changed_by, note
    )


def _pool_note(scope: str, pools: Mapping[str, int]) -> str:
    if not scope.startswith("pool:"):
        return ""
    count = pools.get(scope.removeprefix("pool:"), 0)
    if not count:
        return "no deployed asset names it"
    return f"{count:,} asset{'' if count == 1 else 's'}"


class _Usage:
    """What is in use of each limit."""

    def __init__(self, reader: OrchestrationReader, now: datetime) -> None:
        self._tasks = reader.tasks_in_flight()
        self._counted = TaskUse(reader.limits(), self._tasks)
        self._runs = reader.run_use(now)

    def of(self, scope: str, name: LimitName) -> int | None:
        if name in OF_RUNS:
            return self._runs.value(name)
        if name not in OF_TASKS or scope == EVERY_TENANT:
            return None
        if scope.startswith("pool:"):
            return sum(task.pool == scope.removeprefix("pool:") for task in self._tasks)
        if scope != WORKSPACE:
            return self._counted.of(scope, name)
        if name == LimitName.QUEUED_TASKS:
            return sum(task.state != TaskState.RUNNING for task in self._tasks)
        return len(self._tasks)
