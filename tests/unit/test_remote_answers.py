"""What a client makes of the API's answers: tables and numbers as they were."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import msgspec
import pyarrow as pa

from arco.plain_json import plain
from arco.remote.data_answers import arrow_table


def _sent(table: pa.Table) -> pa.Table:
    """A table after its way through an answer, as a preview has it."""
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    body = msgspec.json.encode({"columns": columns, "rows": [plain(list(row)) for row in rows]})
    answer = msgspec.json.decode(body)
    return arrow_table(answer["columns"], answer["rows"])


def test_values_and_types_are_those_that_were_sent() -> None:
    money, large = pa.decimal128(18, 2), pa.decimal256(50, 3)
    table = pa.table(
        {
            "country": pa.array(["DE", None]),
            "orders": pa.array([1, 2], pa.int32()),
            "share": pa.array([1.0, 0.5]),
            "revenue": pa.array([Decimal("112818.00"), Decimal("0.10")], money),
            "large": pa.array([Decimal("12345678901234567890.125"), None], large),
            "day": pa.array([date(2026, 1, 31), None]),
        }
    )
    assert _sent(table) == table


def test_columns_of_one_name_stay_apart() -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "id", "type": "string"}]
    table = arrow_table(columns, [[1, "a"]])
    assert [column.to_pylist() for column in table.columns] == [[1], ["a"]]


def test_no_rows_are_columns_without_values() -> None:
    table = arrow_table([{"name": "id", "type": "int64"}, {"name": "x", "type": "map<…>"}], [])
    assert (table.column_names, table.num_rows) == (["id", "x"], 0)


def test_decimals_keep_their_digits() -> None:
    assert plain([Decimal("1.50"), Decimal("7.00"), Decimal("0.1")]) == [1.5, 7, 0.1]
    digits = "12345678901234567.89"
    assert plain(Decimal(digits)) == digits
    assert plain([Decimal("NaN"), Decimal("Infinity")]) == [None, None]
