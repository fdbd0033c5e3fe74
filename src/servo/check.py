"""What must be true of an asset's data.

    checks=[row_count(min=1), not_null("order_id"), unique("order_id")]

A check is evaluated on the output (`phase="after"`) or, before the function runs, on its inputs
(`phase="before"`): on the one that `input` names, or on each. Values are written as Python has them
(numbers, Decimals, booleans, dates, date-times) or as text, and are kept as exact text; a date-time
without a zone is UTC. Columns are found as Spark finds them: case does not matter, and
`address.city` is a field of a struct.

A null fits every check but `not_null` and `expression`. A NaN is in no range, and is
equal to itself; 0 and -0 are one. Texts are compared by their code points.

`@check` makes one of a Python function, which takes the data as an AssetIn and
returns whether it is good, or that and a message.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias, TypedDict, Unpack, get_args, overload

import msgspec

from servo.context import AssetIn
from servo.contract.manifest import Check, Phase, Severity
from servo.duration import Duration, seconds
from servo.errors import Invalid
from servo.source import code_of, expect, expect_each, expect_one_of, misdeclared

Bound: TypeAlias = int | float | Decimal | str | date | datetime
Accepted: TypeAlias = Bound | bool
CheckVerdict: TypeAlias = bool | tuple[bool, str]
CheckFunction: TypeAlias = Callable[[AssetIn], CheckVerdict]
Params: TypeAlias = dict[str, str | int | bool | list[str] | None]


class CheckOptions(TypedDict, total=False):
    """What every check takes."""

    name: str
    """Unique within the asset; by default the kind and its columns."""
    severity: Severity
    """`error` unless given; the asset's gating decides what follows."""
    phase: Phase
    input: str
    """The parameter whose data is checked; for `phase="before"`."""
    timeout: Duration
    """The maximum duration, e.g. `"10m"`. A check that takes longer is an error."""


class CheckDefinition:
    """A Python function as a check; calling it calls the function."""

    __wrapped__: CheckFunction
    __name__: str

    def __init__(self, function: CheckFunction, options: CheckOptions) -> None:
        functools.update_wrapper(self, function)
        check = _make("python", (), {}, {"name": function.__name__, **options})
        self.check: Final = msgspec.structs.replace(check, code=code_of(function))

    def __call__(self, data: AssetIn) -> CheckVerdict:
        return self.__wrapped__(data)


@overload
def check(function: CheckFunction, /) -> CheckDefinition: ...
@overload
def check(**options: Unpack[CheckOptions]) -> Callable[[CheckFunction], CheckDefinition]: ...
def check(
    function: CheckFunction | None = None, /, **options: Unpack[CheckOptions]
) -> CheckDefinition | Callable[[CheckFunction], CheckDefinition]:
    """`@check`, or `@check(severity="warning")`, over a function of the data."""
    decorate = functools.partial(CheckDefinition, options=options)
    return decorate if function is None else decorate(function)


def row_count(
    *, min: int | None = None, max: int | None = None, **options: Unpack[CheckOptions]
) -> Check:
    """Between `min` and `max` rows, both included."""
    return _make("row_count", (), _whole_bounds(min, max, "row_count"), options)


def not_null(*columns: str, **options: Unpack[CheckOptions]) -> Check:
    return _make("not_null", _some(columns, "not_null"), {}, options)


def unique(*columns: str, **options: Unpack[CheckOptions]) -> Check:
    """No two rows are equal in all of these columns.

    As in SQL, a row with a null in one of them equals no other row; `not_null` finds
    those. Every row after the first one with the same values counts as failing.
    """
    return _make("unique", _some(columns, "unique"), {}, options)


