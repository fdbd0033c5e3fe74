"""Assets: a function or a query that computes data, with its settings.

    NAMESPACE = "sales"

    @asset(partitions=daily("date", start="2025-01-01"), checks=[row_count(min=1)])
    def totals(orders: AssetIn) -> pa.Table:
        ...

An asset's key is `namespace.name`. The name is the function's; the namespace is `namespace=`, or
else the module's variable `NAMESPACE`. `servo.validate` checks all declarations and reports all
problems at once. Only unknown arguments and values that are not accepted are refused here, with
file and line. Short forms (`retry=3`, `gating="quarantine"`) become what they stand for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from servo.check import CheckDefinition
from servo.context import AssetIn
from servo.contract import manifest as wire
from servo.contract.config_values import ConfigValue, to_wire
from servo.contract.manifest import (
    SOURCE_CHARS,
    AutomationSpec,
    Check,
    Code,
    ColumnDef,
    Compatibility,
    CompatibilityMode,
    Extra,
    Gating,
    PersonalDataPolicy,
    Preset,
    Resources,
    Retention,
)
from servo.duration import Duration
from servo.errors import Invalid
from servo.mapping import MAPPINGS, ByDimension, PartitionMapping
from servo.partition import Partitions
from servo.policy import SLA, Freshness, Retry, compatibility_of, gating_of, retry_of
from servo.reach import own_part, reached_source
from servo.registry import register
from servo.signature import Signature, read_signature
from servo.source import (
    caller,
    code_of,
    code_of_caller,
    expect,
    expect_each,
    expect_one_of,
    misdeclared,
)
from servo.suggest import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


class CommonSettings(TypedDict, total=False):
    """What `asset` and `sql_asset` take."""

    namespace: str
    """Default: NAMESPACE of the module."""
    description: str
    """Default: the docstring of the function."""
    partitions: Partitions
    """`daily(…)`, `static(…)`, or several of them joined with `*`. Default: one partition."""
    owners: Sequence[str]
    """People or teams; e-mail addresses get notifications to owners."""
    tags: Mapping[str, str]
    group: str
    """A name for `group:NAME` in selections."""
    checks: Sequence[Check | CheckDefinition]
    """Evaluated on the output (or on inputs) before the output becomes current."""
    gating: Gating | Preset
    """A preset ("strict", the default, "lenient" or "quarantine"), or `Gating(...)`."""
    retry: Retry | int
    """The maximum number of attempts (default: 3), or `Retry(...)`."""
    timeout: Duration
    """Seconds, a timedelta, or text such as "30 min" or "1h30m"."""
    freshness: Freshness
    """How old the data may become."""
    automation: AutomationSpec
    """When its partitions run without a request: `eager()`, `on_missing()`, `on_cron(…)`."""
    io: Mapping[str, str]
    """How the output is written: `{"compression": "zstd", "target_file_size": "256MiB"}`."""
    resources: Resources
    """Slots, memory, priority and pool."""
    secrets: Mapping[str, str]
    """By name, a reference: `env:NAME`, `file:/path`, `vault:MOUNT/path#field`, … Read with
    `ctx.secret(name)`."""
    columns: Sequence[ColumnDef]
    """The columns of the output, as `column(...)`. The output is compared with them: a missing
    column, another type, or a null where `nullable=False` fails the check `columns`."""
    extra: Extra
    """For undeclared columns: "allow" (default), "warn", or "refuse"."""
    personal_data: PersonalDataPolicy
    """For personal data that flows into a column that nobody has classified: "allow" (default),
    "warn", or "refuse", which quarantines the output."""
    compatibility: Compatibility | CompatibilityMode
    """Which changes of the schema are allowed: "backward" (default), "forward", "full", "none",
    or `Compatibility(mode="full", transitive=True, policy="consumers")`."""
    retention: Retention
    """Which older versions of a partition `servo gc` keeps. Default: all."""
    deps: Sequence[Dependency]
    """Assets that must be good before this one runs, without their data being passed."""
    config: Mapping[str, ConfigValue]
    """Values that a run may replace (`--config name=value`), by name; read with `ctx.config`.
    A version with another value is out of date."""
    renamed_from: str
    """The former key of this asset; its id and history stay."""
    sla: SLA
    """What the owners promise to readers."""
    terms: Sequence[str]
    """Terms of the glossary (`servo catalog terms`)."""
    links: Mapping[str, str]
    """URLs by name: a dashboard, a runbook."""
    deprecated: str
    """The replacement or the reason. Projects that read it get a warning at validate and deploy."""


class AssetSettings(CommonSettings, total=False):
    name: str
    """Default: the name of the function."""
    ins: Mapping[str, Dependency]
    """For each parameter the asset that it reads: `In("raw.orders", window(-6, 0))`, a key, or an
    asset. Any other parameter annotated with `AssetIn` reads the asset of the same name."""


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(
        ("name", "namespace", "description", "group", "renamed_from", "deprecated"), (str,)
    ),
    **dict.fromkeys(("tags", "links", "io", "secrets", "config", "ins"), (Mapping,)),
    "partitions": (Partitions,),
    "freshness": (Freshness,),
    "automation": (AutomationSpec,),
    "resources": (Resources,),
    "retention": (Retention,),
    "sla": (SLA,),
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "partitions": 'write daily("date", start="2025-01-01"), or another kind of partitions',
    "freshness": 'write Freshness(max_age="1h")',
    "automation": 'write eager(), on_missing(), or on_cron("0 6 * * *")',
    "resources": "write Resources(cpu=2)",
    "retention": "write Retention(versions=3)",
    "tags": 'write {"tier": "gold"}',
    "links": 'write {"runbook": "https://…"}',
    "sla": 'write SLA(max_age="26h")',
    "deprecated": 'write what to use instead: "use sales.orders_v2"',
    "io": 'write {"compression": "zstd"}',
    "secrets": 'write {"token": "env:TOKEN"}',
    "config": 'write {"limit": 10}',
    "ins": 'write {"orders": In("raw.orders")}',
}


class Declaration:
    """What all assets have in common. `code` is the place of the declaration; its file is the path
    that Python uses."""

    kind: Literal["python", "sql"]

    def __init__(self, settings: AssetSettings, code: Code, module: Mapping[str, Any]) -> None:
        self.settings: Final = _canonical(settings)
        self.code: Final = code
        self._module: Final = module
        register(self)

    @property
    def name(self) -> str:
        return self.settings.get("name") or self.code.name

    @property
    def namespace(self) -> str:
        """Empty if neither the settings nor the module give one."""
        return self.settings.get("namespace") or str(self._module.get("NAMESPACE", ""))

    @property
    def key(self) -> str:
        return f"{self.namespace}.{self.name}"

    def __repr__(self) -> str:
        return f"<asset {self.key}>"


class AssetDefinition(Declaration, Generic[P, R]):
    """A function as an asset. Calling it calls the function, so that tests can call it."""

    kind = "python"
    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], settings: AssetSettings) -> None:
        if not inspect.isfunction(function):
            misdeclared(f"@asset over {function!r}, which is not a function")
        functools.update_wrapper(self, function)
        module = inspect.unwrap(function).__globals__
        super().__init__(settings, code_of(function), module)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    @functools.cached_property
    def signature(self) -> Signature:
        """Which parameters are inputs, and which is the context."""
        ins = {name: as_input(each) for name, each in self.settings.get("ins", {}).items()}
        return read_signature(self.__wrapped__, ins)

    @functools.cached_property
    def source(self) -> str:
        """The code that `servo.reach` finds. It is read from the files at the first call."""
        return reached_source(self.__wrapped__)

    @property
    def text(self) -> str:
        """The text of its function, to be shown; empty if it cannot be read."""
        with suppress(Invalid):
            return own_part(self.source)[:SOURCE_CHARS]
        return ""


class SqlAssetDefinition(Declaration):
    """A Spark SQL query as an asset."""

    kind = "sql"
    text = ""

    def __init__(
        self, name: str, sql: str, inputs: Mapping[str, PartitionMapping], settings: CommonSettings
    ) -> None:
        named = cast(AssetSettings, {"name": name, **settings})
        super().__init__(named, code_of_caller(name), caller().f_globals)
        self.sql: Final = sql
        self.mappings: Final = inputs


AnyAsset: TypeAlias = AssetDefinition[Any, Any] | SqlAssetDefinition
Dependency: TypeAlias = str | AssetIn | Declaration


def as_input(dependency: Dependency) -> AssetIn:
    if isinstance(dependency, Declaration):
        return AssetIn(dependency.key)
    return dependency if isinstance(dependency, AssetIn) else AssetIn(dependency)


_ITEMS: Final[Mapping[str, tuple[type, ...]]] = {
    "owners": (str,),
    "terms": (str,),
    "checks": (Check, CheckDefinition),
    "columns": (ColumnDef,),
    "deps": (str, AssetIn, Declaration),
}
_TEXTS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("tags", "links", "io"), (str,)),
    "ins": (str, AssetIn, Declaration),
}
"""Settings that are mappings, with the type of what they hold by name."""


@overload
def asset(function: Callable[P, R], /) -> AssetDefinition[P, R]: ...


@overload
def asset(
    **settings: Unpack[AssetSettings],
) -> Callable[[Callable[P, R]], AssetDefinition[P, R]]: ...


def asset(function: Callable[..., Any] | None = None, /, **settings: Unpack[AssetSettings]) -> Any:
    """Declare that a function computes an asset: `@asset` or `@asset(...)`.

    An asset is computed again when its code or its `config` changes. Its code is the function's
    text and decorators, and everything in the project that these refer to by name, directly or
    indirectly: functions, classes, constants, and modules that are imported inside a function.
    Libraries, the standard library and `servo` count only by name, other assets by their key, and
    any other object by its type, not by its state. Put a value of an object, a file, or the version
    of a library into `config` if it changes the result. The arguments of `asset`, other code of the
    same module, and line numbers do not count. `servo.reach` has the details.
    """
    if function is not None:
        return AssetDefinition(function, {})
    return functools.partial(AssetDefinition, settings=settings)


def sql_asset(
    name: str,
    sql: str,
    *,
    inputs: Mapping[str, PartitionMapping] | None = None,
    **settings: Unpack[CommonSettings],
) -> SqlAssetDefinition:
    """Declare a query as an asset: `SELECT … FROM {{ ref("sales.orders") }}`.

    Every `ref` is an input, mapped by `identity` unless `inputs` says otherwise for
    its key.
    """
    expect(name, str, "name")
    expect(sql, str, "sql")
    for ref, mapping in (inputs or {}).items():
        expect(mapping, (*get_args(wire.Mapping), ByDimension), f"inputs: {ref}", hint=MAPPINGS)
    return SqlAssetDefinition(name, sql, inputs or {}, settings)


def column(
    name: str,
    type: str = "",
    *,
    description: str = "",
    nullable: bool = True,
    pii: str = "",
    sensitivity: str = "",
    lineage: Sequence[str] = (),
    terms: Sequence[str] = (),
    renamed_from: str = "",
) -> ColumnDef:
    """A column of the output. `lineage` (`namespace.asset.column`) takes precedence over plans.

    `terms` are those of the glossary (`servo catalog terms`). `renamed_from` is the name that the
    column had: its id, history and lineage stay.
    """
    expect(name, str, "the column")
    expect(type, str, "type")
    texts = {
        "description": description,
        "pii": pii,
        "sensitivity": sensitivity,
        "renamed_from": renamed_from,
    }
    for what, text in texts.items():
        expect(text, str, f"column({name!r}): {what}")
    expect(nullable, bool, f"column({name!r}): nullable")
    expect_each(lineage, str, "lineage")
    expect_each(terms, str, "terms")
    return ColumnDef(
        name=name,
        type=type,
        description=description,
        nullable=nullable,
        pii=pii,
        sensitivity=sensitivity,
        lineage=tuple(lineage),
        terms=tuple(dict.fromkeys(terms)),
        renamed_from=renamed_from,
    )


def _canonical(settings: AssetSettings) -> AssetSettings:
    """The settings in canonical form. Raises Misdeclared for a value that has none."""
    for name, value in settings.items():
        _check_setting(name, value)
    canonical = settings.copy()
    if "gating" in settings:
        canonical["gating"] = gating_of(settings["gating"])
    if "compatibility" in settings:
        canonical["compatibility"] = compatibility_of(settings["compatibility"])
    if "retry" in settings:
        canonical["retry"] = retry_of(settings["retry"])
    if "config" in settings:
        canonical["config"] = _config(settings["config"])
    return canonical


def _check_setting(name: str, value: object) -> None:
    if name not in AssetSettings.__annotations__:
        misdeclared(
            f"unknown argument {name!r}", hint=did_you_mean(name, AssetSettings.__annotations__)
        )
    if name in _ITEMS:
        expect_each(value, _ITEMS[name], name)
    elif name in _TYPES:
        expect(value, _TYPES[name], name, hint=_EXAMPLES.get(name, ""))
    elif name == "extra":
        expect_one_of(value, get_args(Extra), "extra")
    elif name == "personal_data":
        expect_one_of(value, get_args(PersonalDataPolicy), "personal_data")
    if name == "deprecated" and not str(value).strip():
        misdeclared("deprecated is empty", hint=_EXAMPLES["deprecated"])
    if name in _TEXTS:
        for key, item in cast(Mapping[object, object], value).items():
            expect(key, str, f"a key of {name}")
            expect(item, _TEXTS[name], f"{name}[{key!r}]", hint=f"write {str(item)!r}")


def _config(values: Mapping[str, ConfigValue]) -> Mapping[str, ConfigValue]:
    try:
        return {name: to_wire(value, f"config[{name!r}]") for name, value in values.items()}
    except Invalid as error:
        misdeclared(error.message, hint=error.hint)
