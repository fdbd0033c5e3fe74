"""What commands and reads mean, one after the other: small, and independent of the folds.

An input is a dict with `op` and the values that matter. Each write carries a value that
no other write has, so that a read tells whose write it sees. An output is "ok", the kind
of a refusal, or what was read.

| key | operations |
|---|---|
| `namespace …` | all commands and reads of the catalog: assets and columns belong to one |
| `deployments` | deploy, current deployment |
| `run …` (its run key) | trigger, cancel, retry, run |
| `output …` (its id) | approve and reject, status |
| `keys …` (its name) | add and remove partition keys, list |
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from tests.linearizability.checker import Operation

Input = dict[str, Any]
OK = "ok"
MISSING = "not_found"
EXISTS = "exists"


class Asset(NamedTuple):
    created: str
    """The value of the command that created it: it stays when the name changes."""
    value: str
    columns: tuple[tuple[str, str], ...] = ()
    """Names and types, in the order in which they were added."""


class Namespace(NamedTuple):
    value: str
    assets: tuple[tuple[str, Asset], ...] = ()
    """By name, sorted."""

    def asset(self, name: str) -> Asset | None:
        return dict(self.assets).get(name)

    def with_asset(self, name: str, asset: Asset) -> Namespace:
        return self._replace(assets=tuple(sorted({**dict(self.assets), name: asset}.items())))

    def without(self, name: str) -> Namespace:
        return self._replace(assets=tuple(a for a in self.assets if a[0] != name))


class CatalogState(NamedTuple):
    namespace: Namespace | None = None
    marks: tuple[tuple[str, Namespace | None], ...] = ()
    """What was there when somebody noted the generation, to roll back to."""


class Run(NamedTuple):
    run_id: str
    """Empty while nobody who knows it has been heard of."""
    selection: str
    active: bool = True
    retries: int = 0
    cancelling_until: int = 0
    """When the last cancel that was applied had ended for its caller."""


class Model:
    """All keys; see the table above."""

    def start(self, key: str) -> Hashable:
        match key.split(" ")[0]:
            case "namespace":
                return CatalogState()
            case "deployments":
                return (0, "")
            case "run":
                return Run("", "", active=False)
            case "output":
                return "held"
            case "keys":
                return frozenset()
        raise AssertionError(key)

    def step(self, state: Any, operation: Operation) -> Hashable | None:
        if operation.key.startswith("run "):
            return _run(state, operation)
        after, expected = _deterministic(state, operation.input)
        if not operation.open and expected != operation.output:
            return None
        return after


def _deterministic(state: Any, given: Input) -> tuple[Hashable, Any]:
    match state:
        case CatalogState():
            return _catalog(state, given)
        case (int(), str()):
            return _deployment(state, given)
        case frozenset():
            return _keys(state, given)
    return _output(state, given)


# -- the catalog ---------------------------------------------------------------------------


def _catalog(state: CatalogState, given: Input) -> tuple[CatalogState, Any]:
    match given["op"]:
        case "mark":
            marks = {**dict(state.marks), given["mark"]: state.namespace}
            return state._replace(marks=tuple(sorted(marks.items()))), OK
        case "rollback":
            return state._replace(namespace=dict(state.marks)[given["mark"]]), OK
    after, output = _namespace(state.namespace, given)
    return state._replace(namespace=after), output


def _namespace(at: Namespace | None, given: Input) -> tuple[Namespace | None, Any]:
    op = given["op"]
    if op == "create_namespace":
        return (at, EXISTS) if at is not None else (Namespace(given["value"]), OK)
    if op == "list_assets":
        rows = () if at is None else at.assets
        return at, tuple((name, asset.created, asset.value) for name, asset in rows)
    if at is None:
        return at, MISSING
    match op:
        case "update_namespace":
            return at._replace(value=given["value"]), OK
        case "drop_namespace":
            return (at, "not_empty") if at.assets else (None, OK)
        case "get_namespace":
            return at, (at.value, len(at.assets))
        case "create_asset":
            if at.asset(given["name"]) is not None:
                return at, EXISTS
            asset = Asset(given["value"], given["value"], tuple(given["columns"]))
            return at.with_asset(given["name"], asset), OK
    return _asset(at, given)


def _asset(at: Namespace, given: Input) -> tuple[Namespace, Any]:
    name = given["name"]
    asset = at.asset(name)
    if asset is None:
        return at, MISSING
    match given["op"]:
        case "get_asset":
            return at, (asset.created, asset.value, asset.columns)
        case "update_asset":
            return at.with_asset(name, asset._replace(value=given["value"])), OK
        case "drop_asset":
            return at.without(name), OK
        case "rename_asset":
            if at.asset(given["new"]) is not None:
                return at, EXISTS
            return at.without(name).with_asset(given["new"], asset), OK
    columns, output = _columns(asset.columns, given)
    return at.with_asset(name, asset._replace(columns=columns)), output


def _columns(
    columns: tuple[tuple[str, str], ...], given: Input
) -> tuple[tuple[tuple[str, str], ...], Any]:
    column = given["column"]
    names = [name for name, _ in columns]
    if given["op"] == "add_column":
        return (columns, EXISTS) if column in names else ((*columns, (column, given["value"])), OK)
    if column not in names:
        return columns, MISSING
    match given["op"]:
        case "drop_column":
            return tuple(c for c in columns if c[0] != column), OK
        case "update_column":
            return tuple((n, given["value"] if n == column else t) for n, t in columns), OK
        case "rename_column":
            if given["new"] in names:
                return columns, EXISTS
            return tuple((given["new"] if n == column else n, t) for n, t in columns), OK
    raise AssertionError(given)


# -- orchestration -------------------------------------------------------------------------


def _deployment(state: tuple[int, str], given: Input) -> tuple[tuple[int, str], Any]:
    number, manifest = state
    if given["op"] == "current_deployment":
        return state, state
    if manifest == given["manifest"]:
        return state, (number, False)
    return (number + 1, given["manifest"]), (number + 1, True)


def _keys(state: frozenset[str], given: Input) -> tuple[frozenset[str], Any]:
    match given["op"]:
        case "add_keys":
            return state | set(given["keys"]), OK
        case "remove_keys":
            return state - set(given["keys"]), OK
    return state, tuple(sorted(state))


def _output(state: str, given: Input) -> tuple[str, Any]:
    match given["op"]:
        case "approve" | "reject" if state != "held":
            return state, "decided"
        case "approve":
            return "approved", OK
        case "reject":
            return "rejected", OK
    return state, state


def _run(state: Run, operation: Operation) -> Run | None:
    """A run's id is chosen by the trigger: the first output that has it tells which it is."""
    given, output = operation.input, operation.output
    match given["op"]:
        case "trigger":
            return _triggered(state, operation)
        case "run" if operation.open:
            return state
        case "run" if not state.selection:
            return state if output == MISSING else None
        case "run":
            run_id = state.run_id or output[0]
            same = output == (run_id, state.active, state.retries)
            return state._replace(run_id=run_id) if same else None
    if given["run_id"] != state.run_id:
        return None
    if given["op"] == "cancel":
        return _cancelled(state, operation)
    after, expected = _retried(state)
    return after if operation.open or output == expected else None


