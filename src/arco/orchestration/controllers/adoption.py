"""Adoption of runs whose own engine has ended.

A run may belong to one process, which serves it with a queue of its own (`servo run`). That process
writes liveness records as a worker does. How long it has been silent is measured by the observer's
own clock, and only as long as the observer has watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.orchestration.actions import AdoptRun
from arco.orchestration.board import Board
from arco.orchestration.controllers.lost_attempts import WorkerState
from arco.orchestration.limits import Timing


def adoption(
    board: Board,
    alive: Mapping[str, WorkerState],
    now: datetime,
    timing: Timing,
    since: Mapping[str, datetime],
    watching_since: datetime,
) -> list[AdoptRun]:
    """`since` tells when the observer first saw a run, `watching_since` when it began to watch
    without a pause."""
    silent = timedelta(seconds=timing.zombie_after_s)
    orphans = []
    for run in board.others.values():
        engine = alive.get(run.engine_id)
        changed_at = since.get(run.run_id, now) if engine is None else engine.changed_at
        if now - max(changed_at, watching_since) > silent:
            orphans.append(AdoptRun(run.run_id))
    return sorted(orphans, key=lambda action: action.run_id)
