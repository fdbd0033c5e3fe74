"""Which columns hold personal data: by their classification, and by what flows into them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow.compute as pc
from msgspec import Struct

from arco.catalog.reader import CatalogReader
from arco.catalog.tables import ASSETS, COLUMNS, ColumnRow, ColumnStatus
from arco.lineage.personal_flow import (
    NOTHING,
    SENSITIVITY,
    Label,
    LabelledColumn,
    OwnLabel,
    labels_of,
    passed_on,
    path_of,
)
from arco.lineage.reader import Link, Node
from arco.lineage.tables import COLUMNS as COLUMN_EDGES
from arco.orchestration.asset_columns import check_column
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.value_flow import links_below
from arco.state.snapshot import Snapshot
from arco.state.table import Row
from servo.contract.task import NOT_PERSONAL


class ClassifiedColumnRow(Row, frozen=True):
    """A column of the catalog, with its classification."""

    asset_id: str
    column_id: str
    name: str
    pii: str
    sensitivity: str
    status: ColumnStatus = "Active"


CLASSIFIED = COLUMNS.view(ClassifiedColumnRow)


class PersonalColumn(Struct, frozen=True, order=True):
    asset: str
    column: str
    pii: tuple[str, ...]
    sensitivity: str
    inherited: bool
    """Whether any of it comes from other columns."""


class StoppedFlow(NamedTuple):
    link: Link
    reason: str


class Explanation(Struct, frozen=True):
    """Why a column is personal, or is not."""

    node: Node
    label: Label
    own: OwnLabel
    paths: Mapping[str, tuple[Link, ...]]
    """By kind: the edges from the classified column; none if this one is classified itself."""
    stopped: tuple[StoppedFlow, ...]
    """Edges to it at which personal data ends."""
    unknown: tuple[Node, ...]
    """Columns upstream, or itself, whose sources among the inputs are unknown."""


class PersonalDataReader:
    """Reads one generation. Nodes have ids internally, and names in results."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._lineage = lineage_reader(snapshot)
        self._names = self._lineage.names
        self._own_labels = functools.cache(self._read_own)

    def explain(self, asset: str, column: str) -> Explanation:
        """Raises NotFound for an asset or a column that is unknown."""
        node = Node(self._id(asset), column)
        check_column(self.snapshot, asset, column)
        links, labels = self._above([node])
        labelled = labels.get(node) or LabelledColumn(self._own(node).over(NOTHING), {})
        kinds = [
            *sorted(labelled.label.pii),
            *([SENSITIVITY] if labelled.label.sensitivity else []),
        ]
        return Explanation(
            self._lineage.named(node),
            labelled.label,
            self._own(node),
            {
                kind: tuple(map(self._named, path_of(kind, node, labels)))
                for kind in kinds
                if labels
            },
            tuple(self._stopped(links, labels)),
            tuple(
                map(self._lineage.named, self._unknown([node, *(link.source for link in links)]))
            ),
        )

    def columns(self, asset: str) -> dict[str, Label]:
        """The columns of an asset that hold personal or sensitive data."""
        id = self._names.id(asset)
        edges = {
            self._names.column(id, row.target_column, row.since)
            for row in self.snapshot.rows(COLUMN_EDGES, id)
        } - {""}
        nodes = [Node(id, name) for name in sorted(edges | self._own_labels(id).keys())]
        labels = self._above(nodes)[1]
        classified = {node.column: self._label(node, labels) for node in nodes}
        return {name: label for name, label in classified.items() if label}

    def names_in_files(self, asset: str) -> dict[str, Label]:
        """The same by all names that the columns have in files: a rename does not change files."""
        id = self._names.id(asset)
        labels: dict[str, Label] = {}
        for column, label in self.columns(asset).items():
            for name in self._names.column_names(id, column):
                labels[name] = labels.get(name, NOTHING).joined(label)
        return labels

    def hidden(self, asset: str) -> frozenset[str]:
        """The names in files of all columns that are, or were, personal or restricted."""
        id = self._names.id(asset)
        inherited = {name for name, label in self.columns(asset).items() if label.is_hidden}
        rows = self.snapshot.rows(COLUMNS, id)
        own = {row.name for row in rows if _own_label(row).over(NOTHING).is_hidden}
        names = (self._names.column_names(id, column) for column in inherited | own)
        return frozenset(itertools.chain.from_iterable(names))

    def classified(self, asset_id: str) -> frozenset[str]:
        """The columns of an asset that are classified."""
        labels = self._own_labels(asset_id)
        return frozenset(name for name, own in labels.items() if own.pii)

    def everything(self, namespace: str = "") -> list[PersonalColumn]:
        """All columns with a label, of all assets or of those of a namespace."""
        columns = (
            PersonalColumn(
                self._names.key(node.asset),
                node.column,
                tuple(sorted(each.label.pii)),
                each.label.sensitivity,
                bool(each.via),
            )
            for node, each in self._all_labels().items()
            if each.label
        )
        return sorted(
            c for c in columns if c.asset.startswith(f"{namespace}." if namespace else "")
        )

    def personal_nodes(self) -> list[Node]:
        """All columns with personal data, by the ids of their assets."""
        return [node for node, each in self._all_labels().items() if each.label.pii]

    # -- inside ---------------------------------------------------------------------------

    def _id(self, asset: str) -> str:
        id = self._names.id(asset)
        if self.snapshot.get(ASSETS, id) is None:
            CatalogReader(self.snapshot).asset_by_id(id)  # raises NotFound
        return id

    def _read_own(self, id: str) -> dict[str, OwnLabel]:
        """Of two columns with one name, that of the active one."""
        rows = sorted(self.snapshot.rows(COLUMNS, id), key=lambda row: row.status == "Active")
        return {row.name: _own_label(row) for row in rows}

    def _own(self, node: Node) -> OwnLabel:
        return self._own_labels(node.asset).get(node.column, OwnLabel())

    def _all_labels(self) -> dict[Node, LabelledColumn]:
        """The labels of all columns that are classified, or that personal data may flow into."""
        classified = self._classified()

        def own(node: Node) -> OwnLabel:
            return classified.get(node, OwnLabel())

        labels = {node: LabelledColumn(own(node).over(NOTHING), {}) for node in classified}
        return labels | labels_of(links_below(self._lineage, classified), own)

    def _classified(self) -> dict[Node, OwnLabel]:
        """All classified columns; read and filtered as Arrow columns."""
        table = self.snapshot.scan(CLASSIFIED)
        pii, sensitivity = table.column("pii"), table.column("sensitivity")
        is_classified = pc.or_(pc.not_equal(pii, ""), pc.not_equal(sensitivity, ""))
        labels: dict[Node, OwnLabel] = {}
        for row in CLASSIFIED.rows_of(table.filter(is_classified)):
            node = Node(row.asset_id, row.name)
            if row.status == "Active":
                labels[node] = OwnLabel(row.pii, row.sensitivity)
            elif any(self._own(node)):  # another column may have the name by now
                labels[node] = self._own(node)
        return labels

    def _above(self, nodes: Iterable[Node]) -> tuple[list[Link], dict[Node, LabelledColumn]]:
        """All edges along which values flow to the nodes, each once, and the labels at them."""
        links: list[Link] = []
        seen = dict.fromkeys(nodes)
        waiting = list(seen)
        while waiting:
            for link in self._lineage.sources(waiting.pop()):
                if not link.direct:
                    continue
                links.append(link)
                if link.source not in seen:
                    seen[link.source] = None
                    waiting.append(link.source)
        return links, labels_of(links, self._own)

    def _label(self, node: Node, labels: Mapping[Node, LabelledColumn]) -> Label:
        return labels[node].label if node in labels else self._own(node).over(NOTHING)

    def _stopped(
        self, links: Iterable[Link], labels: Mapping[Node, LabelledColumn]
    ) -> Iterator[StoppedFlow]:
        for link in links:
            label, own = labels[link.source].label, self._own(link.target)
            lost = label.pii - passed_on(label, link.kind, link.masked).pii
            if lost:
                counted = link.kind == "aggregation"
                reason = "counted" if counted else "hashed or masked"
                yield StoppedFlow(self._named(link), f"{', '.join(sorted(lost))}: {reason}")
            elif label.pii and own.pii == NOT_PERSONAL:
                yield StoppedFlow(self._named(link), "said to be not personal")

    def _unknown(self, nodes: Iterable[Node]) -> Iterator[Node]:
        for node in dict.fromkeys(nodes):
            key = self._names.key(node.asset)
            coverage = None if self._own(node).pii else self._lineage.coverage(key)
            if coverage and node.column in coverage.unmapped and self._lineage.edges(key):
                yield node

    def _named(self, link: Link) -> Link:
        return Link(
            link.distance,
            self._lineage.named(link.source),
            self._lineage.named(link.target),
            link.kind,
            link.masked,
            link.method,
            link.confidence,
        )


def _own_label(row: ColumnRow) -> OwnLabel:
    return OwnLabel(row.pii, row.sensitivity)
