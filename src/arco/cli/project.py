"""`servo validate`, `deploy`, `deployments`, `rollback`: from a folder of code to a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag, option

if deferral.LOADED:
    import msgspec
    from rich.text import Text

    from arco.app import Workspace
    from arco.app.findings import governance_findings, sql_findings
    from arco.cli import render
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.packaging import (
        Package,
        discovered,
        packaged,
        unknown_channels,
        workspace_if_there,
    )
    from arco.cli.progress import progress
    from arco.cli.session import Session
    from arco.config import resolve_project
    from arco.errors import NotFound
    from arco.orchestration.deploying import Deployed
    from arco.orchestration.foreign import foreign_reads, read_problems
    from arco.orchestration.schema_deploy import BreakAcceptance
    from servo.contract.manifest import DEFAULT_PROJECT, Manifest, encode_manifest
    from servo.project import Problem
    from servo.suggest import did_you_mean

Folder = Annotated[Path, option("DIR", "The project's folder.", "--project", show_default=False)]
AllowMissing = Annotated[
    bool,
    flag(
        "--allow-missing-inputs",
        "Deploy even if inputs from other projects are missing, or other projects read "
        "an asset that this removes.",
    ),
]
AllowRemovals = Annotated[
    bool,
    flag(
        "--allow-removals",
        "Deploy even if that leaves no assets, or removes more assets than it keeps.",
    ),
]
AcceptBreaking = Annotated[
    list[str] | None,
    option(
        "NAMESPACE.ASSET.COLUMN",
        "Accept changes of this column that may break readers; with --reason. Repeatable.",
        "--accept-breaking",
    ),
]
BreakReason = Annotated[str, option("TEXT", "Why they are accepted.", "--reason")]
Message = Annotated[str, option("TEXT", "Description of the deployment.", "--message", "-m")]


class Allowed(TypedDict):
    """Exceptions that a deployment allows."""

    allow_missing_inputs: bool
    allow_removals: bool
    accept_breaking: BreakAcceptance


def register(app: typer.Typer) -> None:
    command(app, "validate", example="servo validate\nservo validate --project pipelines")(validate)
    command(
        app,
        "deploy",
        example='servo deploy -m "orders by region"\n'
        'servo deploy --accept-breaking sales.orders.note --reason "nobody reads it"',
        takes=["actor"],
    )(deploy)
    command(app, "deployments", example="servo deployments\nservo deployments shop", takes=["at"])(
        deployments
    )
    command(app, "rollback", example="servo rollback 12\nservo rollback shop/12", takes=["actor"])(
        rollback
    )


def validate(session: Session, project: Folder = Path()) -> None:
    """Validate the code in this folder. Changes nothing.

    Assets, schedules, sensors and notifications are imported and checked, as `servo deploy` does.
    """
    content = discovered(session, project)
    problems, notes = list(content.problems), list(content.notes)
    manifest = content.manifest
    unchecked = 0
    if manifest is not None:
        workspace = workspace_if_there(session)
        elsewhere = _problems_elsewhere(workspace, manifest)
        problems, unchecked = (elsewhere, 0) if isinstance(elsewhere, list) else ([], elsewhere)
        findings = sql_findings(manifest, workspace)
        problems = [*problems, *findings.problems]
        notes += [*findings.notes, *governance_findings(manifest, workspace)]
    problems = sorted({*problems, *unknown_channels(content.notifications, project)})
    counts = {
        "assets": content.assets,
        "schedules": content.schedules,
        "sensors": content.sensors,
        "notifications": len(content.notifications),
    }
    if session.json:
        render.document({"valid": not problems, **counts, "problems": problems, "warnings": notes})
    elif problems:
        _show_problems(problems)
    elif content.assets == 0:
        render.say("no assets found; declare one: from servo import asset")
    else:
        parts = [render.count(n, noun.removesuffix("s")) for noun, n in counts.items() if n]
        render.say(f"valid: {', '.join(parts)}")
        if unchecked:
            inputs = render.count(unchecked, "input")
            render.note(f"{inputs} from other projects: checked at deploy")
    if not session.json:
        for note in notes:
            render.note(str(note))
    if problems:
        raise typer.Exit(DIFFERENT)


def _problems_elsewhere(workspace: Workspace | None, manifest: Manifest) -> list[Problem] | int:
    """Problems with inputs from other projects; their number, if there is no workspace to ask."""
    reads = foreign_reads(manifest)
    if not reads:
        return []
    if workspace is None:
        return len(reads)
    return read_problems(workspace.read.orchestration(), workspace.library, manifest)


def _show_problems(problems: list[Problem]) -> None:
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
        bool, flag("--dry-run", "List the files that are packed, and what changes; change nothing.")
    ] = False,
    allow_missing_inputs: AllowMissing = False,
    allow_removals: AllowRemovals = False,
    accept_breaking: AcceptBreaking = None,
    reason: BreakReason = "",
) -> None:
    """Deploy the code in this folder; new runs will use it.

    Assets are discovered, validated, packed with their source, and stored by content hash:
    deploying the same code again changes nothing. Every deployment is kept, and
    `servo rollback` returns to one. Only the project named in `arco.toml` under [project]
    changes; other projects of the workspace do not.

    A deployment whose columns would break readers of an asset, or a contract, is refused. Breaks
    accepted with --accept-breaking are recorded, and apply to the asset's next output too;
    NAMESPACE.ASSET.* accepts that a contract is removed.
    """
    workspace = workspace_if_there(session) if dry_run else session.open()
    package = packaged(session, project, workspace)
    manifest = package.manifest
    if not session.json:
        if not manifest.assets:
            render.note(f"there are no assets in {project.resolve()}")
        for warning in package.warnings():
            render.note(warning)
    allowed = Allowed(
        allow_missing_inputs=allow_missing_inputs,
        allow_removals=allow_removals,
        accept_breaking=BreakAcceptance(tuple(accept_breaking or ()), reason),
    )
    if dry_run:
        _preview(session, package, workspace, allowed)
        return
    assert workspace is not None
    with progress() as report:
        deployed = workspace.commands.orchestration.deploy(
            manifest, package.artifact, message=message, progress=report, **allowed
        )
    if session.json:
        packed = {"files": package.files, "warnings": package.warnings()}
        render.document(render.plain(deployed) | packed)
        return
    _acknowledge(session, deployed)
    if deployed.changed:
        assets = render.count(len(manifest.assets), "asset")
        render.say(f"{assets}, {_source(package)}; list them with --dry-run", "dim")


def _preview(
    session: Session, package: Package, workspace: Workspace | None, allowed: Allowed
) -> None:
    """Show what is packed, and, if there is a workspace, what would change in it."""
    if not session.json:
        sizes = [(file.path, render.size(file.bytes)) for file in package.files]
        render.show_table(("file", "size"), sizes, right=["size"], whole=["file"])
        render.say(f"{_source(package)}, not deployed", "bold")
    changes = None
    if workspace is not None:
        changes = workspace.commands.orchestration.preview(package.manifest, **allowed)
    if session.json:
        render.document(
            {
                "manifest": msgspec.json.decode(encode_manifest(package.manifest)),
                "files": package.files,
                "warnings": package.warnings(),
                "changes": changes,
            }
        )
    elif changes is None:
        render.note("there is no workspace to compare with")
    elif changes.changed:
        _show_changes(changes)
    else:
        render.say(f"deployment {changes.number} already has this code")


def _source(package: Package) -> str:
    size = sum(file.bytes for file in package.files)
    return f"{render.count(len(package.files), 'file')} of source ({render.size(size)})"


def _acknowledge(session: Session, deployed: Deployed) -> None:
    if session.json:
        render.document(deployed)
        return
    if not deployed.changed:
        of = _of_project(deployed.project)
        render.say(f"deployment {deployed.number}{of} already has this code; nothing changed")
        return
    render.say(
        f"deployed {deployed.number}{_of_project(deployed.project)} ({deployed.deployment_id})",
        "bold green",
    )
    _show_changes(deployed)


def _show_changes(deployed: Deployed) -> None:
    for label, keys in (
        ("new", deployed.added),
        ("renamed", deployed.renamed),
        ("removed", deployed.removed),
        ("declared", deployed.declared),
        ("no longer declared", deployed.no_longer_declared),
        ("accepted breaks", deployed.accepted_breaks),
    ):
        listed = ", ".join(keys[:12]) + (f" and {len(keys) - 12} more" if len(keys) > 12 else "")
        if keys:
            render.say(f"  {label}: {listed}")
    if deployed.changed_assets:
        render.say(f"  {deployed.changed_assets:,} changed")


def _of_project(name: str) -> str:
    return "" if name == DEFAULT_PROJECT else f" of {name}"


def deployments(
    session: Session,
    project: Annotated[str | None, argument("PROJECT", "Only deployments of this project.")] = None,
) -> None:
    """List deployments, newest first. An asterisk marks the current one of each project."""
    reader = session.open().read.orchestration(session.at())
    current = {row.deployment_id for row in reader.projects()}
    rows = reader.deployments(project)
    if project is not None and not rows:
        names = [row.project for row in reader.projects()]
        hint = did_you_mean(project, names) or f"projects: {', '.join(names) or 'none yet'}"
        raise NotFound(f"there is no project {project!r}", hint=hint)
    if session.json:
        generation = reader.snapshot.generation
        listed = [render.plain(r) | {"current": r.deployment_id in current} for r in rows]
        render.document({"generation": generation, "deployments": listed})
    elif not rows:
        render.say("there are no deployments; run `servo deploy` in your project")
    else:
        lines = [
            (
                f"{r.project}/{r.number}{' *' if r.deployment_id in current else ''}",
                r.deployment_id,
                r.assets,
                r.created_at,
                r.created_by,
                r.message,
            )
            for r in rows
        ]
        headers = ("number", "deployment", "assets", "deployed", "by", "message")
        whole = ["number", "deployment", "deployed"]
        render.show_table(headers, lines, right=["assets"], whole=whole)


def rollback(
    session: Session,
    deployment: Annotated[
        str,
        argument(
            "DEPLOYMENT", "The deployment: NUMBER in this project, PROJECT/NUMBER, or its id."
        ),
    ],
    message: Message = "",
    allow_missing_inputs: AllowMissing = False,
    allow_removals: AllowRemovals = False,
    accept_breaking: AcceptBreaking = None,
    reason: BreakReason = "",
) -> None:
    """Deploy an older deployment again, as a new one. Other projects do not change."""
    with progress() as report:
        deployed = session.open().commands.orchestration.rollback(
            deployment,
            project=resolve_project(Path.cwd()),
            message=message,
            allow_missing_inputs=allow_missing_inputs,
            allow_removals=allow_removals,
            accept_breaking=BreakAcceptance(tuple(accept_breaking or ()), reason),
            progress=report,
        )
    _acknowledge(session, deployed)
