"""The fold of contracts: one key for each asset.

The directory has checked commands before: the asset has the given name. Contracts of code were
checked by their deployment, and take effect without a check: a contract that people have declared
belongs to code from then on. Breaches are in `contract_breaches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from arco.catalog.contract_breaches import decide, end_all, evaluate, judge_freshness
from arco.catalog.contract_changes import contract_changes, version_problem
from arco.catalog.contract_events import (
    ContractDeclared,
    ContractEvaluated,
    ContractSet,
    ContractSetAdmitted,
    ContractUndeclared,
    ContractWithdrawalAdmitted,
    ContractWithdrawn,
)
from arco.catalog.contract_tables import (
    CONTRACT_TABLES,
    CONTRACT_VERSIONS,
    CONTRACTS,
    ContractRow,
    ContractSource,
    ContractState,
    ContractVersionRow,
)
from arco.catalog.events import AssetNotice, AssetReleased
from arco.catalog.schema_events import WHOLE, BreakAccepted, HeldSchemaDecided
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract.manifest import ContractStatement

replace = msgspec.structs.replace


# -- statements ---------------------------------------------------------------------------


def _set(rows: Rows, fact: Fact, admitted: ContractSetAdmitted) -> Iterator[Change]:
    e = admitted.command
    fact = replace(fact, payload=e)  # which is what is answered
    row = rows.get(CONTRACTS, e.asset_id)
    if refusal := _not_yours(rows, fact, e, row):
        yield refusal
        return
    contract = replace(e.contract, name=f"{e.namespace}.{e.name}")
    if row is not None:
        before = row.decoded()
        problem = version_problem(before, contract, contract_changes(before, contract))
        if problem is not None:
            yield refused(fact, "contract_version", "; ".join(problem))
            return
    yield from _declare(rows, fact, e.asset_id, contract, e.consumer_ids, "people")
    yield applied(fact)


def _withdraw(rows: Rows, fact: Fact, admitted: ContractWithdrawalAdmitted) -> Iterator[Change]:
    e = admitted.command
    fact = replace(fact, payload=e)
    row = rows.get(CONTRACTS, e.asset_id)
    if row is None:
        yield refused(fact, "contract_not_found", f"{e.namespace}.{e.name} has no contract")
    elif refusal := _not_yours(rows, fact, e, row):
        yield refusal
    else:
        yield from _remove(rows, fact, row, reason=e.reason)
        yield applied(fact)


def _not_yours(
    rows: Rows, fact: Fact, e: ContractSet | ContractWithdrawn, row: ContractRow | None
) -> Emit | None:
    key = f"{e.namespace}.{e.name}"
    if row is not None and row.source == "code":
        return refused(
            fact,
            "contract_in_code",
            f"the contract of {key} is declared in the code of the project {row.project}; "
            "change it there",
        )
    version = rows.version(CONTRACTS, e.asset_id)
    if e.expected_version not in (None, version):
        return refused(
            fact,
            "version_mismatch",
            f"the contract of {key} has changed: its row version is {version}, "
            f"not {e.expected_version}; read it again",
        )
    return None


def _declare_in_code(rows: Rows, fact: Fact, e: ContractDeclared) -> Iterator[Change]:
    if e.asset_id:
        yield from _declare(
            rows,
            fact,
            e.asset_id,
            e.declaration,
            e.consumer_ids,
            "code",
            project=e.project,
            deployment_id=e.deployment_id,
        )


def _undeclare(rows: Rows, fact: Fact, e: ContractUndeclared) -> Iterator[Change]:
    row = rows.get(CONTRACTS, e.asset_id)
    if row is not None and row.source == "code" and row.project == e.project:
        yield from _remove(rows, fact, row, deployment_id=e.deployment_id)


def _declare(
    rows: Rows,
    fact: Fact,
    asset_id: str,
    contract: ContractStatement,
    consumer_ids: Mapping[str, str],
    source: ContractSource,
    project: str = "",
    deployment_id: str = "",
) -> Iterator[Change]:
    row = rows.get(CONTRACTS, asset_id)
    before = None if row is None else row.decoded()
    contract = msgspec.convert(
        {name: getattr(contract, name) for name in ContractStatement.__struct_fields__},
        ContractStatement,
    )
    changes = () if before is None else contract_changes(before, contract)
    same_version = row is not None and row.version == contract.version
    earlier = rows.scan(CONTRACT_VERSIONS, asset_id)
    number = len(earlier) + 1
    text = msgspec.json.encode(contract).decode()
    yield Put(
        CONTRACT_VERSIONS,
        _entry(
            fact,
            asset_id,
            number,
            "declared" if row is None else "changed",
            contract.version,
            source,
            statement=text,
            changes=msgspec.json.encode(changes).decode(),
            breaking=any(each.breaks for each in changes),
            deployment_id=deployment_id,
        ),
    )
    now = ContractRow(
        asset_id=asset_id,
        version=contract.version,
        source=source,
        project=project,
        deployment_id=deployment_id,
        owner=contract.owner,
        consumers=list(contract.consumers),
        consumer_ids=dict(consumer_ids),
        statement=text,
        accepted=row.accepted if row is not None and same_version else {},
        state=row.state if row is not None and same_version else ContractState.UNKNOWN,
        open_breaches=0 if row is None else row.open_breaches,
        breaches=0 if row is None else row.breaches,
        revisions=number,
        last_breach_at=None if row is None else row.last_breach_at,
        declared_at=fact.received_at,
        declared_by=fact.actor,
    )
    if row is not None and not same_version:
        reason = f"version {contract.version} took effect"
        yield from end_all(rows, fact, row, "version", reason)
        now = replace(now, open_breaches=0)
    yield Put(CONTRACTS, now)


def _remove(
    rows: Rows, fact: Fact, row: ContractRow, reason: str = "", deployment_id: str = ""
) -> Iterator[Change]:
    yield from end_all(rows, fact, row, "removed", "the contract was removed")
    entry = _entry(
        fact,
        row.asset_id,
        row.revisions + 1,
        "removed",
        row.version,
        row.source,
        breaking=True,
        reason=reason,
        deployment_id=deployment_id,
    )
    yield Put(CONTRACT_VERSIONS, entry)
    yield Delete(CONTRACTS, (row.asset_id,))


def _accept(rows: Rows, fact: Fact, e: BreakAccepted) -> Iterator[Change]:
    row = rows.get(CONTRACTS, e.asset_id)
    if row is None:
        return
    promised = {each.name for each in row.decoded().columns}
    if e.column != WHOLE and e.column not in promised:
        return
    entry = _entry(
        fact,
        row.asset_id,
        row.revisions + 1,
        "accepted",
        row.version,
        row.source,
        column=e.column,
        reason=e.reason,
        deployment_id=e.deployment_id,
    )
    yield Put(CONTRACT_VERSIONS, entry)
    accepted = {**row.accepted, e.column: e.reason}
    yield Put(CONTRACTS, replace(row, accepted=accepted, revisions=entry.number))


def _entry(
    fact: Fact,
    asset_id: str,
    number: int,
    event: Literal["declared", "changed", "removed", "accepted"],
    version: str,
    source: ContractSource,
    **fields: Any,
) -> ContractVersionRow:
    unsaid: dict[str, Any] = {
        "statement": "",
        "changes": "[]",
        "breaking": False,
        "column": "",
        "reason": "",
        "deployment_id": "",
    }
    return ContractVersionRow(
        asset_id=asset_id,
        number=number,
        event=event,
        version=version,
        source=source,
        **(unsaid | fields),
        changed_at=fact.received_at,
        changed_by=fact.actor,
        position=fact.position,
    )


def _forget(rows: Rows, fact: Fact, e: AssetReleased) -> Iterator[Change]:
    row = rows.get(CONTRACTS, e.asset_id)
    if row is not None:
        yield from _remove(rows, fact, row, reason="the asset was dropped")


_by_asset = by("asset_id")
STAGE = Stage(
    "contracts",
    CONTRACT_TABLES,
    (
        On(ContractSetAdmitted, _by_asset, _set),
        On(ContractWithdrawalAdmitted, _by_asset, _withdraw),
        On(ContractDeclared, _by_asset, _declare_in_code),
        On(ContractUndeclared, _by_asset, _undeclare),
        On(ContractEvaluated, _by_asset, evaluate),
        On(BreakAccepted, _by_asset, _accept),
        On(HeldSchemaDecided, _by_asset, decide),
        On(AssetNotice, _by_asset, judge_freshness),
        On(AssetReleased, _by_asset, _forget),
    ),
)
