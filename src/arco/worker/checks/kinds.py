"""From a check to what it takes to answer it, one function for each kind.

A check that cannot be meant (a column that is not there, a bound that is no number)
raises Misfit, which is a matter of configuration and not of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Final, NoReturn

import pyarrow as pa

from arco.tasks.input_failures import partition_text
from arco.worker.checks import conditions, proofs, types, values
from arco.worker.checks.declared import compared
from arco.worker.checks.needs import (
    DuplicateRows,
    FailingRows,
    FalseRows,
    Finding,
    Need,
    NewestValue,
    OrphanRows,
    ProvenFinding,
    PythonCall,
)
from arco.worker.checks.phrases import age, between, rows_that, some
from arco.worker.checks.predicates import for_duckdb
from arco.worker.checks.subject import CheckContext, File, Subject
from arco.worker.checks.subject_columns import CheckColumn, Columns, has_inside
from arco.worker.checks.values import Unsuitable
from servo.contract.manifest import Check
from servo.suggest import did_you_mean

KEYS: Final = ("integer", "decimal", "text", "date", "timestamp", "binary", "boolean")
RANGED: Final = ("integer", "decimal", "float", "text", "date", "timestamp")
LISTED: Final = (*RANGED, "boolean")
DENSE_KEYS: Final = 1 << 28
"""32 MiB of bits for each thread."""


class UnsuitableCheck(Exception):
    """A check that does not suit the data's columns."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CheckRequest:
    """One check of one subject."""

    def __init__(
        self, check: Check, subject: Subject, columns: Columns, around: CheckContext
    ) -> None:
        self.check = check
        self.subject = subject
        self.all = columns
        self.around = around

    @cached_property
    def columns(self) -> tuple[CheckColumn, ...]:
        return tuple(self._find(name) for name in self.check.columns)

    @property
    def column(self) -> CheckColumn:
        return self.columns[0]

    @cached_property
    def empty(self) -> bool:
        return self.subject.rows == 0

    def text(self, name: str) -> str | None:
        value = self.check.params.get(name)
        return None if value is None else str(value)

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        raise UnsuitableCheck(f"the check {self.check.name!r} {what}", hint)

    def expect(self, families: tuple[str, ...], what: str) -> None:
        for column in self.columns:
            if column.family not in families:
                self.refuse(f"needs {what}, and {column.name!r} is {types.text_of(column.type)}")

    def _find(self, name: str) -> CheckColumn:
        column = self.all.find(name)
        if column is None:
            self.refuse(f"names the column {name!r}, which does not exist", meant(name, self.all))
        return column


def meant(name: str, columns: Columns) -> str:
    """Which column somebody may have meant, whatever its case."""
    return did_you_mean(name, columns.names) or f"there are {some(columns.names)}"


def need_of(asked: CheckRequest) -> Need:
    """What it takes. Raises Misfit."""
    kind = KINDS.get(asked.check.kind)
    if kind is None:
        asked.refuse(f"is of the unknown kind {asked.check.kind!r}", f"there are {some(KINDS)}")
    if asked.check.columns and not asked.subject.files:
        return ProvenFinding(Finding("error", message="there is no data to check"))
    return kind(asked)


# -- what the footers know ----------------------------------------------------------------


def _row_count(asked: CheckRequest) -> Need:
    low, high = _whole(asked, "min"), _whole(asked, "max")
    rows = asked.subject.rows
    good = values.Span(low, high).holds(rows)
    expected = f"{between(asked.text('min'), asked.text('max'))} rows"
    return ProvenFinding(_footer_finding(good, expected, f"{rows} rows", f"there are {rows} rows"))


def _row_count_change(asked: CheckRequest) -> Need:
    bounds = asked.text("min_percent"), asked.text("max_percent")
    low, high = _whole(asked, "min_percent"), _whole(asked, "max_percent")
    rows, before = asked.subject.rows, asked.around.previous
    expected = f"{between(*(None if each is None else f'{each}%' for each in bounds))}"
    if not before:
        nothing = Finding(
            "passed", expected, message="there is no previous version to compare with"
        )
        return ProvenFinding(nothing._replace(method="catalog"))
    change = Fraction((rows - before) * 100, before)
    good = (low is None or change >= low) and (high is None or change <= high)
    actual = f"{float(change):+.1f}%"
    finding = _footer_finding(good, expected, actual, f"{rows} rows after {before}: {actual}")
    return ProvenFinding(finding._replace(method="catalog"))


