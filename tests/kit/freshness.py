"""A town whose assets have freshness policies."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
from arco.automation.freshness_tables import FRESHNESS_CHANGES, FreshnessChangeRow
from arco.orchestration.plan import PlanRequest
from arco.worker.supervise import Control
from servo.contract.task import TaskRequest, TaskResult
from tests.kit.flows import Outcome, Script, ScriptedExecutor
from tests.kit.schedules import START, Town


def policy(max_age: str = "1h", *, partitions: str = "", **settings: Any) -> str:
    """A project with the asset `city.alone`, which has a policy."""
    given = "".join(f", {name}={value!r}" for name, value in settings.items())
    of = f", partitions={partitions}" if partitions else ""
    return "\n".join(
        [
            "from servo import Freshness, asset, daily, dynamic, hourly, static",
            f"@asset(namespace='city', freshness=Freshness(max_age={max_age!r}{given}){of})",
            "def alone() -> None: ...",
        ]
    )


def succeed(request: TaskRequest) -> Outcome:
    return None


class HoldingExecutor(ScriptedExecutor):
    """Its outputs fail their checks."""

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        result = super().run(request, control, again=again)
        return msgspec.structs.replace(result, gate="quarantine")


class AgingTown(Town):
    def __init__(
        self,
        text: str = "",
        start: datetime = START,
        *,
        script: Script = succeed,
        orchestrators: int = 1,
    ) -> None:
        super().__init__(text or policy(), start)
        for _ in range(orchestrators):
            self.crowd.orchestrator()
        self.crowd.worker(script=script)

    def run(self, *partitions: str, selection: str = "city.alone") -> str:
        request = PlanRequest(selection=(selection,), partitions=partitions, force=True)
        run_id = self.fresh().commands.orchestration.trigger(request).run_id
        self.settle()
        return run_id

    def hold_back(self) -> None:
        """From now on, checks hold back what is made."""
        self.crowd.workers.clear()
        self.crowd.worker(executor=lambda w: HoldingExecutor(w, "holding", succeed))

    def wait(self, *, step_s: float = 60.0, **time: float) -> None:
        self.until(self.clock.now() + timedelta(**time), step_s=step_s)

    def series(self) -> list[SeriesFreshness]:
        reader = FreshnessReader(self.fresh().read.snapshot())
        keys = {row.asset_key for row in reader.policies()}
        return list(reader.series(keys, self.clock.now()))

    def statuses(self) -> dict[str, str]:
        return {each.series: str(each.status) for each in self.series()}

    def changes(self) -> list[FreshnessChangeRow]:
        rows = self.fresh().read.snapshot().all(FRESHNESS_CHANGES)
        return sorted(rows, key=lambda row: row.position)

    def history(self) -> list[str]:
        """The transitions, in their order."""
        return [f"{row.series or row.asset_key} {row.status}".strip() for row in self.changes()]
