"""Libraries of frames that another thread is importing."""

from __future__ import annotations

import sys
from types import ModuleType

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from arco.worker import output, tracing
from arco.worker.frames import is_frame


@pytest.mark.parametrize("library", ["pandas", "polars", "pyspark.sql"])
def test_a_module_that_is_still_being_imported_has_no_frames(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    table = pa.table({"x": [1]})
    assert not is_frame(table, library)
    assert output.table_of(table.to_batches()[0]) == table
    assert output.table_of("text") is None
    assert tracing.header_of("text") == "text"


def test_frames_are_known_by_their_library() -> None:
    assert is_frame(pd.DataFrame({"x": [1]}), "pandas")
    assert is_frame(pl.DataFrame({"x": [1]}), "polars")
    assert not is_frame(pd.DataFrame({"x": [1]}), "polars")
