"""The parameters of an asset's function, and what it returns.

`AssetIn` is both the declaration of an input and, in a worker, the input itself:

    @asset
    def totals(orders: AssetIn) -> pa.Table: ...                  # `orders` of its own namespace

    @asset(ins={"orders": In("sales.orders", window(-6, 0))})
    def totals(orders: AssetIn) -> pa.Table: ...

    def totals(orders: AssetIn["sales.orders", window(-6, 0)]) -> pa.Table: ...
    def totals(orders: AssetIn = AssetIn("sales.orders", mapping=window(-6, 0))) -> pa.Table: ...
    def totals(orders: AssetIn = AssetIn("sales.orders", version=3)) -> pa.Table: ...

The third form needs `servo.mypy_plugin` to be type-checked, and linters to be told that
the text is no type; the others need neither. A key without a dot is of the asset's own
namespace. This module reads nothing itself: a worker passes a
`Reader`, so that importing `servo` stays cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from servo.contract import manifest as wire
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import MaterializationRef
from servo.contract.ulid import is_ulid
from servo.errors import Cancelled, Invalid
from servo.mapping import MAPPINGS, ByDimension, PartitionMapping, identity
from servo.source import misdeclared
from servo.suggest import did_you_mean

Shape: TypeAlias = Literal["spark", "arrow", "pandas", "polars", "lazy"]
Reader: TypeAlias = Callable[..., Any]
"""Is called with the AssetIn and the shape; where only some columns are wanted, with those too."""
Metadata: TypeAlias = dict[str, str | int | bool | None]


class UnknownConfig(Invalid, KeyError):
    """A configuration value that the asset does not have."""


class _Configuration(dict[str, Any]):
    """An asset's configuration. A name that is not declared raises UnknownConfig."""

    def __init__(self, asset: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._asset = asset

    def __missing__(self, name: str) -> Any:
        hint = did_you_mean(name, self) or f"declare it: config={{{name!r}: …}}"
        raise UnknownConfig(f"{self._asset} has no configuration value {name!r}", hint=hint)


class AssetIn:
    """An input: which asset and which of its partitions; in a worker, their data."""

    def __init__(
        self,
        asset: str,
        *,
        parameter: str = "",
        materializations: Sequence[MaterializationRef] = (),
        paths: Sequence[str] = (),
        reader: Reader | None = None,
        mapping: PartitionMapping = identity,
        version: int | str = "",
        as_of: str | datetime = "",
        data: Any = None,
    ) -> None:
        """`version` (a number or an id) or `as_of` (a time, in UTC unless it has a zone) choose
        what is read in place of the current version of each partition.

        `data` is for tests: what the function reads, in the shape that it asks for.
        """
        if not isinstance(asset, str):
            misdeclared(f"AssetIn({asset!r}) names no asset", hint='write AssetIn["sales.orders"]')
        if not isinstance(mapping, wire.Mapping | ByDimension):
            misdeclared(f"AssetIn({asset!r}): {mapping!r} is not a mapping", hint=MAPPINGS)
        self.asset: Final = asset
        self.parameter: Final = parameter
        self.materializations: Final[tuple[MaterializationRef, ...]] = tuple(materializations)
        self.paths: Final[list[str]] = list(paths)
        self.mapping: Final[PartitionMapping] = mapping
        self.version: Final = _version(asset, version)
        self.as_of: Final = _time(asset, as_of)
        if self.version and self.as_of:
            misdeclared(f"AssetIn({asset!r}) has a version and as_of", hint="give one of them")
        self._reader: Final = reader if data is None else _holding(data)

    def __class_getitem__(cls, item: str | tuple[str, PartitionMapping]) -> AssetIn:
        """`AssetIn["namespace.name"]`, or with a mapping after a comma."""
        if not isinstance(item, tuple):
            return cls(item)
        if len(item) != 2:
            misdeclared("AssetIn[...] takes a key and at most one mapping", hint=MAPPINGS)
        return cls(item[0], mapping=item[1])

    def read(self) -> Any:
        """A Spark `DataFrame` of all the partitions, with their dimensions as columns."""
        return self._read("spark")

    def arrow(self, columns: Sequence[str] = ()) -> Any:
        """A `pyarrow.Table` of all the partitions: all columns, or these, in this order."""
        return self._read("arrow", columns)

    def pandas(self, columns: Sequence[str] = ()) -> Any:
        """A `pandas.DataFrame` of all the partitions: all columns, or these, in this order."""
        return self._read("pandas", columns)

    def polars(self, columns: Sequence[str] = ()) -> Any:
        """A `polars.DataFrame` of all the partitions: all columns, or these, in this order."""
        return self._read("polars", columns)

    def lazy(self, columns: Sequence[str] = ()) -> Any:
        """A `polars.LazyFrame` of all the partitions. What its plan does not need is not read.

        The lineage of an asset that returns a LazyFrame of such inputs is that of its plan.
        """
        return self._read("lazy", columns)

    def __repr__(self) -> str:
        return f"AssetIn({self.asset!r}, mapping={self.mapping!r})"

    def _read(self, shape: Shape, columns: Sequence[str] = ()) -> Any:
        if isinstance(columns, str):
            raise Invalid(
                f"columns={columns!r} is one text, not a list of names",
                hint=f"write columns=[{columns!r}]",
            )
        if self._reader is None:
            raise Invalid(
                f"the input {self.asset!r} is declared only, and has no data",
                hint="a worker passes it; in a test, pass AssetIn(..., data=...)",
            )
        return self._reader(self, shape, tuple(columns)) if columns else self._reader(self, shape)


def _version(asset: str, version: int | str) -> str:
    """As the manifest has it: a number or an id, or empty."""
    text = str(version)
    is_number = type(version) is int or text.isdecimal()
    if text and not is_ulid(text) and not (is_number and text.isdecimal() and int(text) > 0):
        misdeclared(
            f"AssetIn({asset!r}): {version!r} is not a version",
            hint="give its number (1, 2, …) or its id; see `servo partitions history`",
        )
    return text


def _time(asset: str, time: str | datetime) -> str:
    """As the manifest has it: ISO, UTC without a zone, or empty."""
    if time == "":
        return ""
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    except (ValueError, TypeError):
        misdeclared(
            f"AssetIn({asset!r}): as_of={time!r} is not a time",
            hint='write as_of="2026-01-31T12:00:00Z" or as_of="2026-01-31"',
        )
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat()


def _holding(data: Any) -> Reader:
    def read(_: AssetIn, shape: Shape, columns: Sequence[str] = ()) -> Any:
        if not columns:
            return data
        return data.select(list(columns)) if hasattr(data, "select") else data[list(columns)]

    return read


class In(AssetIn):
    """Which asset a parameter reads, and how its partitions are mapped: for `ins=` and `deps=`."""

    def __init__(
        self,
        asset: str,
        mapping: PartitionMapping = identity,
        *,
        version: int | str = "",
        as_of: str | datetime = "",
    ) -> None:
        super().__init__(asset, mapping=mapping, version=version, as_of=as_of)


@dataclass(frozen=True, eq=False)
class AssetOut:
    """Data, and metadata about it for the catalog."""

    data: Any
    metadata: Metadata = field(default_factory=dict)


class AssetContext:
    """The context in which the function runs; take it as a parameter `ctx: AssetContext`.

    A worker sets all of it. A test sets what the function uses: `AssetContext(partition={"date":
    date(2025, 1, 31)}, config={"rate": 0.5})`.
    """

    def __init__(
        self,
        *,
        tenant_id: str = "test",
        workspace_id: str = "test",
        run_id: str = "test",
        task_id: str = "test",
        attempt: int = 1,
        asset: str = "test.asset",
        partition: PartitionKey | Mapping[str, Scalar] | None = None,
        config: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        log: logging.Logger | None = None,
        on_progress: Callable[[int, str], None] = lambda percent, message: None,
        is_cancelled: Callable[[], bool] = lambda: False,
        spark: Callable[[], Any] | None = None,
    ) -> None:
        self.tenant_id: Final = tenant_id
        self.workspace_id: Final = workspace_id
        self.run_id: Final = run_id
        self.task_id: Final = task_id
        self.attempt: Final = attempt
        self.asset: Final = asset
        self.partition: Final = (
            partition if isinstance(partition, PartitionKey) else PartitionKey(partition or {})
        )
        self.config: Final[Mapping[str, Any]] = _Configuration(asset, config or {})
        """What the asset declares, with what the run was given in its place."""
        self.log: Final = log or logging.getLogger(asset)
        self._secrets: Final = secrets or {}
        self._on_progress: Final = on_progress
        self._is_cancelled: Final = is_cancelled
        self._spark: Final = spark

    @property
    def spark(self) -> Any:
        """This task's own `SparkSession`. Its temporary views and settings are private."""
        if self._spark is None:
            raise Invalid(
                f"{self.asset} was given no Spark session",
                hint="a worker passes one; in a test, pass AssetContext(..., spark=...)",
            )
        return self._spark()

    def partition_value(self, dimension: str) -> Scalar:
        values = self.partition.dimensions
        if dimension not in values:
            hint = did_you_mean(dimension, values) or f"it has {', '.join(values) or 'none'}"
            raise Invalid(f"{self.asset} has no partition dimension {dimension!r}", hint=hint)
        return values[dimension]

    def secret(self, name: str) -> str:
        """The value of a secret that the asset declares under `secrets=`."""
        if name not in self._secrets:
            hint = did_you_mean(name, self._secrets) or f'declare secrets={{"{name}": "env:…"}}'
            raise Invalid(f"{self.asset} declares no secret {name!r}", hint=hint)
        return self._secrets[name]

    def report_progress(self, percent: int, message: str = "") -> None:
        """Report the progress of this task. Percentages are limited to 0 to 100."""
        self._on_progress(max(0, min(100, int(percent))), message)

    def output(self, data: Any, **metadata: str | int | bool | None) -> AssetOut:
        return AssetOut(data, metadata)

    @property
    def cancelled(self) -> bool:
        """Whether this task was cancelled."""
        return self._is_cancelled()

    def check_cancelled(self) -> None:
        """Raise Cancelled if this task should stop; call it in long loops."""
        if self._is_cancelled():
            raise Cancelled(f"the run of {self.asset} was cancelled")

    def __repr__(self) -> str:
        # Never its secrets.
        return f"AssetContext({self.asset!r}, {str(self.partition)!r}, attempt={self.attempt})"
