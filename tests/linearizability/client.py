"""A client process: two threads with random commands and reads, each noted before and after.

`python -m tests.linearizability.client ROLE NAME SETUP` works until it is killed, or until
the file `stop` appears. Started again, it finds in its journals what it was at when it was
killed. It asks again under the same idempotency key, so that the operation ends after
all, or leaves it open and goes on. The threads share a workspace, as in a server.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from arco.app import Workspace
from arco.catalog.events import Column
from arco.errors import Fenced, Invalid, NotFound, Refused, Unavailable
from arco.execution.tables import QUARANTINE, QuarantineRow
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import DYNAMIC_KEYS, RUNS
from servo.contract.keys import AssetKey
from servo.contract.manifest import encode_manifest
from tests.integration.roles import Setup
from tests.kit.flows import project
from tests.linearizability import history
from tests.linearizability.checker import Operation

NAMESPACES = ("ns0", "ns1")
NAMES = ("n0", "n1", "n2")
COLUMNS = ("c0", "c1")
KEY_SETS = ("cities", "shops")
EPOCH_S = 1.5
"""For how long the same run keys are used; then come new ones."""
UNKNOWN = (Unavailable, Fenced)
"""The command may or may not happen."""
PATIENCE_S = 30.0
THREADS = 2

PROJECT = """
from servo import AssetIn, asset

@asset(namespace="flow", description="{version}")
def first() -> None: ...

