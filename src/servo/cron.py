"""Cron expressions: five fields of numbers, `*`, `a-b`, lists and steps of `*` and `a-b`.

What programs read differently is refused: names of months and days, steps of a single number
(`5/15`), and a day of the month together with a day of the week. Sunday is 0 or 7.
"""

from __future__ import annotations

import re
from typing import Final

from servo.errors import Invalid

_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?")


def check_cron(text: str) -> str:
    """The text itself, if it is a cron expression."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise Invalid(
            f"cron {text!r} has {len(fields)} fields, not 5",
            hint='minute, hour, day, month, day of the week: "30 2 * * *" is half past two',
        )
    for field, (what, least, most) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            _check_part(part, what, least, most, text)
    day, month, weekday = fields[2:]
    if day != "*" and weekday != "*":
        raise Invalid(
            f"cron {text!r} has a day of the month and a day of the week; some programs fire if "
            "either matches, some if both do",
            hint="use two schedules, one with each",
        )
    if not _is_ever(day, month):
        raise Invalid(f"cron {text!r} never fires: no such month has such a day")
    return text


def _is_ever(day: str, month: str) -> bool:
    days, months = _numbers(day, 1, 31), _numbers(month, 1, 12)
    return any(least <= _LONGEST[number - 1] for number in months for least in [min(days)])


def _numbers(field: str, least: int, most: int) -> set[int]:
    numbers: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        assert match is not None  # checked before
        first, last, step = (None if group is None else int(group) for group in match.groups())
        start, end = (least, most) if first is None else (first, first if last is None else last)
        numbers.update(range(start, end + 1, step or 1))
    return numbers


def _check_part(part: str, what: str, least: int, most: int, text: str) -> None:
    match = _PART.fullmatch(part)
    if match is None:
        raise Invalid(f"cron {text!r}: {part!r} is not a {what}", hint="write *, 5, 1-5, */10")
    first, last, step = (None if group is None else int(group) for group in match.groups())
    for number in (first, last):
        if number is not None and not least <= number <= most:
            raise Invalid(f"cron {text!r}: the {what} {number} is not in {least} to {most}")
    if first is not None and last is not None and first > last:
        raise Invalid(f"cron {text!r}: the {what} {part!r} ends before it starts")
    if step is not None and first is not None and (last is None or last == first):
        raise Invalid(
            f"cron {text!r}: programs read the {what} {part!r} differently",
            hint=f"write the range that is meant, such as {first}-{most}/{step}",
        )
    if step == 0:
        raise Invalid(f"cron {text!r}: the {what} {part!r} has a step of 0")
