"""The domains: which events this program knows, and the stages that fold them."""

from __future__ import annotations

from arco.automation import events as automation_events
from arco.automation import fold as automation_fold
from arco.automation import sensor_events, sensor_history, sensors
from arco.catalog import events as catalog_events
from arco.catalog import fold as catalog_fold
from arco.execution import events as execution_events
from arco.execution import fold as execution_fold
from arco.lineage import fold as lineage_fold
from arco.log.envelope import Payload
from arco.notifications import events as notification_events
from arco.notifications import fold as notification_fold
from arco.orchestration import derived, limit_events
from arco.orchestration import events as orchestration_events
from arco.orchestration import fold as orchestration_fold
from arco.quality import fold as quality_fold
from arco.state import system
from arco.state.fold import Chain
from arco.state.rollback import RolledBack

EVENTS: tuple[type[Payload], ...] = (
    *catalog_events.EVENTS,
    *orchestration_events.EVENTS,
    *limit_events.EVENTS,
    *automation_events.EVENTS,
    *sensor_events.EVENTS,
    *execution_events.EVENTS,
    *notification_events.EVENTS,
    RolledBack,
)
"""Every event type that this program knows."""


def chain() -> Chain:
    """The stages of all domains, in their order."""
    commands = [event for event in EVENTS if event.COMMAND]
    stages = (
        system.admission(commands),
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
        *quality_fold.STAGES,
        *lineage_fold.STAGES,
        *notification_fold.BEFORE_CATALOG,
        *catalog_fold.STAGES,
        *notification_fold.AFTER_CATALOG,
        system.OUTCOME_STAGE,
    )
    return Chain(stages, EVENTS)
