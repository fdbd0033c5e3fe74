"""Quality's fold: one key for each asset.

Of a partition the newest evaluation by position counts. Checks that it no longer
has lose their status: an evaluation speaks for all checks of the inputs, and, if
there is an output, for all of its checks too.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.quality.events import ChecksEvaluated
from arco.quality.tables import (
    CHECK_RESULTS,
    CHECK_STATUS,
    EVALUATIONS,
    CheckResultRow,
    CheckStatusRow,
    EvaluationRow,
)
from arco.state.fold import Change, Delete, Fact, Put, Rows, Stage
from arco.state.table import Key
from servo.contract.manifest import ACTIONS
from servo.contract.task import CheckResult


def check_id(result: CheckResult) -> str:
    """Tells the checks of an attempt apart.

    An asset may be two inputs, and their parameters have different names; at most one
    of them is that of the asset, which need not be said.
    """
    if not result.input:
        return result.name
    told = result.parameter in ("", result.input.rpartition(".")[2])
    parameter = "" if told else f"[{result.parameter}]"
    return f"{result.name}@{result.input}{parameter}"


def fold_checks(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case ChecksEvaluated(results=()) as found:
            yield from _forget(rows, found)
        case ChecksEvaluated() as found if not _known(rows, found):
            for result in found.results:
                yield Put(CHECK_RESULTS, _result(fact, found, result))
                yield Put(CHECK_STATUS, _status(rows, fact, found, result))
            yield from _summed_up(rows, fact, found)


def _forget(rows: Rows, found: ChecksEvaluated) -> Iterator[Change]:
    """An output that has no checks: the asset has lost those that it had."""
    before = rows.get(EVALUATIONS, found.asset_id, found.partition)
    if before is not None:
        yield Delete(EVALUATIONS, EVALUATIONS.key_of(before))
        for gone in sorted({*before.before, *before.after}):
            yield Delete(CHECK_STATUS, (found.asset_id, found.partition, gone))


def _known(rows: Rows, found: ChecksEvaluated) -> bool:
    first = check_id(found.results[0])
    return rows.get(CHECK_RESULTS, found.asset_id, found.attempt_id, first) is not None


def _summed_up(rows: Rows, fact: Fact, found: ChecksEvaluated) -> Iterator[Change]:
    before = rows.get(EVALUATIONS, found.asset_id, found.partition)
    now = _evaluation(fact, found, before)
    yield Put(EVALUATIONS, now)
    if before is not None:
        for gone in sorted({*before.before, *before.after} - {*now.before, *now.after}):
            yield Delete(CHECK_STATUS, (found.asset_id, found.partition, gone))


def _evaluation(fact: Fact, found: ChecksEvaluated, before: EvaluationRow | None) -> EvaluationRow:
    ids = {
        phase: [check_id(each) for each in found.results if each.phase == phase]
        for phase in ("before", "after")
    }
    if before is not None and not found.materialization_id:
        ids["after"] = ids["after"] or before.after
    statuses = [result.status for result in found.results]
    return EvaluationRow(
        asset_id=found.asset_id,
        partition_key=found.partition,
        asset_key=found.asset,
        passed=statuses.count("passed"),
        failed=statuses.count("failed"),
        errors=statuses.count("error"),
        action=max((result.action for result in found.results), key=ACTIONS.index),
        before=ids["before"],
        after=ids["after"],
        materialization_id=found.materialization_id,
        run_id=found.run_id,
        attempt_id=found.attempt_id,
        evaluated_at=fact.received_at,
    )


def _status(rows: Rows, fact: Fact, found: ChecksEvaluated, result: CheckResult) -> CheckStatusRow:
    last = rows.get(CHECK_STATUS, found.asset_id, found.partition, check_id(result))
    since = None if last is None else last.failing_since
    times = 0 if last is None else last.consecutive_failures
    passed_at = None if last is None else last.last_passed_at
    good = result.status == "passed"
    return CheckStatusRow(
        asset_id=found.asset_id,
        partition_key=found.partition,
        check_id=check_id(result),
        asset_key=found.asset,
        check_name=result.name,
        kind=result.kind,
        phase=result.phase,
        input=result.input,
        severity=result.severity,
        status=result.status,
        action=result.action,
        message=result.message,
        failing=result.failing,
        failing_since=None if good else since or fact.received_at,
        consecutive_failures=0 if good else times + 1,
        last_passed_at=fact.received_at if good else passed_at,
        materialization_id=found.materialization_id,
        run_id=found.run_id,
        attempt_id=found.attempt_id,
        evaluated_at=fact.received_at,
    )


def _result(fact: Fact, found: ChecksEvaluated, result: CheckResult) -> CheckResultRow:
    return CheckResultRow(
        asset_id=found.asset_id,
        attempt_id=found.attempt_id,
        check_id=check_id(result),
        asset_key=found.asset,
        partition_key=found.partition,
        check_name=result.name,
        kind=result.kind,
        phase=result.phase,
        input=result.input,
        columns=list(result.columns),
        severity=result.severity,
        status=result.status,
        action=result.action,
        message=result.message,
        expected=result.expected,
        actual=result.actual,
        rows=result.rows,
        failing=result.failing,
        method=result.method,
        sample=list(result.sample),
        wall_ms=result.wall_ms,
        materialization_id=found.materialization_id,
        run_id=found.run_id,
        task_id=found.task_id,
        evaluated_at=fact.received_at,
    )


def _by_asset(fact: Fact) -> Key:
    assert isinstance(fact.payload, ChecksEvaluated)
    return (fact.payload.asset_id,)


CHECKS = Stage(
    "checks",
    (CHECK_RESULTS, CHECK_STATUS, EVALUATIONS),
    {ChecksEvaluated: _by_asset},
    fold_checks,
)
STAGES = (CHECKS,)
