"""The manifest: what a project declares, as data.

`servo.discover` makes it from Python modules; a deployment stores it, and the
planner reads nothing else. Everything here has a canonical JSON, so there are no
floats (numbers of checks are decimal text) and durations are whole seconds.
Fields are only ever added, with defaults.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from servo.contract import canonical
from servo.errors import Invalid

FORMAT: Final = 1
MAX_ASSETS: Final = 10_000

Every = Literal["hour", "day", "week", "month"]
Severity = Literal["info", "warning", "error", "critical"]
Phase = Literal["before", "after"]
Action = Literal["continue", "warn", "quarantine", "block", "fail_task", "fail_run"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
"""What follows from a failed check, from nothing to the worst."""
Preset = Literal["strict", "lenient", "quarantine"]
Category = Literal[
    "transient", "infrastructure", "user_code", "input", "configuration", "timeout", "cancelled"
]
RETRIABLE: Final[tuple[Category, ...]] = ("transient", "infrastructure", "timeout")
"""What is tried again unless a policy says otherwise."""


# -- partitions ---------------------------------------------------------------------------


class TimeDimension(Struct, frozen=True, kw_only=True, tag="time", omit_defaults=True):
    """A partition for each hour, day, week or month.

    `start` (inclusive) and `end` (exclusive) are ISO dates, or date-times for hours,
    in `timezone`. Days, weeks (named by their Monday) and months (by their first day)
    have date keys; hours have timestamp keys, in UTC.
    """

    name: str
    every: Every
    start: str
    end: str | None = None
    timezone: str = "UTC"


class StaticDimension(Struct, frozen=True, kw_only=True, tag="static", omit_defaults=True):
    name: str
    values: tuple[str, ...]


class DynamicDimension(Struct, frozen=True, kw_only=True, tag="dynamic", omit_defaults=True):
    """Keys are added while the system runs, to the set called `keys`."""

    name: str
    keys: str


class TenantDimension(Struct, frozen=True, kw_only=True, tag="tenant", omit_defaults=True):
    """One partition for each tenant; the scheduler is fair between its values."""

    name: str
    values: tuple[str, ...]


Dimension: TypeAlias = TimeDimension | StaticDimension | DynamicDimension | TenantDimension


# -- how a partition finds its input's partitions -----------------------------------------


class Identity(Struct, frozen=True, tag="identity"):
    """The same value."""


class Window(Struct, frozen=True, tag="window"):
    """From `start` to `end` periods away, both included: (-6, 0) is the last seven."""

    start: int
    end: int


class AllUpstream(Struct, frozen=True, tag="all"):
    """Every partition there is."""


class Latest(Struct, frozen=True, tag="latest"):
    """The greatest one that has been materialized, or is in the same plan."""


Mapping: TypeAlias = Identity | Window | AllUpstream | Latest


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True):
    asset: str
    """The key of the asset that is read."""
    parameter: str = ""
    """The function's parameter; empty for a dependency without data (`deps=`)."""
    mapping: Mapping = Identity()
    """For every dimension that `dimensions` does not name."""
    dimensions: dict[str, Mapping] = {}
    """By the upstream's dimension."""


# -- policies -----------------------------------------------------------------------------


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    max_attempts: int = 3
    delay_s: int = 60
    """Before the second attempt; doubled for each one after it."""
    max_delay_s: int = 3600
    retry_on: tuple[str, ...] = ()
    """Categories, or names of exception classes, to retry besides RETRIABLE."""
    never_on: tuple[str, ...] = ()


PRESETS: Final[dict[Preset, dict[Severity, Action]]] = {
    "strict": {"info": "continue", "warning": "warn", "error": "block", "critical": "fail_run"},
    "lenient": {"info": "continue", "warning": "continue", "error": "warn", "critical": "block"},
    "quarantine": {
        "info": "continue",
        "warning": "continue",
        "error": "quarantine",
        "critical": "quarantine",
    },
}


