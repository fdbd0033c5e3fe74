"""`servo init`: a new project."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, option

if deferral.LOADED:
    from arco.app.project_templates import NewProject, create_project
    from arco.cli import render
    from arco.cli.session import Session

NEXT = {
    "starter": [
        ("servo dev", "run everything here, with the web page; deploy on every save"),
        ("servo run '*' --deploy", "or: deploy and run once, in this terminal"),
        ("servo show marts.revenue", "look at the result"),
        ("python -m pytest", "run the tests of the project"),
    ],
    "shop": [
        ("servo dev", "run everything here, with the web page; deploy on every save"),
        (
            "servo run '*' --deploy -p date=2025-01-01..2025-01-03 -p month=2025-01",
            "or: deploy and run three days, in this terminal",
        ),
        ("servo status", "what failed, what is stale, what waits for a person"),
    ],
    "dbt": [
        ("servo run '*' --deploy", "deploy and run the load, in this terminal"),
        (
            "servo lineage import-dbt --manifest target/manifest.json "
            "--catalog target/catalog.json",
            "import the models of dbt",
        ),
        ("servo lineage impact raw.raw_payments.cents", "what depends on a column"),
    ],
    "empty": [
        ("servo dev", "run everything here, with the web page; deploy on every save"),
        ("servo run '*' --deploy", "or: deploy and run once, in this terminal"),
    ],
}
"""By template: what to type next, and why."""


def register(app: typer.Typer) -> None:
    command(app, "init", example="servo init sales\nservo init sales --template shop")(init)


def init(
    session: Session,
    name: Annotated[
        str, argument("NAME", "The project's name: the folder to create, or its path.")
    ],
    template: Annotated[
        str,
        option(
            "TEMPLATE",
            "starter: Python, Spark, SQL, checks, a schedule and a test. shop: a larger "
            "example. dbt: for use with a dbt project. empty: one asset.",
        ),
    ] = "starter",
) -> None:
    """Create a project: a folder with assets and tests.

    The project runs without changes, with a workspace in its folder `.arco`. No file is
    overwritten: the folder must be new or empty.

    To check a store for a workspace, such as a bucket, see `servo admin init`.
    """
    project = create_project(Path(name), template)
    if session.json:
        document = {"next": [line for line, _ in NEXT[template]], **render.plain(project)}
        render.document({**document, "folder": str(project.folder)})
    else:
        _show(project)


def _show(project: NewProject) -> None:
    files = render.count(len(project.files), "file")
    render.say(f"created the project {project.name} in {project.folder}: {files}", "bold green")
    render.say("\nNext:")
    folder = os.path.relpath(project.folder)
    lines = [*NEXT[project.template]]
    if folder != ".":
        render.say(f"  cd {shlex.quote(folder)}", "bold")
    for line, why in lines:
        render.say(f"  {line}", "bold")
        render.say(f"      {why}", "dim")
