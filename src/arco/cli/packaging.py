"""From a project's folder to its manifest and artifact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from arco.app import Workspace
from arco.app.findings import governance_findings, sql_findings
from arco.cli import render
from arco.cli.session import Session
from arco.clock import SystemClock
from arco.config import resolve_channels, resolve_modules, resolve_project
from arco.errors import Denied, Invalid, NotFound, Unavailable
from arco.notifications.channels import channel_problems
from arco.worker import discovery
from arco.worker.artifact import digest
from arco.worker.discovery import Discovered
from arco.worker.packing import PackedFile, large_files, likely_secrets, pack, packed_files
from servo.contract.manifest import Manifest, Notification
from servo.discover import refuse
from servo.project import Problem

SHOWN = 5


class Package(NamedTuple):
    manifest: Manifest
    artifact: bytes
    files: tuple[PackedFile, ...]
    notes: tuple[Problem, ...]

    def warnings(self) -> list[str]:
        """Warnings before a deployment."""
        return [*map(str, self.notes), *_file_warnings(self.files)]


def discovered(session: Session, folder: Path) -> Discovered:
    """The project in a folder. Its modules are imported in a process of their own."""

    def on_slow(module: str, seconds: float) -> None:
        if not session.json:
            render.note(f"importing {module} has taken {seconds:.0f} s so far")

    root = folder.resolve()
    return discovery.discovered(
        root,
        resolve_modules(root),
        resolve_project(root),
        clock=SystemClock(),
        store_url=_store_url(session),
        on_slow=on_slow,
    )


def packaged(session: Session, folder: Path, workspace: Workspace | None) -> Package:
    """What a folder holds. Invalid, with all problems, if it has any.

    A store inside the project's folder is not packed.
    """
    project = discovered(session, folder)
    refuse(project.problems)
    assert project.manifest is not None  # there are no problems
    artifact = pack(folder, without=_store_folders(session))
    manifest = msgspec.structs.replace(project.manifest, artifact=digest(artifact))
    findings = sql_findings(manifest, workspace)
    channels = unknown_channels(manifest.notifications, folder)
    refuse(sorted([*findings.problems, *channels]))
    notes = (*project.notes, *findings.notes, *governance_findings(manifest, workspace))
    return Package(manifest, artifact, packed_files(artifact), notes)


def unknown_channels(rules: Iterable[Notification], folder: Path) -> list[Problem]:
    """Rules that name channels which no `arco.toml` has. Raises Invalid for a bad channel."""
    return list(channel_problems(rules, resolve_channels(folder.resolve())))


def workspace_if_there(session: Session) -> Workspace | None:
    """The workspace to compare with, if one is configured and can be reached."""
    try:
        workspace = session.open()
        workspace.read.snapshot()
        return workspace
    except (Invalid, NotFound, Unavailable, Denied):
        return None


def _store_folders(session: Session) -> list[Path]:
    try:
        directory = session.config().directory
    except Invalid:  # no store is configured
        return []
    return [] if directory is None else [directory]


def _store_url(session: Session) -> str:
    try:
        return session.config().store
    except Invalid:  # no store is configured
        return ""


def _file_warnings(files: Sequence[PackedFile]) -> list[str]:
    warnings = []
    if secrets := likely_secrets(files):
        names = _listed([file.path for file in secrets])
        warnings.append(f"packed, although the name suggests a secret: {names}")
    if large := large_files(files):
        names = _listed([f"{file.path} ({render.size(file.bytes)})" for file in large])
        warnings.append(f"packed, although large: {names}")
    if warnings:
        warnings[-1] += "; name files that tasks do not need in .servoignore"
    return warnings


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
