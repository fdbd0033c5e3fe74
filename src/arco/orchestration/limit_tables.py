"""Limits as rows: their names, what they are for, and what is set.

| scope | limits |
|---|---|
| `workspace` | all but `fairness_weight` |
| `tenant:NAME` | concurrent tasks, queued tasks, `fairness_weight` |
| `tenant:*`, each tenant without a limit of its own | concurrent tasks, queued tasks |
| `pool:NAME` | concurrent tasks: its slots |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from arco.errors import Invalid, Refused
from arco.state.table import Row, Table
from servo.contract.manifest import POOL_NAME
from servo.duration import seconds
from servo.suggest import did_you_mean

WORKSPACE: Final = "workspace"
EVERY_TENANT: Final = "tenant:*"
LARGEST: Final = 1_000_000_000
MAX_IN_FLIGHT: Final = 512
"""The default of `max_concurrent_tasks` of a workspace."""
MAX_BACKFILL_RUNS: Final = 5
"""The same for `max_backfill_concurrency`."""


class LimitName(StrEnum):
    CONCURRENT_TASKS = "max_concurrent_tasks"
    QUEUED_TASKS = "max_queued_tasks"
    CONCURRENT_RUNS = "max_concurrent_runs"
    DAILY_RUNS = "max_daily_runs"
    RUN_DURATION = "max_run_duration"
    TASKS_PER_RUN = "max_tasks_per_run"
    BACKFILL_RUNS = "max_backfill_concurrency"
    WEIGHT = "fairness_weight"


OF_TASKS: Final = (LimitName.CONCURRENT_TASKS, LimitName.QUEUED_TASKS)
OF_RUNS: Final = (LimitName.CONCURRENT_RUNS, LimitName.DAILY_RUNS, LimitName.BACKFILL_RUNS)
LIMITS_OF: Final[Mapping[str, tuple[LimitName, ...]]] = {
    "workspace": tuple(name for name in LimitName if name != LimitName.WEIGHT),
    "tenant": (*OF_TASKS, LimitName.WEIGHT),
    "pool": (LimitName.CONCURRENT_TASKS,),
}
"""By kind of scope."""
DEFAULTS: Final[Mapping[LimitName, int]] = {
    LimitName.CONCURRENT_TASKS: MAX_IN_FLIGHT,
    LimitName.BACKFILL_RUNS: MAX_BACKFILL_RUNS,
}
"""Of a workspace. Limits that are not set have no effect otherwise."""


class LimitRow(Row, frozen=True):
    scope: str
    name: LimitName
    value: int | None
    """None: it was removed."""
    reason: str
    changed_at: datetime
    changed_by: str


class DispatchControlRow(Row, frozen=True):
    """What every orchestrator must have read before it starts something."""

    scope: str
    """Always the workspace."""
    paused_at: datetime | None = None
    paused_by: str = ""
    pause_reason: str = ""
    tasks_position: int = 0
    """Where tasks were admitted last, or a limit changed. Later proposals must know of it."""
    tasks_proposal: str = ""
    runs_position: int = 0
    runs_proposal: str = ""


LIMITS = Table("orchestration", "limits", LimitRow, key=["scope", "name"])
DISPATCH_CONTROL = Table("orchestration", "dispatch_control", DispatchControlRow, key=["scope"])


class Permit(Struct, frozen=True, gc=False):
    """A statement that limits leave room, as of a position in the log.

    It is valid if no permit was used and no limit was changed after that position. Several permits
    of one proposal were counted together, and are valid together.
    """

    position: int
    proposal: str


class DeclaredLimits(NamedTuple):
    """The limits that are set, and whether dispatch is paused."""

    values: Mapping[tuple[str, LimitName], int] = {}
    control: DispatchControlRow = DispatchControlRow(WORKSPACE)

    @classmethod
    def of(
        cls, rows: Iterable[LimitRow], control: DispatchControlRow | None = None
    ) -> DeclaredLimits:
        values = {(row.scope, row.name): row.value for row in rows if row.value is not None}
        return cls(values, control or DispatchControlRow(WORKSPACE))

    @property
    def is_paused(self) -> bool:
        return self.control.paused_at is not None

    def of_workspace(self, name: LimitName) -> int | None:
        return self.values.get((WORKSPACE, name))

    def of_pool(self, pool: str) -> int | None:
        return self.values.get((f"pool:{pool}", LimitName.CONCURRENT_TASKS)) if pool else None

    def of_tenant(self, tenant: str, name: LimitName) -> int | None:
        own = self.values.get((f"tenant:{tenant}", name)) if tenant else None
        if own is None and tenant:
            return self.values.get((EVERY_TENANT, name))
        return own

    @property
    def has_task_limits(self) -> bool:
        return any(name in OF_TASKS for _, name in self.values)

    @property
    def has_run_limits(self) -> bool:
        return any(name in OF_RUNS for _, name in self.values)


class LimitReached(Refused):
    """There is no room: names the limit, its value and the present use."""

    def __init__(self, scope: str, name: LimitName, value: int, use: int, text: str) -> None:
        super().__init__(
            "limit_reached",
            f"{text}: {name} of {scope_text(scope)} is {value:,}",
            hint=f"wait, or raise it: servo limits set {scope} {name} N",
        )
        self.scope = scope
        self.name = name
        self.value = value
        self.use = use


def pause_text(control: DispatchControlRow) -> str:
    assert control.paused_at is not None
    who = f" by {control.paused_by}" if control.paused_by else ""
    why = f": {control.pause_reason}" if control.pause_reason else ""
    return f"dispatch is paused since {control.paused_at:%Y-%m-%d %H:%M} UTC{who}{why}"


def scope_text(scope: str) -> str:
    kind, _, name = scope.partition(":")
    if scope == EVERY_TENANT:
        return "each tenant"
    return f"{kind} {name}" if name else "the workspace"


def parse_scope(text: str) -> str:
    """A scope as it is stored. Raises Invalid."""
    kind, colon, name = text.partition(":")
    is_workspace = text == WORKSPACE
    is_named = kind in ("tenant", "pool") and bool(name) and name.isprintable() and len(name) <= 512
    if kind == "pool" and is_named:
        is_named = POOL_NAME.fullmatch(name) is not None
    if not (is_workspace or (colon and is_named)):
        hint = "workspace, tenant:NAME, tenant:* for each tenant without its own, or pool:NAME"
        raise Invalid(f"{text!r} is not the scope of a limit", hint=hint)
    return text


def parse_name(scope: str, text: str) -> LimitName:
    """The limit with this name. Raises Invalid for one that the scope cannot have."""
    if text not in list(LimitName):
        near = did_you_mean(text, [name.value for name in LimitName])
        names = ", ".join(LimitName)
        raise Invalid(f"there is no limit {text!r}", hint=near or f"one of {names}")
    name = LimitName(text)
    allowed = limits_of(scope)
    if name not in allowed:
        raise Invalid(
            f"{name} cannot be set for {scope_text(scope)}", hint=f"one of {', '.join(allowed)}"
        )
    return name


def limits_of(scope: str) -> tuple[LimitName, ...]:
    """The limits that a scope can have."""
    return OF_TASKS if scope == EVERY_TENANT else LIMITS_OF.get(scope.partition(":")[0], ())


def parse_value(scope: str, name: LimitName, text: str) -> int:
    """A limit as it is stored: a number, or seconds. Raises Invalid."""
    if name == LimitName.RUN_DURATION:
        return seconds(int(text) if text.isdecimal() else text, name)
    least = least_value(scope, name)
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:20]) <= LARGEST:
        hint = f"a whole number from {least} to {LARGEST:,}"
        if least and name != LimitName.WEIGHT:
            hint += "; `servo limits unset` removes a limit, `servo pause` stops everything"
        raise Invalid(f"{text!r} is not a value of {name}", hint=hint)
    return int(text)


def least_value(scope: str, name: LimitName) -> int:
    """A pool may be closed with 0; other limits of 0 would pause dispatch without showing it."""
    return 0 if scope.startswith("pool:") else 1


def value_text(name: LimitName, value: int) -> str:
    if name != LimitName.RUN_DURATION:
        return f"{value:,}"
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    parts = []
    for unit, length in units:
        count, value = divmod(value, length)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts)
