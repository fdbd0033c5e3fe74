"""The checks of one attempt: of its inputs before it runs, of its output afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arco.clock import Clock
from arco.storage.port import Store
from arco.worker.checks import CheckContext, File, Subject, evaluate
from arco.worker.checks.declared import declared_checks
from arco.worker.failures import TaskFailed, failed
from arco.worker.footers import Footer
from arco.worker.loader import Loader
from arco.worker.secrets import Redactor
from arco.worker.stopping import Stopping
from servo.context import AssetIn
from servo.contract.manifest import ACTIONS, Check, GateAction
from servo.contract.partition import PartitionKey
from servo.contract.task import CheckResult, InputRef, MaterializationRef, TaskRequest, personal

STOPPING: tuple[GateAction, ...] = ("quarantine", "block", "fail_task", "fail_run")
"""Actions that prevent the use of an input, or an output from becoming current."""

ReadAs = Callable[[InputRef, str, Sequence[str]], Any]
"""An input as "spark", "arrow", …"""


class SparkHooks(NamedTuple):
    """How checks reach the task's Spark, where there is one."""

    frame: Callable[[InputRef], Any]
    cancel: Callable[[], None]
    fatal: Callable[[BaseException], bool]
    broken_off: Callable[[], None]


@dataclass(frozen=True)
class Inspection:
    request: TaskRequest
    store: Store
    clock: Clock
    stopping: Stopping
    redact: Redactor
    read_as: ReadAs
    spark: SparkHooks | None
    loader: Loader

    def before(self) -> tuple[CheckResult, ...]:
        """Of each input that a check looks at."""
        return tuple(
            result
            for ref in self.request.inputs
            if ref.parameter and (checks := self._before(ref.parameter))
            for result in evaluate(
                checks, Subject.read(self.store, ref), self._context(None, ref.pii)
            )
        )

    def _before(self, parameter: str) -> list[Check]:
        return [
            check
            for check in self.request.checks
            if check.phase == "before" and check.params.get("input") in (None, parameter)
        ]

    def after(self, output: MaterializationRef, footers: Sequence[Footer]) -> list[CheckResult]:
        request = self.request
        declared = declared_checks(request.columns, request.extra)
        checks = [*declared, *(check for check in request.checks if check.phase == "after")]
        if not checks:
            return []
        if not footers:
            raise failed(
                "user_code",
                "output.none",
                f"{request.asset} has columns or checks, but returned nothing",
                "return the data, or remove columns= and checks=",
            )
        dimensions = dict(PartitionKey.parse(output.partition).dimensions)
        ref = InputRef(asset=request.asset, materializations=(output,))
        subject = Subject(ref, tuple(File(footer, dimensions) for footer in footers))
        return list(evaluate(checks, subject, self._context(request.previous)))

    def _context(
        self, previous: MaterializationRef | None, pii: tuple[str, ...] = ()
    ) -> CheckContext:
        request, spark = self.request, self.spark
        context = CheckContext(
            self.store,
            self.clock,
            request.gating,
            previous=None if previous is None else previous.rows,
            references=request.references,
            load=functools.partial(self.loader.check, request.code),
            reader=self._read,
            reason=self.stopping.reason,
            stopping=self.stopping,
            pii=frozenset((*personal(request.columns), *pii)),
            redact=self.redact,
        )
        if spark is None:
            return context
        return context._replace(**spark._asdict())

    def _read(self, data: AssetIn, shape: str, columns: Sequence[str] = ()) -> Any:
        ref = InputRef(asset=data.asset, materializations=data.materializations)
        return self.read_as(ref, shape, columns)


def strongest(results: Iterable[CheckResult]) -> GateAction:
    return max((result.action for result in results), key=ACTIONS.index, default="continue")


def refusal(request: TaskRequest, results: Sequence[CheckResult], gate: GateAction) -> TaskFailed:
    """The failure of a task by the checks of its inputs or of its output."""
    failing = [result for result in results if result.action == gate]
    first = failing[0]
    looked_at = first.input or request.asset
    more = f", and {len(failing) - 1} more" if len(failing) > 1 else ""
    message = f": {first.message}" if first.message else ""
    where = f"the input {looked_at}" if first.input else request.asset
    return failed(
        "input" if first.input else "user_code",
        "checks.input" if first.input else "checks.failed",
        f"{where} failed the check {first.name!r}{more}{message}",
        f"fix {looked_at}, or the check; `servo checks list {request.asset}` shows all results",
    )
