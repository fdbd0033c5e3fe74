"""Definitions as wire data.

Each function returns the data *and* what is wrong with it: a broken part is left
out of the data, so that the rest can still be checked against other assets.
"""

from __future__ import annotations

import inspect
import io
import json
import re
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec

from servo.asset import AnyAsset, SqlAssetDefinition, as_input
from servo.check import CheckDefinition
from servo.context import AssetIn
from servo.contract import canonical
from servo.contract.config_values import WireValue, from_wire
from servo.contract.identity import transform_fingerprint
from servo.contract.manifest import (
    AllUpstream,
    Asset,
    Check,
    Code,
    Dimension,
    Gating,
    Input,
    Notification,
    Resources,
    Schedule,
    SecretRef,
    Sensor,
)
from servo.contract.template import calls
from servo.duration import seconds
from servo.errors import Invalid
from servo.mapping import ByDimension, PartitionMapping, identity
from servo.notify import NotificationDefinition
from servo.policy import Retry
from servo.project import Project
from servo.schedule import ScheduleDefinition, selected
from servo.sensor import SensorDefinition
from servo.signature import Flaw, returns_nothing, takes_one
from servo.suggest import did_you_mean

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_CONFIG = re.compile(r"""\.config(?:\[|\.get\()\s*\\?["'](\w+)\\?["']""")
"""`ctx.config["name"]` or `ctx.config.get("name")`, also where the text is inside of JSON."""
_CALLS: Final = (
    '{{ ref("namespace.name") }}, {{ partition("date") }} and {{ config("x") }} are supported'
)

_decoder = msgspec.json.Decoder(Asset)

# Defaults are left out of the wire's text by identity, so they must be the very objects.
_DEFAULT: Final = Asset(key="", code=Code(module="", name=""))


class Declared(NamedTuple):
    asset: Asset
    flaws: tuple[Flaw, ...]


def declare(definition: AnyAsset, project: Project) -> Declared:
    flaws: list[Flaw] = []
    keep = _Keeper(flaws)
    settings = definition.settings
    retry, freshness = cast(Retry | None, settings.get("retry")), settings.get("freshness")
    asset = Asset(
        key=definition.key,
        kind=definition.kind,
        code=project.code(definition),
        description=_description(definition),
        group=settings.get("group", ""),
        owners=tuple(settings.get("owners", ())),
        tags=dict(settings.get("tags", {})),
        partitions=_dimensions(definition),
        inputs=_with_references(definition, tuple(_inputs(definition, flaws))),
        checks=tuple(_check(each, project, flaws) for each in settings.get("checks", ())),
        gating=cast(Gating, settings.get("gating", _DEFAULT.gating)),
        retry=_DEFAULT.retry if retry is None else retry.wire(),
        timeout_s=keep(partial(_timeout, definition), 0),
        freshness=None if freshness is None else freshness.wire(),
        automation=settings.get("automation"),
        io=dict(settings.get("io", {})),
        resources=keep(partial(_resources, definition), _DEFAULT.resources),
        secrets=dict(_secrets(settings.get("secrets", {}), keep)),
        columns=tuple(settings.get("columns", ())),
        extra=settings.get("extra", "allow"),
        personal_data=settings.get("personal_data", "allow"),
        compatibility=cast(Any, settings.get("compatibility", _DEFAULT.compatibility)),
        retention=keep(
            partial(_whole, settings.get("retention", _DEFAULT.retention)), _DEFAULT.retention
        ),
        engine=_engine(definition),
        config=cast(dict[str, WireValue], settings.get("config", {})),
        config_read=_config_read(definition),
        renamed_from=_key(settings.get("renamed_from", ""), definition.namespace),
        sql=definition.sql if isinstance(definition, SqlAssetDefinition) else "",
        transform=keep(partial(_transform, definition), ""),
        sla=settings["sla"].wire() if "sla" in settings else None,
        terms=tuple(dict.fromkeys(settings.get("terms", ()))),
        links=dict(settings.get("links", {})),
        deprecated=settings.get("deprecated", ""),
        source=definition.text,
    )
    if asset.transform:  # otherwise its flaw was reported already
        keep(partial(_typed, asset), None)
    return Declared(asset, tuple(flaws))


def declare_schedule(definition: ScheduleDefinition, project: Project) -> Schedule:
    return Schedule(
        name=definition.name,
        cron=definition.cron,
        timezone=definition.timezone,
        selection=selected(definition.selection),
        partitions=definition.partitions,
        config=definition.config,
        catchup=definition.catchup,
        catchup_limit=definition.catchup_limit,
        overlap=definition.overlap,
        refresh_sources=definition.refresh_sources,
        code=project.code(definition),
    )


