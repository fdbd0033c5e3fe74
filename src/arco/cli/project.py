"""`servo validate`, `deploy`, `deployments`, `rollback`: from a folder of code to a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.failures import DIFFERENT
from arco.cli.options import command
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.orchestration.commands import Deployed
    from servo.contract.manifest import Manifest
    from servo.project import Problem

Folder = Annotated[
    Path, typer.Option("--project", metavar="DIR", help="The project's folder.", show_default=False)
]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="Say why.")]


def register(app: typer.Typer) -> None:
    command(app, "validate", example="servo validate\nservo validate --project pipelines")(validate)
    command(app, "deploy", example='servo deploy -m "orders by region"', takes=["actor"])(deploy)
    command(app, "deployments", example="servo deployments", takes=["at"])(deployments)
    command(app, "rollback", example="servo rollback 12", takes=["actor"])(rollback)


def packaged(session: Session, folder: Path) -> tuple[Manifest, bytes]:
    """A project as a deployment takes it. Invalid, with every problem, if it has any.

    A store that lies in the project's folder is no part of the project.
    """
    from arco.worker.artifact import digest, pack
    from servo.discover import build_manifest, discover

    store = session.config().directory
    artifact = pack(folder, without=[] if store is None else [store])
    return build_manifest(discover(folder), digest(artifact)), artifact


def validate(session: Session, project: Folder = Path()) -> None:
    """Look for assets, schedules and sensors, and for mistakes in them. Changes nothing."""
    from arco.cli import render
    from servo.discover import build_manifest, discover
    from servo.validate import validate as problems_of

    found = discover(project)
    problems = problems_of(found)
    counts = {
        "assets": len(found.assets),
        "schedules": len(found.schedules),
        "sensors": len(found.sensors),
    }
    if session.json:
        render.document({"valid": not problems, **counts, "problems": problems})
    elif problems:
        _show_problems(problems)
    elif not found.assets:
        render.say("no assets here; declare one: from servo import asset")
    else:
        parts = [render.count(n, noun.removesuffix("s")) for noun, n in counts.items() if n]
        render.say(f"valid: {', '.join(parts)}")
        manifest = build_manifest(found)
        _warn_of_sql(manifest)
        _note_what_waits(manifest)
    if problems:
        raise typer.Exit(DIFFERENT)


def _warn_of_sql(manifest: Manifest) -> None:
    """What a look at the queries finds. Spark has the last word: some of its SQL is its own."""
    from arco.cli import render
    from arco.spark.query import parse_problem

    for asset in manifest.assets:
        problem = parse_problem(asset.sql) if asset.kind == "sql" else None
        if problem is not None:
            line = asset.sql.count("\n", 0, problem.start) + 1
            where = f"{asset.code.file}:{asset.code.line}: {asset.key}, line {line} of the query"
            render.note(f"{where}: {problem.message}")


def _note_what_waits(manifest: Manifest) -> None:
    """Say what is recorded and not acted on by this version: nobody should rely on it."""
    from arco.cli import render

    assets = manifest.assets
    waits = {
        "schedule": len(manifest.schedules),
        "sensor": len(manifest.sensors),
        "freshness policy": sum(asset.freshness is not None for asset in assets),
    }
    parts = [
        render.count(n, noun, "freshness policies" if noun.endswith("policy") else "")
        for noun, n in waits.items()
        if n
    ]
    if parts:
        render.note(f"{', '.join(parts)}: recorded, and not acted on by this version")


def _show_problems(problems: list[Problem]) -> None:
    from rich.text import Text

    from arco.cli import render

    for problem in problems:
        render.out(Text(f"{problem.file}:{problem.line}: ", "bold") + Text(problem.message))
        if problem.hint:
            render.out(Text(f"    {problem.hint}", "cyan"))
    render.say(render.count(len(problems), "problem"), "bold red")


def deploy(
    session: Session,
    project: Folder = Path(),
    message: Message = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the manifest; change nothing.")
    ] = False,
) -> None:
    """Make the code in this folder the one that runs are planned from.

    Assets are found, validated, packed with their source, and stored under what they
    contain: deploying the same again changes nothing. Every deployment is kept, and
    `servo rollback` returns to one.
    """
    from arco.cli import render

    manifest, artifact = packaged(session, project)
    if dry_run:
        from servo.contract.manifest import encode_manifest

        print(encode_manifest(manifest).decode())
        return
    done = session.open().orchestration.deploy(manifest, artifact, message=message)
    _acknowledge(session, done)
    if not session.json and done.changed:
        size = render.size(len(artifact))
        render.say(f"{render.count(len(manifest.assets), 'asset')}, {size} of source", "dim")
        _note_what_waits(manifest)


def _acknowledge(session: Session, done: Deployed) -> None:
    from arco.cli import render

    if session.json:
        render.document(done)
        return
    if not done.changed:
        render.say(f"deployment {done.number} has all of this already; nothing changed")
        return
    render.say(f"deployed {done.number} ({done.deployment_id})", "bold green")
    for label, keys in (
        ("new", done.added),
        ("renamed", done.renamed),
        ("gone", done.removed),
    ):
        shown = ", ".join(keys[:12]) + (f" and {len(keys) - 12} more" if len(keys) > 12 else "")
        if keys:
            render.say(f"  {label}: {shown}")


def deployments(session: Session) -> None:
    """List deployments, the newest first."""
    from arco.cli import render

    found = session.open().read_orchestration(session.at())
    rows = found.deployments()
    if session.json:
        generation = found.snapshot.generation
        render.document({"generation": generation, "deployments": rows})
    elif not rows:
        render.say("nothing is deployed; run `servo deploy` in your project")
    else:
        shown = [
            (r.number, r.deployment_id, r.assets, r.created_at, r.created_by, r.message)
            for r in rows
        ]
        headers = ("number", "deployment", "assets", "deployed", "by", "message")
        render.show(
            render.table(
                headers, shown, right=["number", "assets"], whole=["deployment", "deployed"]
            )
        )


def rollback(
    session: Session,
    deployment: Annotated[str, typer.Argument(metavar="DEPLOYMENT", help="Its number, or its id.")],
    message: Message = "",
) -> None:
    """Deploy an older deployment again, as a new one."""
    done = session.open().orchestration.rollback(deployment, message=message)
    _acknowledge(session, done)
