"""Whether the columns of an output are what its asset's contract promises: a check like the others.

Its severity is always error, and it holds the output whatever the asset's gating is. Promises about
values are checks of the request. Those of a missing column, or one of another type, cannot be
evaluated: this check reports it instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from arco.columns.compatibility import SchemaChange
from arco.columns.promises import broken, consumer_names, unpacked_promise, with_dimensions
from arco.columns.schema_columns import actual_columns
from arco.orchestration.derived import CONTRACT
from arco.storage.port import Store
from arco.worker.schema_check import packed_rule
from servo.contract.manifest import Check, Gating
from servo.contract.partition import PartitionKey
from servo.contract.task import CheckResult, ColumnInfo, ContractRule, TaskRequest

MAX_TEXT: Final = 1_000

_NO_STATISTICS: Final = {"nulls": None, "min": None, "max": None}


class PromisedOutput(NamedTuple):
    request: TaskRequest
    """With the checks that can be evaluated on this output."""
    results: list[CheckResult]


def compared(
    request: TaskRequest,
    output: Sequence[ColumnInfo],
    redact: Callable[[str], str],
    store: Store,
) -> PromisedOutput:
    """Raises TaskFailed if what is promised is in an object that cannot be read."""
    rule = request.promise
    if rule is None:
        return PromisedOutput(request, [])
    dimensions = tuple(PartitionKey.parse(request.partition).dimensions)
    shape = tuple([msgspec.structs.replace(each, **_NO_STATISTICS) for each in output])
    every, excused = _compared(packed_rule(store, rule), shape, dimensions)
    checks = evaluable(request.checks, every)
    breaks = [each for each in every if each.column not in excused]
    result = _result(rule, breaks, request.gating, redact)
    return PromisedOutput(msgspec.structs.replace(request, checks=checks), [result])


@functools.lru_cache(maxsize=64)
def _compared(
    packed: str, output: tuple[ColumnInfo, ...], dimensions: tuple[str, ...]
) -> tuple[tuple[SchemaChange, ...], tuple[str, ...]]:
    """The broken promises about columns, and the accepted ones. Cached for equal tasks."""
    promised = unpacked_promise(packed)
    columns = with_dimensions(actual_columns(output), dimensions)
    every = broken(msgspec.structs.replace(promised, excused=()), columns)
    return tuple(every), promised.excused


def evaluable(checks: Sequence[Check], breaks: Sequence[SchemaChange]) -> tuple[Check, ...]:
    """The checks, without those of a contract that need columns which are not as promised."""
    unfit = {each.column.lower() for each in breaks if each.path == each.column}
    return tuple(check for check in checks if not _is_unfit(check, unfit))


def _is_unfit(check: Check, unfit: Collection[str]) -> bool:
    if not unfit or not check.contract:
        return False
    if check.kind in ("expression", "schema_is"):  # which columns it needs is not known
        return True
    return any(column.partition(".")[0].lower() in unfit for column in check.columns)


def _result(
    rule: ContractRule,
    breaks: Sequence[SchemaChange],
    gating: Gating,
    redact: Callable[[str], str],
) -> CheckResult:
    names = consumer_names(rule.consumers, rule.more_consumers)
    promise = f" (promised by version {rule.version}{f' to {names}' if names else ''})"
    message = redact("; ".join(map(str, breaks)) + promise)[:MAX_TEXT] if breaks else ""
    return CheckResult(
        name=CONTRACT,
        kind=CONTRACT,
        passed=not breaks,
        status="failed" if breaks else "passed",
        action=gating.action("error", promised=True) if breaks else "continue",
        columns=tuple(dict.fromkeys(each.column for each in breaks)),
        message=message,
        expected=f"the columns that version {rule.version} of its contract promises",
        method="catalog",
        contract=rule.version,
    )
