"""Cron expressions: five fields of numbers, `*`, `a-b`, lists and steps.

Names of months and days are refused, for they are read differently here and
there; Sunday is 0 or 7.
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
    return text


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
    if step == 0:
        raise Invalid(f"cron {text!r}: the {what} {part!r} has a step of 0")
