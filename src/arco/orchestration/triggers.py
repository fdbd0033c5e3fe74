"""What caused a run: in words, and the runs that led to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from arco.orchestration.states import SENSOR_TRIGGERS, RunTrigger
from arco.orchestration.tables import RUNS, RunRow
from arco.state.snapshot import Snapshot

_OF_RUN: Final = re.compile(r" of run ([0-9A-Z]{26}) ")
MAX_BEFORE: Final = 20
"""Maximum number of runs of a chain that are looked up."""


def runs_before(snapshot: Snapshot, row: RunRow) -> Iterator[RunRow]:
    """The runs that led to this one, the last first: each wrote what caused the next."""
    for _ in range(MAX_BEFORE):
        match = _OF_RUN.search(row.reference) if row.trigger == RunTrigger.MATERIALIZATION else None
        cause = None if match is None else snapshot.get(RUNS, match[1])
        if cause is None:
            return
        yield cause
        row = cause


def run_trigger(row: RunRow) -> str:
    return trigger_text(row.trigger, row.reference, row.triggered_by, row.run_key)


def trigger_text(kind: RunTrigger, reference: str, by: str, key: str) -> str:
    """What caused a request or a run, in words. `key` is the request's, or the run's."""
    if kind == RunTrigger.SCHEDULE:
        schedule, _, tick = reference.rpartition("@")
        by_hand = key != f"{kind}:{reference}"  # which its own ticks have
        return f"schedule {schedule}, tick {tick}" + (f" by {by or '–'}" if by_hand else "")
    if kind == RunTrigger.BACKFILL:
        backfill, _, chunk = reference.partition(":")
        number, _, round = chunk.partition(":")
        return f"backfill {backfill}, chunk {number}" + (f", round {round}" if round else "")
    if kind in SENSOR_TRIGGERS and reference:
        sensor, _, number = reference.rpartition("#")
        return f"{kind} {sensor}, evaluation {number}"
    if kind == RunTrigger.MATERIALIZATION:
        return f"automation: {reference}"
    if kind == RunTrigger.FRESHNESS:
        subject, _, due = reference.rpartition("@")
        return f"freshness of {subject}, due {due}"
    what = f"{kind} of run {reference}" if kind == RunTrigger.RETRY and reference else kind
    return f"{what} by {by or '–'}"
