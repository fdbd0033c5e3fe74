"""Evaluating checks, from the cheapest source to the dearest.

    footers  ->  DuckDB, one pass for all  ->  Spark, one pass for all  ->  Python

First all checks are prepared: invalid ones end the evaluation before any data is read, and those
that the footers of the files prove are done. All conditions on rows are counted in one pass over
their columns; uniqueness and references take a pass each, over their columns alone. A sample is
read only for checks that fail.

DuckDB evaluates what it can express, if the files are on this machine's disk or are small enough to
be fetched. Spark evaluates the rest, and what fails in DuckDB.

Checks that share a pass share its time. A timeout ends the pass; the checks whose timeout has
passed are errors, and the others are evaluated again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arco.worker.checks.check_request import CheckRequest, UnsuitableCheck
from arco.worker.checks.duck import DuckEngine, in_reach
from arco.worker.checks.engine import CheckEngine, CheckEngineError, EngineNeed
from arco.worker.checks.kinds import judged_age, need_of
from arco.worker.checks.limits import CheckTimeout, limited
from arco.worker.checks.needs import (
    DuplicateRows,
    FailingRows,
    FalseRows,
    Finding,
    NewestValue,
    OrphanRows,
    Prepared,
    ProvenFinding,
    PythonCall,
)
from arco.worker.checks.phrases import beyond, rows_that
from arco.worker.checks.python import called
from arco.worker.checks.samples import sample_texts
from arco.worker.checks.sparks import SparkCheckEngine
from arco.worker.checks.subject import CheckContext, Subject
from arco.worker.checks.subject_columns import Columns
from arco.worker.failures import encodable, failed
from servo.contract.manifest import Check
from servo.contract.task import CheckResult

MAX_TEXT: Final = 1_000
TIMEOUT_S: Final = 1_800
"""For a check that has no timeout of its own."""
NO_SPARK: Final = "this check needs Spark, which this worker does not have"


def evaluate(
    checks: Sequence[Check], subject: Subject, context: CheckContext
) -> tuple[CheckResult, ...]:
    """A result for each check, in their order.

    Raises TaskFailed (`checks.invalid`) for all checks at once that do not suit the
    data's columns, and the task's own reason to stop.
    """
    if not checks:
        return ()
    with contextlib.closing(_Evaluation(subject, context)) as evaluation:
        findings = evaluation.findings(checks)
    rows = subject.rows
    return tuple(
        _result(check, finding, rows, subject, context)
        for check, finding in zip(checks, findings, strict=True)
    )


class _Evaluation:
    def __init__(self, subject: Subject, context: CheckContext) -> None:
        self._subject = subject
        self._context = context
        self._columns = Columns(subject)
        self._findings: dict[int, Finding] = {}
        self._spark = None if context.frame is None else SparkCheckEngine(subject, context)
        self._duck: DuckEngine | None = None

    def close(self) -> None:
        if self._duck is not None:
            self._duck.close()

    def findings(self, checks: Sequence[Check]) -> list[Finding]:
        prepared = self._prepared(checks)
        for each in prepared:
            if isinstance(each.need, ProvenFinding):
                self._findings[each.at] = each.need.finding
        if self._subject.rows:
            self._scan(prepared)
        else:
            self._nothing_to_scan(prepared)
        for each in prepared:
            if isinstance(each.need, PythonCall):
                self._call(each, each.need)
        self._sample(prepared)
        return [self._findings[at] for at in range(len(checks))]

    # -- preparation ----------------------------------------------------------------------

    def _prepared(self, checks: Sequence[Check]) -> list[Prepared]:
        done: list[Prepared] = []
        flaws: list[UnsuitableCheck] = []
        for at, check in enumerate(checks):
            request = CheckRequest(check, self._subject, self._columns, self._context)
            try:
                need = need_of(request)
                columns = (
                    ()
                    if isinstance(need, ProvenFinding | PythonCall | FalseRows)
                    else request.columns
                )
                prepared = Prepared(at, check, columns, need)
                self._approve(prepared)
                done.append(prepared)
            except UnsuitableCheck as flaw:
                flaws.append(flaw)
        if flaws:
            raise failed(
                "configuration",
                "checks.invalid",
                f"{self._subject.asset}: {'; '.join(flaw.message for flaw in flaws)}",
                "; ".join(dict.fromkeys(flaw.hint for flaw in flaws if flaw.hint)),
            )
        return done

    def _approve(self, prepared: Prepared) -> None:
        """Let Spark validate SQL and patterns that DuckDB does not support."""
        need = prepared.need
        if not isinstance(need, FailingRows | FalseRows) or self._spark is None:
            return
        if not self._subject.files or self._duckdb().can(need):
            return
        pattern = str(prepared.check.params.get("pattern", ""))
        flaw = self._spark.flaw(need, pattern)
        if flaw:
            raise UnsuitableCheck(f"the check {prepared.check.name!r} is not valid: {flaw}")

    def _duckdb(self) -> DuckEngine:
        if self._duck is None:
            self._duck = DuckEngine(self._subject, self._columns, self._context)
        return self._duck

    # -- the passes -----------------------------------------------------------------------

    def _scan(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            if isinstance(each.need, FailingRows) and each.need.counted is not None:
                self._note(each, each.need.counted, Finding("passed", method="footer"))
        pending = [p for p in prepared if not isinstance(p.need, ProvenFinding | PythonCall)]
        pending = [each for each in pending if each.at not in self._findings]
        for engine in self._engines(pending):
            supported = [p for p in pending if p.at not in self._findings and engine.can(_need(p))]
            self._pass(engine, [each for each in supported if engine.fuses(_need(each))])
            for each in supported:
                if not engine.fuses(_need(each)):
                    self._apart(engine, each)
        for each in pending:
            self._findings.setdefault(each.at, Finding("error", message=NO_SPARK))

    def _nothing_to_scan(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            if isinstance(each.need, NewestValue):
                self._note(each, None, Finding("passed", method="footer"))
            elif each.at not in self._findings and not isinstance(each.need, PythonCall):
                self._note(each, 0, Finding("passed", method="footer"))

    def _engines(self, pending: Sequence[Prepared]) -> Iterator[CheckEngine]:
        """DuckDB if the files are local or small, then Spark if there is one."""
        if not pending:
            return
        if in_reach(self._context, self._weight(pending)):
            yield self._duckdb()
        if self._spark is not None:
            yield self._spark

    def _weight(self, pending: Sequence[Prepared]) -> int:
        targets = [p.need.target.bytes for p in pending if isinstance(p.need, OrphanRows)]
        return self._subject.bytes + sum(targets)

    def _pass(self, engine: CheckEngine, group: Sequence[Prepared]) -> None:
        """Evaluate checks in one pass. If that fails, evaluate them one by one."""
        while group:
            seconds = min(self._seconds(each) for each in group)
            began = self._context.clock.monotonic()
            try:
                with limited(self._context, seconds, engine.stop):
                    counts = engine.fused([_need(each) for each in group])
            except CheckTimeout as slow:
                late = [each for each in group if self._seconds(each) <= seconds]
                self._fail(late, str(slow), engine)
                group = [each for each in group if each not in late]
                continue
            except CheckEngineError as error:
                self._one_by_one(engine, group, self._error_text(error))
                return
            took = self._since(began) // len(group)
            for each, count in zip(group, counts, strict=True):
                self._note(each, count, Finding("passed", method=engine.method, wall_ms=took))
            return

    def _one_by_one(self, engine: CheckEngine, group: Sequence[Prepared], message: str) -> None:
        if len(group) > 1:
            for each in group:
                self._pass(engine, [each])
        elif self._is_last(engine):
            self._fail(group, message, engine)

    def _is_last(self, engine: CheckEngine) -> bool:
        """Whether no other engine may still answer."""
        return engine is self._spark or self._spark is None

    def _apart(self, engine: CheckEngine, prepared: Prepared) -> None:
        began, seconds = self._context.clock.monotonic(), self._seconds(prepared)
        try:
            with limited(self._context, seconds, engine.stop):
                count = engine.apart(_need(prepared))
        except CheckTimeout as slow:
            self._fail([prepared], str(slow), engine)
        except CheckEngineError as error:
            if self._is_last(engine):
                self._fail([prepared], self._error_text(error), engine)
        else:
            took = self._since(began)
            self._note(prepared, count, Finding("passed", method=engine.method, wall_ms=took))

    def _call(self, prepared: Prepared, need: PythonCall) -> None:
        began = self._context.clock.monotonic()
        finding = called(need, self._subject, self._context, self._seconds(prepared))
        self._findings[prepared.at] = finding._replace(wall_ms=self._since(began))

    # -- findings -------------------------------------------------------------------------

    def _note(self, prepared: Prepared, count: int | None, finding: Finding) -> None:
        if isinstance(prepared.need, NewestValue):
            age = judged_age(prepared.need, count, self._context)
            self._findings[prepared.at] = age._replace(
                method=finding.method, wall_ms=finding.wall_ms
            )
            return
        failing = count or 0
        actual = rows_that(failing, self._subject.rows)
        self._findings[prepared.at] = finding._replace(
            status="failed" if failing else "passed",
            expected=_expected(prepared),
            actual=actual,
            message=f"{_complaint(prepared)} in {actual}" if failing else "",
            failing=failing,
        )

    def _error_text(self, error: CheckEngineError) -> str:
        """The message of an engine may contain values of personal columns."""
        personal = self._context.pii or any(ref.pii for ref in self._context.references)
        return error.kind if personal else str(error)

    def _fail(self, group: Iterable[Prepared], message: str, engine: CheckEngine) -> None:
        for each in group:
            self._findings[each.at] = Finding(
                "error", _expected(each), message=message, method=engine.method
            )

    def _sample(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            finding = self._findings[each.at]
            need = each.need
            if finding.status != "failed" or isinstance(
                need, ProvenFinding | PythonCall | NewestValue
            ):
                continue
            engine = self._sampler(finding, need)
            if engine is None:
                continue
            began = self._context.clock.monotonic()
            first = [column.top for column in each.columns]
            try:
                with limited(self._context, self._seconds(each), engine.stop):
                    rows = engine.sample(need, first)
            except (CheckTimeout, CheckEngineError):
                continue  # the verdict stands without it
            sample = sample_texts(rows, first, self._context.pii, self._context.redact)
            took = finding.wall_ms + self._since(began)
            self._findings[each.at] = finding._replace(sample=sample, wall_ms=took)

    def _sampler(
        self, finding: Finding, need: FailingRows | FalseRows | DuplicateRows | OrphanRows
    ) -> CheckEngine | None:
        if finding.method == "spark":
            return self._spark
        near = in_reach(self._context, self._subject.bytes)
        return self._duckdb() if near and self._duckdb().can(need) else self._spark

    def _seconds(self, prepared: Prepared) -> int:
        return prepared.check.timeout_s or TIMEOUT_S

    def _since(self, began: float) -> int:
        return int((self._context.clock.monotonic() - began) * 1_000)


def _need(prepared: Prepared) -> EngineNeed:
    assert not isinstance(prepared.need, ProvenFinding | PythonCall)
    return prepared.need


def _expected(prepared: Prepared) -> str:
    names = ", ".join(column.name for column in prepared.columns)
    match prepared.need:
        case FailingRows(expected=expected):
            return expected
        case DuplicateRows():
            return f"no two rows with the same {names}"
        case OrphanRows(target=target, target_column=column):
            return f"in {target.asset}.{column.name}"
        case FalseRows(sql=sql):
            return sql
    return ""


def _complaint(prepared: Prepared) -> str:
    names = ", ".join(column.name for column in prepared.columns)
    match prepared.need:
        case FailingRows(expected=expected):
            return _misfit(prepared, expected)
        case DuplicateRows():
            return f"({names}) is a duplicate" if "," in names else f"{names} is a duplicate"
        case OrphanRows(target=target, target_column=column):
            return f"{names} is missing from {target.asset}.{column.name}"
        case FalseRows(sql=sql):
            return f"{sql} is not true"
    return ""


def _misfit(prepared: Prepared, expected: str) -> str:
    name = " or ".join(column.name for column in prepared.columns)
    match prepared.check.kind:
        case "not_null":
            return f"{name} is null"
        case "in_range":
            nan = " or NaN" if prepared.columns[0].family == "float" else ""
            return f"{name} is {beyond(prepared.check.params)}{nan}"
        case "columns":
            return "a column that is declared not null is null"
        case "matches":
            return f"{name} does not match {prepared.check.params['pattern']}"
    return f"{name} is not {expected}"


def _result(
    check: Check, finding: Finding, rows: int, subject: Subject, context: CheckContext
) -> CheckResult:
    passed = finding.status == "passed"
    promised = bool(check.contract)
    return CheckResult(
        name=check.name,
        passed=passed,
        severity=check.severity,
        message=_bounded(finding.message, context),
        kind=check.kind,
        phase=check.phase,
        input=subject.asset if check.phase == "before" else "",
        parameter=subject.ref.parameter if check.phase == "before" else "",
        columns=check.columns,
        status=finding.status,
        action="continue" if passed else context.gating.action(check.severity, promised=promised),
        expected=_bounded(finding.expected, context),
        actual=_bounded(finding.actual, context),
        rows=rows,
        failing=finding.failing,
        method=finding.method,
        sample=finding.sample,
        wall_ms=finding.wall_ms,
        contract=check.contract,
    )


def _bounded(text: str, context: CheckContext) -> str:
    text = encodable(context.redact(text))
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