def _schema_is(asked: CheckRequest) -> Need:
    given = asked.check.params["types"]
    assert isinstance(given, list)
    expected = []
    for name, text in zip(asked.check.columns, given, strict=True):
        type = types.canonical(text)
        if type is None:
            asked.refuse(f"expects {name!r} to be {text!r}, which is not a Spark type")
        expected.append((name, type))
    actual, complaint = expected, ""
    for file in asked.subject.files:
        stored = types.stored(file)
        if expected not in (stored, stored + _added(asked, file)):
            actual = stored
            complaint = f"{_difference(expected, stored)}{_version(asked, file)}"
            break
    return ProvenFinding(
        _footer_finding(
            not complaint,
            ", ".join(f"{name} {type}" for name, type in expected),
            ", ".join(f"{name} {type}" for name, type in actual),
            complaint,
        )
    )


def _added(asked: CheckRequest, file: File) -> list[tuple[str, str]]:
    """The partition's dimensions, as far as they are no columns of the file."""
    return [(name, types.text_of(asked.all.schema.field(name).type)) for name in file.added]


def _version(asked: CheckRequest, file: File) -> str:
    """Which version a file is of, if there are others."""
    versions = asked.subject.ref.materializations
    if len(versions) == 1:
        return ""
    of = next(each for each in versions if file.footer.path.startswith(f"{each.path}/"))
    text = partition_text(of.partition)
    return f", in partition {text}" if text else f", in {of.path}"


def _difference(expected: list[tuple[str, str]], actual: list[tuple[str, str]]) -> str:
    there, asked = dict(actual), dict(expected)
    parts = [f"{name!r} is missing" for name in asked if name not in there]
    parts += [f"{name!r} is unexpected" for name in there if name not in asked]
    parts += [
        f"{name!r} is {there[name]} and not {type}"
        for name, type in expected
        if name in there and there[name] != type
    ]
    return "; ".join(parts) or "the columns are in another order"


def _not_null(asked: CheckRequest) -> Need:
    expected = "no nulls"
    counts = [proofs.nulls(asked.subject, column) for column in asked.columns]
    condition = conditions.all_there(asked.columns)
    if len(counts) == 1 or not any(counts):
        total = counts[0] if len(counts) == 1 else 0 if None not in counts else None
        if total == 0:
            return _all_fit(asked, expected)
        return FailingRows(condition, expected, total)
    return FailingRows(condition, expected)


def _in_range(asked: CheckRequest) -> Need:
    asked.expect(RANGED, "numbers, texts, dates or timestamps")
    low, high = asked.text("min"), asked.text("max")
    expected = between(low, high)
    try:
        condition = conditions.between(asked.column, low, high)
    except Unsuitable as error:
        asked.refuse(f"compares {asked.column.name!r} with {expected}: that is {error}")
    if asked.empty or _is_within(asked, low, high):
        return _all_fit(asked, expected)
    return FailingRows(condition, expected)


def _is_within(asked: CheckRequest, low: str | None, high: str | None) -> bool:
    column = asked.column
    if column.collated:
        return False  # bounds are in the order of code points
    try:
        bounds = proofs.bounds(asked.subject, column)
    except proofs.NoStatistics:
        return False
    if bounds is None:
        return True  # nothing but nulls
    if column.family == "text":
        return (low is None or bounds.low >= low) and (high is None or bounds.high <= high)
    span = values.span(column, low, high)
    return span.holds(bounds.low) and span.holds(bounds.high)


def _freshness(asked: CheckRequest) -> Need:
    asked.expect(("timestamp", "date"), "timestamps or dates")
    seconds = asked.check.params["max_age_s"]
    assert isinstance(seconds, int)
    need = NewestValue(asked.column, seconds)
    try:
        bounds = proofs.bounds(asked.subject, asked.column)
    except proofs.NoStatistics:
        return need
    newest = None if bounds is None else bounds.high
    return ProvenFinding(judged_age(need, newest, asked.around)._replace(method="footer"))


def judged_age(need: NewestValue, newest: int | None, around: CheckContext) -> Finding:
    expected = f"at most {age(need.max_age_s)} old"
    if newest is None:
        return Finding("failed", expected, "no value", "there is no value to compute an age from")
    is_date = need.column.family == "date"
    if newest == (values.MAX_DAYS if is_date else values.MAX_US):
        message = f"the newest {need.column.name} is infinity, which has no age"
        return Finding("error", expected, "infinity", message)
    old_us = values.micros(around.clock.now()) - newest * (values.DAY_US if is_date else 1)
    good = old_us <= need.max_age_s * 1_000_000
    actual = f"{age(max(old_us // 1_000_000, 0))} old"
    return Finding(
        "passed" if good else "failed", expected, actual, "" if good else f"the newest is {actual}"
    )