def _cancelled(state: Run, operation: Operation) -> Run | None:
    """A run that is being cancelled may be cancelled again: both callers are told OK.

    Only concurrent calls can meet it so: the events of both may be folded in turns by one
    commit, and who calls after that sees that the run has ended.
    """
    if operation.end is None:
        return state._replace(active=False)
    if operation.output == "finished":
        return None if state.active else state
    if not state.active and operation.call > state.cancelling_until:
        return None
    until = max(state.cancelling_until, operation.end)
    return state._replace(active=False, cancelling_until=until)


def _retried(state: Run) -> tuple[Run, str]:
    if state.active:
        return state, "active"
    return state._replace(retries=state.retries + 1), OK


def _triggered(state: Run, operation: Operation) -> Run | None:
    """The output is the run's id, and whether it is new; or that the key is another's.

    One that asked again after it was killed cannot tell whether it is new: "either".
    """
    given, output = operation.input, operation.output
    if operation.open:
        return state if state.selection else Run("", given["selection"])
    if output == "conflict":
        return state if state.selection not in ("", given["selection"]) else None
    run_id, how = output
    if not state.selection:
        return Run(run_id, given["selection"]) if how != "replayed" else None
    same = state.selection == given["selection"] and state.run_id in ("", run_id)
    return state._replace(run_id=run_id) if same and how != "new" else None
