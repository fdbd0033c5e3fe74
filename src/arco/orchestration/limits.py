"""The limits and timeouts of orchestration, and how they must relate to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from arco.errors import Invalid
from arco.orchestration.limit_tables import (
    EVERY_TENANT,
    MAX_IN_FLIGHT,
    DeclaredLimits,
    LimitName,
)
from arco.orchestration.runs import TIMEOUT_GRACE_S
from arco.orchestration.tables import TaskRow


class Limits(Struct, frozen=True, kw_only=True):
    """What decides which tasks are enqueued next: the limits that are set, and the slots."""

    max_in_flight: int = MAX_IN_FLIGHT
    """Maximum of tasks in the queue and at workers."""
    tenant_max_in_flight: int = 0
    """The same for each tenant that has no quota of its own; 0: no limit."""
    quotas: Mapping[str, int] = {}
    """By tenant: tasks in flight."""
    weights: Mapping[str, int] = {}
    """By tenant: its share of free places; 1 by default."""

    backfills_in_flight: int = 0
    """The same for tasks of backfills; 0: no limit of their own. Follows the live slots."""

    def quota(self, tenant: str) -> int:
        if tenant in self.quotas:
            return self.quotas[tenant]
        has_own = bool(tenant) and self.tenant_max_in_flight > 0
        return self.tenant_max_in_flight if has_own else self.max_in_flight


def dispatch_limits(declared: DeclaredLimits, other_tasks: Iterable[TaskRow]) -> Limits:
    """The limits that are set, less the tasks in flight of runs that others serve."""
    if not declared.values:
        return Limits()
    name = LimitName.CONCURRENT_TASKS
    others = Counter(task.tenant for task in other_tasks)
    most = declared.of_workspace(name)
    default_quota = declared.values.get((EVERY_TENANT, name), 0)
    scopes = {scope for scope, _ in declared.values} - {EVERY_TENANT}
    tenants = {s.removeprefix("tenant:") for s in scopes if s.startswith("tenant:")}
    quotas = {tenant: declared.of_tenant(tenant, name) for tenant in {*tenants, *others}}
    weights = {tenant: declared.of_tenant(tenant, LimitName.WEIGHT) for tenant in tenants}
    return Limits(
        max_in_flight=MAX_IN_FLIGHT if most is None else max(0, most - sum(others.values())),
        tenant_max_in_flight=default_quota,
        quotas={t: max(0, n - others[t]) for t, n in quotas.items() if n is not None},
        weights={tenant: weight for tenant, weight in weights.items() if weight is not None},
    )


class Timing(Struct, frozen=True, kw_only=True):
    """All in seconds. `check` verifies how they relate, and is called at start."""

    interval_s: float = 0.5
    """Interval of the orchestrator's rounds when nothing wakes it."""
    busy_interval_s: float = 0.1
    """The same while tasks are with workers, whose reports come from other processes."""
    commit_spacing_s: float = 0.05
    """Minimum time between commits for reports of this process only."""
    linger_s: float = 0.05
    """How long acknowledgements wait for events that are more urgent."""
    heartbeat_s: float = 5.0
    """Interval of a worker's heartbeats while it has tasks."""
    zombie_after_s: float = 30.0
    """A worker without a heartbeat for this long is dead."""
    claim_s: float = 60.0
    """How long a claim is valid without a renewal."""
    redeliver_after_s: float = 60.0
    """When a task that was not started, and that the queue has lost, is enqueued again."""
    cancel_grace_s: float = 60.0
    """How long a worker may take to stop a cancelled task."""
    envelope_s: float = 86_400.0
    """How long a signed envelope is valid."""

    def check(self) -> Timing:
        """Returns itself. Raises Invalid if two of these contradict each other."""
        rules = (
            (
                min(self.interval_s, self.busy_interval_s, self.heartbeat_s) > 0,
                "intervals must be above zero",
            ),
            (self.busy_interval_s <= self.interval_s, "busy_interval_s must not exceed interval_s"),
            (
                self.zombie_after_s >= 3 * self.heartbeat_s,
                "zombie_after_s must be at least three heartbeats, so that one "
                "may be late and one lost",
            ),
            (
                self.zombie_after_s > 2 * self.interval_s,
                "zombie_after_s must exceed two intervals: a worker must be seen alive twice",
            ),
            (
                self.claim_s > self.zombie_after_s,
                "claim_s must exceed zombie_after_s: the dead are declared before their work "
                "is handed on, so that it is handed on once",
            ),
            (
                self.redeliver_after_s > 2 * self.interval_s,
                "redeliver_after_s must exceed two intervals",
            ),
            (self.linger_s <= self.interval_s, "linger_s must not exceed interval_s"),
            (
                self.envelope_s > self.claim_s + self.redeliver_after_s,
                "envelope_s must exceed claim_s and redeliver_after_s together: a message that "
                "is handed on must still be good",
            ),
            (
                self.cancel_grace_s > self.heartbeat_s,
                "cancel_grace_s must exceed heartbeat_s: workers hear of it with a heartbeat",
            ),
            (
                2 * self.interval_s < TIMEOUT_GRACE_S,
                f"interval_s must be below {TIMEOUT_GRACE_S / 2} s: a worker's own report of a "
                "timeout comes before the timer's",
            ),
        )
        broken = [text for holds, text in rules if not holds]
        if broken:
            raise Invalid(
                "; ".join(broken), hint="see the options of `servo orchestrator` and `servo worker`"
            )
        return self
