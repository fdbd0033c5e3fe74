from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Final, get_args

from servo.contract.keys import AssetKey, check_name
from servo.contract.manifest import Asset, Catchup, Overlap, Schedule, Sensor
from servo.cron import check_cron
from servo.errors import Invalid
from servo.project import Problem
from servo.rules.partitions import check_timezone
from servo.suggest import did_you_mean

MIN_INTERVAL_S: Final = 5
MAX_TIMEOUT_S: Final = 3_600
_SCHEMES: Final = ("file", "s3", "gs", "az")
_WORKSPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_COMMON = re.compile(r"(?:[0-9]*\+)?(tag:[^+]+|group:[^+]+|[^+*]+\.\*)(?:\+[0-9]*)?")
_TERM = re.compile(r"(?:[0-9]*\+)?([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)(?:\+[0-9]*)?")


def schedules_are_sound(
    schedules: Sequence[Schedule], assets: Sequence[Asset]
) -> Iterator[Problem]:
    yield from _common(schedules, assets)
    for schedule in schedules:
        yield from _refused(schedule, partial(check_cron, schedule.cron))
        yield from _refused(schedule, partial(check_timezone, schedule.timezone))
        for name, value, allowed in (
            ("catchup", schedule.catchup, get_args(Catchup)),
            ("overlap", schedule.overlap, get_args(Overlap)),
        ):
            if value not in allowed:
                message = f"{schedule.name!r} has {name}={value!r}"
                yield Problem.at(schedule.code, message, f"use one of {', '.join(allowed)}")
        if schedule.catchup_limit < 0:
            message = f"{schedule.name!r} has catchup_limit={schedule.catchup_limit}"
            yield Problem.at(schedule.code, message, "give a number of ticks, or 0 for 100")


def automation_is_sound(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        automation = asset.automation
        if automation is None:
            continue
        if automation.cron:
            yield from _refused(asset, partial(check_cron, automation.cron))
            yield from _refused(asset, partial(check_timezone, automation.timezone))
        if automation.kind != "on_missing" and not any(each.parameter for each in asset.inputs):
            name = f"{automation.kind}(…)" if automation.cron else f"{automation.kind}()"
            message = f"{asset.key} has automation={name} and has no inputs: it would never run"
            hint = "give it an input, or use on_missing() or a schedule"
            yield Problem.at(asset.code, message, hint, asset.key)


def sensors_are_sound(sensors: Sequence[Sensor], assets: Sequence[Asset]) -> Iterator[Problem]:
    yield from _common(sensors, assets)
    keys = {asset.key for asset in assets}
    for sensor in sensors:
        yield from _durations(sensor)
        if sensor.kind == "files":
            yield from _refused(sensor, partial(_check_url, sensor))
        if sensor.kind == "asset":
            yield from _refused(sensor, partial(AssetKey.parse, sensor.asset))
            if not sensor.workspace and sensor.asset not in keys:
                yield from _other_project(sensor, keys)
            if sensor.workspace and _WORKSPACE.fullmatch(sensor.workspace) is None:
                message = f"{sensor.name!r} names the workspace {sensor.workspace!r}"
                hint = "up to 63 of a-z, 0-9, '-' and '_': a workspace of the same tenant"
                yield Problem.at(sensor.code, message, hint)


def _durations(sensor: Sensor) -> Iterator[Problem]:
    if sensor.interval_s < MIN_INTERVAL_S:
        message = f"{sensor.name!r} has an interval of {sensor.interval_s} s"
        hint = f"at least {MIN_INTERVAL_S} s; use a pushed message for a faster reaction"
        yield Problem.at(sensor.code, message, f"{hint} (webhook_sensor)")
    if sensor.timeout_s > MAX_TIMEOUT_S:
        message = f"{sensor.name!r} has a timeout of {sensor.timeout_s} s"
        hint = f"at most {MAX_TIMEOUT_S} s; process less per evaluation, and return a cursor"
        yield Problem.at(sensor.code, message, hint)


def _check_url(sensor: Sensor) -> None:
    scheme, separator, rest = sensor.url.partition("://")
    if (separator and (scheme not in _SCHEMES or not rest)) or not sensor.url:
        raise Invalid(
            f"{sensor.name!r} watches {sensor.url!r}, which names no folder of a store",
            hint="a path, file:///path, s3://bucket/prefix, gs://… or az://…",
        )
    if not separator and not sensor.url.startswith("/"):
        raise Invalid(
            f"{sensor.name!r} watches the relative path {sensor.url!r}",
            hint="workers run in other folders: give an absolute path, or a URL",
        )


def _other_project(sensor: Sensor, keys: Set[str]) -> Iterator[Problem]:
    """An asset of another project may be watched; one of a namespace of our own must exist."""
    namespace = sensor.asset.partition(".")[0]
    if any(key.startswith(f"{namespace}.") for key in keys):
        message = f"{sensor.name!r} watches the unknown asset {sensor.asset!r}"
        yield Problem.at(sensor.code, message, did_you_mean(sensor.asset, keys))


def _common(
    items: Sequence[Schedule] | Sequence[Sensor], assets: Sequence[Asset]
) -> Iterator[Problem]:
    keys, terms, seen = {asset.key for asset in assets}, _common_terms(assets), set[str]()
    for item in items:
        what = type(item).__name__.lower()
        yield from _refused(item, partial(check_name, item.name, what))
        if item.name in seen:
            yield Problem.at(item.code, f"two {what}s are called {item.name!r}")
        seen.add(item.name)
        if not item.selection:
            message = f"the {what} {item.name!r} selects nothing"
            yield Problem.at(item.code, message, 'write selection=["namespace.name"]')
        yield from _unknown(item, keys, terms)


def _common_terms(assets: Sequence[Asset]) -> set[str]:
    """The terms that select what several assets have in common, and that select something."""
    tags = {(name, value) for asset in assets for name, value in asset.tags.items()}
    terms = {f"tag:{name}" for name, _ in tags} | {f"tag:{name}={value}" for name, value in tags}
    terms |= {f"group:{asset.group}" for asset in assets if asset.group}
    return terms | {f"{asset.key.partition('.')[0]}.*" for asset in assets}


def _unknown(item: Schedule | Sensor, keys: Set[str], terms: Set[str]) -> Iterator[Problem]:
    """Every term of a selection must select something."""
    names = keys | {key.partition(".")[2] for key in keys}
    for term in item.selection:
        common = _COMMON.fullmatch(term)
        if common is not None and common[1] not in terms:
            message = f"{item.name!r} selects {common[1]!r}, which matches no asset of the project"
            yield Problem.at(item.code, message, did_you_mean(common[1], terms))
        match = _TERM.fullmatch(term)
        if match is not None and match[1] not in names:
            message = f"{item.name!r} selects the unknown asset {match[1]!r}"
            yield Problem.at(item.code, message, did_you_mean(match[1], keys))


def _refused(item: Schedule | Sensor | Asset, check: Callable[[], object]) -> Iterator[Problem]:
    try:
        check()
    except Invalid as error:
        key = item.key if isinstance(item, Asset) else ""
        yield Problem.at(item.code, error.message, error.hint, key)