def declare_sensor(definition: SensorDefinition, project: Project) -> tuple[Sensor, list[Flaw]]:
    flaws: list[Flaw] = []
    keep = _Keeper(flaws)
    sensor = Sensor(
        name=definition.name,
        selection=selected(definition.selection),
        interval_s=keep(partial(seconds, definition.interval, "interval"), 60),
        code=project.code(definition),
        kind=definition.kind,
        timeout_s=keep(partial(seconds, definition.timeout, "timeout"), 60),
        has_function=definition.function is not None,
        transform=keep(definition.transform, ""),
        secrets=dict(_secrets(definition.secrets, keep)),
        url=definition.url.rstrip("/"),
        pattern=definition.pattern,
        existing=definition.existing,
        asset=definition.asset,
        workspace=definition.workspace,
        secret=keep(partial(SecretRef.parse, definition.secret), None)
        if definition.secret
        else None,
    )
    function = definition.function
    if function is not None and not takes_one(function):
        hint = "its one parameter is the context: def name(ctx: SensorContext) -> SensorResult"
        flaws.append(Flaw(f"the sensor {sensor.name!r} does not take one parameter", hint))
    if function is not None and returns_nothing(function):
        hint = "return SensorResult(...), also where nothing is to run"
        flaws.append(Flaw(f"the sensor {sensor.name!r} has no result", hint))
    return sensor, flaws


def declare_notification(
    definition: NotificationDefinition, project: Project
) -> tuple[Notification, list[Flaw]]:
    """Names without a namespace become keys where one asset alone has that name."""
    keys = project.keys_by_name()
    flaws: list[Flaw] = []
    interval_s = _Keeper(flaws)(partial(seconds, definition.interval, "interval"), 60)
    notification = Notification(
        name=definition.name,
        on=definition.on,
        to=definition.to,
        select=tuple(keys.get(term, term) for term in definition.select),
        interval_s=interval_s,
        run_cost=definition.run_cost,
        day_cost=definition.day_cost,
        code=project.code(definition),
    )
    return notification, flaws


class _Keeper:
    """Creates a part. If that raises Invalid, notes the flaw and uses a substitute."""

    def __init__(self, flaws: list[Flaw]) -> None:
        self._flaws = flaws

    def __call__(self, make: Callable[[], T], otherwise: T) -> T:
        try:
            return make()
        except Invalid as error:
            self._flaws.append(Flaw(error.message, error.hint))
            return otherwise


def _engine(definition: AnyAsset) -> Literal["", "spark"]:
    """Whether its code names Spark. The session itself starts when it is first asked for."""
    if isinstance(definition, SqlAssetDefinition):
        return "spark"
    inputs = "|".join(each.parameter for each in definition.signature.inputs)
    reads = rf"|\b(?:{inputs})\s*\.\s*read\s*\(" if inputs else ""
    pattern = re.compile(rf"\bpyspark\b|\.\s*spark\b{reads}")
    try:
        source = definition.source
    except Invalid:  # the fingerprint of the same source has said so
        return ""
    if not pattern.search(source):
        return ""
    return "spark" if any(pattern.search(_code(text)) for text in _texts(source)) else ""


def _texts(source: str) -> Iterator[str]:
    """The pieces of code, and the names of modules, that a source of `servo.reach` has."""
    if not source.startswith("["):
        yield source
        return
    left = [json.loads(source)]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case list() as items:
                left += items
            case dict() as items:
                left += items.values()


def _code(source: str) -> str:
    """Its tokens, without comments and texts."""
    left_out = (tokenize.COMMENT, tokenize.STRING)
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    except (tokenize.TokenError, SyntaxError):
        return source
    return " ".join(token.string for token in tokens if token.type not in left_out)


def _config_read(definition: AnyAsset) -> tuple[str, ...]:
    """Names that the code asks the context for, as far as its text shows them."""
    if isinstance(definition, SqlAssetDefinition):
        return ()
    try:
        names = set(_CONFIG.findall(definition.source))
    except Invalid:  # the fingerprint of the same source has said so
        return ()
    return tuple(sorted(names - definition.settings.get("config", {}).keys()))


def _description(definition: AnyAsset) -> str:
    given = definition.settings.get("description")
    if given is not None or isinstance(definition, SqlAssetDefinition):
        return given or ""
    return inspect.getdoc(definition.__wrapped__) or ""


def _dimensions(definition: AnyAsset) -> tuple[Dimension, ...]:
    partitions = definition.settings.get("partitions")
    if partitions is None:
        return ()
    return tuple(sorted(partitions.dimensions, key=lambda dimension: dimension.name))


def _inputs(definition: AnyAsset, flaws: list[Flaw]) -> Iterator[Input]:
    if isinstance(definition, SqlAssetDefinition):
        yield from _sql_inputs(definition, flaws)
    else:
        flaws.extend(definition.signature.flaws)
        for declared in definition.signature.inputs:
            yield _input(declared, definition.namespace)
    for dependency in definition.settings.get("deps", ()):
        yield _input(as_input(dependency), definition.namespace)


