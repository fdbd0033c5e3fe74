"""The last resort: columns of the same name and type.

It says only that a column may have come from there, so all of it is of low confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arco.lineage.traced import TracedColumns
from servo.contract.task import ColumnInfo, ColumnLineage, ColumnSource

Schemas = Mapping[str, Sequence[ColumnInfo]]
"""The columns of each input, by the asset's key."""


def compare(output: Sequence[ColumnInfo], inputs: Schemas) -> TracedColumns:
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
    """Looked up and not searched: there may be thousands of columns on both sides."""
    alike: dict[tuple[str, str], list[ColumnSource]] = {}
    for asset, schema in inputs.items():
        for column in schema:
            source = ColumnSource(asset, column.name, "identity")
            alike.setdefault((column.name.lower(), column.type), []).append(source)
    return alike
