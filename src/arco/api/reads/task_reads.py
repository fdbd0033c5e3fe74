"""The code of an asset, and what was planned for a task: why it runs, its SQL, what it reads."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from arco.answers.asset_code import AssetCode, asset_code
from arco.answers.task_plan import TaskPlanBody, task_plan
from arco.api.reads.catalog import AssetName
from arco.api.reads.run_reads import TaskParameters, require_task
from arco.api.routes import AtParameters, read
from arco.api.run_visibility import require_run
from arco.api.views import View, require_asset
from arco.security.permissions import Permission
from arco.security.visibility import Visible


class AssetCodeParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="The partition: date=2026-01-31. Default: the last one."),
    ] = []


def get_asset_code(view: View, visible: Visible, parameters: AssetCodeParameters) -> AssetCode:
    """Show the code of an asset as deployed, and its SQL as Spark gets it for a partition."""
    require_asset(visible, parameters.asset)
    return asset_code(view.snapshot, view.library, view.now, parameters.asset, parameters.partition)


def get_task_plan(view: View, visible: Visible, parameters: TaskParameters) -> TaskPlanBody:
    """Show the plan of a task: its reason, code, SQL, configuration and inputs."""
    task = require_task(view, visible, parameters.run_id, parameters.task_id)
    run = require_run(view, visible, parameters.run_id)
    return task_plan(view.snapshot, view.library, run, task, visible.sees_asset)


ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/code", Permission.ASSETS_READ, get_asset_code, live=True),
    read("/runs/{run_id}/tasks/{task_id}/plan", Permission.RUNS_READ, get_task_plan),
)
