"""The manifest: what a project declares, as data.

`servo.discover` makes it from Python modules; a deployment stores it, and the planner reads nothing
else. Everything here has a canonical JSON, so there are no floats (numbers of checks are decimal
text, those of configurations are as `servo.contract.config_values` has them) and durations are
whole seconds. Fields are only ever added, with defaults. Structs of assets form no cycles. They can
be many, so the garbage collector does not track them.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from servo.contract import canonical
from servo.contract.config_values import WireValue
from servo.errors import Invalid

FORMAT: Final = 1
MAX_ASSETS: Final = 10_000
SOURCE_CHARS: Final = 4_000
"""Maximum length of the code of an asset that is stored for search."""
DEFAULT_PROJECT: Final = "main"
"""The project of a folder that does not name one."""

Every = Literal["hour", "day", "week", "month"]
GRAINS: Final[tuple[Every, ...]] = get_args(Every)
"""From the finest to the coarsest."""
UNNESTED: Final[frozenset[Every]] = frozenset({"week", "month"})
"""A week may be in two months; all other pairs of grains nest."""
Severity = Literal["info", "warning", "error", "critical"]
Phase = Literal["before", "after"]
Extra = Literal["allow", "warn", "refuse"]
"""What happens with columns of an output that are not declared."""
PersonalDataPolicy = Literal["allow", "warn", "refuse"]
"""What happens with an output that has personal data in a column that is not classified."""
CompatibilityMode = Literal["none", "backward", "forward", "full"]
"""Which changes of a schema are allowed; see the table in `arco.columns.compatibility`."""
CompatibilityPolicy = Literal["all", "consumers"]
"""Whether all columns are protected, or those that another asset reads, by column lineage."""
GateAction = Literal["continue", "warn", "quarantine", "block", "fail_task", "fail_run"]
ACTIONS: Final[tuple[GateAction, ...]] = get_args(GateAction)
"""The actions for a failed check, from the weakest to the strongest."""
HOLDING: Final[GateAction] = "quarantine"
"""With this action and stronger ones, an output does not become current."""
Preset = Literal["strict", "lenient", "quarantine"]
Category = Literal[
    "transient", "infrastructure", "user_code", "input", "configuration", "timeout", "cancelled"
]
RETRIABLE: Final[tuple[Category, ...]] = ("transient", "infrastructure", "timeout")
"""Failures that are retried unless a policy says otherwise."""


# -- partitions ---------------------------------------------------------------------------


class TimeDimension(Struct, frozen=True, kw_only=True, tag="time", omit_defaults=True, gc=False):
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


class StaticDimension(
    Struct, frozen=True, kw_only=True, tag="static", omit_defaults=True, gc=False
):
    name: str
    values: tuple[str, ...]


class DynamicDimension(
    Struct, frozen=True, kw_only=True, tag="dynamic", omit_defaults=True, gc=False
):
    """Keys are added while the system runs, to the set called `keys`."""

    name: str
    keys: str


class TenantDimension(
    Struct, frozen=True, kw_only=True, tag="tenant", omit_defaults=True, gc=False
):
    """One partition for each tenant; the scheduler is fair between its values."""

    name: str
    values: tuple[str, ...]


Dimension: TypeAlias = TimeDimension | StaticDimension | DynamicDimension | TenantDimension


# -- partition mappings ------------------------------------------------------------------


class Identity(Struct, frozen=True, tag="identity", gc=False):
    """The same value."""


class Window(Struct, frozen=True, tag="window", gc=False):
    """Periods from `start` to `end` relative to this one, inclusive: (-6, 0) is the last seven."""

    start: int
    end: int


class AllUpstream(Struct, frozen=True, tag="all", gc=False):
    """All partitions that are materialized, or are in the same plan."""


class Latest(Struct, frozen=True, tag="latest", gc=False):
    """The greatest partition that is materialized, or is in the same plan."""


class TimeWindow(Struct, frozen=True, tag="time_window", omit_defaults=True, gc=False):
    """The periods in this one, or the period that this one is in: days of a month, or its month."""

    dimension: str = ""
    """The downstream's time dimension; empty for that of the same name, or else the only one."""

    def followed(self, name: str, upstream: abc.Sequence[str], own: abc.Sequence[str]) -> str:
        """Which of its `own` time dimensions a downstream means; empty if that is not clear."""
        if self.dimension or name in own:
            return self.dimension or name
        return own[0] if len(own) == len(upstream) == 1 else ""


