"""polars LazyFrames: inputs that read what a plan needs of them, and outputs as tables.

An input is a scan whose function reads Parquet files of the planned versions when polars asks for
them: only the columns that the plan needs. Its schema comes from footers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from arco.lineage.polars_plan import scan_function
from arco.storage.port import Store
from arco.worker.inputs import input_schema, library, read_input
from servo.contract.task import InputRef


def is_lazy_frame(value: object) -> bool:
    """Whether `value` is a polars LazyFrame; nothing can be one if polars is not imported."""
    frame = getattr(sys.modules.get("polars"), "LazyFrame", None)
    return isinstance(frame, type) and isinstance(value, frame)


class LazyInputs:
    """The LazyFrames that one attempt was given."""

    def __init__(self, store: Store, on_bytes: Callable[[int], None]) -> None:
        self._store = store
        self._on_bytes = on_bytes
        self._assets: dict[int, tuple[Any, str]] = {}
        """By the identity of the scan's function, which is kept so that nothing else gets it."""
        self.failure: Exception | None = None
        """What a scan raised; polars replaces it by its own error."""

    def scan(self, ref: InputRef, columns: Sequence[str] = ()) -> tuple[Any, pa.Schema]:
        """A LazyFrame of an input, and the schema that it has."""
        polars = library("polars")
        schema = input_schema(self._store, ref)
        frame = library("polars.io.plugins").register_io_source(
            self._reader(ref, schema), schema=polars.from_arrow(schema.empty_table()).schema
        )
        function = scan_function(frame)
        self._assets[id(function)] = function, ref.asset
        return (frame.select(columns) if columns else frame), schema

    def asset_of(self, function: Any) -> str | None:
        entry = self._assets.get(id(function))
        return None if entry is None else entry[1]

    def _reader(self, ref: InputRef, schema: pa.Schema) -> Callable[..., Iterator[Any]]:
        def read(
            columns: list[str] | None, predicate: Any, rows: int | None, batch: int | None
        ) -> Iterator[Any]:
            # Without any column there would be no rows: one column tells how many there are.
            names = columns if columns is None else (columns or schema.names[:1])
            try:
                frame = read_input(
                    self._store, ref, "polars", columns=names or (), on_bytes=self._on_bytes
                )
            except Exception as error:
                self.failure = error
                raise
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if rows is None else frame.head(rows)

        return read


def lazy_tables(frame: Any, inputs: LazyInputs) -> Iterator[pa.Table]:
    """The rows of a LazyFrame as they come; first a table without rows, which has the columns."""
    try:
        yield frame.head(0).collect().to_arrow()
        for batch in frame.collect_batches():
            yield batch.to_arrow()
    except Exception:
        if inputs.failure is not None:
            raise inputs.failure from None
        raise
