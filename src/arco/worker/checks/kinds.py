"""From a check to its need (`needs.py`), one function for each kind.

An invalid check (a missing column, a bound that is no number) raises UnsuitableCheck: an error of
configuration, not of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import pyarrow as pa

from arco.tasks.input_failures import partition_text
from arco.worker.checks import conditions, proofs, types, values
from arco.worker.checks.check_request import CheckRequest, suggestion
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
from arco.worker.checks.subject_columns import Columns, has_inside
from arco.worker.checks.values import Unsuitable

KEYS: Final = ("integer", "decimal", "text", "date", "timestamp", "binary", "boolean")
RANGED: Final = ("integer", "decimal", "float", "text", "date", "timestamp")
LISTED: Final = (*RANGED, "boolean")
DENSE_KEYS: Final = 1 << 28
"""32 MiB of bits for each thread."""


def need_of(request: CheckRequest) -> Need:
    """The need of a check. Raises UnsuitableCheck."""
    kind = KINDS.get(request.check.kind)
    if kind is None:
        request.refuse(f"is of the unknown kind {request.check.kind!r}", f"there are {some(KINDS)}")
    if request.check.columns and not request.subject.files:
        return ProvenFinding(Finding("error", message="there is no data to check"))
    return kind(request)


# -- checks that footers may prove --------------------------------------------------------


def _row_count(request: CheckRequest) -> Need:
    low, high = _whole(request, "min"), _whole(request, "max")
    rows = request.subject.rows
    good = values.Span(low, high).holds(rows)
    expected = f"{between(request.text('min'), request.text('max'))} rows"
    return ProvenFinding(_footer_finding(good, expected, f"{rows} rows", f"there are {rows} rows"))


def _row_count_change(request: CheckRequest) -> Need:
    bounds = request.text("min_percent"), request.text("max_percent")
    low, high = _whole(request, "min_percent"), _whole(request, "max_percent")
    rows, before = request.subject.rows, request.context.previous
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


def _schema_is(request: CheckRequest) -> Need:
    given = request.check.params["types"]
    assert isinstance(given, list)
    expected = []
    for name, text in zip(request.check.columns, given, strict=True):
        type = types.canonical(text)
        if type is None:
            request.refuse(f"expects {name!r} to be {text!r}, which is not a Spark type")
        expected.append((name, type))
    actual, complaint = expected, ""
    for file in request.subject.files:
        stored = types.stored(file)
        if expected not in (stored, stored + _added(request, file)):
            actual = stored
            complaint = f"{_difference(expected, stored)}{_version(request, file)}"
            break
    return ProvenFinding(
        _footer_finding(
            not complaint,
            ", ".join(f"{name} {type}" for name, type in expected),
            ", ".join(f"{name} {type}" for name, type in actual),
            complaint,
        )
    )


def _added(request: CheckRequest, file: File) -> list[tuple[str, str]]:
    """The partition's dimensions, as far as they are no columns of the file."""
    return [(name, types.text_of(request.all.schema.field(name).type)) for name in file.added]


def _version(request: CheckRequest, file: File) -> str:
    """The version of a file, for messages, if there are several."""
    versions = request.subject.ref.materializations
    if len(versions) == 1:
        return ""
    of = next(each for each in versions if file.footer.path.startswith(f"{each.path}/"))
    text = partition_text(of.partition)
    return f", in partition {text}" if text else f", in {of.path}"


def _difference(expected: list[tuple[str, str]], actual: list[tuple[str, str]]) -> str:
    actual_types, expected_types = dict(actual), dict(expected)
    parts = [f"{name!r} is missing" for name in expected_types if name not in actual_types]
    parts += [f"{name!r} is unexpected" for name in actual_types if name not in expected_types]
    parts += [
        f"{name!r} is {actual_types[name]} and not {type}"
        for name, type in expected
        if name in actual_types and actual_types[name] != type
    ]
    return "; ".join(parts) or "the columns are in another order"


def _not_null(request: CheckRequest) -> Need:
    expected = "no nulls"
    counts = [proofs.nulls(request.subject, column) for column in request.columns]
    condition = conditions.no_nulls(request.columns)
    if len(counts) == 1 or not any(counts):
        total = counts[0] if len(counts) == 1 else 0 if None not in counts else None
        if total == 0:
            return _all_fit(request, expected)
        return FailingRows(condition, expected, total)
    return FailingRows(condition, expected)


def _in_range(request: CheckRequest) -> Need:
    request.expect(RANGED, "numbers, texts, dates or timestamps")
    low, high = request.text("min"), request.text("max")
    expected = between(low, high)
    try:
        condition = conditions.between(request.column, low, high)
    except Unsuitable as error:
        request.refuse(f"compares {request.column.name!r} with {expected}: that is {error}")
    if request.empty or _is_within(request, low, high):
        return _all_fit(request, expected)
    return FailingRows(condition, expected)


def _is_within(request: CheckRequest, low: str | None, high: str | None) -> bool:
    column = request.column
    if column.collated:
        return False  # bounds are in the order of code points
    try:
        bounds = proofs.bounds(request.subject, column)
    except proofs.NoStatistics:
        return False
    if bounds is None:
        return True  # nothing but nulls
    if column.family == "text":
        return (low is None or bounds.low >= low) and (high is None or bounds.high <= high)
    span = values.span(column, low, high)
    return span.holds(bounds.low) and span.holds(bounds.high)


