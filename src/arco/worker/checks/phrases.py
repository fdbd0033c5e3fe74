"""The texts of check results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_SHOWN: Final = 10
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def between(low: str | None, high: str | None) -> str:
    if low is None:
        return f"at most {high}"
    if high is None:
        return f"at least {low}"
    return f"{low} to {high}"


def beyond(params: Mapping[str, object]) -> str:
    low, high = params.get("min"), params.get("max")
    if low is None:
        return f"above {high}"
    if high is None:
        return f"below {low}"
    return f"outside {low} to {high}"


def some(names: Iterable[str]) -> str:
    """The first few."""
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def rows_that(failing: int, rows: int) -> str:
    return f"{failing:,} of {rows:,} rows"


def with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def age(seconds: int) -> str:
    """The two greatest units: `2d 3h`."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0")) or "0s"
