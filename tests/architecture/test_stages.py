"""Every event type and every derived fact is folded somewhere: one that is not is silence."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import arco.automation
import arco.catalog
import arco.execution
import arco.imports
import arco.lineage
import arco.notifications
import arco.orchestration
import arco.quality
import arco.security
import arco.state
from arco.app import EVENTS, chain
from arco.log.envelope import Payload
from arco.state.rollback import RolledBack

CHAIN = chain()
ADMISSION = CHAIN.stages[0]
NOT_FOLDED = {RolledBack}
"""Read by replays, which leave out what it takes back."""
PACKAGES = (
    arco.automation,
    arco.catalog,
    arco.execution,
    arco.imports,
    arco.lineage,
    arco.notifications,
    arco.orchestration,
    arco.quality,
    arco.security,
    arco.state,
)


def declared() -> set[type[Payload]]:
    """All types of payload that the program's folds could meet."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return {p for p in _below(Payload) if p.__module__.startswith("arco.") and p.TYPE}


def _below(payload: type[Payload]) -> Iterator[type[Payload]]:
    for cls in payload.__subclasses__():
        yield cls
        yield from _below(cls)


def test_every_event_type_is_folded_by_a_domain() -> None:
    folded = {payload for stage in CHAIN.stages[1:] for payload in stage.on}
    assert set(EVENTS) - folded == NOT_FOLDED


def test_every_payload_is_an_event_of_the_log_or_a_derived_fact_with_a_stage() -> None:
    assert declared() == {*EVENTS, *CHAIN.derived}


def test_every_command_is_admitted_and_nothing_else() -> None:
    assert set(ADMISSION.on) == {event for event in EVENTS if event.COMMAND}


def test_types_of_payloads_have_names_of_their_own() -> None:
    names = [payload.TYPE for payload in declared()]
    assert sorted(names) == sorted(set(names))
