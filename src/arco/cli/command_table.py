"""The commands of `servo` itself: their names, their modules, and a line about each.

`servo --help` prints it without importing those modules. A test compares it with them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class TopCommand(NamedTuple):
    name: str
    module: str
    """Of `arco.cli`. A command, or a group of commands."""
    help: str
    """The first sentence of its help text."""


TOP_COMMANDS: Final = (
    TopCommand("init", "init", "Create a project: a folder with assets and tests."),
    TopCommand("dev", "dev", "Run a local installation for the project in this folder."),
    TopCommand(
        "status", "status", "Show what failed, is stale, is running, or waits for a decision."
    ),
    TopCommand("logs", "status", "Show the logs of the newest run."),
    TopCommand("assets", "status", "List assets with their health and newest data."),
    TopCommand("validate", "project", "Validate the code in this folder."),
    TopCommand("deploy", "project", "Deploy the code in this folder; new runs will use it."),
    TopCommand(
        "deployments",
        "project",
        "List deployments, newest first.",
    ),
    TopCommand(
        "rollback",
        "project",
        "Deploy an older deployment again, as a new one.",
    ),
    TopCommand("plan", "run", "Show the tasks of a run and the reason for each."),
    TopCommand("run", "run", "Plan a run, run its tasks, and show the progress."),
    TopCommand("pause", "dispatch_limits", "Pause dispatch: no task and no run starts."),
    TopCommand("resume", "dispatch_limits", "Resume dispatch after `servo pause`."),
    TopCommand("freshness", "freshness", "Show the status of assets with a freshness policy."),
    TopCommand("show", "show", "Show the first rows of an asset's partition."),
    TopCommand("code", "code", "Show the code of an asset, and its SQL for a partition."),
    TopCommand("compare", "compare", "Compare two versions of a partition."),
    TopCommand("costs", "costs", "Show the CPU time, memory, bytes and cost of tasks."),
    TopCommand("explain", "explain", "Explain why an asset or a run is in its state."),
    TopCommand("health", "explain", "Show the health of assets, worst first."),
    TopCommand(
        "recommend", "explain", "Recommend improvements, based on recorded outputs and attempts."
    ),
    TopCommand(
        "diff", "snapshot_diff", "Show what changed between two generations, times or runs."
    ),
    TopCommand("gc", "data_gc", "Delete old versions, leftover files, logs and plans."),
    TopCommand(
        "orchestrator", "serve", "Decide which tasks run next, and enqueue them for workers."
    ),
    TopCommand("worker", "serve", "Run tasks from the workspace's queue."),
    TopCommand("serve", "http_server", "Serve the HTTP API and the web page."),
    TopCommand("doctor", "doctor", "Check this machine and the store."),
    TopCommand("version", "doctor", "Show the version of Arco."),
    TopCommand("search", "search", "Find assets by name, column, owner, tag or text."),
    TopCommand("runs", "runs", "List, show, cancel, retry and resume runs."),
    TopCommand("schedules", "schedules", "Show, preview, pause and resume schedules."),
    TopCommand("sensors", "sensors", "Show, test, pause and reset sensors; push messages."),
    TopCommand("automation", "asset_automation", "Show, pause and resume asset automation."),
    TopCommand("backfill", "backfill", "Preview, create, pause and retry backfills."),
    TopCommand("requests", "requests", "Show run requests and their outcomes."),
    TopCommand(
        "notifications", "notifications", "Show notifications and open alerts; test channels."
    ),
    TopCommand("limits", "dispatch_limits", "Show and set limits on tasks, runs and pools."),
    TopCommand("partitions", "partitions", "Show the state of partitions; manage dynamic keys."),
    TopCommand("checks", "checks", "Show the results of checks."),
    TopCommand("lineage", "lineage", "Show where data comes from and what uses it."),
    TopCommand("ingest", "ingest", "Record outputs, checks and lineage of external tables."),
    TopCommand("pii", "personal", "Show where personal data is and how it got there."),
    TopCommand("schema", "schemas", "Show the schemas of assets, and how they changed."),
    TopCommand("contracts", "contracts", "Show, check, import and export contracts."),
    TopCommand("quarantine", "quarantine", "Show, approve and reject held outputs; hold versions."),
    TopCommand("auth", "auth", "Log in to an API; create and revoke API keys."),
    TopCommand("roles", "roles", "Grant and revoke roles for users, groups and keys."),
    TopCommand("audit", "audit", "List, verify and export records of who did what."),
    TopCommand("admin", "admin_group", "Maintain a workspace: its log, tables and files."),
    TopCommand(
        "catalog", "catalog_group", "Show and change namespaces, assets, columns and terms."
    ),
)
PARTS: Final = {
    "contracts": ("contract_exchange",),
    "lineage": ("lineage_imports",),
    "partitions": ("version_history",),
    "quarantine": ("quarantine_by_hand",),
    "runs": ("run_task", "run_outputs"),
    "auth": ("auth_login",),
}
"""Modules with more commands of the group that a module has."""
