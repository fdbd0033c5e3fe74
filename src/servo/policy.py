"""What happens around an asset's run: retries, gates, freshness, resources."""

from __future__ import annotations

from typing import TypeAlias, get_args

from msgspec import Struct, structs

from servo.contract import manifest as wire
from servo.contract.manifest import ACTIONS, Gating, Preset, Resources, Retention
from servo.cron import check_cron
from servo.duration import Duration, seconds
from servo.errors import Invalid
from servo.source import expect, expect_one_of, misdeclared

__all__ = ["Freshness", "Gating", "Resources", "Retention", "Retry"]

ErrorName: TypeAlias = str | type[BaseException]


class Retry(Struct, frozen=True, kw_only=True):
    """How often, and when, a failed attempt is made again.

    `max_attempts` counts the first one too; `retry=3` of an asset is `Retry(max_attempts=3)`.
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
        for error in (*self.retry_on, *self.never_on):
            if not isinstance(error, str) and not _is_exception(error):
                hint = 'categories such as "input", or exception classes such as ConnectionError'
                misdeclared(f"Retry: {error!r} is neither a category nor an exception", hint=hint)
        try:
            policy = self.wire()
        except Invalid as error:
            misdeclared(f"Retry: {error.message}", hint=error.hint)
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            message = f"Retry: max_attempts={self.max_attempts!r} is not a number from 1"
            misdeclared(message, hint="the first attempt counts: 1 is never retried")
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
    """An asset is stale once its newest data is `max_age` old.

    Data is as old as its version. With partitions in time, each period has to be there
    `max_age` after it ends. With `cron`, that is asked at those times in `timezone` only:
    "by six in the morning". With `request_run`, a stale asset asks for a run.
    """

    max_age: Duration
    cron: str = ""
    timezone: str = "UTC"
    request_run: bool = False

    def __post_init__(self) -> None:
        try:
            self.wire()
        except Invalid as error:
            misdeclared(f"Freshness: {error.message}", hint=error.hint)

    def wire(self) -> wire.FreshnessSpec:
        expect(self.cron, str, "cron")
        expect(self.timezone, str, "timezone")
        expect(self.request_run, bool, "request_run")
        if self.cron:
            check_cron(self.cron)
        elif self.timezone != "UTC":
            raise Invalid("timezone has no effect without cron", hint="give cron, or leave it out")
        return wire.FreshnessSpec(
            max_age_s=seconds(self.max_age, "max_age"),
            cron=self.cron,
            timezone=self.timezone,
            request_run=self.request_run,
        )


def retry_of(value: Retry | int) -> Retry:
    """`retry=3` is three attempts in all."""
    if isinstance(value, Retry):
        return value
    hint = 'the number of attempts, or Retry(max_attempts=3, delay="1m")'
    expect(value, int, "retry", hint=hint)
    if value is True or value < 1:
        misdeclared(
            f"retry is {value!r}, not a number of attempts", hint="1 is never retried, 3 twice"
        )
    return Retry(max_attempts=value)


def gating_of(value: Gating | Preset) -> Gating:
    """`gating="quarantine"` is the preset."""
    presets = get_args(Preset)
    if isinstance(value, str):
        expect_one_of(value, presets, "gating")
        return Gating(preset=value)
    names = ", ".join(f'"{each}"' for each in presets)
    expect(value, Gating, "gating", hint=f'{names}, or Gating(preset="quarantine", …)')
    expect_one_of(value.preset, presets, "Gating: preset")
    for severity, action in structs.asdict(value).items():
        if severity != "preset" and action is not None:
            expect_one_of(action, ACTIONS, f"Gating: {severity}")
    return value


def _is_exception(error: object) -> bool:
    return isinstance(error, type) and issubclass(error, BaseException)


def _error_name(error: ErrorName) -> str:
    return error if isinstance(error, str) else error.__name__
