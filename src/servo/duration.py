"""Lengths of time as people write them: `90`, `"30 min"`, `"1h30m"`, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final, TypeAlias

from servo.errors import Invalid

Duration: TypeAlias = int | float | str | timedelta

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)\s*"
_TEXT = re.compile(
    rf"\s*(?:{_NUMBER}(?:d|days?)\s*)?(?:{_NUMBER}(?:h|hrs?|hours?)\s*)?"
    rf"(?:{_NUMBER}(?:m|mins?|minutes?)\s*)?(?:{_NUMBER}(?:s|secs?|seconds?)\s*)?"
)
_HINT: Final = (
    'whole seconds, a timedelta, or text such as "30 min" or "1h30m" '
    "(d, h, m, s, or days, hours, minutes, seconds)"
)


def seconds(value: Duration, what: str) -> int:
    """Whole seconds, at least one; Invalid names `what`."""
    count = _count(value)
    if count is None or count.denominator != 1:
        raise Invalid(f"{value!r} is not a valid {what}", hint=_HINT)
    if count <= 0:
        raise Invalid(f"the {what} {value!r} is not positive", hint="at least one second")
    return int(count)


def duration_text(count: int) -> str:
    """Whole seconds in the largest unit that they are a multiple of: `26h`."""
    unit = next(unit for unit, size in _UNITS.items() if count % size == 0)
    return f"{count // _UNITS[unit]}{unit}"


def _count(value: Duration) -> Fraction | None:
    if isinstance(value, timedelta):
        return Fraction(value // timedelta(microseconds=1), 1_000_000)
    if type(value) in (int, float):
        return Fraction(value) if abs(value) < 1e15 else None  # type: ignore[arg-type]
    match = _TEXT.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is None or not any(match.groups()):
        return None
    parts = zip(match.groups(default="0"), _UNITS.values(), strict=True)
    return sum((Fraction(number) * unit for number, unit in parts), Fraction(0))
