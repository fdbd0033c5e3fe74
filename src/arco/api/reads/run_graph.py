"""The tasks of a run as a graph: one node for each asset, or for each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from arco.api.reads.run_reads import RunParameters, task_order
from arco.api.routes import read
from arco.api.run_visibility import require_run
from arco.api.views import View
from arco.orchestration.plan import PlannedTask
from arco.orchestration.states import TaskState
from arco.security.permissions import Permission
from arco.security.visibility import Visible

MAX_NODES = 5_000
MAX_EDGES = 50_000
_SHOWN_FIRST: Final = (
    TaskState.FAILED,
    TaskState.RUNNING,
    TaskState.DISPATCHED,
    TaskState.RETRY_WAIT,
    TaskState.READY,
    TaskState.BLOCKED,
    TaskState.PLANNED,
    TaskState.SKIPPED,
    TaskState.CANCELLED,
    TaskState.SUCCEEDED,
    TaskState.REUSED,
)
"""Of the states of an asset's tasks, the one that the asset is shown in."""


class RunGraphParameters(RunParameters, frozen=True, kw_only=True):
    by: Annotated[Literal["asset", "task"], Meta(description="What a node is.")] = "asset"


class RunGraphNode(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    """Of a task; empty for an asset."""
    task_id: str
    """Of a task, or of the only task of an asset."""
    state: TaskState
    """Of an asset: that of a failed task if there is one, else of one that is not finished."""
    tasks: int
    finished: int
    """How many of the tasks succeeded or were reused."""


class RunGraphBody(msgspec.Struct, frozen=True, kw_only=True):
    by: Literal["asset", "task"]
    nodes: list[RunGraphNode]
    """In the order of the plan."""
    edges: list[tuple[int, int]]
    """Numbers of nodes: the second waits for the first."""
    node_count: int
    """How many there are; `nodes` has the first of them."""
    truncated: bool


def get_run_graph(view: View, visible: Visible, parameters: RunGraphParameters) -> RunGraphBody:
    """Show the tasks of a run as a graph, by asset or by task."""
    run = require_run(view, visible, parameters.run_id)
    tasks = view.library.plan(run.plan_id).spec.tasks
    states = {task_id: state for _, task_id, _, state in task_order(view, run.run_id)}
    by_task = parameters.by == "task"
    groups: dict[tuple[str, str], list[int]] = {}
    node_of: dict[int, int] = {}
    for index, task in enumerate(tasks):
        if visible.sees_asset(task.asset):
            key = (task.asset, task.partition if by_task else "")
            groups.setdefault(key, []).append(index)
    for number, group in enumerate(groups.values()):
        node_of |= dict.fromkeys(group, number)
    first_groups = list(groups.items())[:MAX_NODES]
    edges = _edges(tasks, node_of, len(first_groups))
    return RunGraphBody(
        by=parameters.by,
        nodes=[
            _node(asset, partition, [tasks[index] for index in group], states)
            for (asset, partition), group in first_groups
        ],
        edges=edges[:MAX_EDGES],
        node_count=len(groups),
        truncated=len(first_groups) < len(groups) or len(edges) > MAX_EDGES,
    )


def _edges(
    tasks: Sequence[PlannedTask], node_of: dict[int, int], node_count: int
) -> list[tuple[int, int]]:
    edges = {
        (node_of[before], node)
        for index, node in node_of.items()
        if node < node_count
        for before in tasks[index].depends_on
        if before in node_of and node_of[before] < node_count
    }
    return sorted(edge for edge in edges if edge[0] != edge[1])


def _node(
    asset: str, partition: str, tasks: Sequence[PlannedTask], states: dict[str, str]
) -> RunGraphNode:
    # The rows of a run that is being planned are not all there yet.
    task_states = [TaskState(states.get(task.task_id, TaskState.PLANNED)) for task in tasks]
    finished = (TaskState.SUCCEEDED, TaskState.REUSED)
    return RunGraphNode(
        asset=asset,
        partition=partition,
        task_id=tasks[0].task_id if len(tasks) == 1 else "",
        state=min(task_states, key=_SHOWN_FIRST.index),
        tasks=len(tasks),
        finished=sum(state in finished for state in task_states),
    )


ROUTES: tuple[Any, ...] = (read("/runs/{run_id}/graph", Permission.RUNS_READ, get_run_graph),)
