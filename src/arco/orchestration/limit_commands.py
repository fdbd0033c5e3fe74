"""Sets limits, pauses and resumes dispatch, and permits runs within limits."""

from __future__ import annotations

from arco.errors import Invalid, Refused
from arco.orchestration.limit_events import DispatchPaused, DispatchResumed, LimitSet, LimitUnset
from arco.orchestration.limit_report import named_pools
from arco.orchestration.limit_tables import (
    LimitName,
    Permit,
    parse_name,
    parse_scope,
    parse_value,
    pause_text,
)
from arco.orchestration.limit_usage import run_limit_reached
from arco.orchestration.reader import Library, OrchestrationReader
from arco.orchestration.states import RunTrigger
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.suggest import did_you_mean


class LimitCommands:
    def __init__(self, core: Core, tier1: Tier1, library: Library, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._library = library
        self._actor = actor

    def set(
        self, scope: str, name: str, value: str, *, reason: str = "", new_pool: bool = False
    ) -> LimitSet:
        """Set a limit, as people write it. Raises Invalid, and changes nothing then.

        `new_pool`: the pool may be one that no deployed asset names yet.
        """
        scope = parse_scope(scope)
        limit = parse_name(scope, name or LimitName.CONCURRENT_TASKS)
        event = LimitSet(
            scope=scope, name=limit, value=parse_value(scope, limit, value), reason=reason
        )
        if scope.startswith("pool:") and not new_pool:
            self._check_pool(scope.removeprefix("pool:"))
        self._tier1.execute(event, actor=self._actor)
        return event

    def unset(self, scope: str, name: str, *, reason: str = "") -> LimitUnset:
        scope = parse_scope(scope)
        limit = parse_name(scope, name or LimitName.CONCURRENT_TASKS)
        event = LimitUnset(scope=scope, name=limit, reason=reason)
        self._tier1.execute(event, actor=self._actor)
        return event

    def pause(self, *, reason: str = "") -> Acknowledged:
        """No task and no run starts until dispatch is resumed. Running tasks go on."""
        return self._tier1.execute(DispatchPaused(reason=reason), actor=self._actor)

    def resume(self, *, reason: str = "") -> Acknowledged:
        return self._tier1.execute(DispatchResumed(reason=reason), actor=self._actor)

    def pools(self) -> dict[str, int]:
        """The pools that deployed assets name, and how many assets each has."""
        return named_pools(OrchestrationReader(self._core.snapshot()), self._library)

    def permit(self, snapshot: Snapshot, kind: RunTrigger) -> Permit | None:
        """A permit to start a run; None if no limit counts runs.

        Raises LimitReached, and Refused while dispatch is paused.
        """
        reader = OrchestrationReader(snapshot)
        declared = reader.limits()
        if declared.is_paused:
            raise Refused(
                "dispatch_paused",
                pause_text(declared.control),
                hint="`servo resume` starts it again; `servo run --remote --detach` leaves a "
                "request that waits",
            )
        if not declared.has_run_limits:
            return None
        use = reader.run_use(self._core.clock.now())
        if (reached := run_limit_reached(declared, use, kind)) is not None:
            raise reached
        return Permit(snapshot.head.manifest.position, self._core.ids())

    def held(self, kind: RunTrigger) -> Refused | None:
        """Why a run cannot be started now."""
        try:
            self.permit(self._core.snapshot(), kind)
        except Refused as refusal:
            return refusal
        return None

    def _check_pool(self, pool: str) -> None:
        pools = self.pools()
        size = OrchestrationReader(self._core.snapshot()).limits().of_pool(pool)
        if pool in pools or size is not None:
            return
        near = did_you_mean(pool, pools)
        raise Invalid(
            f"no deployed asset has Resources(pool={pool!r})",
            hint=f"{near} --new sets the size of a pool before its assets are deployed".strip(),
        )
