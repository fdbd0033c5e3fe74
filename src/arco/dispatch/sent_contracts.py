"""The promises of contracts, for requests."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

from arco.catalog.contract_checks import contract_checks, with_promised
from arco.catalog.contract_tables import ContractRow
from arco.columns.promises import SHOWN, PromisedColumns, packed_promise, promised_columns
from arco.orchestration.rule_objects import put_rule
from arco.storage.port import Store
from servo.contract.manifest import Asset, Check
from servo.contract.task import ContractRule

KEPT: Final = 1_000
"""Of the assets of active runs."""


class ContractLookup(Protocol):
    def contract(self, asset_id: str) -> ContractRow | None:
        """The current contract of an asset."""


class Promise(NamedTuple):
    """The part of a contract in a request."""

    rule: ContractRule | None
    checks: tuple[Check, ...]
    """Those of the asset, and the contract's."""


class SentContracts:
    """An asset without a contract is looked up once for all tasks of a run.

    A contract may change during a run: an output is compared with the contract at the time when its
    task was enqueued.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sent: OrderedDict[tuple[str, str], tuple[ContractRow | None, Promise]] = OrderedDict()

    def promise(
        self, run_id: str, asset_id: str, asset: Asset, source: ContractLookup, is_retry: bool
    ) -> Promise:
        key = run_id, asset_id
        sent = self._sent.get(key)
        if sent is not None and sent[0] is None and not is_retry:
            return sent[1]
        row = source.contract(asset_id)
        if sent is not None and not is_retry and sent[0] == row:
            return sent[1]
        promise = Promise(None, asset.checks)
        if row is not None:
            promise = self._promise(run_id, row, asset, is_retry)
        self._sent[key] = row, promise
        if len(self._sent) > KEPT:
            self._sent.popitem(last=False)
        return promise

    def _promise(self, run_id: str, row: ContractRow, asset: Asset, is_retry: bool) -> Promise:
        contract = row.decoded()
        excused = tuple(sorted(row.accepted))
        columns = PromisedColumns(
            promised_columns(contract.columns),
            excused,
            {each.renamed_from: each.name for each in asset.columns if each.renamed_from},
        )
        rule = ContractRule(
            version=contract.version,
            consumers=contract.consumers[:SHOWN],
            more_consumers=max(0, len(contract.consumers) - SHOWN),
            packed=packed_promise(columns),
        )
        checks = with_promised(asset.checks, contract_checks(contract, excused))
        return Promise(put_rule(self._store, run_id, rule, overwrite=is_retry), checks)
