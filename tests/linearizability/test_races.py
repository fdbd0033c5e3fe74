"""Races between two clients at the worst instant: whatever they are told is linearizable.

The first client has looked at the workspace, and is about to append its command, when the
second one does something; then the first one goes on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.app import Workspace
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.faults import Faults, Rule
from tests.kit.faulty import UnreliableStore
from tests.kit.flows import deploy
from tests.kit.hooks import HookStore
from tests.kit.workspace import make_workspace
from tests.linearizability.checker import Operation
from tests.linearizability.client import VERSIONS, Commands
from tests.linearizability.history import frozen
from tests.linearizability.report import check

NAMESPACE = "namespace ns0"
C0 = (("c0", "int"),)


class Scene:
    """Two clients on one store; all that they do is part of the history."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.memory = MemoryStore(self.clock)
        self.network = UnreliableStore(self.memory, self.clock)
        self.hooks = HookStore(self.network)
        self.first = make_workspace(self.hooks, 1, clock=self.clock)
        self.second = make_workspace(self.memory, 2, clock=self.clock)
        self.history: list[Operation] = []
        self._ticks = itertools.count(10**9, 10**9)

    def do(self, w: Workspace, key: str, op: str, **given: Any) -> Any:
        """Perform an operation, and note it."""
        given = {"op": op, **given}
        return self.note(key, given, lambda o: Commands(w).perform(o, again=False))

    def note(self, key: str, given: dict[str, Any], act: Callable[[Operation], Any]) -> Any:
        number = len(self.history)
        operation = Operation(f"op-{number}", key, next(self._ticks), None, given)
        self.history.append(operation)
        output = frozen(act(operation))
        self.history[number] = operation._replace(end=next(self._ticks), output=output)
        return output

    def meanwhile(self, act: Callable[[], object]) -> None:
        """When the first client is about to append its next command, `act` comes before."""
        self.hooks.before("put", "ledger/inbox/", act)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    "given",
    [
        {"op": "update_asset", "value": "new"},
        {"op": "add_column", "column": "c1", "value": "text"},
        {"op": "update_column", "column": "c0", "value": "text"},
        {"op": "rename_column", "column": "c0", "new": "c9"},
        {"op": "drop_column", "column": "c0"},
        {"op": "drop_asset"},
        {"op": "rename_asset", "new": "n2"},
    ],
    ids=lambda given: given["op"],
)
@pytest.mark.parametrize("how", ["renamed", "dropped"])
def test_command_by_name_is_about_the_asset_that_has_the_name(
    scene: Scene, tmp_path: Path, given: dict[str, Any], how: str
) -> None:
    w = scene.second
    scene.do(w, NAMESPACE, "create_namespace", value="v")
    scene.do(w, NAMESPACE, "create_asset", name="n0", value="first", columns=C0)

    def replace() -> None:
        if how == "renamed":
            scene.do(w, NAMESPACE, "rename_asset", name="n0", new="n1")
        else:
            scene.do(w, NAMESPACE, "drop_asset", name="n0")
        scene.do(w, NAMESPACE, "create_asset", name="n0", value="second", columns=C0)
        scene.do(w, NAMESPACE, "get_asset", name="n1")

    scene.meanwhile(replace)
    scene.do(scene.first, NAMESPACE, name="n0", **given)
    for name in ("n0", "n1", "n2"):
        scene.do(w, NAMESPACE, "get_asset", name=name)
    scene.do(w, NAMESPACE, "list_assets")
    check(scene.history, tmp_path / "history.jsonl")


@pytest.mark.parametrize(
    "given",
    [
        {"op": "update_column", "value": "text"},
        {"op": "rename_column", "new": "c9"},
        {"op": "drop_column"},
    ],
    ids=lambda given: given["op"],
)
@pytest.mark.parametrize("how", ["renamed", "dropped"])
def test_command_by_name_is_about_the_column_that_has_the_name(
    scene: Scene, tmp_path: Path, given: dict[str, Any], how: str
) -> None:
    w = scene.second
    scene.do(w, NAMESPACE, "create_namespace", value="v")
    scene.do(w, NAMESPACE, "create_asset", name="n0", value="first", columns=C0)

    def replace() -> None:
        if how == "renamed":
            scene.do(w, NAMESPACE, "rename_column", name="n0", column="c0", new="c1")
        else:
            scene.do(w, NAMESPACE, "drop_column", name="n0", column="c0")
        scene.do(w, NAMESPACE, "add_column", name="n0", column="c0", value="second")
        scene.do(w, NAMESPACE, "get_asset", name="n0")

    scene.meanwhile(replace)
    scene.do(scene.first, NAMESPACE, name="n0", column="c0", **given)
    scene.do(w, NAMESPACE, "get_asset", name="n0")
    check(scene.history, tmp_path / "history.jsonl")


