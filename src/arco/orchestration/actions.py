"""What controllers want done. Data: `arco.dispatch` performs it."""

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
    """Let tasks in that limits count; they are sent once the log has it."""

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
    """Tell whoever runs an attempt to stop."""

    run_id: str
    attempt_id: str


class CancelTasks(Struct, frozen=True):
    """End tasks of a run that is being cancelled, which nobody works on."""

    run_id: str
    task_ids: tuple[str, ...]


class AdoptRun(Struct, frozen=True):
    """Serve a run whose own engine is gone."""

    run_id: str


Action = Enqueue | AdmitTasks | FireTimer | LoseAttempt | Interrupt | CancelTasks | AdoptRun
