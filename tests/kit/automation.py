"""Assets with automation in a simulated store: what runs when something is replaced."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from arco.orchestration.plan import PlanRequest
from arco.orchestration.tables import RUNS, TASKS, RunRow
from servo.contract.task import ErrorInfo, TaskRequest
from tests.kit.flows import Outcome
from tests.kit.schedules import Town

START = datetime(2026, 1, 5, 8, 1)
HEAD = """
from servo import *
day = daily("date", start="2026-01-01")
month = monthly("month", start="2026-01-01")
"""


def source(name: str, **settings: str) -> str:
    """An asset without inputs."""
    return declared(name, **settings)


def declared(name: str, *reads: str, **settings: str) -> str:
    """An asset `m.name`; what it reads is written `name` or `name: mapping`."""
    parameters, ins = [], []
    for each in reads:
        key, _, mapping = each.partition(":")
        parameters.append(key)
        ins.append(f"{key!r}: In('m.{key}'{', ' + mapping.strip() if mapping else ''})")
    given = "".join(f", {key}={value}" for key, value in settings.items())
    return (
        f"@asset(namespace='m', ins={{{', '.join(ins)}}}{given})\n"
        f"def {name}({', '.join(parameters)}) -> None: ...\n"
    )


def project(*assets: str) -> str:
    return HEAD + "\n".join(assets)


DIAMOND = project(
    source("raw"),
    declared("left", "raw", automation="eager()"),
    declared("right", "raw", automation="eager()"),
    declared("bottom", "left", "right", automation="eager()"),
)


class Mill(Town):
    """A workspace whose assets run by themselves, with one orchestrator and one worker."""

    def __init__(self, text: str, *, orchestrators: int = 1, start: datetime = START) -> None:
        super().__init__(text, start)
        for _ in range(orchestrators):
            self.crowd.orchestrator()
        self.failing: set[str] = set()
        """Assets whose tasks fail."""
        self.worker = self.crowd.worker(script=self._script)

    def _script(self, request: TaskRequest) -> Outcome:
        if request.asset not in self.failing:
            return None
        return ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")

    def run(self, *selection: str, settle: bool = True, **settings: Any) -> str:
        """Make assets again, as a person does; and wait until nothing more happens."""
        request = PlanRequest(selection=selection, force=True, **settings)
        run_id = self.fresh().commands.orchestration.trigger(request).run_id
        if settle:
            self.settle()
        return run_id

    def settle(self) -> None:
        """Until nobody has anything to do, for some seconds of the clock."""
        quiet = 0
        for _ in range(400):
            quiet = 0 if self.crowd.step() or self.pending() else quiet + 1
            self.clock.sleep(2)
            if quiet > 4:
                return
        raise AssertionError("it does not settle")

    def automated(self) -> list[RunRow]:
        """The runs that automation asked for, the oldest first."""
        rows = self.fresh().read.snapshot().all(RUNS)
        own = [row for row in rows if row.trigger == "materialization"]
        return sorted(own, key=lambda row: (row.created_at, row.run_id))

    def made(self) -> Counter[str]:
        """How often automation had each partition made, as `name` or `name[key]`."""
        snapshot = self.fresh().read.snapshot()
        counts: Counter[str] = Counter()
        for run in self.automated():
            for task in snapshot.rows(TASKS, run.run_id):
                name = task.asset_key.partition(".")[2]
                key = task.partition_key.partition(":")[2]
                counts[f"{name}[{key}]" if key else name] += task.state != "REUSED"
        return counts
