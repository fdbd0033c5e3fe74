"""The domains: which events this program knows, and the stages that fold them."""

from __future__ import annotations

import functools

from arco.answers import asset_states
from arco.automation import asset_events, sensor_events, sensor_history, sensors
from arco.automation import events as automation_events
from arco.automation import fold as automation_fold
from arco.catalog import contract_events, governance_events, schema_events
from arco.catalog import events as catalog_events
from arco.catalog import fold as catalog_fold
from arco.execution import events as execution_events
from arco.execution import fold as execution_fold
from arco.imports import events as import_events
from arco.imports import fold as import_fold
from arco.ingest import events as ingest_events
from arco.ingest import fold as ingest_fold
from arco.lineage import events as lineage_events
from arco.lineage import fold as lineage_fold
from arco.log.envelope import EventTypes, Payload
from arco.notifications import events as notification_events
from arco.notifications import fold as notification_fold
from arco.orchestration import derived, limit_events
from arco.orchestration import events as orchestration_events
from arco.orchestration import fold as orchestration_fold
from arco.quality import fold as quality_fold
from arco.search import fold as search_fold
from arco.security import audit_fold
from arco.security import events as security_events
from arco.security import fold as security_fold
from arco.state import system
from arco.state.fold import Chain
from arco.state.rollback import RolledBack

EVENTS: tuple[type[Payload], ...] = (
    *catalog_events.EVENTS,
    *governance_events.COMMANDS,
    *schema_events.EVENTS,
    *contract_events.EVENTS,
    *orchestration_events.EVENTS,
    *limit_events.EVENTS,
    *automation_events.EVENTS,
    *sensor_events.EVENTS,
    *asset_events.EVENTS,
    *execution_events.EVENTS,
    *lineage_events.EVENTS,
    *import_events.EVENTS,
    *ingest_events.EVENTS,
    *notification_events.EVENTS,
    *security_events.EVENTS,
    RolledBack,
)
"""Every event type that this program knows."""


@functools.cache
def event_types() -> EventTypes:
    """Decoders for them, made once in a process."""
    return EventTypes(EVENTS)


def chain() -> Chain:
    """The stages of all domains, in their order."""
    commands = [event for event in EVENTS if event.COMMAND]
    stages = (
        *orchestration_fold.BEFORE_SENSORS,
        sensors.STAGE,
        *orchestration_fold.AFTER_SENSORS,
        *automation_fold.STAGES,
        *orchestration_fold.AFTER_AUTOMATION,
        *automation_fold.AFTER_RUNS,
        sensor_history.STAGE,
        *execution_fold.STAGES,
        *automation_fold.AFTER_OUTPUTS,
        derived.DECISIONS,
        ingest_fold.STAGE,
        *quality_fold.STAGES,
        asset_states.STAGE,
        import_fold.STAGE,
        *lineage_fold.STAGES,
        *notification_fold.BEFORE_CATALOG,
        *catalog_fold.STAGES,
        *search_fold.STAGES,
        *notification_fold.AFTER_CATALOG,
        *security_fold.STAGES,
    )
    watched = [audit_fold.watched(search_fold.WATCHED.get(stage, stage)) for stage in stages]
    last = (system.OUTCOME_STAGE, audit_fold.audit_stage(commands))
    return Chain([system.admission(commands), *watched, *last], EVENTS)
