"""Lengths of time as people write them: `90`, `"30m"`, `"1h30m"`, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

from servo.errors import Invalid

Duration: TypeAlias = int | str | timedelta

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TEXT = re.compile(r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")
_HINT: Final = 'whole seconds, a timedelta, or text such as "30m" or "1h30m" (d, h, m, s)'


def seconds(value: Duration, what: str) -> int:
    """Whole seconds, at least one; Invalid names `what`."""
    count = _count(value)
    if count is None:
        raise Invalid(f"{value!r} is not a valid {what}", hint=_HINT)
    if count <= 0:
        raise Invalid(f"the {what} {value!r} is not positive", hint="at least one second")
    return count


def _count(value: Duration) -> int | None:
    if isinstance(value, timedelta):
        whole = value // timedelta(seconds=1)
        return whole if timedelta(seconds=whole) == value else None
    if type(value) is int:
        return value
    match = _TEXT.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        return None
    parts = zip(match.groups(default="0"), _UNITS.values(), strict=True)
    return sum(int(number) * unit for number, unit in parts)
