"""What people see: errors, digests, tables of results."""

from __future__ import annotations

import io
import json
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from rich.console import Console

from arco import cli
from arco.cli import lineage, render, sqltable
from arco.cli.failures import failure_of, report, visible
from arco.cli.log_entries import digest
from arco.errors import (
    AlreadyExists,
    Conflict,
    Contended,
    Corrupt,
    Denied,
    Fenced,
    Invalid,
    NotFound,
    NotYet,
    Refused,
    Unavailable,
    Unreadable,
)
from arco.lineage.tables import ExecutionRow
from arco.state.sql import SqlResult


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid("x"), 2),
        (NotFound("x"), 3),
        (Denied("x"), 4),
        (Conflict("x"), 5),
        (AlreadyExists("x"), 5),
        (Refused("name_taken", "x"), 5),
        (Unavailable("x"), 6),
        (NotYet("x"), 6),
        (Contended("x"), 6),
        (Fenced("x"), 7),
        (Corrupt("x"), 8),
        (Unreadable("x"), 8),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_exit_code_follows_from_the_kind(error: Exception, code: int) -> None:
    assert failure_of(error).exit_code == code


def shown(error: Exception, *, as_json: bool = False, color: bool = False) -> str:
    out = io.StringIO()
    report(failure_of(error), as_json=as_json, color=color, stream=out)
    return out.getvalue()


def test_error_is_one_line_and_a_hint() -> None:
    assert shown(NotFound("no asset a.b", hint="did you mean a.c?")) == (
        "error: no asset a.b\nhint: did you mean a.c?\n"
    )


def test_error_is_red_only_if_asked() -> None:
    assert shown(NotFound("x"), color=True) == "\x1b[1;31merror: x\x1b[0m\n"


def test_error_as_json_has_kind_message_and_hint() -> None:
    found = json.loads(shown(NotFound("x", hint="y"), as_json=True))
    assert found == {"error": {"kind": "not_found", "message": "x", "hint": "y"}}


def test_refusal_as_json_has_its_code_too() -> None:
    found = json.loads(shown(Refused("name_taken", "x"), as_json=True))
    assert found["error"]["code"] == "name_taken"


def test_stored_text_cannot_drive_a_terminal() -> None:
    assert visible("a\x1b[31mb\x07\x9b\u202e") == "a\\x1b[31mb\\x07\\x9b\\u202e"
    assert "\x1b" not in shown(NotFound("\x1b[2J", hint="\x1b[2J"))
    assert str(render.cell("\x1b[2J")) == "\\x1b[2J"


class Thing(msgspec.Struct):
    at: datetime
    raw: msgspec.Raw


class HeldVersion(msgspec.Struct):
    asset_key: str
    partition_key: str


def test_rows_have_the_names_of_documents_and_data_keeps_its_own() -> None:
    row = HeldVersion(asset_key="shop.orders", partition_key="date=d:2026-01-05")
    assert render.plain([row]) == [{"asset": "shop.orders", "partition": "date=d:2026-01-05"}]
    assert render.plain({"asset_key": 1}) == {"asset_key": 1}, "it is somebody's data"


def test_commands_write_no_second_name_for_a_concept() -> None:
    package = Path(cli.__file__).parents[1]
    sources = [*(package / "cli").glob("*.py"), *(package / "api").rglob("*.py")]
    assert len(sources) > 80
    written = re.compile(r"""["'](asset_key|partition_key)["']\s*:""")
    assert [path.name for path in sources if written.search(path.read_text("utf-8"))] == []


def test_plain_values_are_what_json_knows() -> None:
    thing = Thing(datetime(2026, 1, 1), msgspec.Raw(b'{"a":1}'))
    values: list[tuple[Any, Any]] = [
        (thing, {"at": "2026-01-01T00:00:00.000000Z", "raw": {"a": 1}}),
        (Decimal("12"), 12),
        (Decimal("1.5"), 1.5),
        (float("nan"), None),
        (date(2026, 1, 1), "2026-01-01"),
        (timedelta(minutes=1), 60.0),
        (b"\xff", "\\xff"),
        ((1, {2: None}), [1, {"2": None}]),
    ]
    assert [render.plain(value) for value, _ in values] == [expected for _, expected in values]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_have_a_unit(count: int, text: str) -> None:
    assert render.size(count) == text


def test_digest_leaves_out_what_is_empty() -> None:
    data: dict[str, object] = {
        "a": "",
        "b": None,
        "c": [],
        "d": {},
        "e": 0,
        "f": False,
        "g": "two words",
    }
    assert digest(data) == 'e=0 f=false g="two words"'


def test_digest_names_columns_and_is_cut() -> None:
    assert digest({"columns": [{"name": "id", "type": "int"}, {"name": "x"}]}) == "columns=[id,x]"
    assert len(digest({"a": "x" * 1000})) == 160


