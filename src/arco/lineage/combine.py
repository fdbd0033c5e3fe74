"""Combines lineage from several methods.

For each column of the output, the first method that knows its sources is used: declared lineage,
Spark's plan, the text of the query, columns with equal names and types. Missing lineage must not
fail an output: nothing here raises.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from arco.lineage.flow import CONFIDENCE
from arco.lineage.sql import analyze
from arco.lineage.traced import TracedColumns
from servo.contract.manifest import ColumnDef
from servo.contract.task import (
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    Confidence,
    InputRef,
    Lineage,
    LineageMethod,
)

log = logging.getLogger(__name__)
Schemas = Mapping[str, Sequence[ColumnInfo]]
"""The columns of each input, by the asset's key."""
_REASONS: Final[Mapping[LineageMethod, str]] = {
    "annotation": "Annotations name the sources of every column.",
    "plan": "The plan names the sources of every column.",
    "sql": "The query names the sources of every column.",
    "schema": "Columns were matched to inputs by name and type only.",
    "manual": "People have named the sources.",
    "dbt": "The SQL that dbt has compiled names the sources of every column.",
    "mixed": "Columns were traced by several methods.",
    "none": "The sources of the columns are unknown.",
}


def lineage_of(
    columns: Sequence[ColumnDef],
    inputs: Schemas,
    output: Sequence[ColumnInfo],
    *,
    plan: TracedColumns | None = None,
    sql: str = "",
    refs: Mapping[str, str] | None = None,
    read: tuple[InputRef, ...] = (),
) -> Lineage:
    """The lineage of an output with the columns `output`.

    `columns` are as declared, `inputs` the schemas by asset key, `plan` what
    `arco.spark.lineage` observed, `sql` the query with its `{{ ref(…) }}`, and `refs`
    the asset key of each text inside a `ref` (those without a namespace need it).
    """
    try:
        return _combined(columns, inputs, output, plan, sql, refs or {}, read)
    except Exception as error:
        log.warning("lineage could not be computed", exc_info=True)
        reason = f"Lineage could not be computed: {type(error).__name__}."
        return Lineage(read=read, reason=reason, unmapped=tuple(c.name for c in output))


def _combined(
    columns: Sequence[ColumnDef],
    inputs: Schemas,
    output: Sequence[ColumnInfo],
    plan: TracedColumns | None,
    sql: str,
    refs: Mapping[str, str],
    read: tuple[InputRef, ...],
) -> Lineage:
    traced = plan is not None and bool(plan.columns)
    by_sql = _analyzed(sql, inputs, refs) if sql and not traced else None
    traces = [trace for trace in (_annotated(columns), plan, by_sql) if trace is not None]
    traces.append(compare(output, inputs))
    chosen, unmapped = _choose(output, traces)
    method = _method(chosen)
    return Lineage(
        read=read,
        columns=tuple(chosen),
        influences=_influences(plan, by_sql),
        method=method,
        confidence=_confidence(chosen, unmapped),
        reason=_reason(method, chosen, unmapped, plan, by_sql),
        coverage_percent=_coverage(chosen, output),
        unmapped=tuple(unmapped),
    )


def _annotated(columns: Sequence[ColumnDef]) -> TracedColumns:
    result = [
        ColumnLineage(
            column=column.name,
            sources=tuple(sorted(_annotation(text) for text in column.lineage)),
            method="annotation",
        )
        for column in columns
        if column.lineage
    ]
    return TracedColumns(method="annotation", columns=tuple(result))


def _annotation(text: str) -> ColumnSource:
    asset, _, name = text.rpartition(".")
    return ColumnSource(asset, name, "transformation")


def _analyzed(sql: str, inputs: Schemas, refs: Mapping[str, str]) -> TracedColumns:
    names = {asset: [column.name for column in schema] for asset, schema in inputs.items()}
    try:
        return analyze(sql, names, refs)
    except Exception as error:
        log.info("a query could not be analyzed", exc_info=True)
        reason = f"The query could not be analyzed: {type(error).__name__}."
        return TracedColumns(method="sql", reason=reason)


