"""The lineage of an output by one method."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from arco.lineage.flow import CONFIDENCE, UNKNOWN, Flow, Sources, listed
from servo.contract.task import ColumnLineage, ColumnSource, LineageMethod


class TracedColumns(Struct, frozen=True, kw_only=True):
    method: LineageMethod
    columns: tuple[ColumnLineage, ...] = ()
    """Those whose sources are known, wholly or in part."""
    names: tuple[str, ...] = ()
    """Of all columns by their positions, with those that are unmapped; empty if not known."""
    influences: tuple[ColumnSource, ...] = ()
    unmapped: tuple[str, ...] = ()
    """Columns without known sources."""
    reason: str = ""
    """Why it is incomplete, as a sentence; empty if it is complete."""


def traced_columns(
    method: LineageMethod,
    outputs: Iterable[tuple[str, Flow]],
    influences: Sources,
    reason: str = "",
) -> TracedColumns:
    columns, unmapped, names = [], [], []
    for name, flow in outputs:
        names.append(name)
        if flow.doubt == UNKNOWN and not flow.sources:
            unmapped.append(name)
            continue
        columns.append(
            ColumnLineage(
                column=name,
                sources=listed(flow.sources),
                method=method,
                confidence=CONFIDENCE[flow.doubt],
            )
        )
    return TracedColumns(
        method=method,
        columns=tuple(columns),
        names=tuple(names),
        influences=listed(influences),
        unmapped=tuple(unmapped),
        reason=reason,
    )
