"""The schema rules of outputs, for requests."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

from arco.catalog.schema_reader import SchemaStamp
from arco.orchestration.rule_objects import is_readable, put_rule
from arco.storage.port import Store
from servo.contract.manifest import Asset
from servo.contract.task import SchemaRule

RULES_KEPT = 1_000
"""Of the assets of active runs: at most 64 kB each, mostly less than one."""


class RuleSource(Protocol):
    def schema_rule(self, asset_id: str, asset: Asset) -> SchemaRule | None:
        """What the schema of an asset's output is compared with."""

    def schema_stamp(self, asset_id: str) -> SchemaStamp:
        """A value that changes with the rule."""


class _SentRule(NamedTuple):
    stamp: SchemaStamp
    rule: SchemaRule | None


class SentRules:
    """Rules are looked up once for all tasks of a run, and again once they have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sent: OrderedDict[tuple[str, str], _SentRule] = OrderedDict()

    def rule(
        self, run_id: str, asset_id: str, asset: Asset, source: RuleSource, is_retry: bool
    ) -> SchemaRule | None:
        """`is_retry`: for a retry, whose reason may be that the rule could not be read."""
        if asset.compatibility.mode == "none":
            return None
        key = run_id, asset_id
        sent = self._sent.get(key)
        if sent is not None and not is_retry:
            return sent.rule
        stamp = source.schema_stamp(asset_id)
        if sent is not None and sent.stamp == stamp and self._is_readable(sent.rule):
            return sent.rule
        rule = source.schema_rule(asset_id, asset)
        if rule is not None:
            rule = put_rule(self._store, run_id, rule, overwrite=is_retry)
        self._sent[key] = _SentRule(stamp, rule)
        if len(self._sent) > RULES_KEPT:
            self._sent.popitem(last=False)
        return rule

    def _is_readable(self, rule: SchemaRule | None) -> bool:
        return rule is None or is_readable(self._store, rule)
