"""Workspaces whose log may hold what is otherwise derived from reports of tasks."""

from __future__ import annotations

from typing import Any
from unittest import mock

from arco.app import Workspace, domains
from arco.automation.freshness_events import FreshnessChanged
from arco.catalog.contract_events import ContractEvaluated
from arco.catalog.schema_events import SchemaObserved
from arco.execution.events import CostIncurred, OutputAccepted, OutputHeld
from arco.lineage.events import HeldLineageDecided, LineageRecorded
from arco.log.envelope import EventTypes, Payload
from arco.quality.events import ChecksEvaluated
from tests.kit.workspace import make_workspace

DERIVED: tuple[type[Payload], ...] = (
    OutputAccepted,
    OutputHeld,
    CostIncurred,
    ChecksEvaluated,
    LineageRecorded,
    HeldLineageDecided,
    ContractEvaluated,
    FreshnessChanged,
    SchemaObserved,
)


def derived_workspace(*args: Any, **settings: Any) -> Workspace:
    """`make_workspace`, with a log that may hold derived facts."""
    events = (*domains.EVENTS, *DERIVED)
    with (
        mock.patch.object(domains, "EVENTS", events),
        mock.patch("arco.app.workspace.event_types", lambda: EventTypes(events)),
    ):
        return make_workspace(*args, **settings)
