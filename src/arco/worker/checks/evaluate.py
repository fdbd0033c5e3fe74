"""Evaluating checks, from the cheapest source to the dearest.

    footers  ->  DuckDB, one pass for all  ->  Spark, one pass for all  ->  Python

First everything is prepared, and what cannot be meant ends it before any data is
read. What the footers of the files prove is known by then. All conditions on rows
are counted in one pass over the columns that they name; uniqueness and references
take a pass each, over their columns alone. A sample of rows is looked for only where
some do not fit.

DuckDB does what it can say, where the files are on this machine's disk or are small
enough to be fetched. Spark does the rest, and whatever DuckDB turns out not to manage.

Checks that share a pass share its time. A time-out ends the pass; those whose time is
over are errors, and the others are asked again without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arco.worker.checks.columns import Columns
from arco.worker.checks.duck import DuckEngine, in_reach
from arco.worker.checks.engine import Engine, Need, Unanswered
from arco.worker.checks.kinds import Asked, Misfit, judged_age, need_of
from arco.worker.checks.limits import TooSlow, limited
from arco.worker.checks.needs import (
    Call,
    Finding,
    Known,
    Misfits,
    Newest,
    Orphans,
    Prepared,
    Repeated,
    Untrue,
)
from arco.worker.checks.phrases import rows_that
from arco.worker.checks.python import called
from arco.worker.checks.samples import shown
from arco.worker.checks.sparks import SparkEngine
from arco.worker.checks.subject import Around, Subject
from arco.worker.failures import encodable, failed
from servo.contract.manifest import Check
from servo.contract.task import CheckResult

MAX_TEXT: Final = 1_000
TIMEOUT_S: Final = 1_800
"""For a check that has no time-out of its own."""
NO_SPARK: Final = "this needs Spark, which this worker does not have"


def evaluate(checks: Sequence[Check], subject: Subject, around: Around) -> tuple[CheckResult, ...]:
    """A result for each check, in their order.

    Raises TaskFailed (`checks.invalid`) for all checks at once that do not suit the
    data's columns, and the task's own reason to stop.
    """
    if not checks:
        return ()
    with contextlib.closing(_Evaluation(subject, around)) as evaluation:
        findings = evaluation.findings(checks)
    rows = subject.rows
    return tuple(
        _result(check, finding, rows, subject, around)
        for check, finding in zip(checks, findings, strict=True)
    )


class _Evaluation:
    def __init__(self, subject: Subject, around: Around) -> None:
        self._subject = subject
        self._around = around
        self._columns = Columns(subject)
        self._found: dict[int, Finding] = {}
        self._spark = None if around.frame is None else SparkEngine(subject, around)
        self._duck: DuckEngine | None = None

    def close(self) -> None:
        if self._duck is not None:
            self._duck.close()

    def findings(self, checks: Sequence[Check]) -> list[Finding]:
        prepared = self._prepared(checks)
        for each in prepared:
            if isinstance(each.need, Known):
                self._found[each.at] = each.need.finding
        if self._subject.rows:
            self._scan(prepared)
        else:
            self._nothing_to_scan(prepared)
        for each in prepared:
            if isinstance(each.need, Call):
                self._call(each, each.need)
        self._sample(prepared)
        return [self._found[at] for at in range(len(checks))]

    # -- before anything is looked at -----------------------------------------------------

    def _prepared(self, checks: Sequence[Check]) -> list[Prepared]:
        done: list[Prepared] = []
        flaws: list[Misfit] = []
        for at, check in enumerate(checks):
            asked = Asked(check, self._subject, self._columns, self._around)
            try:
                need = need_of(asked)
                columns = () if isinstance(need, Known | Call | Untrue) else asked.columns
                prepared = Prepared(at, check, columns, need)
                self._approve(prepared)
                done.append(prepared)
            except Misfit as flaw:
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
        """Have Spark look at what only Spark can read."""
        need = prepared.need
        if not isinstance(need, Misfits | Untrue) or self._spark is None:
            return
        if not self._subject.files or self._says(need):
            return
        pattern = str(prepared.check.params.get("pattern", ""))
        flaw = self._spark.flaw(need, pattern)
        if flaw:
            raise Misfit(f"the check {prepared.check.name!r} cannot be read: {flaw}")

    def _says(self, need: Need) -> bool:
        return self._duckdb().can(need)

    def _duckdb(self) -> DuckEngine:
        if self._duck is None:
            self._duck = DuckEngine(self._subject, self._columns, self._around)
        return self._duck

    # -- the passes -----------------------------------------------------------------------

    def _scan(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            if isinstance(each.need, Misfits) and each.need.known is not None:
                self._note(each, each.need.known, Finding("passed", method="footer"))
        wanted = [p for p in prepared if not isinstance(p.need, Known | Call)]
        wanted = [each for each in wanted if each.at not in self._found]
        for engine in self._engines(wanted):
            mine = [p for p in wanted if p.at not in self._found and engine.can(_asked(p))]
            self._pass(engine, [each for each in mine if engine.fuses(_asked(each))])
            for each in mine:
                if not engine.fuses(_asked(each)):
                    self._apart(engine, each)
        for each in wanted:
            self._found.setdefault(each.at, Finding("error", message=NO_SPARK))

    def _nothing_to_scan(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            if isinstance(each.need, Newest):
                self._note(each, None, Finding("passed", method="footer"))
            elif each.at not in self._found and not isinstance(each.need, Call):
                self._note(each, 0, Finding("passed", method="footer"))

    def _engines(self, wanted: Sequence[Prepared]) -> Iterator[Engine]:
        """DuckDB if the files are near or small, then Spark if there is one."""
        if not wanted:
            return
        if in_reach(self._around, self._weight(wanted)):
            yield self._duckdb()
        if self._spark is not None:
            yield self._spark

    def _weight(self, wanted: Sequence[Prepared]) -> int:
        targets = [p.need.target.bytes for p in wanted if isinstance(p.need, Orphans)]
        return self._subject.bytes + sum(targets)

    def _pass(self, engine: Engine, group: Sequence[Prepared]) -> None:
        """Answer as many as can be in one pass; what fails together is asked one by one."""
        while group:
            seconds = min(self._seconds(each) for each in group)
            began = self._around.clock.monotonic()
            try:
                with limited(self._around, seconds, engine.stop):
                    counts = engine.fused([_asked(each) for each in group])
            except TooSlow as slow:
                late = [each for each in group if self._seconds(each) <= seconds]
                self._fail(late, str(slow), engine)
                group = [each for each in group if each not in late]
                continue
            except Unanswered as error:
                self._one_by_one(engine, group, self._said(error))
                return
            took = self._since(began) // len(group)
            for each, count in zip(group, counts, strict=True):
                self._note(each, count, Finding("passed", method=engine.method, wall_ms=took))
            return

    def _one_by_one(self, engine: Engine, group: Sequence[Prepared], message: str) -> None:
        if len(group) > 1:
            for each in group:
                self._pass(engine, [each])
        elif self._is_last(engine):
            self._fail(group, message, engine)

    def _is_last(self, engine: Engine) -> bool:
        """Whether no other engine may still answer."""
        return engine is self._spark or self._spark is None

    def _apart(self, engine: Engine, each: Prepared) -> None:
        began, seconds = self._around.clock.monotonic(), self._seconds(each)
        try:
            with limited(self._around, seconds, engine.stop):
                count = engine.apart(_asked(each))
        except TooSlow as slow:
            self._fail([each], str(slow), engine)
        except Unanswered as error:
            if self._is_last(engine):
                self._fail([each], self._said(error), engine)
        else:
            took = self._since(began)
            self._note(each, count, Finding("passed", method=engine.method, wall_ms=took))

    def _call(self, each: Prepared, need: Call) -> None:
        began = self._around.clock.monotonic()
        found = called(need, self._subject, self._around, self._seconds(each))
        self._found[each.at] = found._replace(wall_ms=self._since(began))

    # -- what was found -------------------------------------------------------------------

    def _note(self, each: Prepared, count: int | None, found: Finding) -> None:
        if isinstance(each.need, Newest):
            judged = judged_age(each.need, count, self._around)
            self._found[each.at] = judged._replace(method=found.method, wall_ms=found.wall_ms)
            return
        failing = count or 0
        actual = rows_that(failing, self._subject.rows)
        self._found[each.at] = found._replace(
            status="failed" if failing else "passed",
            expected=_expected(each),
            actual=actual,
            message=f"{actual} {_complaint(each)}" if failing else "",
            failing=failing,
        )

    def _said(self, error: Unanswered) -> str:
        """An engine's own words may quote values."""
        personal = self._around.pii or any(ref.pii for ref in self._around.references)
        return error.kind if personal else str(error)

    def _fail(self, group: Iterable[Prepared], message: str, engine: Engine) -> None:
        for each in group:
            self._found[each.at] = Finding(
                "error", _expected(each), message=message, method=engine.method
            )

    def _sample(self, prepared: Sequence[Prepared]) -> None:
        for each in prepared:
            found = self._found[each.at]
            need = each.need
            if found.status != "failed" or isinstance(need, Known | Call | Newest):
                continue
            engine = self._sampler(found, need)
            if engine is None:
                continue
            began = self._around.clock.monotonic()
            try:
                with limited(self._around, self._seconds(each), engine.stop):
                    rows = engine.sample(need)
            except (TooSlow, Unanswered):
                continue  # the verdict stands without it
            first = [column.top for column in each.columns]
            sample = shown(rows, first, self._around.pii, self._around.redact)
            took = found.wall_ms + self._since(began)
            self._found[each.at] = found._replace(sample=sample, wall_ms=took)

    def _sampler(
        self, found: Finding, need: Misfits | Untrue | Repeated | Orphans
    ) -> Engine | None:
        if found.method == "spark":
            return self._spark
        near = in_reach(self._around, self._subject.bytes)
        return self._duckdb() if near and self._says(need) else self._spark

    def _seconds(self, each: Prepared) -> int:
        return each.check.timeout_s or TIMEOUT_S

    def _since(self, began: float) -> int:
        return int((self._around.clock.monotonic() - began) * 1_000)


