"""Sensors: functions that observe something outside and request runs.

    @sensor(interval="5m", selection=["sales.orders"])
    def new_orders(ctx: SensorContext) -> SensorResult: ...

    landing = file_sensor("landing", "s3://bucket/landing", selection=["raw.events"])
    pushed = webhook_sensor("pushed", selection=["raw.events"])
    daily = asset_sensor("daily", "sales.orders", selection=["reports.daily"])

The last three may also decorate a function, which then decides what runs. A function is called with
the cursor that it returned last. Cursor, requests and keys of a result are accepted together or not
at all.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from servo.asset import Declaration
from servo.contract.identity import transform_fingerprint
from servo.contract.manifest import Code, SensorKind
from servo.duration import Duration
from servo.reach import reached_source
from servo.registry import register
from servo.source import code_of, code_of_caller, expect, expect_each, misdeclared


class SensorFile(NamedTuple):
    """An object that is new, or has changed."""

    path: str
    """Relative to the sensor's URL."""
    size: int
    modified: datetime
    """By the store's clock: UTC, without a zone."""
    url: str = ""


class AssetVersion(NamedTuple):
    """A version of an asset that has become the current one of its partition."""

    asset: str
    partition: str
    """The partition's key; empty for an asset without partitions."""
    materialization_id: str
    version: int
    """1, 2, 3 … of its partition."""
    rows: int = 0


@dataclass(frozen=True)
class SensorContext:
    cursor: str
    """The cursor of the last accepted result; empty at first."""
    log: logging.Logger
    payload: str = ""
    """Of a webhook sensor: what was pushed."""
    message_id: str = ""
    files: tuple[SensorFile, ...] = ()
    """Of a file sensor: what is new or has changed, the oldest first."""
    versions: tuple[AssetVersion, ...] = ()
    """Of an asset sensor: the new versions, in the order of the log."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def json(self) -> Any:
        """The payload, read as JSON."""
        return json.loads(self.payload)

    def secret(self, name: str) -> str:
        """A secret that the sensor declares."""
        return self.secrets[name]


@dataclass(frozen=True)
class RunRequest:
    key: str
    """A sensor starts one run for a key, however often it requests it."""
    partitions: str | Sequence[str] = ""
    """One or several ranges, as for `-p`."""
    config: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    """Overrides configuration values of assets, like `--config`."""
    force: bool = True
    """Run also partitions that are up to date: fingerprints do not include what a sensor saw."""


@dataclass(frozen=True)
class SensorResult:
    cursor: str | None = None
    """Where to continue; None keeps the cursor. File and asset sensors set their own."""
    runs: Sequence[RunRequest] = ()
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values to add to sets of dynamic partitions."""
    skip_reason: str = ""
    """Why no run is requested."""
    more: bool = False
    """Whether to call the function again at once."""


SensorFunction: TypeAlias = Callable[[SensorContext], SensorResult]


class SensorDefinition:
    """A sensor. One that decorates a function is called like that function."""

    __wrapped__: SensorFunction
    __name__: str

    def __init__(
        self,
        kind: SensorKind,
        name: str,
        selection: Sequence[str | Declaration],
        *,
        interval: Duration = "1m",
        timeout: Duration = "1m",
        secrets: Mapping[str, str] | None = None,
        url: str = "",
        pattern: str = "",
        existing: bool = False,
        asset: str = "",
        workspace: str = "",
        secret: str = "",
        function: SensorFunction | None = None,
    ) -> None:
        expect(name, str, "name")
        expect_each(selection, (str, Declaration), "selection")
        expect(secrets or {}, dict, "secrets")
        self.kind: Final = kind
        self.interval: Final = interval
        self.timeout: Final = timeout
        self.selection: Final = tuple(selection)
        self.secrets: Final = dict(secrets or {})
        self.url: Final = url
        self.pattern: Final = pattern
        self.existing: Final = existing
        self.asset: Final = asset
        self.workspace: Final = workspace
        self.secret: Final = secret
        self.function: SensorFunction | None = None
        self.name = name
        self.code: Code = code_of_caller(name)
        if function is not None:
            self._wrap(function)
        register(self)

    @property
    def key(self) -> str:
        return self.name

    @functools.cached_property
    def source(self) -> str:
        """The function's code; empty without one."""
        return "" if self.function is None else reached_source(self.function)

    def transform(self) -> str:
        """Fingerprint of the function's code; empty without one."""
        return transform_fingerprint("python", self.source) if self.source else ""

    def _wrap(self, function: SensorFunction) -> None:
        if not inspect.isfunction(function):
            misdeclared(f"a sensor over {function!r}, which is not a function")
        functools.update_wrapper(self, function)
        self.function = function
        self.name = self.name or function.__name__
        self.code = code_of(function)

    def __call__(self, given: Any) -> Any:
        if self.function is not None:
            return self.function(given)
        self._wrap(given)
        return self


