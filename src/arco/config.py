"""Which workspace to work on: from options, the environment, or `arco.toml`.

    [workspace]
    store = "s3://bucket/prefix"     # or a path, relative to this file
    tenant = "acme"
    name = "prod"

    [spark]                          # see `arco.spark.settings`
    master = "spark://host:7077"

    [costs]
    pricing = "pricing.toml"         # relative to this file; see `arco.worker.pricing`

Each value of `[workspace]` is taken from the first of the three that has it. The others are
in the file alone, except that ARCO_SPARK_MASTER and ARCO_SPARK_REMOTE win over `[spark]`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from arco.errors import Invalid
from arco.spark.settings import SparkSettings
from arco.spark.settings import parse as parse_spark

FILE = "arco.toml"
TENANT = "default"
WORKSPACE = "main"


class Settings(msgspec.Struct, frozen=True):
    """What one source says; None where it is silent."""

    store: str | None = None
    tenant: str | None = None
    workspace: str | None = None

    def over(self, other: Settings) -> Settings:
        """These, and what `other` says where these are silent."""
        return Settings(
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
        scheme, found, rest = self.store.partition("://")
        if found and scheme != "file":
            return None
        return Path(rest if found else self.store)


class _WorkspaceSection(msgspec.Struct, frozen=True):
    store: str | None = None
    tenant: str | None = None
    name: str | None = None


class _CostsSection(msgspec.Struct, frozen=True):
    pricing: str | None = None


class _File(msgspec.Struct, frozen=True):
    workspace: _WorkspaceSection = _WorkspaceSection()
    spark: dict[str, Any] = {}
    costs: _CostsSection = _CostsSection()


class Running(msgspec.Struct, frozen=True):
    """How tasks run here."""

    spark: SparkSettings = SparkSettings()
    pricing: Path | None = None


def resolve(options: Settings, env: Mapping[str, str], directory: Path) -> Config:
    """Option over environment over file. Raises Invalid if nothing names a store."""
    path = find_file(directory)
    from_file = Settings() if path is None else read_file(path)
    settings = options.over(from_env(env)).over(from_file)
    if settings.store is None:
        raise Invalid(
            "no store was named",
            hint=f"give --store, set ARCO_STORE, or write `store = ...` under [workspace] "
            f"in {FILE if path is None else path}",
        )
    return Config(settings.store, settings.tenant or TENANT, settings.workspace or WORKSPACE)


def resolve_running(env: Mapping[str, str], directory: Path) -> Running:
    """What the nearest file says of Spark and of prices, and the environment of Spark."""
    path = find_file(directory)
    found = _File() if path is None else parse(path.read_text("utf-8"), str(path))
    given = {
        name: env[variable]
        for name, variable in (("master", "ARCO_SPARK_MASTER"), ("remote", "ARCO_SPARK_REMOTE"))
        if env.get(variable)
    }
    spark = parse_spark({**found.spark, **given}, f"[spark] of {path or 'the environment'}")
    if path is None or found.costs.pricing is None:
        return Running(spark)
    return Running(spark, path.parent / Path(found.costs.pricing).expanduser())


def from_env(env: Mapping[str, str]) -> Settings:
    """ARCO_STORE, ARCO_TENANT and ARCO_WORKSPACE; an empty one is not set."""
    names = ("ARCO_STORE", "ARCO_TENANT", "ARCO_WORKSPACE")
    return Settings(*(env.get(name) or None for name in names))


def find_file(directory: Path) -> Path | None:
    """The nearest `arco.toml`, here or above."""
    for folder in (directory, *directory.parents):
        if (path := folder / FILE).is_file():
            return path
    return None


def read_file(path: Path) -> Settings:
    """Parse a file. Raises Invalid for what it does not know, and says what was meant."""
    section = parse(path.read_text("utf-8"), str(path)).workspace
    store = section.store
    if store is not None and "://" not in store:
        store = str(path.parent / Path(store).expanduser())
    return Settings(store, section.tenant, section.name)


def parse(text: str, path: str) -> _File:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None
    _check_keys(found, _File, path, "")
    sections: dict[str, type[msgspec.Struct]] = {
        "workspace": _WorkspaceSection,
        "costs": _CostsSection,
    }
    for name, section in sections.items():
        if isinstance(found.get(name), dict):
            _check_keys(found[name], section, path, f" in [{name}]")
    try:
        return msgspec.convert(found, _File)
    except msgspec.ValidationError as error:
        raise Invalid(f"{path}: {error}") from None


def _check_keys(found: Iterable[str], cls: type[msgspec.Struct], path: str, where: str) -> None:
    known = cls.__struct_fields__
    for key in found:
        if key not in known:
            raise Invalid(f"{path}: unknown key {key!r}{where}", hint=_meant(key, known))


def _meant(key: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def render(config: Config) -> str:
    """The text of an `arco.toml` that `read_file` reads back."""
    values: dict[str, Any] = {
        "store": config.store,
        "tenant": config.tenant,
        "name": config.workspace,
    }
    # A JSON string is a TOML basic string.
    lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in values.items()]
    return "\n".join(["[workspace]", *lines, ""])