# -- what the data must be asked ----------------------------------------------------------


def _unique(asked: CheckRequest) -> Need:
    for column in asked.columns:
        if has_inside(column.type, pa.types.is_map):
            asked.refuse(f"cannot compare maps, as {column.name!r} is or has")
    expected = f"no two rows with the same {', '.join(c.name for c in asked.columns)}"
    if asked.subject.rows <= 1:
        return _all_fit(asked, expected)
    return DuplicateRows(asked.columns, _dense(asked))


def _dense(asked: CheckRequest) -> tuple[int, int] | None:
    """Keys that count something are close together, and a bit each tells them apart."""
    if len(asked.columns) > 1 or asked.column.family != "integer":
        return None
    try:
        bounds = proofs.bounds(asked.subject, asked.column)
    except proofs.NoStatistics:
        return None
    if bounds is None or bounds.high - bounds.low >= DENSE_KEYS:
        return None
    return bounds.low, bounds.high


def _accepted_values(asked: CheckRequest) -> Need:
    asked.expect(LISTED, "plain values")
    given = asked.check.params["values"]
    assert isinstance(given, list)
    expected = f"one of {some(given)}"
    try:
        condition = conditions.one_of(asked.column, given)
    except Unsuitable as error:
        what = types.text_of(asked.column.type)
        asked.refuse(f"accepts {some(given)} for {asked.column.name!r}, {what}: one is {error}")
    if asked.empty:
        return _all_fit(asked, expected)
    return FailingRows(condition, expected)


def _matches(asked: CheckRequest) -> Need:
    asked.expect(("text",), "texts")
    pattern = str(asked.check.params["pattern"])
    return FailingRows(conditions.like(asked.column, pattern), f"like {pattern}")


def _references(asked: CheckRequest) -> Need:
    key, name = str(asked.check.params["asset"]), str(asked.check.params["column"])
    asked.expect(KEYS, "plain values other than floats")
    ref = next((each for each in asked.around.references if each.asset == key), None)
    if ref is None or not ref.materializations:
        return ProvenFinding(Finding("error", f"in {key}.{name}", message=f"{key} has no data yet"))
    target = Subject.read(asked.around.store, ref)
    columns = Columns(target)
    target_column = columns.find(name)
    if target_column is None:
        hint = meant(name, columns)
        asked.refuse(f"names the column {name!r} of {key}, which does not exist", hint)
    if target_column.family != asked.column.family:
        ours, theirs = types.text_of(asked.column.type), types.text_of(target_column.type)
        asked.refuse(f"compares {asked.column.name!r}, {ours}, with {key}.{name}, {theirs}")
    if asked.empty:
        return _all_fit(asked, f"in {key}.{name}")
    return OrphanRows(asked.column, target, target_column)


def _expression(asked: CheckRequest) -> Need:
    sql = str(asked.check.params["sql"])
    return FalseRows(sql, for_duckdb(sql, asked.all))


def _python(asked: CheckRequest) -> Need:
    if asked.check.code is None:
        asked.refuse("has no code")
    return PythonCall(asked.check.code)


def _footer_finding(good: bool, expected: str, actual: str, complaint: str) -> Finding:
    status = "passed" if good else "failed"
    message = "" if good else complaint
    return Finding(status, expected, actual, message, method="footer")  # type: ignore[arg-type]


def _all_fit(asked: CheckRequest, expected: str) -> ProvenFinding:
    actual = rows_that(0, asked.subject.rows)
    return ProvenFinding(Finding("passed", expected, actual, failing=0, method="footer"))


def _whole(asked: CheckRequest, name: str) -> int | None:
    text = asked.text(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        asked.refuse(f"has the {name} {text!r}, which is not a whole number")


KINDS: Final[dict[str, Callable[[CheckRequest], Need]]] = {
    "row_count": _row_count,
    "row_count_change": _row_count_change,
    "schema_is": _schema_is,
    "columns": compared,
    "not_null": _not_null,
    "in_range": _in_range,
    "freshness": _freshness,
    "unique": _unique,
    "accepted_values": _accepted_values,
    "matches": _matches,
    "references": _references,
    "expression": _expression,
    "python": _python,
}
