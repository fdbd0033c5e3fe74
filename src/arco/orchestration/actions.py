"""The actions of controllers, as data: `arco.dispatch` performs them."""

from __future__ import annotations

from msgspec import Struct

from arco.orchestration.tables import TaskRow


class Enqueue(Struct, frozen=True):
    """Send an attempt to the queue; a greater `redelivery` sends it again."""

    run_id: str
    task_id: str
    attempt_id: str
    redelivery: int = 0


class AdmitTasks(Struct, frozen=True):
    """Admit tasks that limits count. They are enqueued after the commit."""

    tasks: tuple[Enqueue, ...]


class FireTimer(Struct, frozen=True):
    run_id: str
    timer_id: str


class LoseAttempt(Struct, frozen=True):
    run_id: str
    task_id: str
    attempt_id: str
    reason: str
    worker_id: str

    @classmethod
    def of(cls, task: TaskRow, reason: str) -> LoseAttempt:
        return cls(task.run_id, task.task_id, task.attempt_id, reason, task.worker_id)


class Interrupt(Struct, frozen=True):
    """Tell the worker of an attempt to stop it."""

    run_id: str
    attempt_id: str


class CancelTasks(Struct, frozen=True):
    """End tasks of a run that is being cancelled and that no worker has."""

    run_id: str
    task_ids: tuple[str, ...]


class AdoptRun(Struct, frozen=True):
    """Serve a run whose own engine has ended."""

    run_id: str


Action = Enqueue | AdmitTasks | FireTimer | LoseAttempt | Interrupt | CancelTasks | AdoptRun