Mapping: TypeAlias = Identity | Window | AllUpstream | Latest | TimeWindow


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    asset: str
    """The key of the asset that is read."""
    parameter: str = ""
    """The function's parameter; empty for a dependency without data (`deps=`)."""
    mapping: Mapping = Identity()
    """For every dimension that `dimensions` does not name."""
    dimensions: dict[str, Mapping] = {}
    """By the upstream's dimension."""
    version: str = ""
    """The number or the id of the version that is read, in place of the current one."""
    as_of: str = ""
    """A time in UTC: what had been written by then is read."""

    @property
    def is_pinned(self) -> bool:
        """Whether new versions of the asset change nothing."""
        return bool(self.version or self.as_of)

    def mapping_of(self, dimension: str, *, of_time: bool) -> Mapping:
        """A window for the input as a whole is for dimensions of time; others are the same."""
        windows = isinstance(self.mapping, Window | TimeWindow)
        whole = Identity() if windows and not of_time else self.mapping
        return self.dimensions.get(dimension, whole)


# -- policies -----------------------------------------------------------------------------


class RetrySpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    max_attempts: int = 3
    delay_s: int = 60
    """Before the second attempt; doubled for each one after it."""
    max_delay_s: int = 3600
    retry_on: tuple[str, ...] = ()
    """Categories, or names of exception classes, to retry besides RETRIABLE."""
    never_on: tuple[str, ...] = ()


PRESETS: Final[dict[Preset, dict[Severity, GateAction]]] = {
    "strict": {"info": "continue", "warning": "warn", "error": "block", "critical": "fail_run"},
    "lenient": {"info": "continue", "warning": "continue", "error": "warn", "critical": "block"},
    "quarantine": {
        "info": "continue",
        "warning": "continue",
        "error": "quarantine",
        "critical": "quarantine",
    },
}


