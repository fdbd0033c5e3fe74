"""`servo doctor` and `servo version`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import command, flag

if deferral.LOADED:
    from arco.app.health import (
        HealthCheck,
        api_checks,
        disk_check,
        machine_checks,
        store_checks,
        unreachable,
    )
    from arco.app.versions import all_versions, installed
    from arco.cli import render
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.session import Session
    from arco.config import resolve_running
    from arco.errors import Error


def register(app: typer.Typer) -> None:
    command(app, "doctor", example="servo doctor\nservo doctor --store s3://bucket/arco")(doctor)
    command(app, "version", example="servo version --all")(version)


def doctor(session: Session) -> None:
    """Check this machine and the store.

    It checks the store (reads, writes and conditional creates), the workspace, the clock, the
    signing keys, Java, Spark, memory and disk, and prints a hint for each problem. The exit code
    is 1 if a check fails. Missing Java or Spark is a failure if deployed assets use Spark.
    """
    checks = _checks(session)
    healthy = all(check.status != "fail" for check in checks)
    if session.json:
        render.document({"healthy": healthy, "checks": checks})
    else:
        for check in checks:
            _show(check)
    if not healthy:
        raise typer.Exit(DIFFERENT)


def _show(check: HealthCheck) -> None:
    styles = {"ok": "green", "warn": "bold yellow", "fail": "bold red"}
    render.say(f"{check.status:<4}  {check.name}: {check.message}", styles[check.status])
    if check.hint:
        render.say(f"      {check.hint}", "cyan")


def _checks(session: Session) -> list[HealthCheck]:
    checks: list[HealthCheck] = []
    spark_needed = False
    try:
        config = session.config()
        workspace = session.open()
        if session.api:  # tasks do not run here
            checks += api_checks(workspace)
        else:
            if config.directory is not None:
                checks.append(disk_check(config.directory))
            checks += store_checks(workspace)
            spark_needed = workspace.runtime.needs_spark()
    except Error as error:
        if not any(check.status == "fail" for check in checks):
            checks.append(unreachable(error))
    running = resolve_running(os.environ, Path.cwd())
    return [*checks, *machine_checks(os.environ, running, spark_needed=spark_needed)]


def version(
    session: Session,
    everything: Annotated[
        bool,
        flag("--all", "Include Python, Java, Spark, other libraries, and store formats."),
    ] = False,
) -> None:
    """Show the version of Arco."""
    versions = all_versions(os.environ) if everything else {"arco": installed("arco")}
    if session.json:
        render.document({name.replace(" ", "_"): value for name, value in versions.items()})
    elif everything:
        texts = {n: "not installed" if v is None else str(v) for n, v in versions.items()}
        render.show_fields(texts)
    else:
        render.say(f"servo {versions['arco']}")
