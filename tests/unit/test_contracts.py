"""Contracts of a workspace: who may declare them, what a deployment breaks, what a breach does."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.automation.freshness_events import FreshnessChanged
from arco.automation.freshness_tables import FreshnessStatus
from arco.catalog.contract_events import ContractEvaluated
from arco.catalog.contract_reader import ContractReader
from arco.catalog.contract_tables import CONTRACTS, ContractRow, ContractState
from arco.dispatch.kept_lookups import KeptLookups
from arco.dispatch.sent_contracts import SentContracts
from arco.dispatch.versions import CommittedVersions
from arco.errors import Invalid, NotFound, Refused
from arco.log.envelope import Payload
from arco.notifications.tables import NOTIFICATIONS
from arco.orchestration.contract_deploy import ContractRefused
from arco.orchestration.declarations import declarations_of
from arco.orchestration.deploying import Deployed
from arco.orchestration.schema_deploy import BreakAcceptance
from arco.tasks.failure import TaskFailed
from arco.worker.contract_check import compared
from servo import in_range
from servo.contract.manifest import (
    Asset,
    Code,
    ColumnDef,
    Contract,
    ContractStatement,
    FreshnessSpec,
    Gating,
    Manifest,
    Notification,
)
from servo.contract.task import CodeRef, ColumnInfo, TaskRequest
from tests.kit.deploying import ARTIFACT, manifest
from tests.kit.derived import derived_workspace
from tests.kit.planning import DAYS, asset, reads

replace = msgspec.structs.replace
CODE = Code(module="m", name="c", file="shop.py", line=7)
ID, AMOUNT = ColumnDef(name="id", type="bigint"), ColumnDef(name="amount", type="double")
PROMISE = Contract(
    name="sales.orders",
    version="1.0.0",
    consumers=("marts.daily", "finance@example.org"),
    columns=(ID, AMOUNT),
    code=CODE,
)
ids = itertools.count(1)


def orders(*columns: ColumnDef, **settings: Any) -> Asset:
    return replace(asset("sales.orders", columns=columns, owners=("ana@x.org",)), **settings)


READER = asset("marts.daily", reads("sales.orders"), owners=("bo@x.org",))


def deploy(
    w: Workspace, *assets: Asset, contracts: tuple[Contract, ...] = (PROMISE,), **options: Any
) -> Deployed:
    accept = options.pop("accept", ())
    reason = "agreed" if accept else ""
    project = replace(_manifest(*assets), contracts=contracts, **options)
    acceptance = BreakAcceptance(tuple(accept), reason)
    return w.commands.orchestration.deploy(project, ARTIFACT, accept_breaking=acceptance)


def _manifest(*assets: Asset) -> Manifest:
    return manifest(*(assets or (orders(ID, AMOUNT),)), READER)


def deployed(**options: Any) -> Workspace:
    w = derived_workspace()
    deploy(w, **options)
    return w


def contract(w: Workspace) -> ContractRow:
    return ContractReader(w.read.snapshot()).contract("sales.orders")


def append(w: Workspace, *payloads: Payload) -> None:
    w.ledger.append([w.ledger.event(payload) for payload in payloads])
    w.committer.commit()


def evaluated(w: Workspace, message: str = "", partition: str = "", version: str = "1.0.0") -> str:
    id = f"M{next(ids)}"
    event = ContractEvaluated(
        asset_id=contract(w).asset_id,
        materialization_id=id,
        partition=partition,
        run_id="R1",
        version=version,
        kind="schema",
        action="block" if message else "continue",
        message=message,
    )
    append(w, event)
    return id


def people(**settings: Any) -> ContractStatement:
    return ContractStatement(
        **{"name": "sales.orders", "version": "1.0.0", "columns": (ID, AMOUNT)} | settings
    )


# -- who declares ---------------------------------------------------------------------------


def test_code_declares_changes_and_removes_its_contract() -> None:
    w = deployed()
    row = contract(w)
    assert (row.version, row.source, row.state) == ("1.0.0", "code", ContractState.UNKNOWN)
    assert row.consumer_ids == {"marts.daily": w.read.orchestration().asset_id("marts.daily")}
    deploy(w, contracts=(replace(PROMISE, terms="free"),))  # words need no version
    with pytest.raises(Invalid) as caught:
        deploy(w, contracts=(replace(PROMISE, columns=(ID,)),))
    assert caught.value.message == (
        "shop.py:7: the contract of sales.orders breaks what version 1.0.0 promises: "
        "amount was removed (marts.daily, finance@example.org rely on it)"
    )
    deploy(w, contracts=(replace(PROMISE, version="2.0.0", columns=(ID,)),))
    with pytest.raises(ContractRefused) as refusal:
        deploy(w, contracts=())
    assert "its contract is removed from the code" in str(refusal.value)
    deploy(w, contracts=(), accept=["sales.orders.*"])
    reader = ContractReader(w.read.snapshot())
    with pytest.raises(NotFound, match="has no contract any more"):
        reader.contract("sales.orders")
    entries = reader.versions("sales.orders")
    assert [(entry.event, entry.version, entry.breaking) for entry in entries] == [
        ("removed", "2.0.0", True),
        ("accepted", "2.0.0", False),
        ("changed", "2.0.0", True),
        ("changed", "1.0.0", False),
        ("declared", "1.0.0", False),
    ]


def test_a_contract_follows_its_asset_to_another_name() -> None:
    w = deployed()
    evaluated(w, "amount was removed")
    before = contract(w)
    renamed = replace(orders(ID, AMOUNT), key="sales.purchases", renamed_from="sales.orders")
    reader = asset("marts.daily", reads("sales.purchases"))
    project = replace(
        manifest(renamed, reader), contracts=(replace(PROMISE, name="sales.purchases"),)
    )
    w.commands.orchestration.deploy(project, ARTIFACT)
    row = ContractReader(w.read.snapshot()).contract("sales.purchases")
    assert (row.asset_id, row.open_breaches, row.breaches) == (before.asset_id, 1, 1)
    entries = ContractReader(w.read.snapshot()).versions("sales.purchases")
    assert [entry.event for entry in entries] == ["changed", "declared"]


def test_a_rollback_restores_an_older_contract() -> None:
    w = derived_workspace()
    first = deploy(w)
    deploy(w, contracts=(replace(PROMISE, version="2.0.0", columns=(ID,)),))
    with pytest.raises(Invalid, match=r"has version 1.0.0, and 2.0.0 is in effect"):
        deploy(w)
    w.commands.orchestration.rollback(first.deployment_id)
    assert contract(w).version == "1.0.0"


def test_people_declare_what_code_does_not() -> None:
    w = deployed(contracts=())
    set_contract = w.commands.contracts.set
    with pytest.raises(NotFound, match=r"there is no asset sales.order\b"):
        set_contract(people(name="sales.order"))
    with pytest.raises(Invalid, match="unknown column 'x'"):
        set_contract(people(columns=(ColumnDef(name="x"),)))
    with pytest.raises(Invalid, match=r"unknown consumer 'marts.dally'"):
        set_contract(people(consumers=("marts.dally",)))
    set_contract(people(consumers=("marts.daily",)))
    with pytest.raises(Refused, match="its row version is"):
        set_contract(people(terms="free"), expected_version=1)
    with pytest.raises(Invalid, match=r"breaks what version 1.0.0 promises"):
        set_contract(people(columns=(ID,)))
    # What a command has declared, code does not take over in silence, and the other way round.
    with pytest.raises(Invalid) as caught:
        deploy(w)
    assert "was declared by command" in caught.value.message
    assert "servo contracts remove sales.orders" in caught.value.hint
    w.commands.contracts.withdraw("sales.orders", reason="moves into code")
    deploy(w)
    assert contract(w).source == "code"
    with pytest.raises(Invalid, match="declared in the code of the project main"):
        set_contract(people(version="3.0.0"))
    with pytest.raises(Refused, match="declared in the code"):
        w.commands.contracts.withdraw("sales.orders", reason="no")


# -- at deploy ------------------------------------------------------------------------------


def test_declared_columns_that_break_a_contract_are_refused_until_accepted() -> None:
    w = deployed(contracts=())
    w.commands.contracts.set(people(consumers=("marts.daily", "finance@example.org")))
    with pytest.raises(ContractRefused) as caught:
        deploy(w, orders(ID, extra="refuse"), contracts=())
    (broken,) = caught.value.breaks
    assert str(broken) == (
        "sales.orders: amount was removed (promised by version 1.0.0 to marts.daily, "
        "finance@example.org)"
    )
    assert "--accept-breaking sales.orders.amount --reason" in caught.value.hint
    deploy(w, orders(ID, extra="refuse"), contracts=(), accept=["sales.orders.amount"])
    assert contract(w).accepted == {"amount": "agreed"}
    promise = sent(w).rule
    assert promise is not None
    output = TASK_COLUMNS[:1]
    request = replace(REQUEST, promise=promise)
    assert [r.passed for r in compared(request, output, str, w.store).results] == [True]


def test_types_and_renames_are_compared_with_what_is_promised() -> None:
    w = deployed(contracts=())
    w.commands.contracts.set(people())
    for columns, text in (
        ((replace(ID, type="int"), AMOUNT), "id was narrowed from bigint to int"),
        ((ID, ColumnDef(name="total", renamed_from="amount")), "amount was renamed to total"),
    ):
        with pytest.raises(ContractRefused, match=text):
            deploy(w, orders(*columns), contracts=())
    deploy(w, orders(ID, AMOUNT, ColumnDef(name="more")), contracts=())


def test_the_columns_of_a_query_are_known_before_it_runs() -> None:
    query = "SELECT amount AS total FROM {{ ref('sales.orders') }}"
    daily = asset("marts.daily", reads("sales.orders", parameter="sales.orders"))
    daily = replace(daily, kind="sql", sql=query)
    promise = replace(PROMISE, name="marts.daily", columns=(ColumnDef(name="revenue"),))
    w = derived_workspace()
    project = replace(manifest(orders(ID, AMOUNT), daily), contracts=(promise,))
    with pytest.raises(ContractRefused, match=r"marts.daily: revenue was"):
        w.commands.orchestration.deploy(project, ARTIFACT)


def test_the_freshness_of_a_contract_is_that_of_its_asset() -> None:
    promise = replace(PROMISE, freshness=FreshnessSpec(max_age_s=60))
    project = replace(_manifest(), contracts=(promise,))
    freshness = [each for each in declarations_of(project) if type(each).__name__.endswith("ness")]
    assert [(each.name, getattr(each, "max_age_s", 0)) for each in freshness] == [
        ("sales.orders", 60)
    ]


# -- breaches -------------------------------------------------------------------------------

TELL = Notification(
    name="promises",
    on=("contract_breach", "recovered"),
    to=("owners", "consumers"),
    code=CODE,
)


def test_a_breach_is_open_until_the_partition_is_good_again_and_both_sides_are_told() -> None:
    w = deployed(notifications=(TELL,))
    evaluated(w)
    assert contract(w).state == ContractState.KEPT
    first = evaluated(w, "amount was removed", "a")
    evaluated(w, "amount was removed", "a")
    evaluated(w, "too few rows", "b")
    evaluated(w, version="9.0.0")  # of a version that does not hold: nothing
    row = contract(w)
    assert (row.state, row.open_breaches, row.breaches) == (ContractState.BREACHED, 2, 3)
    evaluated(w, "", "a")
    assert contract(w).open_breaches == 1
    evaluated(w, "", "b")
    row = contract(w)
    assert (row.state, row.open_breaches, row.breaches) == (ContractState.KEPT, 0, 3)
    breaches = ContractReader(w.read.snapshot()).breaches("sales.orders")
    assert [each.outcome for each in breaches if each.breach_id == first] == ["replaced"]
    receivers = {row.receiver for row in w.read.snapshot().all(NOTIFICATIONS)}
    assert receivers == {
        "owners:ana@x.org",
        "owners:bo@x.org",
        "owners:finance@example.org",
    }


def test_another_version_ends_breaches_and_what_was_accepted() -> None:
    w = deployed()
    evaluated(w, "amount was removed")
    deploy(w, contracts=(replace(PROMISE, version="2.0.0", columns=(ID,)),))
    row = contract(w)
    assert (row.state, row.open_breaches, row.accepted) == (ContractState.UNKNOWN, 0, {})
    (breach,) = ContractReader(w.read.snapshot()).breaches("sales.orders")
    assert (breach.outcome, breach.reason) == ("version", "version 2.0.0 took effect")


def test_data_that_is_stale_breaks_a_promise_of_freshness() -> None:
    w = deployed(contracts=(replace(PROMISE, freshness=FreshnessSpec(max_age_s=60)),))
    changed = FreshnessChanged(
        asset_id=contract(w).asset_id,
        asset="sales.orders",
        series="",
        partition="",
        status=FreshnessStatus.STALE,
        cause="",
        reason="late",
        due_at=None,
    )
    append(w, changed)
    (breach,) = ContractReader(w.read.snapshot()).breaches("sales.orders")
    assert (breach.kind, breach.ended_at) == ("freshness", None)
    evaluated(w)  # an output that keeps the rest does not end it
    assert contract(w).state == ContractState.BREACHED
    append(w, replace(changed, status=FreshnessStatus.FRESH))
    (breach,) = ContractReader(w.read.snapshot()).breaches("sales.orders")
    assert (breach.outcome, contract(w).state) == ("fresh", ContractState.KEPT)


# -- at the output --------------------------------------------------------------------------

REQUEST = TaskRequest(
    tenant_id="t",
    workspace_id="w",
    run_id="R",
    task_id="t1",
    plan_id="P",
    attempt=1,
    attempt_id="a",
    asset="sales.orders",
    asset_id="A",
    code=CodeRef(artifact="z", module="m", name="n"),
)
TASK_COLUMNS = (ColumnInfo(name="id", type="bigint"), ColumnInfo(name="amount", type="double"))


def sent(w: Workspace, contracts: SentContracts | None = None, again: bool = False) -> Any:
    source = CommittedVersions(w.core.manifests, w.core.files)
    id = w.read.orchestration().asset_id("sales.orders")
    contracts = contracts or SentContracts(w.store)
    return contracts.promise("R", id, orders(ID, AMOUNT), source, again)


def test_an_asset_without_a_contract_is_sent_as_it_was() -> None:
    w = deployed(contracts=())
    promise = sent(w)
    assert promise.rule is None and promise.checks == ()
    assert compared(REQUEST, TASK_COLUMNS, str, w.store) == (REQUEST, [])


def test_columns_are_compared_and_what_cannot_be_checked_is_left_out() -> None:
    w = deployed(contracts=(replace(PROMISE, checks=(in_range("amount", min=0),)),))
    promise = sent(w)
    lenient = Gating(preset="lenient")
    request = replace(REQUEST, promise=promise.rule, checks=promise.checks, gating=lenient)
    assert [r.passed for r in compared(request, TASK_COLUMNS, str, w.store).results] == [True]
    broken, (result,) = compared(request, TASK_COLUMNS[:1], str, w.store)
    assert (result.action, result.contract, result.columns) == ("quarantine", "1.0.0", ("amount",))
    assert result.message == (
        "amount was removed (promised by version 1.0.0 to marts.daily, finance@example.org)"
    )
    assert broken.checks == ()


def test_dimensions_of_partitions_are_columns_that_files_need_not_have() -> None:
    date = ColumnDef(name="date")
    w = derived_workspace()
    daily = replace(orders(ID, AMOUNT, extra="refuse"), partitions=(DAYS,))
    promise = replace(PROMISE, columns=(ID, date))
    project = replace(manifest(daily), contracts=(promise,))
    w.commands.orchestration.deploy(project, ARTIFACT)
    request = replace(REQUEST, partition="date=d:2025-01-01", promise=sent(w).rule)
    assert compared(request, TASK_COLUMNS, str, w.store).results[0].passed
    assert (
        not compared(replace(request, partition=""), TASK_COLUMNS, str, w.store).results[0].passed
    )
    again = deployed(contracts=())
    with pytest.raises(Invalid, match="unknown column 'date'"):
        again.commands.contracts.set(people(columns=(date,)))


def test_a_large_promise_is_an_object_and_a_new_version_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arco.orchestration.rule_objects.INLINE_CHARS", 10)
    w = deployed()
    contracts = SentContracts(w.store)
    promise = sent(w, contracts)
    assert promise.rule.packed == "" and promise.rule.stored_in is not None
    assert sent(w, contracts) is promise
    request = replace(REQUEST, promise=promise.rule)
    assert compared(request, TASK_COLUMNS, str, w.store).results[0].passed
    w.store.delete(promise.rule.stored_in.path)
    with pytest.raises(TaskFailed, match="cannot be read"):
        compared(request, TASK_COLUMNS, str, w.store)
    deploy(w, contracts=(replace(PROMISE, version="2.0.0", columns=(ID,)),))
    assert sent(w, contracts).rule.version == "2.0.0"


def test_a_contract_is_read_again_only_after_files_with_its_row_have_changed() -> None:
    w, kept = deployed(contracts=()), KeptLookups()
    asset_id = w.read.orchestration().asset_id("sales.orders")
    read: list[str] = []

    def version() -> str:
        snapshot = w.read.snapshot()

        def look_up() -> str:
            row = snapshot.get(CONTRACTS, asset_id)
            read.append("" if row is None else row.version)
            return read[-1]

        return kept.get(snapshot, CONTRACTS, asset_id, look_up)

    assert version() == version() == ""
    w.commands.catalog.create_asset("sales.others")
    assert (version(), read) == ("", [""])
    w.commands.contracts.set(people())
    assert version() == version() == "1.0.0"
    w.commands.contracts.withdraw("sales.orders", reason="no longer needed")
    assert version() == version() == ""
    assert read == ["", "1.0.0", ""]


def test_requests_see_a_contract_and_a_classification_that_changed() -> None:
    w, kept = deployed(contracts=()), KeptLookups()
    asset_id = w.read.orchestration().asset_id("sales.orders")

    def promised() -> tuple[bool, frozenset[str]]:
        source = CommittedVersions(w.core.manifests, w.core.files, kept)
        return source.contract(asset_id) is not None, source.classified_columns(asset_id)

    assert promised() == (False, frozenset())
    w.commands.contracts.set(people())
    assert promised() == (True, frozenset())
    deploy(w, orders(replace(ID, pii="email"), AMOUNT), contracts=())
    assert promised() == (True, frozenset({"id"}))
