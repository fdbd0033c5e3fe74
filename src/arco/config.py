"""Which workspace to work on: from options, the environment, or `arco.toml`.

    [workspace]
    store = "s3://bucket/prefix"     # or a path, relative to this file
    tenant = "acme"
    name = "prod"

    [project]
    name = "shop"                    # of the code in this folder; "main" if it is not given
    modules = ["shop", "lib.flows"]  # what is imported; what imports `servo` if it is not given

    [spark]                          # see `arco.spark.settings`
    master = "spark://host:7077"

    [costs]
    pricing = "pricing.toml"         # relative to this file; see `arco.worker.pricing`

    [notifications.channels.ops]     # see `arco.notifications.channels`
    type = "slack"
    url = "env:OPS_URL"

    [auth]                           # see `arco.security.settings`
    issuer = "https://login.example.com"
    audience = "arco"

Each value of `[workspace]` is taken from the first of the three that has it. Where none names a
store, it is the folder `.arco`, if that has a workspace, here or beside an `arco.toml`. The others
are in the file alone, except that ARCO_SPARK_MASTER and ARCO_SPARK_REMOTE win over `[spark]`.

A section is taken from the nearest file that has it, in this folder or above: folders of
several projects may have a file each, below one that names their workspace.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from arco.errors import Invalid
from arco.notifications.channels import NotificationSettings, parse_channels
from arco.security.settings import AuthSettings, parse_auth
from arco.spark.settings import SparkSettings
from arco.spark.settings import parse as parse_spark
from servo.contract.keys import check_name
from servo.contract.manifest import DEFAULT_PROJECT
from servo.suggest import did_you_mean

FILE = "arco.toml"
LOCAL_STORE = ".arco"
"""The folder of a project's own workspace: of `servo init` and `servo dev`."""
TENANT = "default"
WORKSPACE = "main"


class ConfigSource(msgspec.Struct, frozen=True):
    """The values of one source; None where it has none."""

    store: str | None = None
    tenant: str | None = None
    workspace: str | None = None

    def over(self, other: ConfigSource) -> ConfigSource:
        """These values, and those of `other` where these have none."""
        return ConfigSource(
            self.store or other.store,
            self.tenant or other.tenant,
            self.workspace or other.workspace,
        )


class Config(msgspec.Struct, frozen=True):
    """One workspace on one store."""

    store: str
    tenant: str = TENANT
    workspace: str = WORKSPACE

    @property
    def directory(self) -> Path | None:
        """Where the store is, if that is on this machine's disk."""
        scheme, separator, rest = self.store.partition("://")
        if separator and scheme != "file":
            return None
        return Path(rest if separator else self.store)


class _WorkspaceSection(msgspec.Struct, frozen=True):
    store: str | None = None
    tenant: str | None = None
    name: str | None = None


class _CostsSection(msgspec.Struct, frozen=True):
    pricing: str | None = None


class _ProjectSection(msgspec.Struct, frozen=True):
    name: str | None = None
    modules: tuple[str, ...] | None = None


class _ConfigFile(msgspec.Struct, frozen=True):
    workspace: _WorkspaceSection | None = None
    project: _ProjectSection | None = None
    spark: dict[str, Any] | None = None
    costs: _CostsSection | None = None
    notifications: dict[str, Any] | None = None
    auth: dict[str, Any] | None = None


class Running(msgspec.Struct, frozen=True):
    """How tasks run here."""

    spark: SparkSettings = SparkSettings()
    pricing: Path | None = None


def resolve(options: ConfigSource, env: Mapping[str, str], directory: Path) -> Config:
    """Option over environment over file. Raises Invalid if nothing names a store."""
    path, section = _nearest(directory, "workspace")
    from_file = _settings(path, section) if path is not None else ConfigSource()
    settings = options.over(from_env(env)).over(from_file).over(_local_store(directory))
    if settings.store is None:
        path = path or find_file(directory)
        raise Invalid(
            "no store is configured",
            hint=f"give --store, set ARCO_STORE, or write `store = ...` under [workspace] "
            f"in {FILE if path is None else path}",
        )
    return Config(settings.store, settings.tenant or TENANT, settings.workspace or WORKSPACE)


def resolve_names(
    options: ConfigSource, env: Mapping[str, str], directory: Path
) -> tuple[str, str]:
    """Tenant and workspace, for access through a server, without a store."""
    path, section = _nearest(directory, "workspace")
    from_file = _settings(path, section) if path is not None else ConfigSource()
    settings = options.over(from_env(env)).over(from_file)
    return settings.tenant or TENANT, settings.workspace or WORKSPACE


def _local_store(directory: Path) -> ConfigSource:
    """The store of `servo dev`, if nothing names a store: here, or beside an `arco.toml`."""
    for folder in (directory, *(path.parent for path in find_files(directory))):
        store = folder / LOCAL_STORE
        if store.is_dir() and any(each.is_dir() for each in store.iterdir()):
            return ConfigSource(str(store))
    return ConfigSource()


