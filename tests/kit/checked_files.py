"""Versions of assets in a store, and results of checks over them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.storage.port import Store
from arco.worker.checks import CheckContext, Subject, evaluate
from servo.context import AssetIn
from servo.contract.manifest import Check, Code
from servo.contract.task import CheckResult, InputRef, MaterializationRef

ORDERS = pa.table(
    {
        "Id": [1, 2, 2, None, 5],
        "email": ["a@x.example", "b@x.example", "c", None, "e@x.example"],
        "amount": pa.array([1, 2, 3, 4, None], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2025, 1, day) for day in range(1, 6)], pa.timestamp("us", "UTC")),
    }
)


class Files:
    """Versions of assets in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._count = 0

    def put(self, asset: str, *tables: pa.Table, partition: str = "", **options: Any) -> InputRef:
        self._count += 1
        folder = f"data/{asset}/{partition or '_'}/{self._count}"
        for at, table in enumerate(tables):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, **options)
            self.store.put(f"{folder}/part-{at}.parquet", sink.getvalue().to_pybytes())
        version = MaterializationRef(
            partition=partition, materialization_id=str(self._count), path=folder
        )
        return InputRef(asset=asset, materializations=(version,))

    def results(self, ref: InputRef, *checks: Check, **around: Any) -> list[CheckResult]:
        subject = Subject.read(self.store, ref)
        return list(evaluate(checks, subject, CheckContext(self.store, **around)))


def joined(*refs: InputRef) -> InputRef:
    versions = tuple(version for ref in refs for version in ref.materializations)
    return InputRef(asset=refs[0].asset, materializations=versions)


def told(results: Sequence[CheckResult]) -> dict[str, tuple[Any, ...]]:
    return {each.name: (each.status, each.method, each.failing) for each in results}


def versions(files: Files, *tables: pa.Table) -> InputRef:
    """Of one asset, each with its partition as a column of its own."""
    return joined(*(files.put("a.b", t, partition=f"n=i:{at}") for at, t in enumerate(tables)))


def column(type: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"x": pa.array(values, type), "n": pa.array([None] * len(values), pa.int64())})


def python(function: Callable[[AssetIn], Any], name: str = "mine", timeout_s: int = 0) -> Check:
    """A check that `function` decides, declared in the file that it is in."""
    return Check(
        kind="python",
        name=name,
        code=Code(module="m", name=name, file=Path(inspect.getfile(function)).name),
        timeout_s=timeout_s,
    )
