from __future__ import annotations

from collections.abc import Iterator, Sequence

from servo.contract.manifest import Asset, FreshnessSpec, TimeDimension
from servo.cron import check_cron
from servo.errors import Invalid
from servo.project import Problem
from servo.rules.partitions import check_timezone

LONGEST_S = 10 * 366 * 24 * 3600


def freshness_is_sound(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        if asset.freshness is None:
            continue
        try:
            _check(asset, asset.freshness)
        except Invalid as error:
            yield Problem.at(asset.code, f"freshness: {error.message}", error.hint, asset.key)


def _check(asset: Asset, freshness: FreshnessSpec) -> None:
    if freshness.cron:
        check_cron(freshness.cron)
    check_timezone(freshness.timezone)
    if freshness.max_age_s > LONGEST_S:
        raise Invalid("max_age is longer than ten years", hint="give a shorter one")
    times = [each.name for each in asset.partitions if isinstance(each, TimeDimension)]
    if len(times) > 1:
        raise Invalid(
            f"{asset.key} has several time dimensions ({', '.join(times)}): it is not clear which "
            "period is due",
            hint="use freshness on assets with one time dimension, or none",
        )
