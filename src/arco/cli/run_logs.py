"""The logs of a run's tasks, printed under headings."""

from __future__ import annotations

from typing import Any

from arco.app import Workspace
from arco.cli import render
from arco.cli.live import is_partition, name_of
from arco.cli.session import Session
from arco.errors import NotFound
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import RunRow, TaskRow
from arco.worker.log_parts import RunLogs


def show_logs(
    session: Session,
    workspace: Workspace,
    reader: OrchestrationReader,
    row: RunRow,
    task: str | None,
    partition: str | None,
    attempt: int | None,
    *,
    follow: bool,
) -> None:
    """Print what matching tasks of a reader's run wrote; with `follow`, until the run has ended."""
    logs, heading = RunLogs(workspace.store, row.run_id), ""
    while True:
        tasks = matching_tasks(reader.tasks(row.run_id), task, partition)
        if not tasks:
            raise NotFound(
                f"run {row.run_id} has no matching task", hint="see `servo runs show --all`"
            )
        texts = _new_texts(logs, tasks, attempt)
        if session.json:
            render.document({"run_id": row.run_id, "logs": texts})
            return
        heading = _print_logs(texts, heading)
        if not follow or row.state not in RUN_ACTIVE:
            break
        workspace.clock.sleep(1.0)
        reader = workspace.read.orchestration()
        row = reader.run(row.run_id)
    if not heading:
        render.say("the log is empty")


def matching_tasks(tasks: list[TaskRow], name: str | None, partition: str | None) -> list[TaskRow]:
    """Tasks of an asset, or the task with an id; of one partition, if it is given."""
    return [
        task
        for task in tasks
        if name in (None, task.asset_key, task.task_id, name_of(task))
        and is_partition(task.partition_key, partition)
    ]


def _new_texts(logs: RunLogs, tasks: list[TaskRow], attempt: int | None) -> list[dict[str, Any]]:
    by_id = {task.task_id: task for task in tasks}
    return [
        {"task": name_of(by_id[log.task_id]), "attempt": log.attempt, "text": log.text}
        for log in logs.new(by_id)
        if attempt is None or log.attempt == attempt
    ]


def _print_logs(texts: list[dict[str, Any]], heading: str) -> str:
    """Print under headings, and return the last heading. A heading is not repeated."""
    for log in texts:
        own = f"── {log['task']} attempt {log['attempt']}"
        if own != heading:
            render.say(own, "bold")
        heading = own
        for line in log["text"].splitlines():
            render.say(line)
    return heading
