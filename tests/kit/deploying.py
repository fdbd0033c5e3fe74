"""Projects to deploy, and a look at all that a deployment changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.tables import ASSET_NAMES, ASSETS, COLUMNS, NAMESPACES
from arco.orchestration import commands, deploying
from arco.orchestration.deploying import Deployed
from arco.orchestration.tables import (
    DEPLOYED_ASSETS,
    DEPLOYMENT_PARTS,
    DEPLOYMENTS,
    PROJECT_NAMESPACES,
    PROJECTS,
)
from arco.state.table import Table
from servo.contract.manifest import Asset, ColumnDef, Manifest
from tests.kit import planning

ARTIFACT = b"a zip"
TABLES: tuple[Table[Any], ...] = (
    ASSET_NAMES,
    ASSETS,
    COLUMNS,
    NAMESPACES,
    DEPLOYED_ASSETS,
    DEPLOYMENTS,
    DEPLOYMENT_PARTS,
    PROJECTS,
    PROJECT_NAMESPACES,
)


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every deployment cut into parts, of one or two assets each."""
    monkeypatch.setattr(commands, "INLINE_BYTES", 0)
    for name, size in (("PIECE_BYTES", 300), ("RAW_BYTES", 600), ("PART_BYTES", 400)):
        monkeypatch.setattr(deploying, name, size)


def columns(count: int, text: str = "what it is") -> tuple[ColumnDef, ...]:
    return tuple(
        ColumnDef(name=f"c{number}", type="bigint", description=f"{text} {number}")
        for number in range(count)
    )


def manifest(*assets: Asset, project: str = "main") -> Manifest:
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    ordered = sorted(assets, key=lambda asset: asset.key)
    made = planning.manifest(*ordered)
    return msgspec.structs.replace(made, artifact=digest, project=project)


def put(w: Workspace, *assets: Asset, project: str = "main", **options: Any) -> Deployed:
    """Deploy these assets; what a project had before may all go."""
    options = {"allow_removals": True} | options
    return w.commands.orchestration.deploy(manifest(*assets, project=project), ARTIFACT, **options)


def everything(w: Workspace) -> Mapping[str, list[Any]]:
    """The rows of all tables that deployments change."""
    snapshot = w.read.snapshot()
    return {str(table): snapshot.all(table) for table in TABLES}


def active(w: Workspace) -> dict[str, str]:
    """By key, the project of each asset that is deployed."""
    rows = w.read.snapshot().all(DEPLOYED_ASSETS)
    return {row.asset_key: row.project for row in rows if row.active}
