"""Quality's fold: one key for each asset.

Of a partition the newest evaluation by position counts. Checks that it no longer has lose their
status: an evaluation has all checks of the inputs, and, if there is an output, all of its checks.
One that others report has only some checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.quality.events import ChecksEvaluated, ChecksRecorded
from arco.quality.tables import (
    CHECK_RESULTS,
    CHECK_STATUS,
    CHECK_TOTALS,
    EVALUATIONS,
    CheckResultRow,
    CheckStatusRow,
    CheckTotalsRow,
    EvaluationRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from servo.contract.manifest import ACTIONS
from servo.contract.task import CheckResult


def check_id(result: CheckResult) -> str:
    """The id of a check within an attempt.

    An asset may be two inputs, with different parameters; a parameter with the name of the asset is
    left out.
    """
    if not result.input:
        return result.name
    is_named = result.parameter in ("", result.input.rpartition(".")[2])
    parameter = "" if is_named else f"[{result.parameter}]"
    return f"{result.name}@{result.input}{parameter}"


def _evaluate(rows: Rows, fact: Fact, evaluated: ChecksEvaluated) -> Iterator[Change]:
    if not evaluated.results:
        yield from _forget(rows, evaluated)
    elif not _is_recorded(rows, evaluated):
        for result in evaluated.results:
            yield Put(CHECK_RESULTS, _result(fact, evaluated, result))
            yield Put(CHECK_STATUS, _status(rows, fact, evaluated, result))
            yield Put(CHECK_TOTALS, _totals(rows, fact, evaluated.asset_id, result))
        yield from _summed_up(rows, fact, evaluated)
        yield Emit(
            ChecksRecorded(
                asset_id=evaluated.asset_id,
                checks=len(evaluated.results),
                passed=sum(result.status == "passed" for result in evaluated.results),
                action=max((result.action for result in evaluated.results), key=ACTIONS.index),
            )
        )


def _forget(rows: Rows, evaluated: ChecksEvaluated) -> Iterator[Change]:
    """An output without checks: remove the status of earlier checks."""
    before = rows.get(EVALUATIONS, evaluated.asset_id, evaluated.partition)
    if before is not None:
        yield Delete(EVALUATIONS, EVALUATIONS.key_of(before))
        for check in sorted({*before.before, *before.after}):
            yield Delete(CHECK_STATUS, (evaluated.asset_id, evaluated.partition, check))


def _is_recorded(rows: Rows, evaluated: ChecksEvaluated) -> bool:
    first = check_id(evaluated.results[0])
    return rows.get(CHECK_RESULTS, evaluated.asset_id, evaluated.attempt_id, first) is not None


def _summed_up(rows: Rows, fact: Fact, evaluated: ChecksEvaluated) -> Iterator[Change]:
    before = rows.get(EVALUATIONS, evaluated.asset_id, evaluated.partition)
    now = _evaluation(fact, evaluated, before)
    yield Put(EVALUATIONS, now)
    if before is not None:
        for check in sorted({*before.before, *before.after} - {*now.before, *now.after}):
            yield Delete(CHECK_STATUS, (evaluated.asset_id, evaluated.partition, check))


def _evaluation(
    fact: Fact, evaluated: ChecksEvaluated, before: EvaluationRow | None
) -> EvaluationRow:
    ids = {
        phase: [check_id(each) for each in evaluated.results if each.phase == phase]
        for phase in ("before", "after")
    }
    if before is not None and evaluated.is_reported:
        ids = {
            "before": before.before,
            "after": [*before.after, *(id for id in ids["after"] if id not in before.after)],
        }
    elif before is not None and not evaluated.materialization_id:
        ids["after"] = ids["after"] or before.after
    statuses = [result.status for result in evaluated.results]
    return row_from(
        EvaluationRow,
        evaluated,
        partition_key=evaluated.partition,
        asset_key=evaluated.asset,
        passed=statuses.count("passed"),
        failed=statuses.count("failed"),
        errors=statuses.count("error"),
        action=max((result.action for result in evaluated.results), key=ACTIONS.index),
        before=ids["before"],
        after=ids["after"],
        evaluated_at=fact.received_at,
    )


def _status(
    rows: Rows, fact: Fact, evaluated: ChecksEvaluated, result: CheckResult
) -> CheckStatusRow:
    last = rows.get(CHECK_STATUS, evaluated.asset_id, evaluated.partition, check_id(result))
    since = None if last is None else last.failing_since
    times = 0 if last is None else last.consecutive_failures
    passed_at = None if last is None else last.last_passed_at
    good = result.status == "passed"
    return row_from(
        CheckStatusRow,
        evaluated,
        result,
        partition_key=evaluated.partition,
        check_id=check_id(result),
        asset_key=evaluated.asset,
        check_name=result.name,
        failing_since=None if good else since or fact.received_at,
        consecutive_failures=0 if good else times + 1,
        last_passed_at=fact.received_at if good else passed_at,
        evaluated_at=fact.received_at,
    )


def _totals(rows: Rows, fact: Fact, asset_id: str, result: CheckResult) -> CheckTotalsRow:
    id = check_id(result)
    last = rows.get(CHECK_TOTALS, asset_id, id)
    failed = result.status != "passed"
    failed_at = None if last is None else last.last_failed_at
    return CheckTotalsRow(
        asset_id=asset_id,
        check_id=id,
        kind=result.kind,
        evaluations=1 + (0 if last is None else last.evaluations),
        failures=failed + (0 if last is None else last.failures),
        wall_ms=result.wall_ms + (0 if last is None else last.wall_ms),
        first_at=fact.received_at if last is None else last.first_at,
        last_at=fact.received_at,
        last_failed_at=fact.received_at if failed else failed_at,
    )


def _result(fact: Fact, evaluated: ChecksEvaluated, result: CheckResult) -> CheckResultRow:
    return row_from(
        CheckResultRow,
        evaluated,
        result,
        check_id=check_id(result),
        asset_key=evaluated.asset,
        partition_key=evaluated.partition,
        check_name=result.name,
        evaluated_at=fact.received_at,
    )


CHECKS = Stage(
    "checks",
    (CHECK_RESULTS, CHECK_STATUS, EVALUATIONS, CHECK_TOTALS),
    [On(ChecksEvaluated, by("asset_id"), _evaluate)],
)
STAGES = (CHECKS,)
