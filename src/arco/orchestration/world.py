"""What runs are planned from: the current manifests of all projects, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from arco.errors import NotFound
from arco.orchestration.deployments import namespace_of
from arco.orchestration.plan import PlanSpec
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library
from arco.orchestration.selection import Graph
from arco.orchestration.tables import DeploymentRow
from servo.contract.manifest import Manifest, keys_read


class World:
    def __init__(self, deployments: Sequence[DeploymentRow], manifests: Sequence[Manifest]) -> None:
        self._deployments = {row.manifest: row for row in deployments}
        self._digests: Mapping[str, str] = {
            namespace_of(asset.key): row.manifest
            for row, manifest in zip(deployments, manifests, strict=True)
            for asset in manifest.assets
        }
        """By namespace: each belongs to one project."""
        self.manifest = (
            manifests[0]
            if len(manifests) == 1
            else Manifest(assets=tuple([asset for m in manifests for asset in m.assets]))
        )
        """The assets of all projects, without their columns."""

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.manifest)

    @staticmethod
    def deployments(reader: DeploymentReader, pinned: Sequence[str] = ()) -> list[DeploymentRow]:
        """Those that are current, or that are named. Raises NotFound for nothing."""
        rows = [reader.pinned_deployment(text) for text in pinned] or reader.current_deployments()
        if not rows:
            raise NotFound("there are no deployments", hint="run `servo deploy` in your project")
        return rows

    @classmethod
    def of(cls, reader: DeploymentReader, library: Library) -> World:
        """What is deployed. Raises NotFound for nothing."""
        rows = cls.deployments(reader)
        return cls(rows, [library.outline(row.manifest) for row in rows])

    def placed(self, spec: PlanSpec) -> PlanSpec:
        """A plan, with the manifests that its tasks and their inputs are of."""
        assets = self.graph.assets
        keys = list(dict.fromkeys(task.asset for task in spec.tasks))
        read = [key for task_key in keys for key in keys_read(assets[task_key])]
        used = {namespace_of(key): self._digests.get(namespace_of(key)) for key in (*keys, *read)}
        first = self._digests[namespace_of(keys[0])]
        others = {name: digest for name, digest in sorted(used.items()) if digest != first}
        manifests = {name: digest for name, digest in others.items() if digest is not None}
        return msgspec.structs.replace(spec, manifest=first, manifests=manifests)

    def deployment_of(self, spec: PlanSpec) -> DeploymentRow:
        """The deployment of the project that has the plan's first task."""
        return self._deployments[spec.manifest]
