"""What an attempt reads, and its plan: the sources of its output's lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from arco.columns import types
from arco.columns.arrow import arrow_fields
from arco.lineage.combine import lineage_of
from arco.lineage.polars_plan import AssetOf, trace
from arco.lineage.traced import TracedColumns
from arco.orchestration.input_refs import recorded
from arco.spark.lineage.capture import observe
from arco.worker.frames import is_frame
from servo.contract.task import ColumnInfo, InputRef, Lineage, TaskRequest


class Tracing:
    """The tracing of one attempt. Its errors do not fail the task."""

    def __init__(self, request: TaskRequest) -> None:
        self._request = request
        self._read: dict[str, InputRef] = {}
        self._data: dict[str, Any] = {}
        self._plan: TracedColumns | None = None

    def read(self, ref: InputRef, data: Any) -> None:
        """An input was read, as a table or frame of some kind."""
        self._read[ref.parameter or ref.asset] = recorded(ref)
        self._data[ref.asset] = header_of(data)

    def lazy_plan(self, frame: Any, asset_of: AssetOf) -> None:
        """A polars LazyFrame was made, and has not been collected yet."""
        self._plan = trace(frame, asset_of)

    def plan(self, frame: Any) -> None:
        """A Spark DataFrame was made, and has not been written yet."""
        self._plan = observe(frame)

    def lineage(self, columns: Sequence[ColumnInfo]) -> Lineage | None:
        """The lineage of an output with these columns; None if nothing is known."""
        request = self._request
        declared = [column for column in request.columns if column.lineage]
        if not self._read and not declared:
            return None
        is_complete = self._plan and self._plan.columns and not self._plan.unmapped
        return lineage_of(
            request.columns,
            {} if is_complete else self._schemas(),
            columns,
            plan=self._plan,
            sql=request.sql,
            refs={ref.parameter: ref.asset for ref in request.inputs if ref.parameter},
            read=tuple(self._read.values()),
        )

    def _schemas(self) -> Mapping[str, Sequence[ColumnInfo]]:
        schemas = {}
        for asset, header in self._data.items():
            try:
                schemas[asset] = _columns(header)
            except Exception:  # a schema that nobody can read says nothing
                schemas[asset] = ()
        return schemas


def header_of(data: Any) -> Any:
    """The data without rows, to get its columns."""
    if isinstance(data, pa.Table):
        return data.schema
    return data.head(0) if is_frame(data, "pandas") or is_frame(data, "polars") else data


def _columns(header: Any) -> Sequence[ColumnInfo]:
    if is_frame(header, "pandas"):
        header = pa.Schema.from_pandas(header)
    elif is_frame(header, "polars"):
        header = header.to_arrow().schema
    if isinstance(header, pa.Schema):
        fields = arrow_fields(header)
    else:
        fields = header.schema.jsonValue()["fields"]
    return tuple(ColumnInfo(name=each["name"], type=types.text(each["type"])) for each in fields)