def _with_references(definition: AnyAsset, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """Inputs for the assets that checks of kind `references` read. Their data is not passed."""
    keys = {definition.key, *(each.asset for each in inputs)}
    targets = [
        str(check.params["asset"])
        for check in definition.settings.get("checks", ())
        if isinstance(check, Check) and check.kind == "references"
    ]
    added = [Input(asset=key, mapping=AllUpstream()) for key in dict.fromkeys(targets)]
    return (*inputs, *(each for each in added if each.asset not in keys))


def _input(declared: AssetIn, namespace: str) -> Input:
    return Input(
        asset=_key(declared.asset, namespace),
        parameter=declared.parameter,
        **_mapping(declared.mapping),
        version=declared.version,
        as_of=declared.as_of,
    )


def _mapping(mapping: PartitionMapping) -> dict[str, Any]:
    if isinstance(mapping, ByDimension):
        return {"mapping": identity, "dimensions": dict(mapping.dimensions)}
    return {"mapping": mapping}


def _sql_inputs(definition: SqlAssetDefinition, flaws: list[Flaw]) -> Iterator[Input]:
    """An input's parameter is the text inside its `ref`, for the worker to put a table there."""
    refs = dict.fromkeys(_refs(definition, flaws))
    for ref in refs:
        mapping = definition.mappings.get(ref, identity)
        yield _input(AssetIn(ref, parameter=ref, mapping=mapping), definition.namespace)
    for unused in sorted(definition.mappings.keys() - refs.keys()):
        flaws.append(Flaw(f"inputs maps {unused!r}, which the query does not ref"))


def _refs(definition: SqlAssetDefinition, flaws: list[Flaw]) -> Iterator[str]:
    """The keys that the query reads. Notes a flaw for other calls with unknown arguments."""
    dimensions = [dimension.name for dimension in _dimensions(definition)]
    valid_arguments = {"partition": dimensions, "config": [*definition.settings.get("config", {})]}
    for function, argument, start, stop in calls(definition.sql):
        if function == "ref":
            yield argument
        elif function not in valid_arguments:
            flaws.append(Flaw(f"the query has {definition.sql[start:stop]!r}", _CALLS))
        elif function == "config" and not _has_literal(definition, argument):
            message = f"the query uses the config value {argument!r}, which SQL cannot write"
            flaws.append(Flaw(message, "use text, a number, a boolean, a date, or a list of some"))
        elif argument not in valid_arguments[function]:
            what = "dimension" if function == "partition" else "config value"
            hint = did_you_mean(argument, valid_arguments[function])
            flaws.append(Flaw(f"the query uses the unknown {what} {argument!r}", hint))


def _has_literal(definition: AnyAsset, name: str) -> bool:
    """Whether a value can stand in a query: neither an object, nor a list without items."""
    value = from_wire(cast(WireValue, definition.settings.get("config", {}).get(name)))
    items = value if isinstance(value, list) else [value]
    return bool(items) and not any(isinstance(item, list | dict) for item in items)


def _key(text: str, namespace: str) -> str:
    """The full key; a text without a dot is of the same namespace."""
    return text if "." in text or not text else f"{namespace}.{text}"


def _check(check: Check | CheckDefinition, project: Project, flaws: list[Flaw]) -> Check:
    if isinstance(check, Check):
        return check
    if "<" in check.__wrapped__.__qualname__:
        hint = "define it at the top of a module, where a worker finds it"
        flaws.append(Flaw(f"the check {check.check.name!r} is a lambda or a local", hint))
    code = check.check.code
    assert code is not None  # CheckDefinition gives one
    return msgspec.structs.replace(check.check, code=project.placed(code))


def _timeout(definition: AnyAsset) -> int:
    timeout = definition.settings.get("timeout")
    return 0 if timeout is None else seconds(timeout, "timeout")


def _secrets(secrets: Mapping[str, str], keep: _Keeper) -> Iterator[tuple[str, SecretRef]]:
    for name, text in secrets.items():
        ref = keep(partial(_secret, text), None)
        if ref is not None:
            yield name, ref


def _secret(text: str) -> SecretRef | None:
    if not isinstance(text, str):
        raise Invalid(f"a secret's reference is a {type(text).__name__}", hint="write env:NAME")
    return SecretRef.parse(text)


def _transform(definition: AnyAsset) -> str:
    """The fingerprint of what the asset computes: without its place and its settings."""
    config = dict(definition.settings.get("config", {}))
    if isinstance(definition, SqlAssetDefinition):
        return transform_fingerprint("sql", definition.sql, config)
    return transform_fingerprint("python", definition.source, config)


def _resources(definition: AnyAsset) -> Resources:
    resources = definition.settings.get("resources", _DEFAULT.resources)
    if not isinstance(resources.pool, str | None):
        raise Invalid(f'Resources: pool={resources.pool!r} is not a name, as in "jdbc"')
    return _whole(resources, but=("pool",))


def _whole(numbers: S, but: Collection[str] = ()) -> S:
    for name, value in msgspec.structs.asdict(numbers).items():
        if type(value) is not int and name not in but:
            raise Invalid(f"{type(numbers).__name__}: {name}={value!r} is not a whole number")
    return numbers


def _typed(asset: Asset) -> None:
    """Refuse values of the wrong type, which only a reader of the manifest would notice."""
    try:
        _decoder.decode(canonical.encode(asset))
    except msgspec.ValidationError as error:
        raise Invalid(f"wrong type: {error}") from None