class Gating(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The action for a failed check, by its severity: a preset, and exceptions from it."""

    preset: Preset = "strict"
    info: GateAction | None = None
    warning: GateAction | None = None
    error: GateAction | None = None
    critical: GateAction | None = None

    def action(self, severity: Severity, *, promised: bool = False) -> GateAction:
        """`promised`: a contract promises it, so the output is held at least."""
        exception: GateAction | None = getattr(self, severity)
        action = exception or PRESETS[self.preset][severity]
        return max(action, HOLDING, key=ACTIONS.index) if promised else action


class Retention(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which versions of a partition are kept besides the current one; gc deletes the others.

    A version is kept as long as one of the two holds. Neither given: all are kept.
    """

    versions: int = 0
    """Number of newest good versions that are kept, including the current one."""
    days: int = 0
    """Versions that were current within this number of days are kept."""


class Compatibility(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which changes of an asset's schema are allowed, in deployments and in outputs."""

    mode: CompatibilityMode = "backward"
    transitive: bool = False
    """Compare with every version that the registry keeps, not only with the last."""
    policy: CompatibilityPolicy = "all"
    """`consumers`: only columns that another asset reads are protected."""


class FreshnessSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """When an asset's data stops being fresh."""

    max_age_s: int
    cron: str = ""
    """Empty: the age counts at any time. Otherwise at these times only, in `timezone`."""
    timezone: str = "UTC"
    request_run: bool = False
    """Whether a stale asset requests a run."""


class SlaSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What an asset's owners promise to its readers."""

    max_age_s: int = 0
    """How old its newest data may be; 0: nothing is promised."""
    cron: str = ""
    """Empty: at any time. Otherwise the age holds at these times, in `timezone`."""
    timezone: str = "UTC"
    availability: str = ""
    """Percent of the time, as decimal text: `99.5`."""
    text: str = ""
    """The rest, in words."""


POOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


AutomationKind = Literal["eager", "on_missing", "on_cron"]


class AutomationSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """When an asset's partitions run without a request (`servo.automation`)."""

    kind: AutomationKind
    cron: str = ""
    """Of `on_cron`, with its time zone."""
    timezone: str = "UTC"


class Resources(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The resources of a worker that a task uses, and its priority."""

    cpu: int = 1
    """Slots of the worker."""
    memory_mib: int = 0
    """Memory of the worker; 0: no limit. A task that uses more fails. Spark's is not counted."""
    priority: int = 0
    """Higher priorities go first."""
    pool: str | None = None
    """The pool that its tasks take a slot of, for as long as they are queued or running."""


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    contract: str = ""
    """The version of the contract that promises it; set where a task is sent."""


class ColumnDef(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    name: str
    type: str = ""
    description: str = ""
    nullable: bool = True
    pii: str = ""
    sensitivity: str = ""
    lineage: tuple[str, ...] = ()
    """`namespace.asset.column` that this comes from, whatever the plan says."""
    terms: tuple[str, ...] = ()
    """Of the glossary."""
    renamed_from: str = ""
    """The name that this column had; its id and history go on."""


class Code(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where something was declared. File and line are for people."""

    module: str
    name: str
    file: str = ""
    line: int = 0


class SecretRef(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A secret by reference: it is resolved in the worker and nowhere else."""

    provider: str
    path: str
    version: str = ""
    """Empty: the newest."""
    field: str = ""
    """Of a secret that is a JSON object. Empty: all of it."""

    def __str__(self) -> str:
        version = f"?version={self.version}" if self.version else ""
        field = f"#{self.field}" if self.field else ""
        return f"{self.provider}:{self.path}{version}{field}"

    @classmethod
    def parse(cls, text: str) -> SecretRef:
        """`env:NAME`, `file:/path`, or a manager's `provider:path?version=…#field`."""
        provider, colon, path = text.partition(":")
        if not colon or not provider or not path:
            raise Invalid(f"{text!r} is not a secret's reference", hint="write env:NAME")
        if provider in PLAIN_PROVIDERS:
            return cls(provider=provider, path=path)
        path, hash, field = path.partition("#")
        path, mark, query = path.partition("?")
        key, _, version = query.partition("=")
        if not path or (hash and not field) or (mark and (key != "version" or not version)):
            raise Invalid(
                f"{text!r} is not a secret's reference",
                hint="write provider:path, provider:path?version=… or provider:path#field",
            )
        return cls(provider=provider, path=path, version=version, field=field)


PLAIN_PROVIDERS: Final = ("env", "file")
"""What follows is a name or a path as it is, whatever characters it has."""
SECRET_PROVIDERS: Final = (
    *PLAIN_PROVIDERS,
    "aws-secrets-manager",
    "azure-key-vault",
    "gcp-secret-manager",
    "vault",
)


def is_secret_reference(text: str) -> bool:
    return text.startswith(tuple(f"{provider}:" for provider in SECRET_PROVIDERS))


# -- assets, schedules, sensors -----------------------------------------------------------


class AssetOutline(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An asset without its columns, which are most of a large manifest."""

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
    retry: RetrySpec = RetrySpec()
    timeout_s: int = 0
    """0: no limit."""
    freshness: FreshnessSpec | None = None
    automation: AutomationSpec | None = None
    io: dict[str, str] = {}
    resources: Resources = Resources()
    secrets: dict[str, SecretRef] = {}
    retention: Retention = Retention()
    extra: Extra = "allow"
    personal_data: PersonalDataPolicy = "allow"
    compatibility: Compatibility = Compatibility()
    engine: Literal["", "spark"] = ""
    """Whether its code seems to need Spark: a worker then starts it early."""
    config: dict[str, WireValue] = {}
    """What is declared: a name, its value, and so its type."""
    config_read: tuple[str, ...] = ()
    """Names that its code reads from the context without declaring them, sorted."""
    renamed_from: str = ""
    sql: str = ""
    transform: str = ""
    """Fingerprint of what it does: its source, and its configuration."""
    sla: SlaSpec | None = None
    terms: tuple[str, ...] = ()
    """Of the glossary."""
    links: dict[str, str] = {}
    """URLs by name."""
    deprecated: str = ""
    """What to use instead, or why; empty if it is not deprecated."""


class Asset(AssetOutline, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    columns: tuple[ColumnDef, ...] = ()
    source: str = ""
    """The text of its function, for people who search; of a long one the first part."""


def reference_targets(asset: Asset) -> tuple[str, ...]:
    """The keys of the assets that its checks of kind `references` look values up in."""
    targets = (str(c.params["asset"]) for c in asset.checks if c.kind == "references")
    return tuple(dict.fromkeys(targets))


def keys_read(asset: Asset) -> tuple[str, ...]:
    """The keys of all assets that it reads, waits for, or looks values up in."""
    return tuple(dict.fromkeys((*(each.asset for each in asset.inputs), *reference_targets(asset))))


Catchup = Literal["none", "latest", "all"]
"""What happens with ticks that were due while no orchestrator ran."""
Overlap = Literal["allow", "skip", "queue"]
"""What happens with a tick while a run of an earlier tick is active."""


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    cron: str
    timezone: str = "UTC"
    selection: tuple[str, ...] = ()
    partitions: str = ""
    """A partition range as the command line takes it; empty for the newest complete one."""
    config: dict[str, str | int | bool | None] = {}
    catchup: Catchup = "latest"
    catchup_limit: int = 0
    """Of `all`: how many ticks are caught up at the most; 0 for the default."""
    overlap: Overlap = "allow"
    refresh_sources: bool = False
    code: Code


SensorKind = Literal["polling", "webhook", "files", "asset"]


class Sensor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    selection: tuple[str, ...] = ()
    interval_s: int = 60
    code: Code
    kind: SensorKind = "polling"
    timeout_s: int = 60
    has_function: bool = True
    transform: str = ""
    """Fingerprint of its function's code."""
    secrets: dict[str, SecretRef] = {}
    url: str = ""
    """Of files: the folder in an object store."""
    pattern: str = ""
    """Of files: what their paths below it must match; empty for all."""
    existing: bool = False
    """Of files: whether those that are there at first count."""
    asset: str = ""
    workspace: str = ""
    """Of an asset: where it is; empty for the same workspace."""
    secret: SecretRef | None = None
    """Of a webhook: what signs messages that come over HTTP. Servers resolve it."""


NotificationEvent = Literal[
    "asset_failed",
    "quarantined",
    "stale",
    "recovered",
    "run_failed",
    "backfill_failed",
    "backfill_finished",
    "automation_failed",
    "cost",
    "contract_breach",
]
"""The events that notifications can report."""
NOTIFICATION_EVENTS: Final[tuple[NotificationEvent, ...]] = get_args(NotificationEvent)
OWNERS: Final = "owners"
"""In the place of a channel: the e-mail addresses of an asset's owners."""
CONSUMERS: Final = "consumers"
"""The same for the consumers of a contract; only for `contract_breach`."""


class Notification(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    on: tuple[NotificationEvent, ...]
    to: tuple[str, ...]
    select: tuple[str, ...] = ()
    """Keys, `namespace.*` and `tag:...`; empty for all assets of the project."""
    interval_s: int = 60
    run_cost: int = 0
    """A run that costs more is reported, in 10⁻⁹ of the currency's unit; 0: none is."""
    day_cost: int = 0
    """Likewise an asset, for all its attempts of one day."""
    code: Code


def selects(term: str, key: str, tags: abc.Mapping[str, str]) -> bool:
    """Whether a term of a notification means an asset with this key and these tags."""
    if term.startswith("tag:"):
        name, equals, value = term.removeprefix("tag:").partition("=")
        return name in tags and (not equals or tags[name] == value)
    if term.endswith(".*"):
        return key.partition(".")[0] == term.removesuffix(".*")
    return term in ("*", key)


class Namespace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What code says of a namespace; owners, tags and SLA are defaults for its assets."""

    name: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    sla: SlaSpec | None = None
    terms: tuple[str, ...] = ()
    links: dict[str, str] = {}
    code: Code


class ContractStatement(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the owner of an asset promises to its readers."""

    name: str
    """The asset's key: an asset has one contract."""
    version: str
    """`1.2.0`: what breaks a consumer needs a higher first number."""
    description: str = ""
    terms: str = ""
    """How the data may be used, in words."""
    owner: str = ""
    """Who promises; empty for the asset's owners."""
    consumers: tuple[str, ...] = ()
    """Keys of assets, e-mail addresses, names of teams."""
    columns: tuple[ColumnDef, ...] = ()
    """Others may be there too."""
    key: tuple[str, ...] = ()
    """Columns that are never null, and of which no two rows have the same values."""
    checks: tuple[Check, ...] = ()
    freshness: FreshnessSpec | None = None
    retention: Retention = Retention()
    """How long versions are kept at least."""


class Contract(ContractStatement, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A contract in the code of a project."""

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
    notifications: tuple[Notification, ...] = ()
    root: str = ""
    """What import paths are relative to inside the zip, such as `src`; empty for its top."""
    project: str = DEFAULT_PROJECT
    namespaces: tuple[Namespace, ...] = ()
    contracts: tuple[Contract, ...] = ()

    def asset(self, key: str) -> Asset | None:
        return next((asset for asset in self.assets if asset.key == key), None)


class _Outline(Manifest, frozen=True, kw_only=True, omit_defaults=True):
    assets: tuple[AssetOutline, ...] = ()  # type: ignore[assignment]


class _Pieces(Struct, frozen=True):
    assets: tuple[msgspec.Raw, ...] = ()


_manifests = msgspec.json.Decoder(Manifest)
_outlines = msgspec.json.Decoder(_Outline)
_pieces = msgspec.json.Decoder(_Pieces)
_assets = msgspec.json.Decoder(Asset)


def encode_manifest(manifest: Manifest) -> bytes:
    return canonical.encode(manifest)


def decode_manifest(data: bytes) -> Manifest:
    manifest: Manifest = _decoded(_manifests, data)
    return manifest


def decode_outline(data: bytes) -> Manifest:
    """The manifest with assets that have no columns: all that plans are made from.

    Of assets with fifty columns it takes a tenth of the time and of the memory.
    """
    outline = _decoded(_outlines, data)
    fields = AssetOutline.__struct_fields__
    assets = tuple(
        [Asset(**{field: getattr(each, field) for field in fields}) for each in outline.assets]
    )
    return Manifest(
        **{f: getattr(outline, f) for f in Manifest.__struct_fields__ if f != "assets"},
        assets=assets,
    )


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    try:
        manifest = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"not a manifest: {error}") from None
    if manifest.format != FORMAT:
        raise Invalid(f"manifest format {manifest.format}; this program reads {FORMAT}")
    return manifest


class AssetsByKey(abc.Mapping[str, Asset]):
    """The assets of an encoded manifest, each decoded when it is asked for."""

    def __init__(self, data: bytes) -> None:
        outline = _decoded(_outlines, data)
        self._pieces: dict[str, msgspec.Raw] = dict(
            zip([each.key for each in outline.assets], _pieces.decode(data).assets, strict=True)
        )
        self._read: dict[str, Asset] = {}

    def __getitem__(self, key: str) -> Asset:
        if key not in self._read:
            self._read[key] = _assets.decode(self._pieces[key])
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)