def sensor(
    name: str = "",
    *,
    selection: Sequence[str | Declaration],
    interval: Duration = "1m",
    timeout: Duration = "1m",
    secrets: Mapping[str, str] | None = None,
) -> Callable[[SensorFunction], SensorDefinition]:
    """Declare that a function decides when the selection runs.

    It is called every `interval`, in a process of a worker, which is killed after `timeout`.
    The default `name` is that of the function. `secrets` are references, as for `@asset`.
    """

    def decorate(function: SensorFunction) -> SensorDefinition:
        return SensorDefinition(
            "polling",
            name,
            selection,
            interval=interval,
            timeout=timeout,
            secrets=secrets,
            function=function,
        )

    return decorate


def webhook_sensor(
    name: str,
    *,
    selection: Sequence[str | Declaration],
    timeout: Duration = "1m",
    secrets: Mapping[str, str] | None = None,
    secret: str = "",
) -> SensorDefinition:
    """Run the selection for each message that is pushed; a repeated message id changes nothing.

    `secret` is the reference of the secret that signs messages over HTTP, such as
    `env:WEBHOOK_TILL`; `servo serve` resolves it. Without one, messages need an API key.

    A function gets the `payload` of each message, in order of arrival, and decides what runs.
    """
    expect(secret, str, "secret")
    return SensorDefinition(
        "webhook", name, selection, timeout=timeout, secrets=secrets, secret=secret
    )


def file_sensor(
    name: str,
    url: str,
    *,
    selection: Sequence[str | Declaration],
    pattern: str = "",
    existing: bool = False,
    interval: Duration = "1m",
    timeout: Duration = "1m",
    secrets: Mapping[str, str] | None = None,
) -> SensorDefinition:
    """Run the selection when objects under `url` are new or have changed.

    `url` is a folder of an object store: `s3://`, `gs://`, `az://`, or a path. `pattern` filters
    paths below it, such as `*.csv`. Objects that exist at first count only with `existing`.

    Without a function, there is one run for everything that an evaluation finds. A function gets
    the `files`, and decides what runs.
    """
    expect(url, str, "url")
    expect(pattern, str, "pattern")
    return SensorDefinition(
        "files",
        name,
        selection,
        interval=interval,
        timeout=timeout,
        secrets=secrets,
        url=url,
        pattern=pattern,
        existing=existing,
    )


def asset_sensor(
    name: str,
    asset: str | Declaration,
    *,
    selection: Sequence[str | Declaration],
    workspace: str = "",
    interval: Duration = "1m",
    timeout: Duration = "1m",
    secrets: Mapping[str, str] | None = None,
) -> SensorDefinition:
    """Run the selection when an asset has new versions, from the sensor's first evaluation on.

    `workspace` names another workspace of the same tenant, in the same store. Without a function,
    there is one run for all new versions. A function gets the `versions`, and decides what runs.
    """
    expect(asset, (str, Declaration), "asset")
    expect(workspace, str, "workspace")
    return SensorDefinition(
        "asset",
        name,
        selection,
        interval=interval,
        timeout=timeout,
        secrets=secrets,
        asset=asset if isinstance(asset, str) else asset.key,
        workspace=workspace,
    )
