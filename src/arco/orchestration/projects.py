"""Reading projects, their deployments and deployed assets at one generation."""

from __future__ import annotations

from collections import Counter

from arco.errors import NotFound
from arco.orchestration.deployments import NEWEST, namespace_of
from arco.orchestration.tables import (
    DECLARATIONS,
    DEPLOYED_ASSETS,
    DEPLOYMENTS,
    LAST_DEPLOYMENT,
    PROJECT_NAMESPACES,
    PROJECTS,
    DeployedAssetRow,
    DeploymentRow,
    ProjectNamespaceRow,
    ProjectRow,
)
from arco.state.snapshot import Snapshot
from servo.contract.manifest import DEFAULT_PROJECT
from servo.suggest import did_you_mean

LOOKS = 32
"""After this many lookups of single assets of a project, all of them are read."""


class DeploymentReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._owners: dict[str, ProjectNamespaceRow | None] = {}
        self._lookups: Counter[str] = Counter()
        self._whole: dict[str, dict[str, DeployedAssetRow]] = {}
        """By project: all of its assets, after many lookups."""

    def projects(self) -> list[ProjectRow]:
        """All projects that were ever deployed, by name."""
        return sorted(self.snapshot.all(PROJECTS), key=lambda row: row.project)

    def current_deployment(self, project: str = DEFAULT_PROJECT) -> DeploymentRow | None:
        row = self.snapshot.get(PROJECTS, project)
        if row is None:
            return None
        return self.snapshot.get(DEPLOYMENTS, project, row.deployment_id)

    def current_deployments(self) -> list[DeploymentRow]:
        """One for each project, by name: what runs are planned from."""
        rows = [self.current_deployment(row.project) for row in self.projects()]
        return [row for row in rows if row is not None]

    def pinned_deployment(self, text: str) -> DeploymentRow:
        """The deployment that a request names, as `project/id`."""
        project, _, deployment_id = text.rpartition("/")
        row = self.snapshot.get(DEPLOYMENTS, project, deployment_id)
        if row is None:
            raise NotFound(f"there is no deployment {text}", hint="see `servo deployments`")
        return row

    def newest_deployment(self) -> str:
        """The id of the newest deployment of any project."""
        row = self.snapshot.get(LAST_DEPLOYMENT, NEWEST)
        return "" if row is None else row.deployment_id

    def deployment(self, text: str, project: str = DEFAULT_PROJECT) -> DeploymentRow:
        """A deployment: `12` of this project, `other/12`, or its id or the beginning of it."""
        name, slash, number = text.rpartition("/")
        project = name if slash else project
        rows = self.deployments(project if slash or number.isdecimal() else None)
        matching = [row for row in rows if str(row.number) == number]
        matching = matching or [row for row in rows if row.deployment_id.startswith(text.upper())]
        if len(matching) == 1:
            return matching[0]
        problem = "names several deployments" if matching else "names no deployment"
        of = f" of the project {project}" if slash or number.isdecimal() else ""
        raise NotFound(f"{text!r} {problem}{of}", hint="see `servo deployments`")

    def deployments(self, project: str | None = None) -> list[DeploymentRow]:
        """Those of a project, or all of them, the newest first."""
        if project is None:
            rows = self.snapshot.all(DEPLOYMENTS)
        else:
            rows = self.snapshot.rows(DEPLOYMENTS, project)
        return sorted(rows, key=lambda row: (row.created_at, row.number), reverse=True)

    def deployed_assets(self, project: str | None = None) -> dict[str, DeployedAssetRow]:
        """By key, those of a project or of all, and also those that have left it."""
        if project is None:
            rows = self.snapshot.all(DEPLOYED_ASSETS)
        else:
            rows = self.snapshot.rows(DEPLOYED_ASSETS, project)
        return {row.asset_key: row for row in rows}

    def declared(self, project: str) -> dict[str, str]:
        """Fingerprints of what a project declares besides assets, by id."""
        rows = self.snapshot.rows(DECLARATIONS, project)
        return {f"{row.kind}/{row.name}": row.fingerprint for row in rows}

    def active_assets(self) -> set[str]:
        """The keys of the assets that are deployed now."""
        return {key for key, row in self.deployed_assets().items() if row.active}

    def deployed_asset(self, key: str) -> DeployedAssetRow | None:
        """One asset of any project. The first lookups read two rows, however many are deployed."""
        namespace = namespace_of(key)
        if namespace not in self._owners:
            self._owners[namespace] = self.snapshot.get(PROJECT_NAMESPACES, namespace)
        owner = self._owners[namespace]
        if owner is None:
            return None
        project = owner.project
        if (whole := self._whole.get(project)) is not None:
            return whole.get(key)
        self._lookups[project] += 1
        if self._lookups[project] > LOOKS:
            self._whole[project] = self.deployed_assets(project)
            return self._whole[project].get(key)
        return self.snapshot.get(DEPLOYED_ASSETS, project, key)

    def asset_id(self, key: str) -> str:
        """Of an asset that is, or was, deployed. Raises NotFound with a suggestion."""
        row = self.deployed_asset(key)
        if row is None:
            hint = did_you_mean(key, self.deployed_assets()) or "run `servo deploy`"
            raise NotFound(f"{key} is not deployed", hint=hint)
        return row.asset_id
