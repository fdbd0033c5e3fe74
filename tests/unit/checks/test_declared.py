"""Columns that an asset declares, compared with its output."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from arco.worker.checks.declared import declared_checks
from arco.worker.failures import TaskFailed
from servo import column
from servo.contract.manifest import ColumnDef, Extra
from servo.contract.task import CheckResult
from tests.kit.checked_files import Files, told

DATA = pa.table({"Id": [1, 2], "name": ["a", None], "place": [{"city": "x"}, {"city": None}]})


def compared(
    files: Files,
    columns: Sequence[ColumnDef],
    extra: Extra = "allow",
    table: pa.Table = DATA,
    **options: Any,
) -> list[CheckResult]:
    ref = files.put("a.b", table, **options)
    return files.results(ref, *declared_checks(columns, extra))


def test_an_output_that_is_as_declared_passes(files: Files) -> None:
    columns = [column("ID", "long", nullable=False), column("name", "varchar(10)")]
    columns += [column("place.city", "string"), column("place", "struct<city: string>")]
    assert told(compared(files, columns)) == {"columns": ("passed", "footer", None)}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (column("id", "int"), "'id' is declared int, and is bigint"),
        (column("gone", "string"), "'gone' is declared and missing"),
        (column("gone"), "'gone' is declared and missing"),
        (column("place.zip"), "'place.zip' is declared and missing"),
        (column("place.city", "int"), "'place.city' is declared int, and is string"),
        (
            column("name", nullable=False),
            "'name' is declared not null, and is null in 1 of 2 rows",
        ),
        (
            column("name", "int", nullable=False),
            "'name' is declared int, and is string; "
            "'name' is declared not null, and is null in 1 of 2 rows",
        ),
    ],
)
def test_a_difference_fails_the_check(files: Files, declared: ColumnDef, message: str) -> None:
    (found,) = compared(files, [declared])
    assert (found.kind, found.status, found.message) == ("columns", "failed", message)


@pytest.mark.parametrize(("nullable", "status"), [(True, "passed"), (False, "failed")])
def test_nulls_are_counted_where_the_footer_does_not_tell(
    files: Files, nullable: bool, status: str
) -> None:
    (found,) = compared(files, [column("name", nullable=nullable)], write_statistics=False)
    assert found.status == status
    assert found.message == (
        "" if nullable else "a column that is declared not null is null in 1 of 2 rows"
    )


def test_columns_that_are_not_declared_are_a_matter_of_policy(files: Files) -> None:
    columns = [column("id"), column("place.city")]
    assert [each.status for each in compared(files, columns)] == ["passed"]
    good, warned = compared(files, columns, "warn")
    assert (good.status, warned.status, warned.severity) == ("passed", "failed", "warning")
    assert (warned.name, warned.message) == ("columns(extra)", "'name' is not declared")
    (refused,) = compared(files, columns, "refuse")
    assert (refused.status, refused.severity) == ("failed", "error")
    assert refused.message == "'name' is not declared"


def test_dimensions_of_the_partition_are_columns_of_the_output(files: Files) -> None:
    columns = [column("day", "date", nullable=False), column("id"), column("name")]
    columns.append(column("place"))
    for declared in (columns, columns[1:]):
        found = compared(files, declared, "refuse", partition="day=d:2025-01-01")
        assert [each.message for each in found] == [""]


def test_an_empty_output_has_the_declared_columns(files: Files) -> None:
    columns = [column("id", "bigint", nullable=False), column("name", "int")]
    (found,) = compared(files, columns, table=DATA.slice(0, 0))
    assert found.message == "'name' is declared int, and is string"


def test_a_type_that_spark_does_not_have_is_refused(files: Files) -> None:
    with pytest.raises(TaskFailed, match="to be 'number', which is not a Spark type"):
        compared(files, [column("id", "number")])


def test_data_of_all_libraries_has_the_types_that_can_be_declared(files: Files) -> None:
    values: dict[str, Any] = {
        "n": [1],
        "x": [0.5],
        "flag": [True],
        "word": ["a"],
        "day": [date(2025, 1, 1)],
        "local": [datetime(2025, 1, 1)],
        "price": [Decimal("1.50")],
        "tags": [["a"]],
    }
    types = {
        "n": "bigint",
        "x": "double",
        "flag": "boolean",
        "word": "string",
        "day": "date",
        "local": "timestamp_ntz",
        "tags": "array<string>",
    }
    columns = [column(name, type, nullable=False) for name, type in types.items()]
    tables = (
        pa.table(values),
        pa.Table.from_pandas(pd.DataFrame(values)),
        pl.DataFrame(values).to_arrow(),
    )
    for table in tables:
        (found,) = compared(files, columns, table=table, write_statistics=True)
        assert found.message == ""