def resolve_project(directory: Path) -> str:
    """The name of the project whose code is in a folder. Raises Invalid for a bad name."""
    path, section = _nearest(directory, "project")
    if section is None or section.name is None:
        return DEFAULT_PROJECT
    try:
        return check_name(section.name, "project")
    except Invalid as error:
        raise Invalid(f"{path}: [project] name: {error.message}", hint=error.hint) from None


def resolve_modules(directory: Path) -> tuple[str, ...] | None:
    """The modules and packages that discovery imports; None for those that import `servo`."""
    path, section = _nearest(directory, "project")
    if section is None or section.modules is None:
        return None
    modules: tuple[str, ...] = section.modules
    for name in modules:
        if not all(part.isidentifier() for part in name.split(".")):
            raise Invalid(
                f"{path}: [project] modules: {name!r} is not the name of a module",
                hint='write names as in import: ["shop", "lib.flows"]',
            )
    return modules


def resolve_running(env: Mapping[str, str], directory: Path) -> Running:
    """Settings of Spark and prices from the nearest files, and of Spark from the environment."""
    spark_path, section = _nearest(directory, "spark")
    overrides = {
        name: env[variable]
        for name, variable in (("master", "ARCO_SPARK_MASTER"), ("remote", "ARCO_SPARK_REMOTE"))
        if env.get(variable)
    }
    where = f"[spark] of {spark_path or 'the environment'}"
    spark = parse_spark({**(section or {}), **overrides}, where)
    path, costs = _nearest(directory, "costs")
    if path is None or costs.pricing is None:
        return Running(spark)
    return Running(spark, path.parent / Path(costs.pricing).expanduser())


def resolve_channels(directory: Path) -> NotificationSettings:
    """The channels of the nearest file that has some. Raises Invalid for one that is wrong."""
    path, section = _nearest(directory, "notifications")
    return parse_channels(section or {}, f"[notifications] of {path}")


def resolve_auth(directory: Path) -> AuthSettings:
    """The settings of authentication from the nearest file that has them. Raises Invalid."""
    path, section = _nearest(directory, "auth")
    return parse_auth(section or {}, f"[auth] of {path}")


def _nearest(directory: Path, section: str) -> tuple[Path | None, Any]:
    """A section of the nearest file that has it, and that file."""
    for path in find_files(directory):
        if (value := getattr(parse(path.read_text("utf-8"), str(path)), section)) is not None:
            return path, value
    return None, None


def from_env(env: Mapping[str, str]) -> ConfigSource:
    """ARCO_STORE, ARCO_TENANT and ARCO_WORKSPACE; an empty one is not set."""
    names = ("ARCO_STORE", "ARCO_TENANT", "ARCO_WORKSPACE")
    return ConfigSource(*(env.get(name) or None for name in names))


def find_file(directory: Path) -> Path | None:
    """The nearest `arco.toml`, here or above."""
    return next(find_files(directory), None)


def find_files(directory: Path) -> Iterator[Path]:
    """Every `arco.toml`, here and above, the nearest first."""
    for folder in (directory, *directory.parents):
        if (path := folder / FILE).is_file():
            yield path


def _settings(path: Path, section: _WorkspaceSection) -> ConfigSource:
    store = section.store
    if store is not None and "://" not in store:
        store = str(path.parent / Path(store).expanduser())
    return ConfigSource(store, section.tenant, section.name)


def parse(text: str, path: str) -> _ConfigFile:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None
    _check_keys(table, _ConfigFile, path, "")
    sections: dict[str, type[msgspec.Struct]] = {
        "workspace": _WorkspaceSection,
        "project": _ProjectSection,
        "costs": _CostsSection,
    }
    for name, section in sections.items():
        if isinstance(table.get(name), dict):
            _check_keys(table[name], section, path, f" in [{name}]")
    try:
        return msgspec.convert(table, _ConfigFile)
    except msgspec.ValidationError as error:
        raise Invalid(f"{path}: {error}") from None


def _check_keys(keys: Iterable[str], cls: type[msgspec.Struct], path: str, where: str) -> None:
    allowed = cls.__struct_fields__
    for key in keys:
        if key not in allowed:
            raise Invalid(
                f"{path}: unknown key {key!r}{where}",
                hint=did_you_mean(key, allowed) or f"known: {', '.join(allowed)}",
            )


def render(config: Config) -> str:
    """The text of an `arco.toml` that `resolve` reads back."""
    values: dict[str, Any] = {
        "store": config.store,
        "tenant": config.tenant,
        "name": config.workspace,
    }
    # A JSON string is a TOML basic string.
    lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in values.items()]
    return "\n".join(["[workspace]", *lines, ""])