def test_namespace_that_is_dropped_and_created_again_meanwhile_is_another(
    scene: Scene, tmp_path: Path
) -> None:
    w = scene.second
    scene.do(w, NAMESPACE, "create_namespace", value="first")

    def replace() -> None:
        scene.do(w, NAMESPACE, "drop_namespace")
        scene.do(w, NAMESPACE, "create_namespace", value="second")

    for op, given in (
        ("update_namespace", {"value": "new"}),
        ("create_asset", {"name": "n0", "value": "v", "columns": ()}),
    ):
        scene.meanwhile(replace)
        scene.do(scene.first, NAMESPACE, op, **given)
        scene.do(w, NAMESPACE, "get_namespace")
        scene.do(w, NAMESPACE, "list_assets")
    check(scene.history, tmp_path / "history.jsonl")


@pytest.mark.parametrize("selection", ["*", "flow.first"])
def test_run_key_that_another_uses_meanwhile_starts_one_run(
    scene: Scene, tmp_path: Path, selection: str
) -> None:
    deploy(scene.second, VERSIONS[0])
    scene.meanwhile(lambda: scene.do(scene.second, "run k", "trigger", selection=selection))
    scene.do(scene.first, "run k", "trigger", selection="*")
    scene.do(scene.second, "run k", "run")
    check(scene.history, tmp_path / "history.jsonl")


def test_run_that_is_cancelled_meanwhile_is_cancelled_once(scene: Scene, tmp_path: Path) -> None:
    deploy(scene.second, VERSIONS[0])
    run_id, _ = scene.do(scene.second, "run k", "trigger", selection="*")
    scene.meanwhile(lambda: scene.do(scene.second, "run k", "cancel", run_id=run_id))
    scene.do(scene.first, "run k", "cancel", run_id=run_id)
    scene.do(scene.second, "run k", "run")
    scene.do(scene.first, "run k", "retry", run_id=run_id)
    scene.do(scene.second, "run k", "run")
    check(scene.history, tmp_path / "history.jsonl")


def test_deployments_of_two_at_once_are_numbered_one_after_the_other(
    scene: Scene, tmp_path: Path
) -> None:
    def deployed(w: Workspace, version: int) -> None:
        scene.do(w, "deployments", "deploy", version=version, manifest=f"m{version}")

    for version, rival in ((0, 1), (0, 0), (1, 2)):
        scene.meanwhile(functools.partial(deployed, scene.second, rival))
        deployed(scene.first, version)
    check(scene.history, tmp_path / "history.jsonl")


def test_late_duplicate_does_not_bring_back_what_was_rolled_back(
    scene: Scene, tmp_path: Path
) -> None:
    w = scene.second
    scene.do(w, NAMESPACE, "create_namespace", value="v")
    generation = w.read.snapshot().generation
    scene.note(NAMESPACE, {"op": "mark", "mark": "before"}, lambda _: "ok")
    repeated = Rule("repeat", op="put", path="^ledger/inbox/", times=1)
    scene.network.faults = Faults([repeated])
    scene.do(scene.first, NAMESPACE, "create_asset", name="mistake", value="m", columns=())

    def roll_back(_: Operation) -> str:
        w.upkeep.rollback(generation, reason="test")
        return "ok"

    scene.note(NAMESPACE, {"op": "rollback", "mark": "before"}, roll_back)
    w.commands.catalog.create_namespace("further")
    scene.do(w, NAMESPACE, "list_assets")
    scene.network.release()
    w.committer.commit()
    scene.do(w, NAMESPACE, "list_assets")
    check(scene.history, tmp_path / "history.jsonl")
