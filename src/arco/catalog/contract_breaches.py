"""Breaches: outputs that violate a contract, and stale data.

A breach is open until an output of the same partition keeps the contract, the held output is
decided, or another version of the contract takes effect. For stale data it is open until the whole
asset is fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from arco.catalog.contract_events import ContractEvaluated
from arco.catalog.contract_tables import (
    CONTRACT_BREACHES,
    CONTRACTS,
    BreachOutcome,
    ContractBreachRow,
    ContractRow,
    ContractState,
)
from arco.catalog.events import AssetNotice
from arco.catalog.schema_events import HeldSchemaDecided
from arco.state.fold import Change, Emit, Fact, Put, Rows
from servo.contract.manifest import FreshnessSpec

MAX_MESSAGE: Final = 1_000

replace = msgspec.structs.replace


def evaluate(rows: Rows, fact: Fact, e: ContractEvaluated) -> Iterator[Change]:
    row = rows.get(CONTRACTS, e.asset_id)
    if row is None or row.version != e.version:  # of a version that does not hold any more
        return
    if not e.message:
        yield from _keep(rows, fact, row, e)
    elif rows.get(CONTRACT_BREACHES, e.asset_id, e.materialization_id) is None:
        yield from _breach(
            rows,
            fact,
            row,
            ContractBreachRow(
                asset_id=e.asset_id,
                breach_id=e.materialization_id,
                version=e.version,
                kind=e.kind,
                partition_key=e.partition,
                run_id=e.run_id,
                message=e.message[:MAX_MESSAGE],
                checks=list(e.checks),
                columns=list(e.columns),
                consumers=row.consumers,
                action=e.action,
                breached_at=fact.received_at,
                ended_at=None,
                ended_by="",
                outcome="",
                reason="",
            ),
        )


def _keep(rows: Rows, fact: Fact, row: ContractRow, e: ContractEvaluated) -> Iterator[Change]:
    ended = [
        each
        for each in _open(rows, row)
        if each.kind != "freshness" and each.partition_key == e.partition
    ]
    yield from _end(fact, row, ended, "kept", f"run {e.run_id}", run_id=e.run_id)


def _breach(
    rows: Rows, fact: Fact, row: ContractRow, breach: ContractBreachRow
) -> Iterator[Change]:
    """A breach replaces an open one of the same kind and partition."""
    replaced = [
        each
        for each in _open(rows, row)
        if each.partition_key == breach.partition_key
        and (each.kind == "freshness") == (breach.kind == "freshness")
    ]
    for each in replaced:
        yield Put(CONTRACT_BREACHES, _ended(fact, each, "replaced", "another breach"))
    yield Put(CONTRACT_BREACHES, breach)
    yield Put(
        CONTRACTS,
        replace(
            row,
            state=ContractState.BREACHED,
            open_breaches=row.open_breaches - len(replaced) + 1,
            breaches=row.breaches + 1,
            last_breach_at=fact.received_at,
        ),
    )
    yield from _notices(row, "contract_breach", breach.run_id, breach.kind)


def decide(rows: Rows, fact: Fact, e: HeldSchemaDecided) -> Iterator[Change]:
    row = rows.get(CONTRACTS, e.asset_id)
    breach = None if row is None else rows.get(CONTRACT_BREACHES, e.asset_id, e.materialization_id)
    if row is not None and breach is not None and breach.ended_at is None:
        outcome: BreachOutcome = "approved" if e.approved else "rejected"
        yield from _end(fact, row, [breach], outcome, e.reason)


def judge_freshness(rows: Rows, fact: Fact, e: AssetNotice) -> Iterator[Change]:
    """Handles assets that became stale or fresh."""
    row = rows.get(CONTRACTS, e.asset_id) if e.topic == "freshness" else None
    spec = None if row is None else row.decoded().freshness
    if row is None or spec is None:
        return
    stale = [each for each in _open(rows, row) if each.kind == "freshness"]
    if e.event == "recovered":
        yield from _end(fact, row, stale, "fresh", "")
    elif not stale:
        yield from _breach(rows, fact, row, _stale(fact, row, spec, e))


def _stale(fact: Fact, row: ContractRow, spec: FreshnessSpec, e: AssetNotice) -> ContractBreachRow:
    return ContractBreachRow(
        asset_id=row.asset_id,
        breach_id=f"stale-{fact.position}",
        version=row.version,
        kind="freshness",
        partition_key="",
        run_id=e.run_id,
        message=f"data is older than {spec.max_age_s} s",
        checks=[],
        columns=[],
        consumers=row.consumers,
        action="",
        breached_at=fact.received_at,
        ended_at=None,
        ended_by="",
        outcome="",
        reason="",
    )


def _open(rows: Rows, row: ContractRow) -> list[ContractBreachRow]:
    if not row.open_breaches:
        return []
    return [each for each in rows.scan(CONTRACT_BREACHES, row.asset_id) if each.ended_at is None]


def _end(
    fact: Fact,
    row: ContractRow,
    ended: list[ContractBreachRow],
    outcome: BreachOutcome,
    reason: str,
    run_id: str = "",
) -> Iterator[Change]:
    for each in ended:
        yield Put(CONTRACT_BREACHES, _ended(fact, each, outcome, reason))
    left = row.open_breaches - len(ended)
    changed = replace(row, open_breaches=left)
    if not left and (ended or outcome == "kept"):
        changed = replace(changed, state=ContractState.KEPT)
    if changed != row:
        yield Put(CONTRACTS, changed)
    if ended and not left:
        yield from _notices(row, "recovered", run_id)


def end_all(
    rows: Rows, fact: Fact, row: ContractRow, outcome: BreachOutcome, reason: str
) -> Iterator[Change]:
    """End all open breaches. The caller puts the contract's row."""
    ended = _open(rows, row)
    for each in ended:
        yield Put(CONTRACT_BREACHES, _ended(fact, each, outcome, reason))
    if ended:
        yield from _notices(row, "recovered")


def _ended(
    fact: Fact, breach: ContractBreachRow, outcome: BreachOutcome, reason: str
) -> ContractBreachRow:
    return replace(
        breach,
        ended_at=fact.received_at,
        ended_by=fact.actor,
        outcome=outcome,
        reason=reason[:MAX_MESSAGE],
    )


def _notices(
    row: ContractRow,
    event: Literal["contract_breach", "recovered"],
    run_id: str = "",
    code: str = "",
) -> Iterator[Emit]:
    """Notices to the asset itself, with its contract's addresses, and to its readers."""
    yield Emit(
        AssetNotice(
            asset_id=row.asset_id,
            topic="contract",
            event=event,
            run_id=run_id,
            code=code,
            consumers=tuple(each for each in row.consumers if "@" in each),
        )
    )
    for consumer in dict.fromkeys(row.consumer_ids.values()):
        if consumer != row.asset_id:
            yield Emit(
                AssetNotice(
                    asset_id=consumer,
                    topic="contract",
                    event=event,
                    run_id=run_id,
                    code=code,
                    about=row.decoded().name,
                )
            )
