"""Times to come: `90d` from now, or a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from arco.errors import Invalid
from arco.times import utc

_FROM_NOW = re.compile(r"(\d{1,5})\s*([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def parse_coming_time(text: str, now: datetime) -> datetime:
    """UTC without a zone. Raises Invalid."""
    if match := _FROM_NOW.fullmatch(text.strip()):
        return now + timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        return utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        raise Invalid(
            f"{text!r} is not a time in the future", hint="write 90d, 12h, 2027-01-31, or never"
        ) from None