def compare(output: Sequence[ColumnInfo], inputs: Schemas) -> TracedColumns:
    """The last method: columns of the same name and type may be the source."""
    columns, unmapped, alike = [], [], _by_name_and_type(inputs)
    for column in output:
        sources = tuple(sorted(alike.get((column.name.lower(), column.type), ())))
        if sources:
            columns.append(
                ColumnLineage(
                    column=column.name, sources=sources, method="schema", confidence="low"
                )
            )
        else:
            unmapped.append(column.name)
    return TracedColumns(method="schema", columns=tuple(columns), unmapped=tuple(unmapped))


def _by_name_and_type(inputs: Schemas) -> dict[tuple[str, str], list[ColumnSource]]:
    """An index: there may be thousands of columns on both sides."""
    alike: dict[tuple[str, str], list[ColumnSource]] = {}
    for asset, schema in inputs.items():
        for column in schema:
            source = ColumnSource(asset, column.name, "identity")
            alike.setdefault((column.name.lower(), column.type), []).append(source)
    return alike


def _choose(
    output: Sequence[ColumnInfo], traces: Sequence[TracedColumns]
) -> tuple[list[ColumnLineage], list[str]]:
    candidates = [_by_output(trace, [column.name.lower() for column in output]) for trace in traces]
    chosen: list[ColumnLineage] = []
    unmapped: list[str] = []
    for at, column in enumerate(output):
        entry = next((trace[at] for trace in candidates if at in trace), None)
        if entry is None:
            unmapped.append(column.name)
            continue
        chosen.append(msgspec.structs.replace(entry, column=column.name))
    return chosen, unmapped


def _by_output(trace: TracedColumns, output: Sequence[str]) -> dict[int, ColumnLineage]:
    """The columns of one method by their positions in the output.

    Case is ignored, as in Spark. Spark generates names for columns without an alias; they differ
    from the text, and are matched by position.
    """
    candidates = {each.column.lower(): each for each in trace.columns}
    result = {at: candidates[name] for at, name in enumerate(output) if name in candidates}
    if len(trace.names) == len(output):
        names, output_names = [name.lower() for name in trace.names], set(output)
        for at, name in enumerate(names):
            if at not in result and name not in output_names and name in candidates:
                result[at] = candidates[name]
    return result


def _method(chosen: Sequence[ColumnLineage]) -> LineageMethod:
    methods = {each.method for each in chosen}
    if not methods:
        return "none"
    return methods.pop() if len(methods) == 1 else "mixed"


def _confidence(chosen: Sequence[ColumnLineage], unmapped: Sequence[str]) -> Confidence:
    """The lowest confidence of all columns; unmapped columns have the lowest."""
    if not chosen or unmapped:
        return "low"
    return max((each.confidence for each in chosen), key=CONFIDENCE.index)


def _coverage(chosen: Sequence[ColumnLineage], output: Sequence[ColumnInfo]) -> int:
    covered = sum(each.confidence != "low" for each in chosen)
    return 100 * covered // len(output) if output else 100


def _influences(plan: TracedColumns | None, sql: TracedColumns | None) -> tuple[ColumnSource, ...]:
    first = next(
        (trace for trace in (plan, sql) if trace is not None and trace.columns), plan or sql
    )
    return () if first is None else first.influences


def _reason(
    method: LineageMethod,
    chosen: Sequence[ColumnLineage],
    unmapped: Sequence[str],
    plan: TracedColumns | None,
    sql: TracedColumns | None,
) -> str:
    doubts = [trace.reason for trace in (plan, sql) if trace is not None and trace.reason]
    whole = bool(chosen) and not unmapped and all(c.confidence == "high" for c in chosen)
    if whole:
        return _REASONS[method]
    if doubts:
        return " ".join(dict.fromkeys(doubts))
    if unmapped and method != "none":
        return f"The sources of {len(unmapped)} columns are unknown."
    return _REASONS[method]
