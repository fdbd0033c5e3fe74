"""Warnings before a deployment: deprecated inputs, unknown terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arco.catalog.governance_reader import GovernanceReader
from arco.orchestration.projects import DeploymentReader
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Asset, Manifest, keys_read
from servo.project import Problem

LISTED = 5


def governance_notes(manifest: Manifest, snapshot: Snapshot | None) -> list[Problem]:
    """Without a snapshot, what the manifest alone shows."""
    deprecated = {asset.key: asset.deprecated for asset in manifest.assets if asset.deprecated}
    notes: list[Problem] = []
    if snapshot is not None:
        deprecated = _deployed(manifest, snapshot) | deprecated | _by_people(manifest, snapshot)
        notes += _readers_elsewhere(manifest, snapshot)
        notes += _unknown_terms(manifest, snapshot)
    return sorted([*notes, *_deprecated_reads(manifest, deprecated)])


def _deployed(manifest: Manifest, snapshot: Snapshot) -> dict[str, str]:
    """Deprecated assets of others. Of its own ones, this manifest decides what code says."""
    own = {asset.key for asset in manifest.assets}
    deprecations = GovernanceReader(snapshot).deprecations()
    return {key: message for key, message in deprecations.items() if key not in own}


def _by_people(manifest: Manifest, snapshot: Snapshot) -> dict[str, str]:
    reader, deployed = GovernanceReader(snapshot), DeploymentReader(snapshot)
    own = {asset.key for asset in manifest.assets}
    deprecated: dict[str, str] = {}
    for key in own & reader.deprecations().keys():
        row = deployed.deployed_asset(key)
        if row is not None and (message := reader.deprecated_by_people(row.asset_id)):
            deprecated[key] = message
    return deprecated


def _deprecated_reads(manifest: Manifest, deprecated: Mapping[str, str]) -> Iterator[Problem]:
    for asset in manifest.assets:
        for key in keys_read(asset):
            if key in deprecated and key != asset.key:
                message = f"{asset.key} reads {key}, which is deprecated: {deprecated[key]}"
                yield Problem.at(asset.code, message, asset=asset.key)


def _readers_elsewhere(manifest: Manifest, snapshot: Snapshot) -> Iterator[Problem]:
    """Assets that this project deprecates and others read."""
    deprecated = {asset.key: asset for asset in manifest.assets if asset.deprecated}
    readers: dict[str, list[str]] = {}
    if deprecated:
        for row in DeploymentReader(snapshot).projects():
            if row.project != manifest.project:
                for key in deprecated.keys() & set(row.reads):
                    readers.setdefault(key, []).append(row.project)
    for key, projects in readers.items():
        more = f" and {len(projects) - LISTED} more" if len(projects) > LISTED else ""
        message = f"{key} is deprecated, and read by {', '.join(projects[:LISTED])}{more}"
        yield Problem.at(deprecated[key].code, message, asset=key)


def _unknown_terms(manifest: Manifest, snapshot: Snapshot) -> Iterator[Problem]:
    reader = GovernanceReader(snapshot)
    users: dict[str, Asset] = {}
    for asset in manifest.assets:
        for term in (*asset.terms, *(term for column in asset.columns for term in column.terms)):
            users.setdefault(term, asset)
    codes = {term: (asset.code, asset.key) for term, asset in users.items()}
    for namespace in manifest.namespaces:
        for term in namespace.terms:
            codes.setdefault(term, (namespace.code, ""))
    for term, (code, key) in codes.items():
        if not reader.has_term(term):
            message = f"the glossary has no term {term!r}"
            hint = f"create it: servo catalog terms create {term} --description …"
            yield Problem.at(code, message, hint, key)
