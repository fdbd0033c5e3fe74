"""Records reports about assets of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from arco.catalog.commands import CatalogCommands
from arco.catalog.reader import CatalogReader
from arco.catalog.tables import ASSET_NAMES, NAMESPACES
from arco.errors import Invalid, Refused
from arco.ingest.events import OutputReported
from arco.ingest.openlineage import (
    OpenLineageEvent,
    ReportedDataset,
    ReportedDatasetFacets,
    RunReport,
    asset_key_of,
    columns_of,
    run_report,
)
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.keys import AssetKey

MAX_ID = 200


class ReportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    generation: int
    recorded: list[str]
    """Keys of the assets whose outputs were reported."""
    skipped: list[str]
    """Datasets that are no assets here."""


class ReportPolicy(NamedTuple):
    """What a reporter may do, by the key of an asset."""

    may_report: Callable[[str], bool]
    may_read: Callable[[str], bool]
    may_create: Callable[[str], bool]


def _always(key: str) -> bool:
    return True


EVERYTHING_ALLOWED: Final = ReportPolicy(_always, _always, _always)


class IngestCommands:
    def __init__(self, core: Core, tier1: Tier1, catalog: CatalogCommands, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._catalog = catalog
        self._actor = actor

    def report(self, event: OutputReported, *, idempotency_key: str = "") -> Acknowledged:
        """Record an output. The same report again changes nothing.

        `asset_key` names the asset; its id is looked up, and those of inputs must be known.
        """
        if not 1 <= len(event.report_id) <= MAX_ID or not event.report_id.isprintable():
            raise Invalid(
                f"{event.report_id[:50]!r} is not the id of a report",
                hint=f"1 to {MAX_ID} characters that can be printed",
            )

        def build(snapshot: Snapshot) -> OutputReported:
            asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(event.asset_key))
            return msgspec.structs.replace(event, asset_id=asset_id)

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def input_ids(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Of assets that must be there."""
        reader = CatalogReader(self._core.snapshot())
        return tuple(reader.asset_id(AssetKey.parse(key)) for key in keys)

    def openlineage_event(
        self, event: OpenLineageEvent, *, namespaces: Mapping[str, str]
    ) -> ReportOutcome | None:
        """Record an event; None for one that is of no run."""
        run = run_report(event)
        return None if run is None else self.openlineage(run, namespaces=namespaces)

    def openlineage(
        self,
        run: RunReport,
        *,
        namespaces: Mapping[str, str],
        policy: ReportPolicy = EVERYTHING_ALLOWED,
    ) -> ReportOutcome:
        """Record a run event: an output for each of its outputs that is, or becomes, an asset.

        `namespaces` are those of assets by those of datasets. A dataset that is no asset becomes
        one, if that is allowed; others are left out.
        """
        manifests = self._core.manifests
        own = f"arco://{manifests.tenant}/{manifests.workspace}"
        keys: dict[ReportedDataset, str] = {}
        outputs = {output.dataset: output for output in run.outputs}
        for dataset in dict.fromkeys((*outputs, *run.inputs)):
            key = asset_key_of(dataset, own, namespaces)
            may_name = policy.may_report if dataset in outputs else policy.may_read
            if key is not None and may_name(key) and self._is_asset(dataset, key, policy, outputs):
                keys[dataset] = key
        reader = CatalogReader(self._core.snapshot())
        ids = {dataset: reader.asset_id(AssetKey.parse(key)) for dataset, key in keys.items()}
        generation, recorded = reader.snapshot.generation, []
        for dataset, output in outputs.items():
            if dataset in keys:
                event = run.event(output, keys[dataset], ids)
                generation = self.report(event).generation
                recorded.append(keys[dataset])
        skipped = [str(each) for each in dict.fromkeys((*outputs, *run.inputs)) if each not in keys]
        return ReportOutcome(generation=generation, recorded=recorded, skipped=skipped)

    def _is_asset(
        self,
        dataset: ReportedDataset,
        key: str,
        policy: ReportPolicy,
        outputs: Mapping[ReportedDataset, ReportedDatasetFacets],
    ) -> bool:
        namespace, _, name = key.partition(".")
        snapshot = self._core.snapshot()
        if snapshot.get(ASSET_NAMES, namespace, name) is not None:
            return True
        if not policy.may_create(key):
            return False
        if snapshot.get(NAMESPACES, namespace) is None:
            with suppress(Refused):  # another process may have created it
                self._catalog.create_namespace(namespace)
        output = outputs.get(dataset)
        with suppress(Refused):
            self._catalog.create_asset(
                key,
                kind="external",
                location=str(dataset),
                columns=[] if output is None else columns_of(output.facets),
            )
        return True
