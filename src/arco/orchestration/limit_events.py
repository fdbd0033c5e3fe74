"""What can happen to limits: they are set and unset, dispatch is paused and resumed, and tasks
that limits count are admitted."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from arco.log.envelope import Payload
from arco.orchestration.events import OrchestrationCommand, RunTriggered
from arco.orchestration.limit_tables import LimitName, Permit


class LimitSet(OrchestrationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.limit_set"
    scope: str
    name: LimitName
    value: int
    reason: str = ""


class LimitUnset(OrchestrationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.limit_unset"
    scope: str
    name: LimitName
    reason: str = ""


class DispatchPaused(OrchestrationCommand, frozen=True, kw_only=True):
    """No task and no run of the workspace starts until dispatch is resumed."""

    TYPE: ClassVar[str] = "orchestration.dispatch_paused"
    reason: str = ""


class DispatchResumed(OrchestrationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.dispatch_resumed"
    reason: str = ""


class AdmittedTask(Struct, frozen=True, gc=False):
    run_id: str
    task_id: str
    attempt_id: str


class TasksAdmitted(Payload, frozen=True, kw_only=True):
    """An orchestrator has counted: limits leave room for these tasks.

    They are admitted by the commit that folds this, and enqueued after it. It has an effect only if
    no task was admitted after the position up to which it was counted.
    """

    TYPE: ClassVar[str] = "orchestration.tasks_admitted"
    permit: Permit
    tasks: tuple[AdmittedTask, ...]


class TaskAdmitted(Payload, frozen=True, kw_only=True):
    """Derived: a task is admitted."""

    TYPE: ClassVar[str] = "orchestration.task_admitted"
    run_id: str
    task_id: str
    attempt_id: str


class RunPermitted(Payload, frozen=True, kw_only=True):
    """Derived: limits permit a run."""

    TYPE: ClassVar[str] = "orchestration.run_permitted"
    trigger: RunTriggered


COMMANDS: tuple[type[OrchestrationCommand], ...] = (
    LimitSet,
    LimitUnset,
    DispatchPaused,
    DispatchResumed,
)
EVENTS: tuple[type[Payload], ...] = (*COMMANDS, TasksAdmitted)