def test_digest_spells_partitions_as_people_write_them() -> None:
    data = {"partition": "date=d:2025-01-01", "result": {"partition_key": "region=s:eu"}}
    assert digest(data) == "partition=date=2025-01-01 result={partition_key=region=eu}"


@pytest.mark.parametrize("data", [None, 3, "text", [1, 2]])
def test_digest_takes_any_json(data: object) -> None:
    assert digest(data) == json.dumps(data)


def text_of(fitted: sqltable.FittedTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(fitted.body)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_wide_values_are_cut_to_fit() -> None:
    table = pa.table({"n": [1, 20], "text": ["short", "x" * 200]})
    fitted = sqltable.fitted(table, 30)
    assert fitted.cut
    assert text_of(fitted, 30) == [" n  text", " 1  short", "20  " + "x" * 23 + "…"]


def test_values_that_fit_are_not_cut() -> None:
    fitted = sqltable.fitted(pa.table({"a": ["x"], "b": [None]}), 80)
    assert not fitted.cut
    assert text_of(fitted, 80) == ["a  b", "x  –"]


def test_many_columns_become_records() -> None:
    table = pa.table({f"column_{n}": [n] for n in range(20)})
    lines = text_of(sqltable.fitted(table, 80), 80)
    assert lines[:2] == ["-- row 1 --", "column_0   0"]
    assert len(lines) == 21


def test_many_columns_without_rows_are_named() -> None:
    table = pa.table({f"column_{n}": pa.array([], pa.int64()) for n in range(20)})
    assert text_of(sqltable.fitted(table, 500), 500)[0].startswith("column_0  column_1")
    assert text_of(sqltable.fitted(table, 80), 80)[0].startswith("column_0, column_1, ")


def test_columns_of_one_name_stay_apart_in_json() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    document = sqltable.document(SqlResult(table, False, 1))
    assert document["rows"] == [{"a": 1, "a_2": 2}]


class Printed:
    """A table of two rows, printed at some width; "" for what is not a terminal."""

    HEADERS = ("partition", "made", "what")
    ROWS = (
        ("date=2026-01-31,region=north-america", datetime(2026, 1, 31), "words that can wrap"),
        ("date=2026-01-31,region=eu", datetime(2026, 1, 31), None),
    )

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, columns: str, *, wide: bool = False) -> list[str]:
        self._monkeypatch.setenv("COLUMNS", columns)
        render.print_wide(wide)
        render.show(render.table(self.HEADERS, self.ROWS, whole=["made"]))
        render.print_wide(False)
        return self._capsys.readouterr().out.splitlines()


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    return Printed(capsys, monkeypatch)


WHOLE_LINES = [
    "partition                             made                  what",
    "date=2026-01-31,region=north-america  2026-01-31 00:00:00Z  words that can wrap",
    "date=2026-01-31,region=eu             2026-01-31 00:00:00Z  –",
]


def test_a_table_in_a_pipe_has_one_whole_line_for_each_row(printed: Printed) -> None:
    assert printed("") == WHOLE_LINES


def test_a_wide_table_has_whole_lines_on_a_terminal_too(printed: Printed) -> None:
    assert printed("40", wide=True) == WHOLE_LINES


def test_a_table_that_is_too_wide_wraps_between_words_and_dimensions(printed: Printed) -> None:
    assert printed("62") == [
        "partition             made                  what",
        "date=2026-01-31,      2026-01-31 00:00:00Z  words that can",
        "region=north-america                        wrap",
        "date=2026-01-31,      2026-01-31 00:00:00Z  –",
        "region=eu",
    ]


def test_a_table_that_cannot_fit_becomes_a_block_for_each_row(printed: Printed) -> None:
    assert printed("34") == [
        "partition  date=2026-01-31,region=",
        "           north-america",
        "made       2026-01-31 00:00:00Z",
        "what       words that can wrap",
        "",
        "partition  date=2026-01-31,region=",
        "           eu",
        "made       2026-01-31 00:00:00Z",
        "what       –",
    ]


@pytest.mark.parametrize(("said", "count"), [(0, 2), (7, 7)])
def test_execution_says_how_many_inputs_it_has(said: int, count: int) -> None:
    row = ExecutionRow(
        target="s.t",
        materialization_id="M",
        edge_id="e",
        source="s.a",
        partition_key="",
        run_id="R",
        task_id="T",
        source_materializations=["1", "2"],
        source_partitions=["", ""],
        rows_read=0,
        rows_written=0,
        bytes_written=0,
        recorded_at=datetime(2026, 1, 31),
        source_count=said,
    )
    assert lineage.plain_execution(row)["source_count"] == count
