"""Commands for imports and reports, executed by the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from arco.errors import Invalid
from arco.imports.commands import ImportCommands, Imported
from arco.imports.dbt_artifacts import DbtFile, read_catalog, read_manifest
from arco.ingest.commands import IngestCommands, ReportOutcome
from arco.ingest.events import OutputReported
from arco.ingest.openlineage import OpenLineageEvent
from arco.orchestration.catalog_names import lineage_reader
from arco.remote.command_api import CommandApi
from arco.state.replay import ReportProgress, silent
from arco.state.tier1 import Acknowledged
from arco.times import iso
from servo.contract.task import CheckResult

_OF_OUTPUTS = ("state", "rows", "bytes", "files", "location", "message")
_OF_CHECKS = ("name", "passed", "severity", "message", "expected", "actual", "rows", "failing")


class RemoteImports(ImportCommands):
    api: CommandApi

    def dbt(
        self,
        manifest: DbtFile,
        catalog: DbtFile | None = None,
        *,
        namespaces: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ReportProgress = silent,
    ) -> Imported:
        project = read_manifest(manifest)  # reports a broken file by its name
        body: dict[str, Any] = {
            "manifest": msgspec.Raw(manifest.read_bytes()),
            "namespaces": dict(namespaces or {}),
            "dry_run": dry_run,
        }
        if catalog is not None:
            read_catalog(catalog, project)
            body["catalog"] = msgspec.Raw(catalog.read_bytes())
        return _imported(self.api.client.import_dbt(cast(Any, body)))

    def remove(self, source: str) -> Imported:
        return _imported(self.api.client.remove_import({"source": source}))


def _imported(answer: Mapping[str, Any]) -> Imported:
    return msgspec.convert(answer["imported"], Imported)


class RemoteIngest(IngestCommands):
    api: CommandApi

    def report(self, event: OutputReported, *, idempotency_key: str = "") -> Acknowledged:
        key = self.api.key(idempotency_key)
        body: dict[str, Any] = {
            "id": event.report_id,
            "partition": event.partition,
            "made_at": iso(event.reported_at),
            "producer": event.producer,
            "job": event.job,
        }
        client = self.api.client
        answer: Mapping[str, Any]
        if event.checks:
            body["results"] = [_result(each) for each in event.checks]
            answer = client.report_check_results(
                event.asset_key, cast(Any, body), idempotency_key=key
            )
        else:
            names = lineage_reader(self._core.snapshot()).names
            body |= {name: getattr(event, name) for name in _OF_OUTPUTS}
            body["columns"] = msgspec.to_builtins(event.columns)
            body["inputs"] = [names.key(id) for id in event.input_ids]
            answer = client.report_materialization(
                event.asset_key, cast(Any, body), idempotency_key=key
            )
        return self.api.done(answer, key)

    def openlineage_event(
        self, event: OpenLineageEvent, *, namespaces: Mapping[str, str]
    ) -> ReportOutcome:
        if namespaces:
            raise Invalid(
                "--dataset-namespace is not available through the API: the server sets it",
                hint="leave out --dataset-namespace; see docs/guides/api.md",
            )
        body: Any = msgspec.Raw(msgspec.json.encode(event))
        return msgspec.convert(self.api.client.ingest_lineage(body), ReportOutcome)


def _result(check: CheckResult) -> dict[str, Any]:
    fields = {name: getattr(check, name) for name in _OF_CHECKS}
    return fields | {"columns": list(check.columns)}