class Gating(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What follows from a failed check, by its severity: a preset, and exceptions from it."""

    preset: Preset = "strict"
    info: Action | None = None
    warning: Action | None = None
    error: Action | None = None
    critical: Action | None = None

    def action(self, severity: Severity) -> Action:
        exceptions: dict[Severity, Action | None] = {
            "info": self.info,
            "warning": self.warning,
            "error": self.error,
            "critical": self.critical,
        }
        return exceptions[severity] or PRESETS[self.preset][severity]


class Retention(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which versions of a partition are kept besides the current one; the others go to GC.

    A version is kept as long as one of the two holds. Neither given: all are kept.
    """

    versions: int = 0
    """So many of the newest good ones, the current one included."""
    days: int = 0
    """Those that were current within so many days."""


class Freshness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    max_age_s: int
    cron: str = ""


class Resources(Struct, frozen=True, kw_only=True, omit_defaults=True):
    cpu: int = 1
    memory_mib: int = 0
    """0: no limit."""
    priority: int = 0
    """Greater goes first."""
    pool: str = ""


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: str
    name: str
    columns: tuple[str, ...] = ()
    params: dict[str, str | int | bool | list[str] | None] = {}
    severity: Severity = "error"
    phase: Phase = "after"
    code: Code | None = None
    """Of a Python check."""
    timeout_s: int = 0
    """0: the worker's own limit."""


class ColumnDef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: str = ""
    description: str = ""
    nullable: bool = True
    pii: str = ""
    sensitivity: str = ""
    lineage: tuple[str, ...] = ()
    """`namespace.asset.column` that this comes from, whatever the plan says."""


class Code(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where something was declared. File and line are for people."""

    module: str
    name: str
    file: str = ""
    line: int = 0


class SecretRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret by reference: it is resolved in the worker and nowhere else."""

    provider: str
    path: str

    @classmethod
    def parse(cls, text: str) -> SecretRef:
        """`env:NAME`, `file:/path`, or another provider's `name:path`."""
        provider, colon, path = text.partition(":")
        if not colon or not provider or not path:
            raise Invalid(f"{text!r} is not a secret's reference", hint="write env:NAME")
        return cls(provider=provider, path=path)


# -- assets, schedules, sensors -----------------------------------------------------------


class Asset(Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    kind: Literal["python", "sql"] = "python"
    code: Code
    description: str = ""
    group: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    partitions: tuple[Dimension, ...] = ()
    """Sorted by name; empty for an asset without partitions."""
    inputs: tuple[Input, ...] = ()
    checks: tuple[Check, ...] = ()
    gating: Gating = Gating()
    retry: Retry = Retry()
    timeout_s: int = 0
    """0: no limit."""
    freshness: Freshness | None = None
    io: dict[str, str] = {}
    resources: Resources = Resources()
    secrets: dict[str, SecretRef] = {}
    columns: tuple[ColumnDef, ...] = ()
    retention: Retention = Retention()
    engine: Literal["", "spark"] = ""
    """Whether its code seems to need Spark: a worker then starts it early."""
    config: dict[str, str | int | bool | None] = {}
    renamed_from: str = ""
    sql: str = ""
    transform: str = ""
    """Fingerprint of what it does: its source, and its configuration."""


def reference_targets(asset: Asset) -> tuple[str, ...]:
    """The keys of the assets that its checks of kind `references` look values up in."""
    targets = (str(c.params["asset"]) for c in asset.checks if c.kind == "references")
    return tuple(dict.fromkeys(targets))


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    cron: str
    timezone: str = "UTC"
    selection: tuple[str, ...] = ()
    partitions: str = ""
    """A partition range as the command line takes it; empty for the newest complete one."""
    code: Code


class Sensor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    selection: tuple[str, ...] = ()
    interval_s: int = 60
    code: Code


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One deployable version of a project."""

    format: int = FORMAT
    artifact: str = ""
    """SHA-256 of the source zip."""
    assets: tuple[Asset, ...] = ()
    """Sorted by key."""
    schedules: tuple[Schedule, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    root: str = ""
    """What import paths are relative to inside the zip, such as `src`; empty for its top."""

    def asset(self, key: str) -> Asset | None:
        return next((asset for asset in self.assets if asset.key == key), None)


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    return canonical.encode(manifest)


def decode_manifest(data: bytes) -> Manifest:
    try:
        manifest = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"not a manifest: {error}") from None
    if manifest.format != FORMAT:
        raise Invalid(f"manifest format {manifest.format}; this program reads {FORMAT}")
    return manifest
