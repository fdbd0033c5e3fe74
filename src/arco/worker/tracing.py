"""What an attempt reads, and what its plan says: the material of its output's lineage."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from arco.lineage.combine import lineage_of
from arco.lineage.found import Found
from arco.spark import types
from arco.spark.lineage.capture import observe
from servo.contract.task import ColumnInfo, InputRef, Lineage, TaskRequest


class Tracing:
    """Of one attempt. Whatever goes wrong here is no reason for a task to fail."""

    def __init__(self, request: TaskRequest) -> None:
        self._request = request
        self._read: dict[str, InputRef] = {}
        self._data: dict[str, Any] = {}
        self._plan: Found | None = None

    def read(self, ref: InputRef, data: Any) -> None:
        """An input was read, as a table or frame of some kind."""
        self._read[ref.parameter or ref.asset] = ref
        self._data[ref.asset] = _header(data)

    def plan(self, frame: Any) -> None:
        """A Spark DataFrame was made, and has not been written yet."""
        self._plan = observe(frame)

    def lineage(self, columns: Sequence[ColumnInfo]) -> Lineage | None:
        """Of an output with these columns; none where there is nothing to tell."""
        request = self._request
        declared = [column for column in request.columns if column.lineage]
        if not self._read and not declared:
            return None
        return lineage_of(
            request.columns,
            {} if _complete(self._plan) else self._schemas(),
            columns,
            plan=self._plan,
            sql=request.sql,
            refs={ref.parameter: ref.asset for ref in request.inputs if ref.parameter},
            read=tuple(self._read.values()),
        )

    def _schemas(self) -> Mapping[str, Sequence[ColumnInfo]]:
        found = {}
        for asset, header in self._data.items():
            try:
                found[asset] = _columns(header)
            except Exception:  # a schema that nobody can read says nothing
                found[asset] = ()
        return found


def _complete(plan: Found | None) -> bool:
    return plan is not None and bool(plan.columns) and not plan.unmapped


def _header(data: Any) -> Any:
    """What is needed of the data to know its columns: never its rows."""
    if isinstance(data, pa.Table):
        return data.schema
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return data.head(0)
    if polars is not None and isinstance(data, polars.DataFrame):
        return data.head(0)
    return data


def _columns(header: Any) -> Sequence[ColumnInfo]:
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(header, pandas.DataFrame):
        header = pa.Schema.from_pandas(header)
    elif polars is not None and isinstance(header, polars.DataFrame):
        header = header.to_arrow().schema
    if isinstance(header, pa.Schema):
        fields = types.arrow_fields(header)
    else:
        fields = header.schema.jsonValue()["fields"]
    return tuple(ColumnInfo(name=each["name"], type=types.text(each["type"])) for each in fields)
