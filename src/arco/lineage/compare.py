"""The last resort: columns of the same name and type.

It says only that a column may have come from there, so all of it is of low confidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arco.lineage.found import Found
from servo.contract.task import ColumnInfo, ColumnLineage, ColumnSource

Schemas = Mapping[str, Sequence[ColumnInfo]]
"""The columns of each input, by the asset's key."""


def compare(output: Sequence[ColumnInfo], inputs: Schemas) -> Found:
    columns, unmapped = [], []
    for column in output:
        sources = tuple(sorted(_alike(column, inputs)))
        if sources:
            columns.append(
                ColumnLineage(
                    column=column.name, sources=sources, method="schema", confidence="low"
                )
            )
        else:
            unmapped.append(column.name)
    return Found(method="schema", columns=tuple(columns), unmapped=tuple(unmapped))


def _alike(column: ColumnInfo, inputs: Schemas) -> Iterable[ColumnSource]:
    for asset, schema in inputs.items():
        for candidate in schema:
            same_name = candidate.name.lower() == column.name.lower()
            if same_name and candidate.type == column.type:
                yield ColumnSource(asset, candidate.name, "identity")
