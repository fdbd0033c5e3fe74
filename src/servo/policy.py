"""Policies of an asset: retries, gates, freshness, SLA, resources."""

from __future__ import annotations

import re
from typing import Final, TypeAlias, get_args

from msgspec import Struct, structs

from servo.contract import manifest as wire
from servo.contract.manifest import (
    ACTIONS,
    Compatibility,
    CompatibilityMode,
    CompatibilityPolicy,
    Gating,
    Preset,
    Resources,
    Retention,
)
from servo.cron import check_cron
from servo.duration import Duration, seconds
from servo.errors import Invalid
from servo.source import expect, expect_one_of, misdeclared

__all__ = ["SLA", "Compatibility", "Freshness", "Gating", "Resources", "Retention", "Retry"]

_PERCENTAGE: Final = re.compile(r"\d{1,3}(\.\d{1,6})?")
ErrorName: TypeAlias = str | type[BaseException]


class Retry(Struct, frozen=True, kw_only=True):
    """How often, and when, a failed attempt is retried.

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

    Data is as old as its version. With partitions in time, each period is due `max_age`
    after it ends. With `cron`, the age counts at those times in `timezone` only: "by six in the
    morning". With `request_run`, a stale asset requests a run.
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


class SLA(Struct, frozen=True, kw_only=True):
    """What the owners of an asset promise to its readers.

    The newest data is at most `max_age` old; with `cron`, at those times in `timezone`.
    `availability` is a percentage of the time, as text: "99.5". `text` is free text.
    `servo health` and `servo explain` show whether it is kept. Notifications and runs for stale
    data are declared with `Freshness`.
    """

    max_age: Duration | None = None
    cron: str = ""
    timezone: str = "UTC"
    availability: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        try:
            self.wire()
        except Invalid as error:
            misdeclared(f"SLA: {error.message}", hint=error.hint)

    def wire(self) -> wire.SlaSpec:
        return sla_spec(**structs.asdict(self))


def sla_spec(
    max_age: Duration | None = None,
    cron: str = "",
    timezone: str = "UTC",
    availability: str = "",
    text: str = "",
) -> wire.SlaSpec:
    """Raises Invalid for an SLA without a promise, or with an invalid one."""
    texts = {"cron": cron, "timezone": timezone, "availability": availability, "text": text}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise Invalid(f"{name}={value!r} is not text")
    if max_age is None and not availability and not text:
        raise Invalid("it promises nothing", hint='give max_age, as in "26h"')
    if cron and max_age is None:
        raise Invalid("cron has no effect without max_age", hint="give max_age too")
    if cron:
        check_cron(cron)
    elif timezone != "UTC":
        raise Invalid("timezone has no effect without cron", hint="give cron, or leave it out")
    _check_percentage(availability)
    max_age_s = 0 if max_age is None else seconds(max_age, "max_age")
    return wire.SlaSpec(max_age_s=max_age_s, **texts)


def _check_percentage(text: str) -> None:
    if text and not (_PERCENTAGE.fullmatch(text) and 0 < float(text) <= 100):
        raise Invalid(
            f"availability={text!r} is not a percentage", hint='write availability="99.5"'
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


def compatibility_of(value: Compatibility | CompatibilityMode) -> Compatibility:
    """`compatibility="full"` is the mode."""
    modes = get_args(CompatibilityMode)
    if isinstance(value, str):
        expect_one_of(value, modes, "compatibility")
        return Compatibility(mode=value)
    names = ", ".join(f'"{each}"' for each in modes)
    hint = f'{names}, or Compatibility(mode="full", transitive=True)'
    expect(value, Compatibility, "compatibility", hint=hint)
    expect_one_of(value.mode, modes, "Compatibility: mode")
    expect(value.transitive, bool, "Compatibility: transitive")
    expect_one_of(value.policy, get_args(CompatibilityPolicy), "Compatibility: policy")
    return value


def _is_exception(error: object) -> bool:
    return isinstance(error, type) and issubclass(error, BaseException)


def _error_name(error: ErrorName) -> str:
    return error if isinstance(error, str) else error.__name__
