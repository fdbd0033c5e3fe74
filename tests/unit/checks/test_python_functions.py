"""Checks that are Python functions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row

from arco.worker.failures import TaskFailed, failed
from arco.worker.secrets import Redactor
from servo.context import AssetIn
from servo.contract.task import CheckResult
from tests.kit.checked_files import Files, python

RETURN = "return a bool, or a bool and a message"


def said(files: Files, function: Callable[[AssetIn], Any], **around: Any) -> CheckResult:
    timeout_s = around.pop("timeout", 0)
    (found,) = files.results(
        files.put("a.b", pa.table({"x": [1, 2]})),
        python(function, timeout_s=timeout_s),
        load=lambda code: function,
        **around,
    )
    return found


@pytest.mark.parametrize(
    ("returned", "status", "message"),
    [
        (True, "passed", ""),
        ((True, "fine"), "passed", "fine"),
        (False, "failed", "it returned False"),
        ((False, "odd"), "failed", "odd"),
        (np.bool_(True), "passed", ""),
        (np.array([1, 2]).all(), "passed", ""),
        (np.array(False), "failed", "it returned False"),
        ((np.bool_(False), np.str_("odd")), "failed", "odd"),
        (pd.Series([1, None]).notna().all(), "failed", "it returned False"),
        (pd.Series([True]), "passed", ""),
        (pl.Series([1, 2]).is_unique().all(), "passed", ""),
        (pc.all(pa.array([True, False])), "failed", "it returned False"),
        ((pa.scalar(True), "fine"), "passed", "fine"),
        (Row(good=True), "passed", ""),
        (Row(good=False, why="odd"), "failed", "odd"),
        (None, "error", f"it returned None; {RETURN}"),
        (pa.scalar(None, pa.bool_()), "error", f"it returned None; {RETURN}"),
        (pd.NA, "error", f"it returned a NAType; {RETURN}"),
        (1, "error", f"it returned an int; {RETURN}"),
        ("true", "error", f"it returned a str; {RETURN}"),
        (np.int64(1), "error", f"it returned an int64; {RETURN}"),
        (np.array([True, True]), "error", f"it returned a ndarray; {RETURN}"),
        (pd.Series([True, True]), "error", f"it returned a Series; {RETURN}"),
        ((1, "x"), "error", f"it returned a tuple; {RETURN}"),
    ],
)
def test_a_function_says_whether_the_data_is_good(
    files: Files, returned: Any, status: str, message: str
) -> None:
    found = said(files, lambda data: returned)
    assert (found.status, found.message, found.method) == (status, message, "python")


def test_a_function_reads_the_data_through_its_input(files: Files) -> None:
    def reader(data: AssetIn, shape: str, columns: tuple[str, ...] = ()) -> Any:
        return data.asset, shape, columns, len(data.materializations)

    def look(data: AssetIn) -> Any:
        both = data.arrow(), data.arrow(columns=["x"])
        return both == (("a.b", "arrow", (), 1), ("a.b", "arrow", ("x",), 1)), ""

    assert said(files, look, reader=reader).passed


def raises(data: AssetIn) -> bool:
    raise ValueError("no hunter22 here")


def test_an_exception_is_an_error_with_its_line(files: Files) -> None:
    found = said(files, raises, redact=Redactor(["hunter22"]))
    line = raises.__code__.co_firstlineno + 1
    assert found.status == "error"
    assert found.message == f"ValueError: no *** here ({Path(__file__).name}:{line})"


def test_an_exit_is_an_error_too(files: Files) -> None:
    def leaves(data: AssetIn) -> bool:
        raise SystemExit(3)

    assert said(files, leaves).message.startswith("SystemExit: 3")


def test_data_that_cannot_be_read_is_no_verdict(files: Files) -> None:
    def reader(data: AssetIn, shape: str) -> Any:
        raise failed("infrastructure", "input.corrupt", "broken")

    with pytest.raises(TaskFailed, match="broken"):
        said(files, lambda data: data.arrow(), reader=reader)


def test_a_function_that_takes_too_long_is_an_error(files: Files) -> None:
    def spin(data: AssetIn) -> bool:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            pass
        return True

    found = said(files, spin, timeout=1)
    assert (found.status, found.message) == ("error", "it took longer than 1s")


class Spark:
    """Of a task, as checks see it; there is none behind it."""

    def __init__(self) -> None:
        self.broken_off = 0

    def around(self) -> dict[str, Any]:
        return {
            "frame": lambda ref: None,
            "reader": lambda data, shape: None,
            "broken_off": self._break,
        }

    def _break(self) -> None:
        self.broken_off += 1


def spin() -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.001)


def spin_in_py4j() -> None:
    """As `spin` would, were it a module of py4j's."""
    names = {"__name__": "py4j.clientserver", "time": time}
    FunctionType(spin.__code__, names)()


def with_frame(data: AssetIn) -> bool:
    data.read()
    spin()
    return True


def in_a_call(data: AssetIn) -> bool:
    try:
        spin_in_py4j()
    except BaseException:
        raise ValueError("something else") from None
    return True


def deaf(data: AssetIn) -> bool:
    data.read()
    with contextlib.suppress(BaseException):
        spin()
    return True


@pytest.mark.parametrize("function", [with_frame, in_a_call, deaf])
def test_a_check_that_is_interrupted_in_its_use_of_spark_ends_the_attempt(
    files: Files, function: Callable[[AssetIn], bool]
) -> None:
    spark = Spark()
    with pytest.raises(TaskFailed, match="it took longer than 1s") as caught:
        said(files, function, timeout=1, **spark.around())
    info = caught.value.info
    assert (info.category, info.code) == ("infrastructure", "checks.interrupted")
    assert spark.broken_off == 1


def test_a_check_that_does_without_spark_is_an_error_when_it_is_interrupted(files: Files) -> None:
    def alone(data: AssetIn) -> bool:
        data.arrow()
        spin()
        return True

    spark = Spark()
    found = said(files, alone, timeout=1, **spark.around())
    assert (found.status, found.message) == ("error", "it took longer than 1s")
    assert spark.broken_off == 0


def test_a_check_whose_jobs_are_cancelled_has_time_to_say_so(files: Files) -> None:
    cancelled = threading.Event()

    def waits(data: AssetIn) -> bool:
        data.read()
        while not cancelled.is_set():
            time.sleep(0.01)
        raise ValueError("the job was cancelled")

    spark = Spark()
    found = said(files, waits, timeout=1, cancel=cancelled.set, **spark.around())
    assert (found.status, found.message) == ("error", "it took longer than 1s")
    assert spark.broken_off == 0
