"""A dbt project as assets: their names, descriptions, and queries."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs, to_builtins

from arco.catalog.events import Column
from arco.catalog.names import MAX_ENTRIES, MAX_TEXT
from arco.errors import Invalid
from arco.imports.dbt_artifacts import MAKING, DbtCatalog, DbtManifest, DbtNode
from arco.imports.dbt_lineage import DbtSchemas, column_type, dialect_of, lineage_of_query
from arco.imports.events import ImportedAsset
from servo.contract import canonical

_with = structs.replace
RULES: Final = 1
"""Version of the rules. A higher one makes the next import write everything again."""
_KINDS: Final = {"view": "view", "materialized_view": "view"}


class ExistingAsset(NamedTuple):
    """The asset of a node in the workspace."""

    asset_id: str
    is_made_by_code: bool = False
    columns: Sequence[str] = ()
    """Of the newest output, if code has put one out."""
    moved_from: str = ""
    imported_from: str = ""
    """Another source that describes it; then this one only refers to it."""


class DbtAssets:
    """`keys` are those of the nodes that are imported; `existing` has an entry for each."""

    def __init__(
        self,
        manifest: DbtManifest,
        catalog: DbtCatalog | None,
        keys: Mapping[str, str],
        existing: Mapping[str, ExistingAsset],
    ) -> None:
        self._manifest = manifest
        self._nodes = {**manifest.sources, **manifest.nodes}
        self._keys = keys
        self._existing = existing
        self._dialect = dialect_of(manifest.metadata.adapter_type)
        self._makers = _makers(self._nodes, keys)
        ids = {id: existing[id].asset_id for id in keys}
        outputs = {id: existing[id].columns for id in keys if existing[id].columns}
        self._schemas = DbtSchemas(self._nodes, ids, catalog, outputs)
        self._inputs: dict[str, tuple[str, ...]] = {}
        self._marks: dict[str, str] = {}

    def changed(self, fingerprints: Mapping[str, str]) -> Iterator[ImportedAsset]:
        """The assets whose fingerprints are not these, by node; sources before what uses them."""
        described = set(self.nodes())
        for id in self._order():
            node = self._nodes[id]
            self._inputs[id] = self._inputs_of(node)
            if id not in self._makers:
                self._marks[id] = canonical.fingerprint(
                    [self._marks[each] for each in node.inputs if each in self._marks]
                )
                continue
            asset = self._described(node)
            is_made = node.resource_type in ("model", "snapshot")
            is_made &= not self._existing[id].is_made_by_code
            mark = self._fingerprint(node, asset, is_made)
            is_changed = fingerprints.get(id) != mark
            if is_made and (is_changed or not self._schemas.of(id).whole):
                query = lineage_of_query(node, self._dialect, self._schemas)
                asset = _with(asset, lineage=query.lineage)
                if not self._schemas.of(id).whole and query.names:
                    self._schemas.learn(id, query.names, whole=node.resource_type != "snapshot")
                    asset = _with(asset, columns=self._columns(node))
            if is_changed and id in described:
                yield _with(asset, fingerprint=mark)

    def nodes(self) -> list[str]:
        """Those that are described; of a source and a model that are one asset, the model."""
        return [id for id in self._makers if not self._existing[id].imported_from]

    # -- the graph --------------------------------------------------------------------

    def _order(self) -> list[str]:
        graph = {
            id: [each for each in node.inputs if each in self._nodes]
            for id, node in self._nodes.items()
        }
        try:
            return list(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as error:
            raise Invalid(f"models depend on each other: {' → '.join(error.args[1])}") from None

    def _inputs_of(self, node: DbtNode) -> tuple[str, ...]:
        """Ids of assets; nodes that are no relations are replaced by their inputs."""
        ids: dict[str, None] = {}
        for each in node.inputs:
            if each in self._keys:
                ids[self._existing[each].asset_id] = None
            else:
                ids |= dict.fromkeys(self._inputs.get(each, ()))
        own = self._existing[node.unique_id].asset_id if node.unique_id in self._keys else ""
        return tuple(sorted(ids.keys() - {own}))

    # -- one asset --------------------------------------------------------------------

    def _described(self, node: DbtNode) -> ImportedAsset:
        id = node.unique_id
        existing = self._existing[id]
        is_made = not existing.is_made_by_code
        return ImportedAsset(
            node=id,
            key=self._keys[id],
            asset_id=existing.asset_id,
            moved_from=existing.moved_from,
            kind=_KINDS.get((node.config and node.config.materialized) or "", "table"),
            description=_short(node.description),
            owners=tuple(self._owners(node))[:MAX_ENTRIES],
            tags=dict.fromkeys(_listed(node.tags)[:MAX_ENTRIES], ""),
            columns=self._columns(node),
            inputs=self._inputs[id] if is_made else (),
        )

    def _owners(self, node: DbtNode) -> list[str]:
        meta = node.all_meta
        owners = [*_listed(meta.get("owner")), *_listed(meta.get("owners"))]
        for group in self._manifest.groups.values():
            if group.name == node.group and group.owner is not None:
                owners += _listed(group.owner.email) or _listed(group.owner.name)
        return list(dict.fromkeys(owners))

    def _columns(self, node: DbtNode) -> tuple[Column, ...]:
        documented = {column.name.lower(): column for column in node.columns.values()}
        described = self._schemas.described(node.unique_id)
        types = {c.name: c.type for c in described.ordered()} if described else {}
        comments = {c.name: c.comment for c in described.ordered()} if described else {}
        columns = []
        for name in self._schemas.of(node.unique_id).columns:
            column = documented.get(name.lower())
            type = types.get(name) or (column.data_type if column else None)
            text = (column.description if column else None) or comments.get(name)
            columns.append(
                Column(name=name, type=column_type(type, self._dialect), description=_short(text))
            )
        return tuple(columns)

    def _fingerprint(self, node: DbtNode, asset: ImportedAsset, is_made: bool) -> str:
        """The fingerprint of everything that an asset is derived from."""
        above = [self._marks[each] for each in node.inputs if each in self._marks]
        query = [node.compiled_code or "", node.language or "", *above] if is_made else []
        fields = structs.asdict(_with(asset, moved_from=""))
        mark = canonical.fingerprint([RULES, self._dialect, to_builtins(fields), query])
        table = self._schemas.of(node.unique_id)
        columns = list(table.columns) if table.whole else [mark]
        self._marks[node.unique_id] = canonical.fingerprint([asset.asset_id, columns])
        return mark


def _makers(nodes: Mapping[str, DbtNode], keys: Mapping[str, str]) -> dict[str, None]:
    """One node for each asset: of a source and a model with one relation, the model."""
    by_key: dict[str, str] = {}
    for id in sorted(keys, key=lambda id: nodes[id].resource_type not in MAKING):
        by_key.setdefault(keys[id], id)
    return dict.fromkeys(sorted(by_key.values()))


def _listed(value: Any) -> list[str]:
    """A text or a list of texts as a list; other values are ignored."""
    values = value if isinstance(value, list) else [value]
    return [each.strip() for each in values if isinstance(each, str) and each.strip()]


def _short(text: str | None) -> str:
    text = (text or "").strip()
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