def accepted_values(
    column: str, values: Iterable[Accepted], **options: Unpack[CheckOptions]
) -> Check:
    """Every value, unless it is null, is one of these.

    They are values of the column's type (`3`, `True`, `date(2025, 1, 31)`), or texts of
    them (`"3"`, `"true"`, `"2025-01-31"`); for numbers the value counts, so that `"1.50"`
    accepts 1.5.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        misdeclared(f"values is {values!r}, not a list", hint=f"write [{values!r}]")
    texts = [_text(value, "accepted_values") for value in values]
    if not texts:
        misdeclared(f"accepted_values({column!r}) has no values")
    if isinstance(values, set | frozenset):
        texts.sort()
    return _make("accepted_values", (column,), {"values": texts}, options)


def in_range(
    column: str,
    *,
    min: Bound | None = None,
    max: Bound | None = None,
    **options: Unpack[CheckOptions],
) -> Check:
    """Every value, unless it is null, is between `min` and `max`, both included."""
    return _make("in_range", (column,), _bounds(min, max, "in_range"), options)


def matches(column: str, pattern: str, **options: Unpack[CheckOptions]) -> Check:
    """Every value, unless it is null, matches the regular expression as a whole.

    The syntax is that of Java, as in Spark.
    """
    expect(pattern, str, "pattern")
    return _make("matches", (column,), {"pattern": pattern}, options)


def freshness(column: str, *, max_age: Duration, **options: Unpack[CheckOptions]) -> Check:
    """The greatest value of a column of timestamps, or dates, is at most this old.

    A date counts from its midnight in UTC. Without any value the check fails.
    """
    return _make(
        "freshness", (column,), {"max_age_s": _seconds(max_age, "freshness", "max_age")}, options
    )


def schema_is(columns: Mapping[str, str], **options: Unpack[CheckOptions]) -> Check:
    """Exactly these columns, in this order, with these Spark types."""
    expect(columns, Mapping, "columns")
    types = {"types": list(columns.values())}
    return _make("schema_is", _some(tuple(columns), "schema_is"), {**types}, options)


def row_count_change(
    *,
    min_percent: int | None = None,
    max_percent: int | None = None,
    **options: Unpack[CheckOptions],
) -> Check:
    """The change in rows from the partition's previous version, in percent: (-10, 50) allows a
    tenth fewer to half more.

    It passes if there is no previous version, or if that has no rows.
    """
    bounds = _whole_bounds(min_percent, max_percent, "row_count_change")
    params: Params = {f"{name}_percent": value for name, value in bounds.items()}
    return _make("row_count_change", (), params, options)


def references(column: str, target: str, **options: Unpack[CheckOptions]) -> Check:
    """Every value, unless it is null, is in `target`: `namespace.asset.column`."""
    expect(target, str, "target")
    asset, _, target_column = target.rpartition(".")
    if asset.count(".") != 1 or not target_column:
        misdeclared(f"references({column!r}): {target!r} is not namespace.asset.column")
    return _make("references", (column,), {"asset": asset, "column": target_column}, options)


def expression(sql: str, **options: Unpack[CheckOptions]) -> Check:
    """A Spark SQL predicate that is true of every row; a null is not true."""
    expect(sql, str, "sql")
    return _make("expression", (), {"sql": sql}, {"name": f"expression({sql})", **options})


def _make(
    kind: str, columns: tuple[str, ...], params: Mapping[str, Any], options: CheckOptions
) -> Check:
    unknown = sorted(options.keys() - CheckOptions.__annotations__.keys())
    if unknown:
        misdeclared(
            f"{kind}: unknown option {unknown[0]!r}", hint="name, severity, phase, input, timeout"
        )
    expect_each(columns, str, "columns")
    expect(options.get("name", ""), str, "name")
    expect(options.get("input", ""), str, "input")
    expect_one_of(options.get("severity", "error"), get_args(Severity), f"{kind}: severity")
    expect_one_of(options.get("phase", "after"), get_args(Phase), f"{kind}: phase")
    looked_at = {"input": options["input"]} if "input" in options else {}
    return Check(
        kind=kind,
        name=options.get("name") or f"{kind}({', '.join(columns)})".removesuffix("()"),
        columns=columns,
        params={**params, **looked_at},
        severity=options.get("severity", "error"),
        phase=options.get("phase", "after"),
        timeout_s=_seconds(options["timeout"], kind, "timeout") if "timeout" in options else 0,
    )


def _bounds(least: Bound | None, most: Bound | None, kind: str) -> dict[str, str]:
    if least is None and most is None:
        misdeclared(f"{kind} needs a minimum, a maximum, or both")
    pairs = (("min", least), ("max", most))
    return {name: _text(value, kind) for name, value in pairs if value is not None}


def _whole_bounds(least: Bound | None, most: Bound | None, kind: str) -> dict[str, str]:
    bounds = _bounds(least, most, kind)
    for name, text in bounds.items():
        number = _number(text)
        if number is None or number != int(number):
            misdeclared(f"{kind}: {name}={text} is not a whole number")
        bounds[name] = str(int(number))
    return bounds


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _text(value: Accepted, kind: str) -> str:
    """A value as exact text: of a float, the shortest decimal that reads back as it."""
    if not isinstance(value, int | float | Decimal | str | date):
        kinds = "numbers, Decimals, texts, booleans, dates and datetimes"
        hint = f"values are {kinds}; a null always passes"
        misdeclared(f"{kind}: {value!r} is of type {type(value).__name__}", hint=hint)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        hint = "leave out a bound that does not matter; a NaN is in no range"
        misdeclared(f"{kind}: {value} is not a finite number", hint=hint)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        value = Decimal(float.__repr__(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _some(columns: tuple[str, ...], kind: str) -> tuple[str, ...]:
    if not columns:
        misdeclared(f"{kind} names no column")
    return columns


def _seconds(value: Duration, kind: str, what: str) -> int:
    try:
        return seconds(value, what)
    except Invalid as error:
        misdeclared(f"{kind}: {error.message}", hint=error.hint)
