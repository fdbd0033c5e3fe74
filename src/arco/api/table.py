"""The table of all routes below a workspace."""

from __future__ import annotations

from typing import Any, Final

from arco.api.reads import (
    answers,
    automation_reads,
    catalog,
    commands,
    contract_reads,
    data,
    files,
    glossary_reads,
    lineage,
    objects,
    operations,
    personal_reads,
    planned_reads,
    preview,
    record_reads,
    request_reads,
    run_graph,
    run_reads,
    security,
    task_reads,
    version_reads,
)
from arco.api.routes import Route
from arco.api.writes import (
    automation_writes,
    contract_writes,
    glossary_writes,
    hold_writes,
    import_writes,
    ingest_writes,
    run_writes,
)
from arco.api.writes import catalog as catalog_writes
from arco.api.writes import operations as operation_writes
from arco.api.writes import security as security_writes

READS: Final[tuple[Route[Any], ...]] = (
    *operations.ROUTES,
    *catalog.ROUTES,
    *data.ROUTES,
    *files.ROUTES,
    *objects.ROUTES,
    *preview.ROUTES,
    *lineage.ROUTES,
    *answers.ROUTES,
    *run_reads.ROUTES,
    *request_reads.ROUTES,
    *automation_reads.ROUTES,
    *commands.ROUTES,
    *security.ROUTES,
    *contract_reads.ROUTES,
    *personal_reads.ROUTES,
    *glossary_reads.ROUTES,
    *version_reads.ROUTES,
    *planned_reads.ROUTES,
    *record_reads.ROUTES,
    *task_reads.ROUTES,
    *run_graph.ROUTES,
)
WRITES: Final[tuple[Route[Any], ...]] = (
    *operation_writes.ROUTES,
    *catalog_writes.ROUTES,
    *run_writes.ROUTES,
    *automation_writes.ROUTES,
    *security_writes.ROUTES,
    *contract_writes.ROUTES,
    *glossary_writes.ROUTES,
    *hold_writes.ROUTES,
    *import_writes.ROUTES,
    *ingest_writes.ROUTES,
)
ROUTES: Final = (*READS, *WRITES)
