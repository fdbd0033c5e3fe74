"""Usage and cost of tasks, summed by asset, day or run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from arco.execution.tables import TaskCostRow
from arco.plain_json import picked
from arco.worker.pricing import Pricing
from servo.contract.task import Cost, Usage

CostGrouping = Literal["asset", "day", "asset,day", "run"]


def first_day(now: datetime, days: int) -> datetime:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days - 1)


@dataclass
class CostSum:
    """Whole numbers only, so that the lines add up to the total."""

    tasks: set[tuple[str, str]] = field(default_factory=set)
    attempts: int = 0
    failed: int = 0
    cpu_ms: int = 0
    executor_cpu_ms: int = 0
    memory_kib_ms: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    nanos: dict[str, int] = field(default_factory=dict)
    """By currency; what had no prices is not in it."""
    unpriced: int = 0

    def add(self, row: TaskCostRow, currency: str, nanos: int) -> None:
        self.tasks.add((row.run_id, row.task_id))
        self.attempts += 1
        self.failed += row.outcome == "failed"
        self.cpu_ms += row.cpu_ms
        self.executor_cpu_ms += row.executor_cpu_ms
        self.memory_kib_ms += row.peak_memory_kib * row.wall_ms
        self.bytes_read += row.bytes_read
        self.bytes_written += row.bytes_written
        if currency:
            self.nanos[currency] = self.nanos.get(currency, 0) + nanos
        else:
            self.unpriced += 1

    def document(self) -> dict[str, Any]:
        return {
            "tasks": len(self.tasks),
            "attempts": self.attempts,
            "failed_attempts": self.failed,
            **picked(self, "cpu_ms", "executor_cpu_ms", "memory_kib_ms"),
            **picked(self, "bytes_read", "bytes_written"),
            "cost_nanos": self.nanos,
            "unpriced_attempts": self.unpriced,
        }


_KEYS: dict[CostGrouping, Callable[[TaskCostRow], tuple[str, ...]]] = {
    "asset": lambda row: (row.asset_key,),
    "day": lambda row: (f"{row.finished_at:%Y-%m-%d}",),
    "asset,day": lambda row: (row.asset_key, f"{row.finished_at:%Y-%m-%d}"),
    "run": lambda row: (row.run_id,),
}


class CostReport:
    def __init__(
        self, by: CostGrouping, lines: dict[tuple[str, ...], CostSum], total: CostSum
    ) -> None:
        self.by = by
        self.total = total
        self.currency = next(iter(total.nanos)) if len(total.nanos) == 1 else ""
        """If all that has a price has it in one currency."""
        self.lines = sorted(lines.items(), key=self._order)

    @classmethod
    def of(
        cls, by: CostGrouping, rows: Sequence[TaskCostRow], prices: Pricing | None, tenant: str
    ) -> CostReport:
        lines: dict[tuple[str, ...], CostSum] = {}
        total = CostSum()
        for row in rows:
            currency, nanos = row.currency, row.total_cost
            if prices is not None:
                cost = reckoned(row, prices, tenant)
                currency, nanos = cost.currency, cost.total
            for each in (lines.setdefault(_KEYS[by](row), CostSum()), total):
                each.add(row, currency, nanos)
        return cls(by, lines, total)

    def weight(self, line: CostSum) -> int:
        """The base of shares: money, or else CPU."""
        if any(self.total.nanos.values()):
            return line.nanos.get(self.currency, 0)
        return line.cpu_ms + line.executor_cpu_ms

    def _order(self, line: tuple[tuple[str, ...], CostSum]) -> tuple[Any, ...]:
        key, sums = line
        if self.by == "asset":
            return (-self.weight(sums), key)
        if self.by == "asset,day":
            return (key[1], -self.weight(sums), key)
        return key

    def document(self) -> dict[str, Any]:
        names = ["run_id"] if self.by == "run" else self.by.split(",")
        lines = [dict(zip(names, key, strict=True)) | s.document() for key, s in self.lines]
        return {"by": self.by, "lines": lines, "total": self.total.document()}


def reckoned(row: TaskCostRow, prices: Pricing, tenant: str) -> Cost:
    """The cost of an attempt at these prices."""
    names = (name for name in Usage.__struct_fields__ if hasattr(row, name))
    return prices.cost(Usage(**{name: getattr(row, name) for name in names}), tenant)
