"""SQL of assets and checks before it runs: what is certainly wrong, and what is in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from arco.lineage.sql_names import Knowledge, TableColumns, resolve_query
from arco.spark.query_rules import ColumnLookups, SqlFindings, check_sql
from arco.spark.query_text import parse_predicate, parse_query
from servo.check import expression, not_null
from servo.contract.manifest import Asset, Check, Code, ColumnDef, Gating, Input, StaticDimension
from servo.contract.template import calls
from tests.golden.lineage.case import COLUMNS as GOLDEN_COLUMNS
from tests.golden.lineage.cases import CASES
from tests.kit import spark_texts


def asset(key: str, columns: Sequence[str] = (), **fields: Any) -> Asset:
    defs = tuple(ColumnDef(name=name, type="int") for name in columns)
    return Asset(key=key, code=Code(module="flow", name=key, file="flow.py", line=1), columns=defs)


def closed(key: str, *columns: str) -> Asset:
    return change(asset(key, columns), extra="refuse")


def query(key: str, sql: str, *checks: Check) -> Asset:
    refs = dict.fromkeys(call.argument for call in calls(sql) if call.function == "ref")
    inputs = tuple(Input(asset=ref, parameter=ref) for ref in refs)
    return change(asset(key), kind="sql", sql=sql, inputs=inputs, checks=checks)


def change(given: Asset, **fields: Any) -> Asset:
    return msgspec.structs.replace(given, **fields)


def messages(findings: SqlFindings) -> tuple[list[str], list[str]]:
    """The first lines of problems and of notes."""
    return (
        [each.message.partition("\n")[0].partition(": ")[2] for each in findings.problems],
        [each.message.partition("\n")[0].partition(": ")[2] for each in findings.notes],
    )


# -- texts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "message", "at"),
    [
        ("", "empty", ""),
        (" ; ", "empty", ""),
        ("CREATE TABLE a AS SELECT 1", "a CREATE statement is not a query", "CREATE"),
        ("  drop table a", "a DROP statement is not a query", "drop"),
        ("SELEC 1", "a SELEC statement is not a query", "SELEC"),
        ("SELECT 1; DELETE FROM x", "second statement", "DELETE"),
        ("WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a", "an INSERT statement", "INSERT"),
        ("SELECT a FROM {{ ref('x') }} WHERE (b = 1", "')' is missing", "("),
        ("SELECT a) FROM {{ ref('x') }} WHERE b = = 1", "')' closes no bracket", ")"),
        ("SELECT a\nFROM {{ ref('sales.orders') }} WHERE a = = 2", "missing after '='", "="),
        ("SELECT a FROM {{ ref('x') }} WHERE a >", "missing after '>'", ">"),
        ("SELECT coalesce(a,) FROM {{ ref('x') }} WHERE", "missing after ','", ","),
    ],
)
def test_texts_that_no_spark_takes_are_certainly_wrong(sql: str, message: str, at: str) -> None:
    problem = parse_query(sql).problem
    assert problem is not None
    assert message in problem.message
    assert (sql[problem.start : problem.stop], problem.certain) == (at, True)


def test_a_misspelled_select_is_told() -> None:
    problem = parse_query("SELEC 1").problem
    other = parse_query("DELETE FROM x").problem
    assert problem is not None
    assert other is not None
    assert problem.hint == "did you mean 'SELECT'?"
    assert other.hint.startswith("write one query")


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("FROM {{ ref('x') }} |> SELECT a |> SET a = 2", "SET"),
        ("SELECT window.start FROM {{ ref('x') }} GROUP BY window(d, '1 day')", ""),
        ("SELECT a FROM {{ ref('x') }} WHERE 'a\\' = (b", ""),
    ],
)
def test_what_only_spark_can_read_is_in_doubt(sql: str, at: str) -> None:
    problem = parse_query(sql).problem
    assert problem is not None
    assert not problem.certain
    assert at in sql[problem.start : problem.stop]


@pytest.mark.parametrize(
    ("sql", "certain"),
    [
        ("x >", True),
        ("(x > 0", True),
        ("x > 0;", True),
        (" ", True),
        ("x > 0 AND", False),
    ],
)
def test_predicates_that_are_incomplete(sql: str, certain: bool) -> None:
    problem = parse_predicate(sql).problem
    assert problem is not None
    assert problem.certain == certain
    assert 0 <= problem.start <= problem.stop <= len(sql)


@pytest.mark.parametrize("sql", ["x > 0", "show = 1 AND `a b` IS NULL", "exists(xs, x -> x > 1)"])
def test_good_predicates_have_no_problem(sql: str) -> None:
    assert parse_predicate(sql).problem is None


# -- names --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", spark_texts.ACCEPTED)
def test_nothing_that_spark_accepts_is_refused(text: str) -> None:
    sql = spark_texts.with_tables(text, '{{ ref("x.t") }}', '{{ ref("x.u") }}')
    tables = [closed(f"x.{name}", *names) for name, names in spark_texts.COLUMNS.items()]
    assert check_sql([*tables, query("x.q", sql)]).problems == []


@pytest.mark.parametrize("case", [case for case in CASES if case.sql], ids=lambda case: case.name)
def test_golden_queries_have_no_unknown_names_and_the_columns_that_are_known(case: Any) -> None:
    sql = case.sql.format(
        orders='{{ ref("shop.orders") }}', customers='{{ ref("shop.customers") }}'
    )
    text = parse_query(sql)
    if text.tree is None:
        return
    tables = {
        f"@{key}": TableColumns(tuple(names), Knowledge.ALL)
        for key, names in GOLDEN_COLUMNS.items()
    }
    names = resolve_query(text.tree, tables)
    assert names.unknown == ()
    expected = {name.lower() for name in (*case.columns, *case.unmapped)}
    if names.output.knowledge is Knowledge.ALL:
        assert expected <= {name.lower() for name in names.output.names}


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        ("SELECT nope FROM {t}", "column 'nope'"),
        ("SELECT t.nope FROM {t} t", "column 't.nope'"),
        ("SELECT t.a FROM {t}", "column 't.a'"),
        ("SELECT z FROM (SELECT a AS x FROM {t})", "column 'z'"),
        ("WITH q AS (SELECT a FROM {t}) SELECT b FROM q", "column 'b'"),
        ("SELECT a FROM {t} WHERE (SELECT max(kk) FROM {u}) > 1", "column 'kk'"),
        ("SELECT transform(xs, x -> y) FROM {t}", "column 'y'"),
        ("SELECT t.a FROM {t} t JOIN {u} u ON u.zz = t.a", "column 'u.zz'"),
        ("SELECT a FROM nowhere", "table 'nowhere'"),
        ("SELECT a FROM {t} WHERE a IN (SELECT k FROM nowhere)", "table 'nowhere'"),
    ],
)
def test_names_that_are_certainly_not_there_are_problems(sql: str, unknown: str) -> None:
    refs = {name: f'{{{{ ref("x.{name}") }}}}' for name in ("t", "u")}
    tables = [closed(f"x.{name}", *names) for name, names in spark_texts.COLUMNS.items()]
    findings = check_sql([*tables, query("x.q", sql.format(**refs))])
    assert messages(findings) == ([f"there is no {unknown}"], [])


def test_the_place_is_shown_in_the_authors_text_with_a_suggestion() -> None:
    sql = '\nSELECT id,\n       amout\nFROM {{ ref("x.raw") }}'
    (problem,) = check_sql([closed("x.raw", "id", "amount"), query("x.q", sql)]).problems
    assert problem.message.splitlines() == [
        "the query of x.q: there is no column 'amout'",
        "line 3, column 8:",
        "  3 |        amout",
        "    |        ^^^^^",
    ]
    assert (problem.hint, problem.file, problem.line, problem.asset) == (
        "did you mean 'amount'?",
        "flow.py",
        1,
        "x.q",
    )


def test_a_table_with_the_name_of_an_asset_is_suggested_as_a_ref() -> None:
    (problem,) = check_sql([asset("x.raw"), query("x.q", "SELECT 1 AS a FROM raw")]).problems
    assert problem.hint == 'write {{ ref("x.raw") }}'


def test_columns_are_inferred_through_chains_of_queries() -> None:
    assets = [
        asset("x.raw", ["id"]),  # there may be more
        query("x.one", 'SELECT id, amount AS total FROM {{ ref("x.raw") }}'),
        query("x.two", 'SELECT *, total * 2 AS twice FROM {{ ref("x.one") }}'),
        query("x.three", 'SELECT id, twise FROM {{ ref("x.two") }}'),
    ]
    findings = check_sql(assets)
    assert messages(findings) == (
        ["there is no column 'twise'"],
        ["no column 'amount' is declared, or in the newest version of an input"],
    )
    assert findings.problems[0].hint == "did you mean 'twice'?"


def test_columns_that_were_materialized_are_known_and_never_complete() -> None:
    lookups = ColumnLookups(materialized=lambda key: ["id", "amount"])
    assets = [asset("x.raw", ["id"]), query("x.q", 'SELECT amount, nope FROM {{ ref("x.raw") }}')]
    problems, notes = messages(check_sql(assets, lookups))
    assert (problems, len(notes)) == ([], 1)
    assert "'nope'" in notes[0]


def test_nothing_is_said_of_tables_without_known_columns() -> None:
    assets = [asset("x.raw"), query("x.q", 'SELECT a, b.c FROM {{ ref("x.raw") }}')]
    assert check_sql(assets) == SqlFindings([], [])


def test_columns_of_other_projects_are_looked_up() -> None:
    lookups = ColumnLookups(foreign=lambda key: closed(key, "id"))
    findings = check_sql([query("x.q", 'SELECT ide FROM {{ ref("far.raw") }}')], lookups)
    assert messages(findings) == (["there is no column 'ide'"], [])


def test_declared_columns_are_all_only_if_others_are_held_back() -> None:
    read = query("x.q", 'SELECT nope FROM {{ ref("x.raw") }}')
    lenient = change(closed("x.raw", "id"), gating=Gating(preset="lenient"))
    assert len(check_sql([closed("x.raw", "id"), read]).problems) == 1
    for raw in (asset("x.raw", ["id"]), lenient):
        findings = check_sql([raw, read])
        assert (len(findings.problems), len(findings.notes)) == (0, 1)


def test_dimensions_of_an_input_are_columns() -> None:
    raw = change(closed("x.raw", "id"), partitions=(StaticDimension(name="day", values=("a",)),))
    assert check_sql([raw, query("x.q", 'SELECT id, day FROM {{ ref("x.raw") }}')]).problems == []


def test_checks_are_compared_with_the_columns_of_a_query() -> None:
    checks = (expression("totl > 0", name="positive"), not_null("ide"), expression("id >"))
    problems = check_sql([query("x.q", "SELECT 1 AS id, 2 AS total", *checks)]).problems
    assert [each.message.partition("\n")[0] for each in problems] == [
        "the check 'expression(id >)' of x.q: something is missing after '>'",
        "the check 'not_null(ide)' names the unknown column 'ide'",
        "the check 'positive' of x.q: there is no column 'totl'",
    ]


def test_a_check_of_an_input_is_compared_with_that_input() -> None:
    before = expression("nope > 0", name="b", phase="before", input="x.raw")
    read = query("x.q", 'SELECT id AS nope FROM {{ ref("x.raw") }}', before)
    problems, _ = messages(check_sql([closed("x.raw", "id"), read]))
    assert problems == ["there is no column 'nope'"]


def test_a_very_deep_query_is_left_to_spark() -> None:
    sql = "SELECT " + "(" * 3000 + "1" + ")" * 3000 + " AS x"
    assert check_sql([query("x.q", sql)]).problems == []
