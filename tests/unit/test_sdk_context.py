from __future__ import annotations

import logging
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from servo import AssetContext, AssetIn, AssetOut, Cancelled, Invalid, identity, latest
from servo.contract.partition import PartitionKey
from servo.contract.task import MaterializationRef

REF = MaterializationRef(partition="", materialization_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", path="p")


def context(**changes: Any) -> AssetContext:
    given: dict[str, Any] = {
        "tenant_id": "acme",
        "workspace_id": "main",
        "run_id": "run",
        "task_id": "task",
        "attempt": 1,
        "asset": "shop.orders",
        "partition": PartitionKey({"date": date(2025, 1, 31), "region": "eu"}),
        "config": {"n": 1},
        "secrets": {"api_token": "hunter2"},
        "log": logging.getLogger("test"),
        "on_progress": lambda percent, message: None,
        "is_cancelled": lambda: False,
    }
    return AssetContext(**{**given, **changes})


def test_an_input_reads_through_the_workers_reader() -> None:
    asked: list[tuple[AssetIn, str]] = []

    def reader(given: AssetIn, shape: str) -> str:
        asked.append((given, shape))
        return f"{shape} of {given.asset}"

    orders = AssetIn(
        "shop.orders", parameter="orders", materializations=[REF], paths=["a"], reader=reader
    )
    assert [orders.read(), orders.arrow()] == ["spark of shop.orders", "arrow of shop.orders"]
    assert [orders.pandas(), orders.polars()] == ["pandas of shop.orders", "polars of shop.orders"]
    assert asked == [(orders, shape) for shape in ("spark", "arrow", "pandas", "polars")]
    assert (orders.materializations, orders.paths, orders.mapping) == ((REF,), ["a"], identity)


def test_columns_are_asked_for_by_name() -> None:
    orders = AssetIn("shop.orders", reader=lambda given, shape, columns=(): (shape, columns))
    assert orders.arrow(columns=["id", "at"]) == ("arrow", ("id", "at"))
    assert orders.pandas(["id"]) == ("pandas", ("id",))
    with pytest.raises(Invalid, match="one text"):
        orders.polars("id")


def test_a_declared_input_has_no_data_and_says_so() -> None:
    with pytest.raises(Invalid, match="declared only") as error:
        AssetIn("shop.orders", mapping=latest).read()
    assert "data=" in error.value.hint


def test_a_test_gives_an_input_its_data() -> None:
    table = pa.table({"id": [1], "at": ["now"]})
    assert AssetIn("shop.orders", data=table).arrow() is table
    assert AssetIn("shop.orders", data=table).arrow(["at"]).column_names == ["at"]
    frame = table.to_pandas()
    assert list(AssetIn("shop.orders", data=frame).pandas(["at"])) == ["at"]


def test_a_test_gives_a_context_only_what_the_function_uses() -> None:
    ctx = AssetContext(partition={"date": date(2025, 1, 31)}, config={"rate": 0.5})
    assert (ctx.partition_value("date"), ctx.config["rate"]) == (date(2025, 1, 31), 0.5)
    ctx.report_progress(50)
    ctx.check_cancelled()
    assert AssetContext().partition == PartitionKey()


def test_a_configuration_value_that_the_asset_lacks_is_named() -> None:
    config = context(config={"rate": 1}).config
    assert (config.get("rat"), dict(config)) == (None, {"rate": 1})
    with pytest.raises(Invalid, match=r"no configuration value 'rat' \(did you mean 'rate'"):
        config["rat"]
    with pytest.raises(KeyError, match=r"declare it: config=\{'zzz'"):
        config["zzz"]


def test_partition_values_are_found_by_name() -> None:
    ctx = context()
    assert ctx.partition_value("date") == date(2025, 1, 31)
    with pytest.raises(Invalid, match=r"no partition dimension 'regoin' \(did you mean 'region'"):
        ctx.partition_value("regoin")
    with pytest.raises(Invalid, match="it has none"):
        context(partition=PartitionKey()).partition_value("date")


def test_an_undeclared_secret_is_refused_and_none_is_shown() -> None:
    ctx = context()
    assert ctx.secret("api_token") == "hunter2"
    with pytest.raises(Invalid, match="did you mean 'api_token'"):
        ctx.secret("api_tokn")
    with pytest.raises(Invalid, match=r'declare secrets=\{"zzz"'):
        ctx.secret("zzz")
    assert "hunter2" not in repr(ctx)


def test_progress_is_cut_to_percents() -> None:
    told: list[tuple[int, str]] = []
    ctx = context(on_progress=lambda percent, message: told.append((percent, message)))
    ctx.report_progress(-5)
    ctx.report_progress(50, "half")
    ctx.report_progress(1000, "done")
    assert told == [(0, ""), (50, "half"), (100, "done")]


def test_cancellation_is_seen_when_it_happens() -> None:
    answers = iter([False, False, True, True])
    ctx = context(is_cancelled=lambda: next(answers))
    assert not ctx.cancelled
    ctx.check_cancelled()
    assert ctx.cancelled
    with pytest.raises(Cancelled, match=r"shop\.orders"):
        ctx.check_cancelled()


def test_an_output_is_data_with_notes() -> None:
    out = context().output([1], source="api", rows=3)
    assert isinstance(out, AssetOut)
    assert (out.data, out.metadata) == ([1], {"source": "api", "rows": 3})
    assert AssetOut([1]).metadata == {}