@asset(namespace="flow")
def second(first: AssetIn["flow.first"]) -> None: ...
"""
VERSIONS = [PROJECT.format(version=n) for n in range(3)]

Given = dict[str, Any]
Act = Callable[[Given, str], Any]


class Unanswered(Exception):
    """Nobody can say what became of a command."""


class Commands:
    """Performs operations, and gives their outputs in the words of the model."""

    def __init__(self, w: Workspace) -> None:
        self._w = w
        self._catalog = w.commands.catalog
        self._orchestration = w.commands.orchestration

    def perform(self, operation: Operation, *, again: bool) -> Any:
        """The output. Raises Unanswered where the outcome stays unknown."""
        given = {**operation.input, "subject": operation.key.partition(" ")[2], "again": again}
        act: Act = getattr(self, f"_{given['op']}")
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return act(given, operation.id)
            except NotFound:
                return "not_found"
            except Refused as refused:
                return _refusal(refused.code)
            except UNKNOWN as error:
                given["again"] = True
                if given["op"] not in REPEATABLE or time.monotonic() > until:
                    raise Unanswered(str(error)) from error

    # The catalog

    def _create_namespace(self, given: Given, key: str) -> str:
        self._catalog.create_namespace(
            given["subject"], description=given["value"], idempotency_key=key
        )
        return "ok"

    def _update_namespace(self, given: Given, key: str) -> str:
        self._catalog.update_namespace(
            given["subject"], description=given["value"], idempotency_key=key
        )
        return "ok"

    def _drop_namespace(self, given: Given, key: str) -> str:
        self._catalog.drop_namespace(given["subject"], idempotency_key=key)
        return "ok"

    def _get_namespace(self, given: Given, key: str) -> Any:
        row = self._w.read.catalog().namespace(given["subject"])
        return row.description, row.assets

    def _list_assets(self, given: Given, key: str) -> Any:
        rows = self._w.read.catalog().assets(given["subject"])
        return sorted((row.name, row.properties["created"], row.description) for row in rows)

    def _create_asset(self, given: Given, key: str) -> str:
        self._catalog.create_asset(
            _name(given),
            description=given["value"],
            properties={"created": given["value"]},
            columns=[Column(name=name, type=type) for name, type in given["columns"]],
            idempotency_key=key,
        )
        return "ok"

    def _update_asset(self, given: Given, key: str) -> str:
        self._catalog.update_asset(_name(given), description=given["value"], idempotency_key=key)
        return "ok"

    def _rename_asset(self, given: Given, key: str) -> str:
        self._catalog.rename_asset(_name(given), given["new"], idempotency_key=key)
        return "ok"

    def _drop_asset(self, given: Given, key: str) -> str:
        self._catalog.drop_asset(_name(given), idempotency_key=key)
        return "ok"

    def _get_asset(self, given: Given, key: str) -> Any:
        asset = self._w.read.catalog().asset(AssetKey.parse(_name(given)))
        columns = [(column.name, column.type) for column in asset.columns]
        return asset.row.properties["created"], asset.row.description, columns

    def _add_column(self, given: Given, key: str) -> str:
        column = Column(name=given["column"], type=given["value"])
        self._catalog.add_column(_name(given), column, idempotency_key=key)
        return "ok"

    def _update_column(self, given: Given, key: str) -> str:
        self._catalog.update_column(
            _name(given), given["column"], type=given["value"], idempotency_key=key
        )
        return "ok"

    def _rename_column(self, given: Given, key: str) -> str:
        self._catalog.update_column(
            _name(given), given["column"], name=given["new"], idempotency_key=key
        )
        return "ok"

    def _drop_column(self, given: Given, key: str) -> str:
        self._catalog.drop_column(_name(given), given["column"], idempotency_key=key)
        return "ok"

    # Orchestration

    def _deploy(self, given: Given, key: str) -> Any:
        try:
            done = self._orchestration.deploy(
                *project(VERSIONS[given["version"]]), allow_removals=True
            )
        except Refused as refused:
            if refused.code != "deployment_moved":
                raise
            raise Unanswered("other deployments changed the workspace concurrently") from refused
        return done.number, done.changed

    def _current_deployment(self, given: Given, key: str) -> Any:
        row = self._w.read.orchestration().current_deployment()
        return (0, "") if row is None else (row.number, row.manifest)

    def _trigger(self, given: Given, key: str) -> Any:
        request = PlanRequest(selection=(given["selection"],), force=True)
        try:
            done = self._orchestration.trigger(request, run_key=given["subject"])
        except Refused as refused:
            if refused.code != "run_key_conflict":
                raise
            return "conflict"
        how = "replayed" if done.replayed else "new"
        return done.run_id, "either" if given["again"] else how

    def _run(self, given: Given, key: str) -> Any:
        reader = self._w.read.orchestration()
        run_id = reader.run_of_key(given["subject"])
        if run_id is None:
            return "not_found"
        retries = sum(row.retry_of == run_id for row in reader.snapshot.all(RUNS))
        return run_id, reader.run(run_id).state in RUN_ACTIVE, retries

    def _cancel(self, given: Given, key: str) -> str:
        self._orchestration.cancel(given["run_id"])
        return "ok"

    def _retry(self, given: Given, key: str) -> str:
        try:
            self._orchestration.retry(given["run_id"])
        except Invalid:
            return "active"
        return "ok"

    def _approve(self, given: Given, key: str) -> str:
        self._w.commands.execution.decide(self._held(given), approved=True, idempotency_key=key)
        return "ok"

    def _reject(self, given: Given, key: str) -> str:
        self._w.commands.execution.decide(self._held(given), approved=False, idempotency_key=key)
        return "ok"

    def _output(self, given: Given, key: str) -> str:
        status = self._held(given).status.lower()
        return status if status in ("approved", "rejected") else "held"

    def _held(self, given: Given) -> QuarantineRow:
        rows = self._w.read.snapshot().all(QUARANTINE)
        return next(row for row in rows if row.materialization_id == given["subject"])

    def _add_keys(self, given: Given, key: str) -> str:
        self._orchestration.change_partition_keys(given["subject"], add=given["keys"])
        return "ok"

    def _remove_keys(self, given: Given, key: str) -> str:
        self._orchestration.change_partition_keys(given["subject"], remove=given["keys"])
        return "ok"

    def _list_keys(self, given: Given, key: str) -> Any:
        rows = self._w.read.snapshot().rows(DYNAMIC_KEYS, given["subject"])
        return sorted(row.key for row in rows)


READS = (
    "get_namespace", "list_assets", "get_asset", "current_deployment", "run", "output", "list_keys"
)  # fmt: skip
REPEATABLE = (
    *READS, "create_namespace", "update_namespace", "drop_namespace", "create_asset",
    "update_asset", "rename_asset", "drop_asset", "add_column", "update_column", "rename_column",
    "drop_column", "trigger", "approve", "reject",
)  # fmt: skip
"""Reads, and commands that have a key: asked again, they are decided once."""


def _name(given: Given) -> str:
    return f"{given['subject']}.{given['name']}"


def _refusal(code: str) -> str:
    if code.endswith("_not_found"):
        return "not_found"
    kinds = {
        "namespace_exists": "exists",
        "name_taken": "exists",
        "column_exists": "exists",
        "namespace_not_empty": "not_empty",
        "run_finished": "finished",
        "decided_already": "decided",
    }
    return kinds.get(code, f"refused: {code}")


class Choice:
    """Chooses the next operation. `value` is one that nobody else writes."""

    def __init__(self, rng: random.Random, outputs: list[str]) -> None:
        self._rng = rng
        self._outputs = outputs

    def next(self, value: str) -> tuple[str, Given]:
        if self._rng.random() < 0.65:
            return f"namespace {self._rng.choice(NAMESPACES)}", self._catalog(value)
        kind = self._rng.choice((self._deployment, self._run, self._output, self._keys))
        return kind()

    def _catalog(self, value: str) -> Given:
        rng = self._rng
        name, column = rng.choice(NAMES), rng.choice(COLUMNS)
        new = rng.choice([other for other in NAMES if other != name])
        columns = [(column, value)] if rng.random() < 0.5 else []
        weighted: list[tuple[int, Given]] = [
            (3, {"op": "create_namespace", "value": value}),
            (1, {"op": "update_namespace", "value": value}),
            (1, {"op": "drop_namespace"}),
            (1, {"op": "get_namespace"}),
            (2, {"op": "list_assets"}),
            (6, {"op": "create_asset", "name": name, "value": value, "columns": columns}),
            (5, {"op": "update_asset", "name": name, "value": value}),
            (4, {"op": "rename_asset", "name": name, "new": new}),
            (2, {"op": "drop_asset", "name": name}),
            (5, {"op": "get_asset", "name": name}),
            (3, {"op": "add_column", "name": name, "column": column, "value": value}),
            (2, {"op": "update_column", "name": name, "column": column, "value": value}),
            (1, {"op": "rename_column", "name": name, "column": "c0", "new": "c1"}),
            (1, {"op": "drop_column", "name": name, "column": column}),
        ]
        (_, given) = rng.choices(weighted, [weight for weight, _ in weighted])[0]
        return given

    def _deployment(self) -> tuple[str, Given]:
        if self._rng.random() < 0.4:
            return "deployments", {"op": "current_deployment"}
        version = self._rng.randrange(len(VERSIONS))
        digest = hashlib.sha256(encode_manifest(project(VERSIONS[version])[0])).hexdigest()
        return "deployments", {"op": "deploy", "version": version, "manifest": digest}

    def _run(self) -> tuple[str, Given]:
        key = f"run k{int(time.monotonic() / EPOCH_S)}"
        if self._rng.random() < 0.5:
            return key, {"op": "run"}
        return key, {"op": "trigger", "selection": self._rng.choice(["*", "*", "flow.first"])}

    def _output(self) -> tuple[str, Given]:
        op = self._rng.choice(["output", "output", "approve", "reject"])
        return f"output {self._rng.choice(self._outputs)}", {"op": op}

    def _keys(self) -> tuple[str, Given]:
        op = self._rng.choice(["add_keys", "remove_keys", "list_keys", "list_keys"])
        given: Given = {"op": op}
        if op != "list_keys":
            given["keys"] = self._rng.sample(["a", "b", "c", "d"], self._rng.randint(1, 2))
        return f"keys {self._rng.choice(KEY_SETS)}", given

    def after(self, given: Given, output: Any) -> Given | None:
        """What to do next with the same key: cancel or retry a run, read an asset just changed."""
        if self._rng.random() < 0.4:
            return None
        if given["op"] == "run" and output != "not_found":
            return {"op": self._rng.choice(["cancel", "retry"]), "run_id": output[0]}
        if "name" in given and given["op"] not in READS:
            renamed = given["op"] == "rename_asset" and output == "ok"
            return {"op": "get_asset", "name": given["new" if renamed else "name"]}
        return None


class Client:
    def __init__(self, setup: Setup, w: Workspace, name: str) -> None:
        self._setup = setup
        self._name = name
        self._rng = random.Random(name)
        self._commands = Commands(w)
        outputs = json.loads((Path(setup.folder) / "outputs").read_text())
        self._choice = Choice(self._rng, outputs)
        self._count = 0

    def work(self, file: Path) -> None:
        before = history.read(file) if file.exists() else []
        with open(file, "a") as lines:
            self._journal = history.Journal(lines)
            if before and before[-1].open:
                self._resume(before[-1])
            while not self._setup.stopped():
                self._count += 1
                id = f"{self._name}-{self._count}"
                key, given = self._choice.next(id)
                output = self._perform(id, key, given)
                following = None if output is None else self._choice.after(given, output)
                if following is not None:
                    self._perform(f"{id}f", key, following)

    def _resume(self, operation: Operation) -> None:
        if operation.input["op"] in REPEATABLE and self._rng.random() < 0.6:
            self._finish(operation, again=True)

    def _perform(self, id: str, key: str, given: Given) -> Any:
        self._journal.call(id, key, given)
        return self._finish(Operation(id, key, 0, None, given), again=False)

    def _finish(self, operation: Operation, *, again: bool) -> Any:
        try:
            output = self._commands.perform(operation, again=again)
        except Unanswered as error:
            print(f"{operation.id} stays open: {error}", file=sys.stderr)
            return None
        self._journal.end(operation.id, output)
        return output


def work(setup: Setup, w: Workspace, name: str, thread: int) -> None:
    """One thread of a process; `name` is that of this life, the journal is for all lives."""
    member = name.rpartition("_")[0]
    file = Path(setup.folder) / f"journal-{member}-{thread}"
    try:
        Client(setup, w, f"{name}.{thread}").work(file)
    except Exception as error:
        with open(Path(setup.folder) / "violations", "a") as lines:
            lines.write(f"{name}: {error!r}\n")
        raise


def main() -> int:
    _, name, raw = sys.argv[1:]
    setup = msgspec.convert(json.loads(raw), Setup)
    w = setup.open()
    (Path(setup.folder) / f"ready-{name}").touch()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda thread: work(setup, w, name, thread), range(THREADS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
