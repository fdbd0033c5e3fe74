"""Whether the schema of an output is one that its asset may have: a check like the others.

Its severity is error: what follows from that is a matter of the asset's gating. An output with
the current schema needs no comparison, and has no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from arco.columns.compatibility import SchemaChange, compare
from arco.columns.schema_columns import (
    actual_columns,
    hash_of,
    required_names,
    with_known_nulls,
)
from arco.columns.schema_rules import SchemaBreak, breaks_of, unpacked_schema
from arco.errors import Corrupt, NotFound
from arco.orchestration.rule_objects import whole_rule
from arco.storage.port import Store
from arco.worker.failures import failed
from servo.contract.task import CheckResult, ColumnInfo, ContractRule, SchemaRule, TaskRequest

NAME: Final = "compatibility"
MAX_TEXT: Final = 1_000


def schema_results(
    request: TaskRequest,
    output: Sequence[ColumnInfo],
    redact: Callable[[str], str],
    store: Store,
) -> list[CheckResult]:
    """One result for an output whose schema differs from the current one.

    Raises TaskFailed if the rule is in an object that cannot be read.
    """
    rule = request.schema
    if rule is None or not output:
        return []
    columns = actual_columns(output)
    if hash_of(columns) == rule.schema_hash:
        return []
    baseline = unpacked_schema(packed_rule(store, rule))
    current = baseline.versions[0]
    required = required_names(current.columns) | required_names(request.columns)
    columns = with_known_nulls(columns, output, required)
    changes = compare(current.columns, columns, baseline.rule.mode, baseline.renames).changes
    breaks = breaks_of(baseline, columns)
    if not changes and not breaks:
        return []
    return [_result(request, changes, breaks, current.version, redact)]


def packed_rule(store: Store, rule: SchemaRule | ContractRule) -> str:
    """Raises TaskFailed if it is in an object that cannot be read."""
    try:
        return whole_rule(store, rule).packed
    except (NotFound, Corrupt) as error:
        raise failed(
            "infrastructure",
            "schema.rule",
            f"what the schema is compared with cannot be read: {error.message}",
            "the next attempt gets a new rule",
        ) from None


def _result(
    request: TaskRequest,
    changes: Sequence[SchemaChange],
    breaks: Sequence[SchemaBreak],
    version: int,
    redact: Callable[[str], str],
) -> CheckResult:
    return CheckResult(
        name=NAME,
        kind=NAME,
        passed=not breaks,
        status="failed" if breaks else "passed",
        action=request.gating.action("error") if breaks else "continue",
        columns=tuple(dict.fromkeys(each.change.column for each in breaks)),
        message=redact("; ".join(map(str, breaks)))[:MAX_TEXT],
        expected=f"a schema that readers of version {version} can read",
        actual=redact("; ".join(map(str, changes)))[:MAX_TEXT],
        method="catalog",
    )
