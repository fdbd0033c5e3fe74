"""The files that dbt writes to `target`: `manifest.json`, and `catalog.json` of `dbt docs`.

Only the fields that an import uses are read.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from arco.errors import Invalid

MANIFEST_VERSIONS: Final = (10, 11, 12)
"""dbt 1.6 and later."""
CATALOG_VERSIONS: Final = (1,)
DATA: Final = ("model", "seed", "snapshot", "source")
"""Types of nodes that may be relations in a database."""
MAKING: Final = ("model", "seed", "snapshot")
_SCHEMA = re.compile(r"https://schemas\.getdbt\.com/dbt/([a-z-]+)/v([0-9]+)\.json")
T = TypeVar("T", bound=Struct)


class DbtMetadata(Struct, frozen=True):
    dbt_schema_version: str = ""
    dbt_version: str = ""
    generated_at: str = ""
    project_name: str | None = None
    adapter_type: str | None = None


class DbtColumn(Struct, frozen=True):
    name: str
    description: str | None = None
    data_type: str | None = None


class DbtConfig(Struct, frozen=True):
    materialized: str | None = None
    meta: dict[str, Any] | None = None


class DbtDependencies(Struct, frozen=True):
    nodes: list[str] = []


class DbtNode(Struct, frozen=True):
    """A model, seed, snapshot or source; nodes of other types too, which are not used."""

    unique_id: str
    resource_type: str
    name: str
    package_name: str = ""
    database: str | None = None
    schema: str | None = None
    alias: str | None = None
    identifier: str | None = None
    """Of a source: its table, where that is not its name."""
    description: str | None = None
    columns: dict[str, DbtColumn] = {}
    tags: list[str] | str = []
    meta: dict[str, Any] | None = None
    config: DbtConfig | None = None
    group: str | None = None
    depends_on: DbtDependencies | None = None
    compiled_code: str | None = None
    language: str | None = None

    @property
    def relation(self) -> tuple[str, str, str]:
        """Database, schema and name, in lower case; a database may be empty."""
        name = self.identifier or self.alias or self.name
        return (self.database or "").lower(), (self.schema or "").lower(), name.lower()

    @property
    def is_data(self) -> bool:
        """Whether it is a relation. Ephemeral models are parts of other queries."""
        ephemeral = self.config is not None and self.config.materialized == "ephemeral"
        return self.resource_type in DATA and not ephemeral

    @property
    def inputs(self) -> list[str]:
        return [] if self.depends_on is None else self.depends_on.nodes

    @property
    def all_meta(self) -> dict[str, Any]:
        return {**((self.config and self.config.meta) or {}), **(self.meta or {})}


class DbtOwner(Struct, frozen=True):
    name: str | None = None
    email: str | list[str] | None = None


class DbtGroup(Struct, frozen=True):
    name: str
    owner: DbtOwner | None = None


class DbtManifest(Struct, frozen=True):
    metadata: DbtMetadata
    nodes: dict[str, DbtNode]
    sources: dict[str, DbtNode]
    groups: dict[str, DbtGroup] = {}

    def project(self) -> str:
        """The name of the dbt project; the packages that it has installed have others."""
        if self.metadata.project_name:
            return self.metadata.project_name
        packages = Counter(node.package_name for node in self.nodes.values() if node.is_data)
        if not packages:
            raise Invalid(
                "the manifest has no project name and no models",
                hint="use dbt 1.7 or later",
            )
        return packages.most_common(1)[0][0]

    def data_nodes(self) -> dict[str, DbtNode]:
        every = {**self.sources, **self.nodes}
        return {id: node for id, node in every.items() if node.is_data}


class CatalogColumn(Struct, frozen=True):
    name: str
    type: str | None = None
    index: int = 0
    comment: str | None = None


class CatalogNode(Struct, frozen=True):
    columns: dict[str, CatalogColumn] = {}

    def ordered(self) -> list[CatalogColumn]:
        return sorted(self.columns.values(), key=lambda column: column.index)


class DbtCatalog(Struct, frozen=True):
    metadata: DbtMetadata
    nodes: dict[str, CatalogNode]
    sources: dict[str, CatalogNode]

    def node(self, id: str) -> CatalogNode | None:
        return self.nodes.get(id) or self.sources.get(id)


class _AnyArtifact(Struct, frozen=True):
    metadata: DbtMetadata


class DbtUpload(Struct, frozen=True):
    """A file that somebody sent."""

    name: str
    data: bytes

    def read_bytes(self) -> bytes:
        return self.data

    def __str__(self) -> str:
        return self.name


DbtFile = Path | DbtUpload


def read_manifest(path: DbtFile) -> DbtManifest:
    """Raises Invalid for a file that is not a manifest, is damaged, or has an unknown version."""
    return _read(path, "manifest", MANIFEST_VERSIONS, DbtManifest)


def read_catalog(path: DbtFile, manifest: DbtManifest) -> DbtCatalog:
    catalog = _read(path, "catalog", CATALOG_VERSIONS, DbtCatalog)
    nodes = manifest.data_nodes()
    if nodes and not any(catalog.node(id) for id in nodes):
        raise Invalid(
            f"{path} describes nothing of this manifest",
            hint="give the catalog.json of the same project, or leave --catalog out",
        )
    return catalog


def _read(
    path: DbtFile, kind: Literal["manifest", "catalog"], versions: tuple[int, ...], type: type[T]
) -> T:
    command = "dbt compile" if kind == "manifest" else "dbt docs generate"
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = f"`{command}` writes it to the folder target"
        raise Invalid(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    try:
        artifact = msgspec.json.decode(data, type=_AnyArtifact)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(
            f"{path} is not a {kind} of dbt: {error}", hint=f"write it again with `{command}`"
        ) from None
    schema = artifact.metadata.dbt_schema_version
    match = _SCHEMA.fullmatch(schema)
    if match is None or match[1] != kind:
        what = f"a file of dbt of another kind: {match[1]}" if match else "not a file of dbt"
        raise Invalid(
            f"{path} is {what}",
            hint=f"give the {kind}.json that `{command}` writes; its metadata names the "
            f"schema https://schemas.getdbt.com/dbt/{kind}/v{versions[-1]}.json",
        )
    if int(match[2]) not in versions:
        readable = ", ".join(f"v{version}" for version in versions)
        by = f" (dbt {dbt_version})" if (dbt_version := artifact.metadata.dbt_version) else ""
        raise Invalid(
            f"{path} is a {kind} of version v{match[2]}{by}",
            hint=f"these versions can be imported: {readable}",
        )
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.DecodeError as error:
        raise Invalid(
            f"{path} is a {kind} of version v{match[2]}, but its content is invalid: {error}",
            hint=f"write it again with `{command}`",
        ) from None
