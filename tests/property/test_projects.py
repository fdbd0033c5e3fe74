"""Random deployments of several projects in one workspace, against a simple model."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.app import Workspace
from arco.catalog.tables import ASSET_NAMES, ASSETS
from arco.errors import Invalid
from arco.orchestration.tables import DEPLOYED_ASSETS, DEPLOYMENT_PARTS, PROJECT_NAMESPACES
from servo.contract.manifest import Asset
from tests.kit import planning
from tests.kit.deploying import columns, cut_small, put
from tests.kit.depth import examples
from tests.kit.flows import check_store
from tests.kit.workspace import make_workspace

PROJECTS = ("red", "green", "blue")
KEYS = tuple(f"{namespace}.{name}" for namespace in ("x", "y", "z") for name in "abc")


class Step(NamedTuple):
    project: str
    keys: frozenset[str]
    reads: frozenset[str]
    """Read by an asset of the project that nobody reads."""
    text: str
    allow: bool


steps = st.builds(
    Step,
    st.sampled_from(PROJECTS),
    st.frozensets(st.sampled_from(KEYS), max_size=5),
    st.frozensets(st.sampled_from(KEYS), max_size=2),
    st.sampled_from(("one", "two")),
    st.booleans(),
)


class Model:
    """Who has which asset, by the rules that the guide states."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        """By namespace, the project that has it, or had it last."""
        self.active: dict[str, str] = {}
        self.reads: dict[str, frozenset[str]] = {}
        self.current: dict[str, Step] = {}
        self.ever: set[str] = set()

    def deploy(self, step: Step) -> str:
        """Whether it is deployed, refused, or there already."""
        reader = reader_of(step.project)
        keys = step.keys | {reader}
        last = self.current.get(step.project)
        if last is not None and last._replace(allow=step.allow) == step:
            return "same"
        for namespace in {key.partition(".")[0] for key in keys}:
            owner = self.owners.get(namespace, step.project)
            holders = {p for k, p in self.active.items() if k.partition(".")[0] == namespace}
            if owner != step.project and holders:
                return "refused"
        reads = step.reads - keys
        mine = {key for key, project in self.active.items() if project == step.project}
        if not step.allow:
            if any(self.active.get(key, step.project) == step.project for key in reads):
                return "refused"
            others = [r for project, r in self.reads.items() if project != step.project]
            if any((mine - keys) & r for r in others):
                return "refused"
        for key in mine:
            del self.active[key]
        self.active |= dict.fromkeys(keys, step.project)
        self.owners |= {key.partition(".")[0]: step.project for key in keys}
        self.reads[step.project] = reads
        self.current[step.project] = step
        self.ever |= keys
        return "deployed"


def reader_of(project: str) -> str:
    return f"{project}.reader"


def assets_of(step: Step) -> list[Asset]:
    own = [
        planning.asset(key, description=step.text, columns=columns(2, step.text))
        for key in sorted(step.keys)
    ]
    inputs = [planning.reads(key, parameter=f"p{at}") for at, key in enumerate(sorted(step.reads))]
    return [*own, planning.asset(reader_of(step.project), *inputs, description=step.text)]


def perform(w: Workspace, step: Step) -> str:
    try:
        done = put(w, *assets_of(step), project=step.project, allow_missing_inputs=step.allow)
    except Invalid:
        return "refused"
    return "deployed" if done.changed else "same"


def check(w: Workspace, model: Model, ids: dict[str, str]) -> None:
    snapshot = w.read.snapshot()
    rows = snapshot.all(DEPLOYED_ASSETS)
    assert {row.asset_key: row.project for row in rows if row.active} == model.active
    assert {row.asset_key for row in rows} == model.ever
    assert len(rows) == len(model.ever)
    for row in rows:
        assert ids.setdefault(row.asset_key, row.asset_id) == row.asset_id
        assert row.project == model.owners[row.asset_key.partition(".")[0]]
    counts = Counter(key.partition(".")[0] for key in model.active)
    owned = {row.namespace: (row.project, row.assets) for row in snapshot.all(PROJECT_NAMESPACES)}
    assert owned == {name: (p, counts[name]) for name, p in model.owners.items()}
    catalog = {row.asset_id: row for row in snapshot.all(ASSETS)}
    names = {f"{row.namespace}.{row.name}": row.asset_id for row in snapshot.all(ASSET_NAMES)}
    assert names == ids
    for key, asset_id in ids.items():
        assert catalog[asset_id].active == (key in model.active)
        if key in model.active:
            step = model.current[model.active[key]]
            assert catalog[asset_id].project == step.project
            assert catalog[asset_id].description == step.text
    assert snapshot.all(DEPLOYMENT_PARTS) == []


@settings(max_examples=examples(15))
@given(in_parts=st.booleans(), history=st.lists(steps, max_size=8))
def test_projects_have_what_the_model_says(in_parts: bool, history: list[Step]) -> None:
    w, model, ids = make_workspace(), Model(), dict[str, str]()
    with pytest.MonkeyPatch.context() as patch:
        if in_parts:
            cut_small(patch)
        for step in history:
            assert perform(w, step) == model.deploy(step)
            check(w, model, ids)
    check_store(w)
