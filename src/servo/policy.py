"""What happens around an asset's run: retries, gates, freshness, resources."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from servo.contract import manifest as wire
from servo.contract.manifest import Gating, Resources, Retention
from servo.cron import check_cron
from servo.duration import Duration, seconds
from servo.errors import Invalid
from servo.source import misdeclared

__all__ = ["Freshness", "Gating", "Resources", "Retention", "Retry"]

ErrorName: TypeAlias = str | type[BaseException]


class Retry(Struct, frozen=True, kw_only=True):
    """How often, and when, a failed attempt is made again.

    `delay` comes before the second attempt, and doubles up to `max_delay`.
    Transient, infrastructure and timeout failures are retried; `retry_on` adds
    categories or exception classes, `never_on` removes them.
    """

    max_attempts: int = 3
    delay: Duration = "1m"
    max_delay: Duration = "1h"
    retry_on: tuple[ErrorName, ...] = ()
    never_on: tuple[ErrorName, ...] = ()

    def __post_init__(self) -> None:
        try:
            policy = self.wire()
        except Invalid as error:
            misdeclared(f"Retry: {error.message}", hint=error.hint)
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            misdeclared(f"Retry: max_attempts={self.max_attempts!r} is not a number from 1")
        if policy.delay_s > policy.max_delay_s:
            misdeclared(f"Retry: the delay {self.delay!r} exceeds max_delay {self.max_delay!r}")

    def wire(self) -> wire.RetrySpec:
        return wire.RetrySpec(
            max_attempts=self.max_attempts,
            delay_s=seconds(self.delay, "delay"),
            max_delay_s=seconds(self.max_delay, "max_delay"),
            retry_on=tuple(_error_name(each) for each in self.retry_on),
            never_on=tuple(_error_name(each) for each in self.never_on),
        )


class Freshness(Struct, frozen=True, kw_only=True):
    """An asset is stale when its newest data is older than `max_age`.

    With `cron`, that is asked at those times only: "by six in the morning".
    """

    max_age: Duration
    cron: str = ""

    def __post_init__(self) -> None:
        try:
            self.wire()
        except Invalid as error:
            misdeclared(f"Freshness: {error.message}", hint=error.hint)

    def wire(self) -> wire.FreshnessSpec:
        cron = check_cron(self.cron) if self.cron else ""
        return wire.FreshnessSpec(max_age_s=seconds(self.max_age, "max_age"), cron=cron)


def _error_name(error: ErrorName) -> str:
    return error if isinstance(error, str) else error.__name__