def _freshness(request: CheckRequest) -> Need:
    request.expect(("timestamp", "date"), "timestamps or dates")
    seconds = request.check.params["max_age_s"]
    assert isinstance(seconds, int)
    need = NewestValue(request.column, seconds)
    try:
        bounds = proofs.bounds(request.subject, request.column)
    except proofs.NoStatistics:
        return need
    newest = None if bounds is None else bounds.high
    return ProvenFinding(judged_age(need, newest, request.context)._replace(method="footer"))


def judged_age(need: NewestValue, newest: int | None, context: CheckContext) -> Finding:
    expected = f"at most {age(need.max_age_s)} old"
    if newest is None:
        return Finding("failed", expected, "no value", "there is no value to compute an age from")
    is_date = need.column.family == "date"
    if newest == (values.MAX_DAYS if is_date else values.MAX_US):
        message = f"the newest {need.column.name} is infinity, which has no age"
        return Finding("error", expected, "infinity", message)
    old_us = values.micros(context.clock.now()) - newest * (values.DAY_US if is_date else 1)
    good = old_us <= need.max_age_s * 1_000_000
    actual = f"{age(max(old_us // 1_000_000, 0))} old"
    return Finding(
        "passed" if good else "failed", expected, actual, "" if good else f"the newest is {actual}"
    )


# -- checks that read data ----------------------------------------------------------------


def _unique(request: CheckRequest) -> Need:
    for column in request.columns:
        if has_inside(column.type, pa.types.is_map):
            request.refuse(f"cannot compare maps, as {column.name!r} is or has")
    expected = f"no two rows with the same {', '.join(c.name for c in request.columns)}"
    if request.subject.rows <= 1:
        return _all_fit(request, expected)
    return DuplicateRows(request.columns, _dense(request))


def _dense(request: CheckRequest) -> tuple[int, int] | None:
    """The range of integer keys that are dense enough for a bitmap; None otherwise."""
    if len(request.columns) > 1 or request.column.family != "integer":
        return None
    try:
        bounds = proofs.bounds(request.subject, request.column)
    except proofs.NoStatistics:
        return None
    if bounds is None or bounds.high - bounds.low >= DENSE_KEYS:
        return None
    return bounds.low, bounds.high


def _accepted_values(request: CheckRequest) -> Need:
    request.expect(LISTED, "plain values")
    accepted = request.check.params["values"]
    assert isinstance(accepted, list)
    expected = f"one of {some(accepted)}"
    try:
        condition = conditions.one_of(request.column, accepted)
    except Unsuitable as error:
        what = types.text_of(request.column.type)
        request.refuse(
            f"accepts {some(accepted)} for {request.column.name!r}, {what}: one is {error}"
        )
    if request.empty:
        return _all_fit(request, expected)
    return FailingRows(condition, expected)


def _matches(request: CheckRequest) -> Need:
    request.expect(("text",), "texts")
    pattern = str(request.check.params["pattern"])
    return FailingRows(conditions.like(request.column, pattern), f"like {pattern}")


def _references(request: CheckRequest) -> Need:
    key, name = str(request.check.params["asset"]), str(request.check.params["column"])
    request.expect(KEYS, "plain values other than floats")
    ref = next((each for each in request.context.references if each.asset == key), None)
    if ref is None or not ref.materializations:
        return ProvenFinding(Finding("error", f"in {key}.{name}", message=f"{key} has no data yet"))
    target = Subject.read(request.context.store, ref)
    columns = Columns(target)
    target_column = columns.find(name)
    if target_column is None:
        hint = suggestion(name, columns)
        request.refuse(f"names the column {name!r} of {key}, which does not exist", hint)
    if target_column.family != request.column.family:
        own_type, target_type = (
            types.text_of(request.column.type),
            types.text_of(target_column.type),
        )
        request.refuse(
            f"compares {request.column.name!r}, {own_type}, with {key}.{name}, {target_type}"
        )
    if request.empty:
        return _all_fit(request, f"in {key}.{name}")
    return OrphanRows(request.column, target, target_column)


def _expression(request: CheckRequest) -> Need:
    sql = str(request.check.params["sql"])
    return FalseRows(sql, for_duckdb(sql, request.all))


def _python(request: CheckRequest) -> Need:
    if request.check.code is None:
        request.refuse("has no code")
    return PythonCall(request.check.code)


def _footer_finding(good: bool, expected: str, actual: str, complaint: str) -> Finding:
    status = "passed" if good else "failed"
    message = "" if good else complaint
    return Finding(status, expected, actual, message, method="footer")  # type: ignore[arg-type]


def _all_fit(request: CheckRequest, expected: str) -> ProvenFinding:
    actual = rows_that(0, request.subject.rows)
    return ProvenFinding(Finding("passed", expected, actual, failing=0, method="footer"))


def _whole(request: CheckRequest, name: str) -> int | None:
    text = request.text(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        request.refuse(f"has the {name} {text!r}, which is not a whole number")


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