def _asked(each: Prepared) -> Need:
    assert not isinstance(each.need, Known | Call)
    return each.need


def _expected(each: Prepared) -> str:
    names = ", ".join(column.name for column in each.columns)
    match each.need:
        case Misfits(expected=expected):
            return expected
        case Repeated():
            return f"no two rows with the same {names}"
        case Orphans(target=target, target_column=column):
            return f"in {target.asset}.{column.name}"
        case Untrue(sql=sql):
            return sql
    return ""


def _complaint(each: Prepared) -> str:
    between = " or " if each.check.kind == "not_null" else ", "
    names = between.join(column.name for column in each.columns)
    match each.need:
        case Misfits() if each.check.kind == "not_null":
            return f"have no {names}"
        case Misfits(expected=expected):
            return f"have a value of {names} that is not {expected}"
        case Repeated():
            return f"repeat the {names} of another row"
        case Orphans():
            return f"have a value of {names} that is not {_expected(each)}"
        case Untrue(sql=sql):
            return f"do not fulfil {sql}"
    return ""


def _result(
    check: Check, found: Finding, rows: int, subject: Subject, around: Around
) -> CheckResult:
    passed = found.status == "passed"
    return CheckResult(
        name=check.name,
        passed=passed,
        severity=check.severity,
        message=_bounded(found.message, around),
        kind=check.kind,
        phase=check.phase,
        input=subject.asset if check.phase == "before" else "",
        parameter=subject.ref.parameter if check.phase == "before" else "",
        columns=check.columns,
        status=found.status,
        action="continue" if passed else around.gating.action(check.severity),
        expected=_bounded(found.expected, around),
        actual=_bounded(found.actual, around),
        rows=rows,
        failing=found.failing,
        method=found.method,
        sample=found.sample,
        wall_ms=found.wall_ms,
    )


def _bounded(text: str, around: Around) -> str:
    text = encodable(around.redact(text))
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
