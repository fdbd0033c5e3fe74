"""Results of `arco.open`: rows in any shape, and lineage; shown in notebooks."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from html import escape
from typing import Any, Final, NamedTuple

import pyarrow as pa

from arco.answers.html import as_table
from arco.columns.quoting import backticked
from arco.errors import Corrupt, Invalid, NotFound
from arco.lineage.reader import Link
from arco.search.reader import SearchHit, SearchResult
from arco.spark.read import read_frame
from arco.storage.port import Store
from arco.tasks.failure import TaskFailed
from arco.worker.inputs import read_input
from arco.worker.secrets import MASK
from servo.contract.task import InputRef

SHOWN_ROWS: Final = 10


class DataTable:
    """Rows, read when needed, in the requested shape."""

    def __init__(
        self,
        name: str,
        store: Store,
        ref: InputRef | None = None,
        columns: tuple[str, ...] = (),
        *,
        hidden: Collection[str] = (),
        loaded: pa.Table | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._ref = ref
        self._columns = columns
        self._hidden = hidden
        self._loaded = loaded

    @property
    def versions(self) -> tuple[str, ...]:
        """The ids of the versions that are read; empty for the result of a query."""
        given = () if self._ref is None else self._ref.materializations
        return tuple(each.materialization_id for each in given)

    def arrow(self) -> pa.Table:
        return self._table

    def pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        _library("pandas")
        return self._table.to_pandas()

    def polars(self) -> Any:
        """A `polars.DataFrame`."""
        return _library("polars").from_arrow(self._table)

    def spark(self, session: Any) -> Any:
        """A `DataFrame` of this session. Executors read the files themselves."""
        _library("pyspark")
        if self._ref is None:
            return session.createDataFrame(self._table.to_pandas())
        remote = type(session).__module__.startswith("pyspark.sql.connect")
        try:
            frame = read_frame(_GivenSession(session, remote), self._store, self._ref)
        except TaskFailed as error:
            raise _unreadable(error) from None
        if masked_names(frame.columns, self._hidden):  # before a field of one can be selected
            frame = frame.selectExpr(*masked_expressions(frame.columns, self._hidden))
        return frame.select(*self._columns) if self._columns else frame

    @cached_property
    def _table(self) -> pa.Table:
        if self._loaded is not None or self._ref is None:
            return self._loaded
        try:
            table = read_input(self._store, self._ref, "arrow", columns=self._columns)
        except TaskFailed as error:
            raise _unreadable(error) from None
        for at, name in enumerate(table.column_names):
            if name.lower() in self._hidden:
                table = table.set_column(at, name, pa.repeat(MASK, table.num_rows))
        return table

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns whose values are not shown: `reveal=True` shows them."""
        return masked_names(self._table.column_names, self._hidden)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"<table {self.name}>"

    def _repr_html_(self) -> str:
        table = self._table
        rows = table.slice(0, SHOWN_ROWS).to_pylist()
        cells = [[row[name] for name in table.column_names] for row in rows]
        html = as_table(table.column_names, cells)
        masked = escape(f"; masked: {', '.join(self.masked)}" if self.masked else "")
        return f"<b>{escape(self.name)}</b>{html}<p>{table.num_rows:,} rows{masked}</p>"


def masked_names(names: Iterable[str], hidden: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.lower() in hidden)


def masked_expressions(names: Sequence[str], hidden: Collection[str]) -> list[str]:
    """Columns in Spark, with masks in place of what is hidden."""
    masked = masked_names(names, hidden)
    return [
        f"'{MASK}' AS {backticked(name)}" if name in masked else backticked(name) for name in names
    ]


class LineageLinks(Sequence[Link]):
    """The steps of a walk, the nearest first."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @property
    def assets(self) -> tuple[str, ...]:
        """All assets of these steps."""
        return tuple(sorted({n.asset for link in self._links for n in (link.source, link.target)}))

    def __getitem__(self, index: Any) -> Any:
        return self._links[index]

    def __len__(self) -> int:
        return len(self._links)

    def __repr__(self) -> str:
        return "\n".join(f"{each.source} → {each.target} ({each.kind})" for each in self._links)

    def _repr_html_(self) -> str:
        rows = [[str(each.source), str(each.target), each.kind] for each in self._links]
        return as_table(["source", "target", "kind"], rows)


class SearchHits(Sequence[SearchHit]):
    """The best matches of a search; `result` has all that it says."""

    def __init__(self, result: SearchResult) -> None:
        self.result = result

    def __getitem__(self, index: Any) -> Any:
        return self.result.hits[index]

    def __len__(self) -> int:
        return len(self.result.hits)

    def __repr__(self) -> str:
        return "\n".join(hit.asset for hit in self.result.hits)

    def _repr_html_(self) -> str:
        rows = [[hit.asset, hit.description, ", ".join(hit.owners)] for hit in self.result.hits]
        table = as_table(["asset", "description", "owners"], rows)
        return f"{table}<p>{self.result.total:,} assets match</p>"


class _GivenSession(NamedTuple):
    """A session of the caller, as far as reading needs it."""

    session: Any
    connect: bool


def _unreadable(error: TaskFailed) -> Corrupt | NotFound | Invalid:
    info = error.info
    if info.code == "input.column":
        return Invalid(info.message, hint=info.hint)
    kind = Corrupt if info.code == "input.corrupt" else NotFound
    return kind(info.message, hint=info.hint)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Invalid(
            f"this needs the package {name!r}, which is not installed",
            hint=f"install the package {name!r}, or use .arrow()",
        ) from None
